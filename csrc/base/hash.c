#include "base/base.h"

#include <string.h>

enum { LEAST = 4, MOST = 1 << 30 };

int plb_index_reset(plb_index_t *self, int64_t room, plb_err_t *err)
{
    const int64_t n_buckets = LEAST + room + room / 2;
    if (self->bucket == NULL || n_buckets != self->n_buckets) {
        int32_t *bucket = NULL;
        PLB_PASS_NEW(bucket, n_buckets);
        plb_free(self->bucket);
        *self = (plb_index_t){bucket, n_buckets};
    }
    memset(self->bucket, -1, (size_t)n_buckets * sizeof *self->bucket);
    return PLB_OK;
}

static int rehash(plb_keys_t *self, int64_t room, plb_err_t *err)
{
    PLB_PASS(plb_index_reset(&self->index, room, err));
    for (int32_t k = 0; k < self->n; k++) {
        if (k + PLB_AHEAD < self->n) {
            const uint64_t hash = plb_hash(self->key[k + PLB_AHEAD]);
            __builtin_prefetch(&self->index.bucket[plb_slot_first(hash, self->index.n_buckets)],
                               1);
        }
        plb_index_put(&self->index, plb_hash(self->key[k]), k);
    }
    return PLB_OK;
}

static int check_most(int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(n > MOST, err, PLB_ERR_RANGE, "%lld keys: expected at most %d", (long long)n,
                MOST);
    return PLB_OK;
}

static int reserve(plb_keys_t *self, int64_t room, plb_err_t *err)
{
    PLB_PASS(check_most(room, err));
    if (room > self->room || self->index.n_buckets == 0) {
        PLB_PASS_RENEW(self->key, room);
        PLB_PASS(rehash(self, room, err));
        self->room = room;
    }
    return PLB_OK;
}

int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err)
{
    PLB_PASS(check_most(n, err));
    *self = (plb_keys_t){.key = (int64_t *)key, .n = n, .room = n, .borrowed = true};
    return rehash(self, n, err);
}

int plb_keys_init(plb_keys_t *self, int64_t room, plb_err_t *err)
{
    *self = (plb_keys_t){0};
    return reserve(self, room, err);
}

void plb_keys_free(plb_keys_t *self)
{
    PLB_FREE(self->borrowed ? NULL : self->key, self->index.bucket);
    *self = (plb_keys_t){0};
}

int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err)
{
    if (self->n == self->room) {
        *number = plb_keys_find(self, key);
        if (*number >= 0) {
            return PLB_OK;
        }
        const int64_t room = 2 * self->room + 16;
        PLB_PASS(check_most(self->n + 1, err));
        PLB_PASS(reserve(self, room < MOST ? room : MOST, err));
    }
    int32_t *bucket = plb_keys_bucket(self, key);
    if (*bucket < 0) {
        *bucket = (int32_t)self->n;
        self->key[self->n++] = key;
    }
    *number = *bucket;
    return PLB_OK;
}
