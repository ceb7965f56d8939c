#include "comm/route.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    LEAST_SLOTS = 8,
    AHEAD = 16, /* a slot is prefetched this many ids before it is needed */
    FREE = -1,  /* values of a slot that was never used, and of an id that was removed */
    REMOVED = -2,
};

static inline int64_t first_slot(const plb_table_t *self, int64_t id)
{
    return plb_slot_first(plb_hash(id), self->n_slots);
}

/* Return the slot of an id.  If the id never was in the table, return the free slot for it. */
static inline int64_t probe(const plb_table_t *self, int64_t id)
{
    int64_t i = first_slot(self, id);
    while (self->value[i] != FREE && self->id[i] != id) {
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

/* Make room for more entries; those that were removed are left out. */
static int reserve(plb_table_t *self, int64_t more, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->n + more;
    PLB_FAIL_IF(n > INT32_MAX, err, PLB_ERR_RANGE, "%lld ids on a rank: expected below 2^31",
                (long long)n);
    if (4 * (self->used + more) <= 3 * self->n_slots) {
        return PLB_OK;
    }
    plb_table_t grown = {.n_slots = LEAST_SLOTS + n + n / 2, .n = self->n, .used = self->n};
    PLB_NEW_EACH(grown.n_slots, grown.id, grown.value);
    memset(grown.value, FREE, (size_t)grown.n_slots * sizeof *grown.value);
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
    PLB_PASS(reserve(self, n, err));
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = probe(self, id[i]);
        self->n += self->value[at] < 0;
        self->used += self->value[at] == FREE;
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
        const int32_t found = self->n > 0 ? self->value[probe(self, id[i])] : -1;
        value[i] = found >= 0 ? found : -1;
    }
}

int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n)
{
    const int64_t before = self->n;
    for (int64_t i = 0; i < n && self->n > 0; i++) {
        fetch_ahead(self, id, i, n);
        const int64_t at = probe(self, id[i]);
        if (self->value[at] >= 0) {
            self->value[at] = REMOVED;
            self->n--;
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
