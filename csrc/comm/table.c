#include "comm/route.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    LEAST_SLOTS = 8,
    AHEAD = 16, /* a slot is prefetched this many ids before it is needed */
};

/* The upper bits of an id's hash choose the rank; the lower bits choose the slot (first_slot). */
int32_t plb_home(int64_t id, int32_t n_ranks)
{
    return (int32_t)(((plb_hash(id) >> 32) * (uint64_t)n_ranks) >> 32);
}

static inline int64_t first_slot(const plb_table_t *self, int64_t id)
{
    return plb_slot_first(plb_hash(id), self->n_slots);
}

/* Return the slot of an id.  If the id is not in the table, return the free slot for it. */
static inline int64_t probe(const plb_table_t *self, int64_t id)
{
    int64_t i = first_slot(self, id);
    while (self->value[i] >= 0 && self->id[i] != id) {
        i = plb_slot_next(i, self->n_slots);
    }
    return i;
}

static inline void fetch_ahead(const plb_table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    if (i + AHEAD < n) {
        const int64_t slot = first_slot(self, id[i + AHEAD]);
        __builtin_prefetch(&self->id[slot]);
        __builtin_prefetch(&self->value[slot]);
    }
}

void plb_table_free(plb_table_t *self)
{
    PLB_FREE(self->id, self->value);
    *self = (plb_table_t){0};
}

int64_t plb_table_bytes(const plb_table_t *self)
{
    return self->n_slots * (int64_t)(sizeof *self->id + sizeof *self->value);
}

/* Make room for n entries. */
static int reserve(plb_table_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_FAIL_IF(n > INT32_MAX, err, PLB_ERR_RANGE, "%lld ids on a rank: expected below 2^31",
                (long long)n);
    if (4 * n <= 3 * self->n_slots) {
        return PLB_OK;
    }
    const int64_t least = LEAST_SLOTS + n + n / 3, more = self->n_slots + self->n_slots / 2;
    plb_table_t grown = {.n_slots = least > more ? least : more, .n = self->n};
    PLB_NEW_EACH(grown.n_slots, grown.id, grown.value);
    memset(grown.value, -1, (size_t)grown.n_slots * sizeof *grown.value);
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->value[i] >= 0) {
            const int64_t to = probe(&grown, self->id[i]);
            grown.id[to] = self->id[i];
            grown.value[to] = self->value[i];
        }
    }
    const plb_table_t old = *self;
    *self = grown;
    grown = old;
out:
    PLB_FREE(grown.id, grown.value);
    return ret;
}

int plb_table_put(plb_table_t *self, const int64_t *id, const int32_t *value, int64_t n,
                  plb_err_t *err)
{
    PLB_PASS(reserve(self, self->n + n, err));
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = probe(self, id[i]);
        self->n += self->value[at] < 0;
        self->id[at] = id[i];
        self->value[at] = value[i];
    }
    return PLB_OK;
}

void plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *value)
{
    for (int64_t i = 0; i < n; i++) {
        if (self->n > 0) {
            fetch_ahead(self, id, i, n);
        }
        value[i] = self->n > 0 ? self->value[probe(self, id[i])] : -1;
    }
}

static int64_t steps(const plb_table_t *self, int64_t i, int64_t j)
{
    return j >= i ? j - i : j - i + self->n_slots;
}

/* Free slot i, and move the entries that follow it back where possible, up to the next free slot
 * (Knuth, volume 3, algorithm 6.4R). */
static void take_out(plb_table_t *self, int64_t i)
{
    self->n--;
    for (int64_t j = plb_slot_next(i, self->n_slots); self->value[j] >= 0;
         j = plb_slot_next(j, self->n_slots)) {
        const int64_t first = first_slot(self, self->id[j]);
        if (steps(self, first, j) >= steps(self, i, j)) {
            self->id[i] = self->id[j];
            self->value[i] = self->value[j];
            i = j;
        }
    }
    self->value[i] = -1;
}

int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n)
{
    const int64_t before = self->n;
    for (int64_t i = 0; i < n && self->n > 0; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = probe(self, id[i]);
        if (self->value[at] >= 0) {
            take_out(self, at);
        }
    }
    return before - self->n;
}

void plb_table_ids(const plb_table_t *self, int64_t *id)
{
    for (int64_t i = 0; i < self->n_slots; i++) {
        if (self->value[i] >= 0) {
            *id++ = self->id[i];
        }
    }
}
