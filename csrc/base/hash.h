/* Hashing of 64-bit keys, and a hash table. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/** Mix x, so that each of its bits affects all bits of the result (Stafford's mix 13, the
 * finalizer of SplitMix64). */
static inline uint64_t plb_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The hash of a key; the hash of key 0 is not 0. */
static inline uint64_t plb_hash(int64_t key)
{
    return plb_mix64((uint64_t)key + UINT64_C(0x9e3779b97f4a7c15));
}

/* Open addressing with linear probing, for all hash tables: the first of n slots to look at for a
 * hash, and the one after slot i.  The last slot to look at is an empty one. */
static inline int64_t plb_slot_first(uint64_t hash, int64_t n)
{
    return (int64_t)(((hash & UINT32_MAX) * (uint64_t)n) >> 32);
}
static inline int64_t plb_slot_next(int64_t i, int64_t n)
{
    return i + 1 < n ? i + 1 : 0;
}

/* A hash table of numbers, at most two thirds full.  What the numbers stand for is up to the user:
 * keys (plb_keys_t), or items of any kind. */
typedef struct plb_index {
    int32_t *bucket; /* [n_buckets] a number, or -1: empty */
    int64_t n_buckets;
} plb_index_t;

/** Set up an empty table for `room` numbers, in place of the present one. */
int plb_index_reset(plb_index_t *self, int64_t room, plb_err_t *err);

/** Add a number of this hash that is not in the table. */
static inline void plb_index_put(plb_index_t *self, uint64_t hash, int32_t number)
{
    int64_t b = plb_slot_first(hash, self->n_buckets);
    while (self->bucket[b] >= 0) {
        b = plb_slot_next(b, self->n_buckets);
    }
    self->bucket[b] = number;
}

/* Different keys, numbered from 0. */
typedef struct plb_keys {
    int64_t *key;    /* [n] key[k]: the key with number k */
    int64_t n, room; /* number of keys; capacity of `key` */
    plb_index_t index;
    bool borrowed; /* true: `key` is the caller's array; false: owned */
} plb_keys_t;

/** Make an empty table with capacity for `room` keys.  {0} is a valid empty table, too. */
int plb_keys_init(plb_keys_t *self, int64_t room, plb_err_t *err);

/** Number the keys of an array, which must all differ: key[i] gets the number i.  The array is not
 * copied: it must live as long as `self`, and no keys may be added to `self`. */
int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err);
void plb_keys_free(plb_keys_t *self);

/** The bucket of a key; if the key is not in the table, which has buckets, the one for it. */
static inline int32_t *plb_keys_bucket(const plb_keys_t *self, int64_t key)
{
    int64_t b = plb_slot_first(plb_hash(key), self->index.n_buckets);
    int32_t *const bucket = self->index.bucket;
    while (bucket[b] >= 0 && self->key[bucket[b]] != key) {
        b = plb_slot_next(b, self->index.n_buckets);
    }
    return &bucket[b];
}

/** The number of a key; -1: the key is not in the table. */
static inline int32_t plb_keys_find(const plb_keys_t *self, int64_t key)
{
    return self->n == 0 ? -1 : *plb_keys_bucket(self, key);
}

/** Add a key if it is new; *number: its number.  PLB_ERR_RANGE: more than 2^30 keys. */
int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err);
