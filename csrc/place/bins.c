/* Bins: best fit (the largest item first), then exchanges between the largest bin and others; for
 * few items all packings; and the differencing method of Karmarkar and Karp (1982; Michiels, Korst
 * and Aarts 2003), where its result may be better. */
#include "place/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum {
    PARTNERS = PLB_TRIES / 4, /* bins that are tried until an exchange is taken */
    /* All packings of up to FEW_ITEMS are tried, as far as MOST_NODES bins of items.
     * FEW_ITEMS: tuned: items; with 16, 57 of 300 packings of 5 to 24 items become worse, by up to
     * 1.8 %
     * MOST_NODES: tuned: bins of items; with an eighth, 23 of them become worse, by up to 0.9 % */
    FEW_ITEMS = 24,
    MOST_NODES = 1 << 18,
};

/* Loads are predictions with an error of per cents: so near the bound, little is to be gained. */
#define NEAR 1.001

/* A set of up to two items of a bin; -1: no more. */
typedef struct set {
    double cost, length;
    int32_t item[2];
} set_t;

typedef struct side { /* the sets of one bin, by cost */
    set_t *set;
    int64_t n, room;
    int32_t bin;
} side_t;

typedef struct packing {
    const plb_bins_t *of;
    int32_t *bin, *count; /* [n], [m] */
    double *sum, *filled; /* [m] cost and length of each bin */
    int32_t *head, *next; /* [m], [n] items of each bin */
    plb_item_t *order;    /* [m] bins by cost */
    side_t side[2];
    const plb_item_t *items;  /* [n] the largest first */
    double mean, bound, goal; /* mean cost of a bin; no packing is below; the search ends here */
    int64_t work;             /* bins and items that the exchanges have examined */
    bool whole;               /* all costs are whole numbers */
} packing_t;

static double length_of(const plb_bins_t *of, int64_t i)
{
    return of->length == NULL ? 0.0 : of->length[i];
}

static void put(packing_t *self, int64_t i, int32_t b)
{
    self->bin[i] = b;
    self->sum[b] += self->of->cost[i];
    self->filled[b] += length_of(self->of, i);
    self->count[b]++;
}

static void clear(packing_t *self)
{
    const size_t m = (size_t)self->of->m;
    memset(self->sum, 0, m * sizeof *self->sum);
    memset(self->filled, 0, m * sizeof *self->filled);
    memset(self->count, 0, m * sizeof *self->count);
}

static double largest(const packing_t *self)
{
    double out = 0.0;
    for (int32_t b = 0; b < self->of->m; b++) {
        out = plb_greater(out, self->sum[b]);
    }
    return out;
}

/* Whether all bins are within the capacity. */
static bool has_room(const packing_t *self)
{
    bool out = true;
    for (int32_t b = 0; b < self->of->m; b++) {
        out = out && self->filled[b] <= self->of->capacity;
    }
    return out;
}

/* Begin again with this packing. */
static void restore(packing_t *self, const int32_t *bin)
{
    clear(self);
    for (int64_t i = 0; i < self->of->n; i++) {
        put(self, i, bin[i]);
    }
}

/* ---- best fit ------------------------------------------------------------------------------- */

/* Bins by what they need, in buckets for needs that differ by 3 %.
 * tuned: bits; with 3, the mean of 36 packings differs by 0.003 %, and they take a third longer */
enum { OCTAVE_BITS = 5, BUCKETS = 64 << OCTAVE_BITS };

typedef struct needs {
    int32_t first[BUCKETS], *next; /* the bins of a bucket are a list */
    uint64_t set[BUCKETS / 64];    /* which buckets have bins: a bit each */
    int word;                      /* the last of these words that may not be 0 */
    double scale, each;            /* needs below 1 / scale are alike; items in a bin */
} needs_t;

/* Add bin b.  Its need is the mean cost of a bin minus its own cost; with equal counts, divided by
 * the number of items that it still gets: so no bin is full too early. */
static void add_bin(const packing_t *self, needs_t *needs, int32_t b)
{
    const double left = self->of->equal ? plb_greater(needs->each - self->count[b], 0.5) : 1.0;
    const double need = (self->mean - self->sum[b]) * needs->scale / left;
    uint64_t bits;
    memcpy(&bits, &need, sizeof bits);
    bits = need > 1.0 ? (bits >> (52 - OCTAVE_BITS)) - (UINT64_C(1023) << OCTAVE_BITS) : 0;
    const int to = bits < BUCKETS ? (int)bits : BUCKETS - 1, word = to >> 6;
    needs->next[b] = needs->set[word] >> (to & 63) & 1 ? needs->first[to] : -1;
    needs->first[to] = b;
    needs->set[word] |= UINT64_C(1) << (to & 63);
    needs->word = word > needs->word ? word : needs->word;
}

/* Remove and return the bin that needs the most; -1: there is none. */
static int32_t take_bin(needs_t *needs)
{
    while (needs->word > 0 && needs->set[needs->word] == 0) {
        needs->word--;
    }
    uint64_t *set = &needs->set[needs->word];
    if (*set == 0) {
        return -1;
    }
    const int bit = 63 - __builtin_clzll(*set);
    int32_t *first = &needs->first[64 * needs->word + bit], b = *first;
    *first = needs->next[b];
    *set ^= *first < 0 ? UINT64_C(1) << bit : 0;
    return b;
}

/* Put the items, the largest first, into the bin that needs the most of those with room; items
 * that have a bin stay.  Returns the first item without room; -1: all are packed. */
static int64_t fit(packing_t *self)
{
    const plb_bins_t *of = self->of;
    const int64_t least = of->n / of->m,
                  more = of->n % of->m; /* items in a bin; bins with one more */
    needs_t needs = {
        .next = self->head, .scale = 0x1p40 / self->mean, .each = (double)of->n / of->m};
    int64_t n_more = 0;
    for (int32_t b = 0; b < of->m; b++) {
        n_more += self->count[b] > least;
        add_bin(self, &needs, b);
    }
    for (int64_t k = 0; k < of->n; k++) {
        const int32_t i = self->items[k].id;
        int32_t full = -1, b = -1; /* bins without room for this item */
        while (self->bin[i] < 0 && (b = take_bin(&needs)) >= 0) {
            if (of->equal && self->count[b] >= least + (n_more < more)) {
                continue;
            }
            if (self->filled[b] + length_of(of, i) > of->capacity) {
                self->order[++full].id = b;
                continue;
            }
            put(self, i, b);
            n_more += self->count[b] > least;
            add_bin(self, &needs, b);
        }
        if (self->bin[i] < 0) {
            return i;
        }
        while (full >= 0) {
            add_bin(self, &needs, self->order[full--].id);
        }
    }
    return -1;
}

/* ---- exchanges ------------------------------------------------------------------------------ */

static int compare_sets(const void *a, const void *b)
{
    const set_t *x = a, *y = b;
    if (x->cost != y->cost) {
        return x->cost < y->cost ? -1 : 1;
    }
    return memcmp(x->item, y->item, sizeof x->item); /* any fixed order */
}

/* List the sets of bin b of up to `size` items, with equal numbers of exactly so many. */
static int list_sets(packing_t *self, int32_t b, int size, side_t *side, plb_err_t *err)
{
    const plb_bins_t *of = self->of;
    const int64_t c = self->count[b];
    self->work += c;
    PLB_PASS_GROW(side->set, side->room, 1 + c + (size > 1 ? c * c / 2 : 0));
    side->n = 0;
    side->bin = b;
    if (!of->equal) {
        side->set[side->n++] = (set_t){0.0, 0.0, {-1, -1}};
    }
    for (int32_t i = self->head[b]; i >= 0; i = self->next[i]) {
        const double cost = of->cost[i], length = length_of(of, i);
        if (size == 1 || !of->equal) {
            side->set[side->n++] = (set_t){cost, length, {i, -1}};
        }
        for (int32_t j = self->next[i]; size > 1 && j >= 0; j = self->next[j]) {
            side->set[side->n++] = (set_t){cost + of->cost[j], length + length_of(of, j), {i, j}};
        }
    }
    if (size > 1) {
        qsort(side->set, (size_t)side->n, sizeof *side->set, compare_sets);
        return PLB_OK;
    }
    for (int64_t k = 1; k < side->n; k++) { /* nearly in order: few items have moved */
        const set_t set = side->set[k];
        int64_t at = k;
        for (; at > 0 && set.cost < side->set[at - 1].cost; at--) {
            side->set[at] = side->set[at - 1];
        }
        side->set[at] = set;
    }
    return PLB_OK;
}

/* Find the sets whose exchange makes the larger of both bins as small as possible: *best on entry
 * is what it must be below. */
static void find_exchange(const packing_t *self, double *best, const set_t **give,
                          const set_t **take)
{
    const side_t *a = &self->side[0], *b = &self->side[1];
    const double gap = self->sum[a->bin] - self->sum[b->bin], half = 0.5 * gap;
    int64_t j = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const set_t *x = &a->set[i];
        while (j < b->n && b->set[j].cost < x->cost - half) {
            j++;
        }
        /* the two sets of b around the best one, and more if the capacity forbids these */
        for (int step = 1; step >= -1; step -= 2) {
            int64_t h = step > 0 ? j : j - 1;
            for (int k = 0; k < PLB_WINDOW && h >= 0 && h < b->n; k++, h += step) {
                const set_t *y = &b->set[h];
                const double d = x->cost - y->cost;
                const double worst = step > 0 ? self->sum[a->bin] - d : self->sum[b->bin] + d;
                if (worst >= *best || d <= 0.0) {
                    break;
                }
                if (self->filled[b->bin] + x->length - y->length <= self->of->capacity &&
                    self->filled[a->bin] - x->length + y->length <= self->of->capacity) {
                    *best = worst, *give = x, *take = y;
                    break;
                }
            }
        }
    }
}

static void move_set(packing_t *self, const set_t *set, int32_t from, int32_t to)
{
    for (int k = 0; k < 2 && set->item[k] >= 0; k++) {
        const int32_t i = set->item[k];
        int32_t *at = &self->head[from];
        while (*at != i) {
            at = &self->next[*at];
        }
        *at = self->next[i];
        self->next[i] = self->head[to];
        self->head[to] = i;
        self->sum[from] -= self->of->cost[i];
        self->filled[from] -= length_of(self->of, i);
        self->count[from]--;
        put(self, i, to);
    }
}

/* Make the largest bin smaller by an exchange of up to `size` items; *found: whether one does. */
static int exchange(packing_t *self, int size, bool *found, plb_err_t *err)
{
    const int32_t m = self->of->m;
    const int32_t a = self->order[m - 1].id;
    double best = self->sum[a] * (1.0 - 1e-9);
    set_t give = {0}, take = {0};
    int32_t partner = -1, n_tried = 0;
    *found = false;
    const int32_t most = size == 1 ? INT32_MAX : PLB_LONG; /* 32 and 256 give the same packings */
    if (self->count[a] > most) {
        return PLB_OK;
    }
    PLB_PASS(list_sets(self, a, size, &self->side[0], err));
    for (int32_t k = 0; k + 1 < m && best > self->goal; k++) {
        const int32_t b = self->order[k].id;
        const set_t *x = NULL, *y = NULL;
        if (0.5 * (self->sum[a] + self->sum[b]) >= best || (partner >= 0 && n_tried > PARTNERS)) {
            break;
        }
        if (self->count[b] > most) {
            continue;
        }
        PLB_PASS(list_sets(self, b, size, &self->side[1], err));
        n_tried++;
        find_exchange(self, &best, &x, &y);
        if (x != NULL) {
            give = *x, take = *y, partner = b;
        }
    }
    if (partner >= 0) {
        *found = true;
        move_set(self, &give, a, partner);
        move_set(self, &take, partner, a);
    }
    return PLB_OK;
}

/* Exchange sets until the largest bin is at the goal, no exchange helps, or the work is done: a
 * part of it if the largest bin is NEAR the bound. */
static int improve(packing_t *self, plb_err_t *err)
{
    const plb_bins_t *of = self->of;
    bool found = true;
    int size = 1;
    if (largest(self) <= self->goal) {
        return PLB_OK;
    }
    for (int32_t b = 0; b < of->m; b++) {
        self->head[b] = -1;
        self->order[b] = (plb_item_t){self->sum[b], b};
    }
    for (int64_t k = 0; k < of->n; k++) { /* lists, the smallest item first */
        const int32_t i = self->items[k].id;
        self->next[i] = self->head[self->bin[i]];
        self->head[self->bin[i]] = i;
    }
    self->work = 0;
    for (int64_t k = 0; k < PLB_LONG * (int64_t)of->m && self->work < PLB_WORK; k++) {
        self->work += of->m;
        for (int32_t b = 0; b < of->m; b++) { /* nearly in order: an exchange changes two bins */
            const plb_item_t item = {self->sum[self->order[b].id], self->order[b].id};
            int32_t at = b;
            for (; at > 0 && plb_item_before(item, self->order[at - 1]); at--) {
                self->order[at] = self->order[at - 1];
            }
            self->order[at] = item;
        }
        const double most = self->order[of->m - 1].key;
        if (most <= self->goal ||
            (most <= NEAR * self->bound && self->work > PLB_WORK / PLB_TRIES)) {
            break;
        }
        PLB_PASS(exchange(self, size, &found, err));
        size = found ? 1 : size + 1; /* more items only where one does not help */
        if (size > 2 || (size > 1 && most <= NEAR * self->bound)) {
            break;
        }
        PLB_FAIL_IF(plb_interrupted(100 + of->n / of->m) != PLB_OK, err, PLB_ERR_INTERRUPTED,
                    "interrupted");
    }
    return PLB_OK;
}

/* ---- few items ------------------------------------------------------------------------------ */

typedef struct tree {
    packing_t *self;
    int32_t *best;
    double least;
    int64_t nodes, n_more;
} tree_t;

/* Try all bins for item k and those after it, if this may lead below tree->least. */
static void descend(tree_t *tree, int64_t k)
{
    packing_t *self = tree->self;
    const plb_bins_t *of = self->of;
    if (k == of->n) {
        tree->least = largest(self);
        memcpy(tree->best, self->bin, (size_t)of->n * sizeof *tree->best);
        return;
    }
    const int32_t i = self->items[k].id;
    const int64_t least = of->n / of->m, more = of->n % of->m;
    const double length = length_of(of, i);
    bool tried[FEW_ITEMS] = {false};
    for (int32_t t = 0; t < of->m && tree->nodes > 0 && tree->least > self->goal; t++) {
        int32_t b = -1;
        for (int32_t c = 0; c < of->m; c++) { /* the lowest cost first */
            b = !tried[c] && (b < 0 || self->sum[c] < self->sum[b]) ? c : b;
        }
        tried[b] = true;
        bool alike = false; /* to a bin that was tried */
        for (int32_t c = 0; c < of->m && !alike; c++) {
            alike = c != b && tried[c] && self->sum[c] == self->sum[b] &&
                    self->count[c] == self->count[b] && self->filled[c] == self->filled[b];
        }
        const bool extra = of->equal && self->count[b] >= least;
        if (alike || self->sum[b] + of->cost[i] >= tree->least ||
            self->filled[b] + length > of->capacity ||
            (extra && (self->count[b] > least || tree->n_more == more))) {
            continue;
        }
        const double sum = self->sum[b], filled = self->filled[b];
        tree->nodes--;
        tree->n_more += extra;
        put(self, i, b);
        descend(tree, k + 1);
        self->sum[b] = sum, self->filled[b] = filled;
        self->count[b]--;
        tree->n_more -= extra;
    }
}

/* ---- differences ---------------------------------------------------------------------------- */

/* A packing of some items: sets of items for different bins, the largest first. */
typedef struct entry {
    double sum;
    int32_t first, last; /* its items are a list */
} entry_t;
typedef struct state {
    entry_t *entry;
    int32_t n, room; /* room 0: entry belongs to the common array */
} state_t;

static int compare_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    return x->sum != y->sum ? (x->sum > y->sum ? -1 : 1)
                            : (x->first > y->first) - (x->first < y->first);
}

/* Join state b to a: the largest sets of one with the smallest of the other, if there are more
 * sets than bins. */
static int join(packing_t *self, state_t *a, state_t *b, plb_err_t *err)
{
    const int32_t m = self->of->m, common = a->n + b->n > m ? a->n + b->n - m : 0;
    const int32_t n = a->n + b->n - common;
    if (n > a->room && n > a->n) {
        const int32_t room = 2 * n < m ? 2 * n : m;
        entry_t *grown = plb_realloc(a->room > 0 ? a->entry : NULL, (size_t)room, sizeof *grown);
        PLB_FAIL_IF(grown == NULL, err, PLB_ERR_NOMEM, "out of memory: %d bins", m);
        if (a->room == 0) {
            memcpy(grown, a->entry, (size_t)a->n * sizeof *grown);
        }
        a->entry = grown, a->room = room;
    }
    for (int32_t t = 0; t < common; t++) {
        entry_t *to = &a->entry[a->n - common + t];
        const entry_t *from = &b->entry[b->n - 1 - t];
        self->next[to->last] = from->first;
        to->last = from->last;
        to->sum += from->sum;
    }
    memcpy(a->entry + a->n, b->entry, (size_t)(b->n - common) * sizeof *b->entry);
    if (common + b->n > 8) {
        qsort(a->entry, (size_t)n, sizeof *a->entry, compare_entries);
    } else {
        for (int32_t k = a->n - common > 0 ? a->n - common : 1; k < n; k++) {
            const entry_t item = a->entry[k];
            int32_t at = k;
            for (; at > 0 && compare_entries(&item, &a->entry[at - 1]) < 0; at--) {
                a->entry[at] = a->entry[at - 1];
            }
            a->entry[at] = item;
        }
    }
    a->n = n;
    if (n == m) { /* only differences count */
        const double base = a->entry[n - 1].sum;
        for (int32_t k = 0; k < n; k++) {
            a->entry[k].sum -= base;
        }
    }
    return PLB_OK;
}

/* Pack by differences: the two states with the largest spread are joined, again and again. */
static int difference(packing_t *self, plb_err_t *err)
{
    const plb_bins_t *of = self->of;
    const int32_t n = (int32_t)of->n, m = of->m, size = of->equal ? m : 1;
    const int32_t n_states = (n + size - 1) / size;
    entry_t *entry = NULL;
    state_t *state = NULL;
    plb_item_t *item = NULL;
    int ret = PLB_OK;
    PLB_NEW(entry, n);
    PLB_NEW0(state, n_states);
    PLB_NEW(item, n_states);
    plb_heap_t heap = {item, 0};
    for (int32_t k = 0; k < n; k++) { /* equal: the largest m items are one state, then the next */
        const int32_t i = self->items[k].id;
        entry[k] = (entry_t){of->cost[i], i, i};
        self->next[i] = -1;
    }
    for (int32_t t = 0; t < n_states; t++) {
        const int32_t first = t * size, end = first + size < n ? first + size : n;
        state[t] = (state_t){entry + first, end - first, 0};
        const double low = end - first == m ? entry[end - 1].sum : 0.0;
        heap.item[heap.n++] = (plb_item_t){low - entry[first].sum, t};
    }
    plb_heap_build(&heap);
    while (heap.n > 1) {
        const int32_t x = plb_heap_pop(&heap).id, y = plb_heap_pop(&heap).id;
        const int32_t a = state[x].n >= state[y].n ? x : y, b = a == x ? y : x;
        PLB_TRY(join(self, &state[a], &state[b], err));
        if (state[b].room > 0) {
            PLB_FREE(state[b].entry);
            state[b].room = 0;
        }
        const entry_t *e = state[a].entry;
        const double low = state[a].n == m ? e[m - 1].sum : 0.0;
        plb_heap_push(&heap, (plb_item_t){low - e[0].sum, a});
        if (plb_interrupted(m) != PLB_OK) {
            ret = PLB_FAIL(err, PLB_ERR_INTERRUPTED, "interrupted");
            goto out;
        }
    }
    clear(self);
    const state_t *last = &state[heap.item[0].id];
    for (int32_t b = 0; b < last->n; b++) {
        for (int32_t i = last->entry[b].first; i >= 0; i = self->next[i]) {
            put(self, i, b);
        }
    }
out:
    for (int32_t t = 0; state != NULL && t < n_states; t++) {
        if (state[t].room > 0) {
            plb_free(state[t].entry);
        }
    }
    PLB_FREE(entry, state, item);
    return ret;
}

/* ---- all together --------------------------------------------------------------------------- */

static void raise_bound(packing_t *self, double bound)
{
    const bool rounded = self->whole && bound < 9e15;
    self->bound = plb_greater(self->bound, rounded ? ceil(bound * (1.0 - 1e-15)) : bound);
}

/* Compute the mean, and a lower bound of the largest cost.  For each i <= m, either two of the i
 * largest items share a bin, or these items are in i bins.  If all bins have equally many items,
 * the smallest items fill up these bins. */
static void set_bound(packing_t *self)
{
    const plb_item_t *items = self->items;
    const int64_t n = self->of->n, m = self->of->m;
    const int64_t others = self->of->equal && n > m ? n / m - 1 : 0;
    double sum = 0.0, most = 0.0, top = 0.0, small = 0.0, pair = 0.0;
    self->whole = true;
    for (int64_t k = 0; k < n; k++) {
        sum -= items[k].key;
        self->whole = self->whole && items[k].key == floor(items[k].key);
    }
    for (int64_t k = 0; k < others - 1; k++) {
        pair -= items[n - 1 - k].key; /* what shares a bin with two of the largest */
    }
    for (int64_t i = 0; i < m && i < n; i++) {
        top -= items[i].key;
        for (int64_t k = i * others; k < (i + 1) * others; k++) {
            small -= items[n - 1 - k].key;
        }
        const double two = i == 0 ? INFINITY : -items[i - 1].key - items[i].key + pair;
        most = plb_greater(most, plb_lesser(two, (top + small) / (double)(i + 1)));
    }
    self->mean = sum / (double)m;
    raise_bound(self, plb_greater(most, self->mean));
}

/* Raise the bound if the items have few sizes.  Some bins have more than j of the j * m + r
 * largest items.  If these are k bins (1 ... r), they have at least j * k + r such items; with
 * equal counts, the smallest items fill them up.  r: 1, or such that the next item is much
 * smaller. */
static int sharpen(packing_t *self, plb_err_t *err)
{
    const plb_item_t *items = self->items;
    const int64_t n = self->of->n, m = self->of->m, each = self->of->equal ? n / m : 0;
    double *least = NULL; /* [n + 1] sum of the smallest items */
    PLB_PASS_NEW(least, n + 1);
    least[0] = 0.0;
    for (int64_t k = 0; k < n; k++) {
        least[k + 1] = least[k] - items[n - 1 - k].key;
    }
    for (int64_t j = 1; j * m < n; j++) {
        int64_t step = 1;
        for (int64_t r = 1; r <= m && j * m + r < n; r++) {
            const plb_item_t *at = items + j * m;
            step = at[r].key - at[r - 1].key > at[step].key - at[step - 1].key ? r : step;
        }
        for (int64_t r = 1; r <= step; r += step > 1 ? step - 1 : 1) {
            const int64_t rest = n - j * m - r; /* items that are smaller */
            double low = INFINITY;
            for (int64_t k = 1; k <= r; k++) {
                const int64_t top = j * k + r, more = each * k > top ? each * k - top : 0;
                low = plb_lesser(low, (least[rest + top] - least[rest] + least[more]) / (double)k);
            }
            raise_bound(self, low);
        }
    }
    plb_free(least);
    return PLB_OK;
}

/* Return a cost below which Karmarkar and Karp's method finds no packing with equal counts: each
 * of its bins gets one of the largest m items, one of the next m items, ... */
static double least_difference(const packing_t *self)
{
    const int64_t n = self->of->n, m = self->of->m;
    double sum = 0.0, most = 0.0;
    for (int64_t first = 0; first < n; first += m) {
        const double low = first + m <= n ? -self->items[first + m - 1].key : 0.0;
        sum += low;
        most = plb_greater(most, -self->items[first].key - low);
    }
    return sum + most;
}

/* Pack the items that are not in a bin. */
static int start(packing_t *self, plb_err_t *err)
{
    const plb_bins_t *of = self->of;
    const int64_t least = of->n / of->m, more = of->n % of->m; /* as in fit */
    int64_t n_more = 0;
    clear(self);
    for (int64_t i = 0; i < of->n; i++) {
        const int32_t b = of->was == NULL ? -1 : of->was[i];
        self->bin[i] = -1;
        if (b >= 0 && self->filled[b] + length_of(of, i) <= of->capacity &&
            (!of->equal || self->count[b] < least + (n_more < more))) {
            put(self, i, b);
            n_more += self->count[b] > least;
        }
    }
    if (of->equal && of->n <= 2 * (int64_t)of->m && of->was == NULL && of->length == NULL) {
        for (int64_t k = 0; k < of->n; k++) { /* pairs: the largest with the smallest */
            const int64_t m = of->m, from = 2 * m - of->n; /* bins with one item */
            put(self, self->items[k].id, (int32_t)(k < m ? k : from + of->n - 1 - k));
        }
        raise_bound(self, largest(self)); /* nothing is better */
        return PLB_OK;
    }
    const int64_t left = fit(self);
    bool fits = left < 0;
    if (!fits && of->length != NULL) { /* make the fullest bin as empty as possible instead */
        const plb_bins_t by_length = {
            .n = of->n, .m = of->m, .cost = of->length, .capacity = INFINITY, .equal = of->equal};
        double bound;
        PLB_PASS(plb_bins_pack(&by_length, self->bin, self->sum, &bound, err));
        restore(self, self->bin);
        fits = has_room(self);
    }
    PLB_FAIL_IF(!fits, err, PLB_ERR_INFEASIBLE,
                "item %lld, of length %g, fits into no bin beside the others: the capacity of %d "
                "bins is %g each",
                (long long)left, length_of(of, left), of->m, of->capacity);
    return PLB_OK;
}

/* Improve the packing in `self`; keep it in best[n] if it is below *least. */
static int finish(packing_t *self, int32_t *best, double *least, plb_err_t *err)
{
    PLB_PASS(improve(self, err));
    if (largest(self) < *least) {
        *least = largest(self);
        memcpy(best, self->bin, (size_t)self->of->n * sizeof *best);
    }
    return PLB_OK;
}

int plb_bins_pack(const plb_bins_t *of, int32_t *bin, double *sum, double *bound, plb_err_t *err)
{
    const int64_t n = of->n;
    const int32_t m = of->m;
    packing_t self = {.of = of, .sum = sum};
    plb_loads_t loads = {0};
    double least = INFINITY;
    int ret = PLB_OK;
    PLB_NEW_EACH(n, self.bin, self.next);
    PLB_NEW_EACH(m, self.count, self.filled, self.head, self.order);
    PLB_TRY(plb_loads_sorted(&loads, of->cost, n, PLB_DESCENDING, err));
    self.items = loads.item;
    set_bound(&self);
    PLB_TRY(start(&self, err));
    if (largest(&self) > NEAR * self.bound) {
        PLB_TRY(sharpen(&self, err));
    }
    const bool near = of->was != NULL || (of->equal && n > FEW_ITEMS);
    self.goal = self.bound * (near ? NEAR : 1.0 + 1e-7);
    PLB_TRY(finish(&self, bin, &least, err));
    if (least > self.goal && n <= FEW_ITEMS && m <= FEW_ITEMS) {
        const double below = of->was == NULL ? least : least * (1.0 - PLB_ROUNDING);
        tree_t tree = {&self, bin, below, MOST_NODES, 0};
        clear(&self);
        descend(&tree, 0);
        least = tree.least < below ? tree.least : least;
    }
    const double enough = of->equal
                              ? plb_greater(self.bound * (1.0 + 1e-7), least_difference(&self))
                              : self.bound * (1.0 + 1e-12);
    if (least > enough && of->was == NULL && (double)n * m <= PLB_WORK) {
        PLB_TRY(difference(&self, err));
        if (largest(&self) < least && has_room(&self)) {
            PLB_TRY(finish(&self, bin, &least, err));
        }
    }
    restore(&self, bin);
    *bound = self.bound;
out:
    plb_loads_free(&loads);
    PLB_FREE(self.bin, self.next, self.count, self.filled, self.head, self.order, self.side[0].set,
             self.side[1].set);
    return ret;
}
