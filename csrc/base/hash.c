#include "base/hash.h"

#include <string.h>

#include "base/mem.h"

/* AHEAD: the bucket of a key is prefetched this many keys before it is needed. */
enum { LEAST = 4, MOST = 1 << 30, AHEAD = 16 };

static inline uint64_t first_bucket(const plb_keys_t *self, int64_t key)
{
    return ((plb_hash(key) & UINT32_MAX) * (uint64_t)self->n_buckets) >> 32;
}

static int32_t *bucket_of(const plb_keys_t *self, int64_t key)
{
    uint64_t b = first_bucket(self, key);
    while (self->bucket[b] >= 0 && self->key[self->bucket[b]] != key) {
        b = b + 1 < (uint64_t)self->n_buckets ? b + 1 : 0;
    }
    return &self->bucket[b];
}

static int rehash(plb_keys_t *self, int64_t room, plb_err_t *err)
{
    int32_t *bucket = NULL;
    const int64_t n_buckets = LEAST + room + room / 2;
    PLB_PASS_NEW(bucket, n_buckets);
    memset(bucket, -1, (size_t)n_buckets * sizeof *bucket);
    plb_free(self->bucket);
    self->bucket = bucket;
    self->n_buckets = n_buckets;
    for (int32_t k = 0; k < self->n; k++) {
        if (k + AHEAD < self->n) {
            __builtin_prefetch(&bucket[first_bucket(self, self->key[k + AHEAD])], 1);
        }
        *bucket_of(self, self->key[k]) = k;
    }
    return PLB_OK;
}

static int reserve(plb_keys_t *self, int64_t room, plb_err_t *err)
{
    PLB_FAIL_IF(room > MOST, err, PLB_ERR_RANGE, "%lld keys: expected at most %d", (long long)room,
                MOST);
    PLB_PASS_GROW(self->key, self->room, room);
    return rehash(self, self->room, err);
}

int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(n > MOST, err, PLB_ERR_RANGE, "%lld keys: expected at most %d", (long long)n,
                MOST);
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
    plb_free(self->borrowed ? NULL : self->key);
    plb_free(self->bucket);
    *self = (plb_keys_t){0};
}

int32_t plb_keys_find(const plb_keys_t *self, int64_t key)
{
    return self->n == 0 ? -1 : *bucket_of(self, key);
}

int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err)
{
    *number = plb_keys_find(self, key);
    if (*number >= 0) {
        return PLB_OK;
    }
    /* `room` may be larger: it doubles */
    PLB_FAIL_IF(self->n >= MOST, err, PLB_ERR_RANGE, "%lld keys: expected at most %d",
                (long long)self->n + 1, MOST);
    if (3 * (self->n + 1) > 2 * self->n_buckets || self->n == self->room) {
        PLB_PASS(reserve(self, self->n + 1, err));
    }
    *number = (int32_t)self->n++;
    self->key[*number] = key;
    *bucket_of(self, key) = *number;
    return PLB_OK;
}
