#include "comm/route.h"

#include "base/mem.h"

enum { AHEAD = 16 }; /* a bucket is prefetched this many ids before it is needed */

/* The upper bits of an id's hash choose the rank; the lower bits choose the bucket. */
int32_t plb_home(int64_t id, int32_t n_ranks)
{
    return (int32_t)(((plb_hash(id) >> 32) * (uint64_t)n_ranks) >> 32);
}

void plb_table_free(plb_table_t *self)
{
    plb_keys_free(&self->ids);
    plb_free(self->value);
    *self = (plb_table_t){0};
}

int64_t plb_table_bytes(const plb_table_t *self)
{
    return self->room * (int64_t)(sizeof *self->ids.key + sizeof *self->value) +
           self->ids.index.n_buckets * (int64_t)sizeof *self->ids.index.bucket;
}

/* Make room for more ids; those that were removed are left out. */
static int reserve(plb_table_t *self, int64_t more, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t k;
    if (self->ids.n + more <= self->room) {
        return PLB_OK;
    }
    const int64_t n = self->n + more;
    plb_table_t grown = {.room = n + n / 4 + 8, .n = self->n};
    PLB_TRY(plb_keys_init(&grown.ids, grown.room, err));
    PLB_NEW(grown.value, grown.room);
    for (int64_t i = 0; i < self->ids.n; i++) {
        if (self->value[i] >= 0) {
            PLB_TRY(plb_keys_add(&grown.ids, self->ids.key[i], &k, err));
            grown.value[k] = self->value[i];
        }
    }
    const plb_table_t old = *self;
    *self = grown;
    grown = old;
out:
    plb_table_free(&grown);
    return ret;
}

static inline void fetch_ahead(const plb_table_t *self, const int64_t *id, int64_t i, int64_t n)
{
    const plb_index_t *index = &self->ids.index;
    if (i + AHEAD < n && self->n > 0) {
        __builtin_prefetch(
            &index->bucket[plb_slot_first(plb_hash(id[i + AHEAD]), index->n_buckets)]);
    }
}

int plb_table_put(plb_table_t *self, const int64_t *id, const int32_t *value, int64_t n,
                  plb_err_t *err)
{
    PLB_PASS(reserve(self, n, err));
    for (int64_t i = 0; i < n; i++) {
        const int64_t before = self->ids.n;
        int32_t k;
        fetch_ahead(self, id, i, n);
        PLB_PASS(plb_keys_add(&self->ids, id[i], &k, err)); /* there is room: it cannot fail */
        self->n += k == before || self->value[k] < 0;
        self->value[k] = value[i];
    }
    return PLB_OK;
}

void plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *value)
{
    for (int64_t i = 0; i < n; i++) {
        fetch_ahead(self, id, i, n);
        const int32_t k = plb_keys_find(&self->ids, id[i]);
        value[i] = k >= 0 ? self->value[k] : -1;
    }
}

int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n)
{
    const int64_t before = self->n;
    for (int64_t i = 0; i < n; i++) {
        const int32_t k = plb_keys_find(&self->ids, id[i]);
        if (k >= 0 && self->value[k] >= 0) {
            self->value[k] = -1;
            self->n--;
        }
    }
    return before - self->n;
}

void plb_table_ids(const plb_table_t *self, int64_t *id)
{
    for (int64_t i = 0; i < self->ids.n; i++) {
        if (self->value[i] >= 0) {
            *id++ = self->ids.key[i];
        }
    }
}
