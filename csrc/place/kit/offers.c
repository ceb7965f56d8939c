#include "place/kit/offers.h"

#include <math.h>

#include "base/ints.h"
#include "base/mem.h"
#include "base/sort.h"

/* Sort objects by rank without unpredictable branches: each object is written to the next place of
 * its rank, but this place advances only if the object may be given away.  Objects of ranks that
 * give nothing away are all written to item[behind]. */
static void list(plb_offers_t *self, const plb_ranks_t *ranks, const uint8_t *gives, double most,
                 int64_t behind)
{
    const plb_snapshot_t *in = ranks->in;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->end[r] = gives[r] ? self->start[r] : behind;
    }
    for (int64_t i = 0; i < in->n_objects; i++) {
        const int32_t r = ranks->rank[i];
        const double load = in->load[i];
        const int64_t k = self->end[r];
        self->item[k] = (plb_item_t){load, (int32_t)i};
        self->end[r] =
            k + ((k != behind) & (load > 0.0) & (load <= most) & plb_may_migrate(in, i));
    }
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->end[r] = gives[r] ? self->end[r] : self->start[r];
    }
}

int plb_offers_init(plb_offers_t *self, const plb_ranks_t *ranks, const uint8_t *gives,
                    double most, plb_err_t *err)
{
    int64_t n = 0;
    int32_t longest = 0;
    const plb_snapshot_t *in = ranks->in;
    const int32_t p = in->n_ranks;
    *self = (plb_offers_t){0};
    PLB_PASS_NEW_EACH(p, self->start, self->end);
    PLB_PASS_NEW0(self->sorted, p);
    for (int32_t r = 0; r < p; r++) {
        const int32_t here = gives[r] ? ranks->on[r] : 0;
        self->start[r] = n;
        n += here;
        longest = here > longest ? here : longest;
    }
    PLB_PASS_NEW(self->item, n + 1);
    PLB_PASS_NEW_EACH(n, self->next, self->prev);
    PLB_PASS_NEW(self->spare, longest);
    PLB_PASS_NEW(self->bin, PLB_SORT_BINS(longest));
    list(self, ranks, gives, most, n);
    return PLB_OK;
}

void plb_offers_free(plb_offers_t *self)
{
    PLB_FREE(self->start, self->end, self->item, self->sorted, self->next, self->prev, self->spare,
             self->bin);
    *self = (plb_offers_t){0};
}

void plb_offers_sort(plb_offers_t *self, int32_t r)
{
    const int64_t begin = self->start[r], end = self->end[r];
    double low = INFINITY, high = 0.0;
    if (self->sorted[r]) {
        return;
    }
    for (int64_t k = begin; k < end; k++) {
        low = self->item[k].key < low ? self->item[k].key : low;
        high = self->item[k].key > high ? self->item[k].key : high;
        self->next[k] = self->prev[k] = (int32_t)k;
    }
    plb_sort_items(self->item + begin, end - begin, low, high, self->spare, self->bin);
    self->sorted[r] = 1;
}

int64_t plb_offers_from(const plb_offers_t *self, int32_t r, double load)
{
    int64_t low = self->start[r];
    PLB_BISECT(low, self->end[r], k, self->item[k].key >= load)
    return low;
}

int64_t plb_offers_up(plb_offers_t *self, int32_t r, int64_t k)
{
    const int64_t end = self->end[r];
    while (k < end && self->next[k] != k) {
        const int64_t hop = self->next[k];
        self->next[k] = hop < end ? self->next[hop] : (int32_t)hop;
        k = hop;
    }
    return k;
}

int64_t plb_offers_down(plb_offers_t *self, int32_t r, int64_t k)
{
    const int64_t begin = self->start[r];
    while (k >= begin && self->prev[k] != k) {
        const int64_t hop = self->prev[k];
        self->prev[k] = hop >= begin ? self->prev[hop] : (int32_t)hop;
        k = hop;
    }
    return k;
}

int64_t plb_offers_last(plb_offers_t *self, int32_t r, double load)
{
    const int64_t behind = plb_offers_from(self, r, nextafter(load, INFINITY));
    return plb_offers_down(self, r, behind - 1);
}

/* Return the first entry from k on, taken or not, with more than this load; end[r]: none.  The
 * search is fast if the entry is near k. */
static int64_t from_beyond(const plb_offers_t *self, int32_t r, int64_t k, double load)
{
    int64_t low = k, step = 1;
    while (low + step <= self->end[r] && self->item[low + step - 1].key <= load) {
        low += step;
        step *= 2;
    }
    const int64_t end = low + step <= self->end[r] ? low + step - 1 : self->end[r];
    PLB_BISECT(low, end, i, self->item[i].key > load)
    return low;
}

plb_exchange_t plb_offers_exchange(const plb_ranks_t *ranks, plb_offers_t *gives, int32_t from,
                                   plb_offers_t *returns, int32_t to, double low, double high,
                                   int64_t probes)
{
    plb_exchange_t best = {-1, -1, 0.0};
    plb_offers_sort(gives, from);
    plb_offers_sort(returns, to);
    const int64_t begin = gives->start[from], end_back = returns->end[to];
    int64_t a = plb_offers_up(gives, from, begin);
    if (a == gives->end[from]) {
        return best;
    }
    int64_t b = plb_offers_from(returns, to, gives->item[a].key - high);
    for (b = plb_offers_up(returns, to, b); probes > 0 && b < end_back && best.sum < low;
         probes--, b = plb_offers_up(returns, to, b + 1)) {
        const plb_item_t back = returns->item[b];
        a = from_beyond(gives, from, a, high + back.key);
        const int64_t k = plb_offers_down(gives, from, a - 1);
        const double sum = k < begin ? 0.0 : gives->item[k].key - back.key;
        if (sum > best.sum && sum <= high &&
            plb_ranks_has_room_exchanged(ranks, gives->item[k].id, back.id)) {
            best = (plb_exchange_t){k, b, sum};
        }
    }
    return best;
}
