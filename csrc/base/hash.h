/* Hashing of 64-bit keys, and a table that numbers keys in the order of their first use. */
#ifndef PLB_BASE_HASH_H
#define PLB_BASE_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/** Mix x, so that each of its bits changes all bits of the result (Stafford's mix 13, the
 * finalizer of SplitMix64). */
static inline uint64_t plb_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/** The hash of a key; that of key 0 is not 0. */
static inline uint64_t plb_hash(int64_t key)
{
    return plb_mix64((uint64_t)key + UINT64_C(0x9e3779b97f4a7c15));
}

/* Different keys, numbered from 0: open addressing with linear probing, at most two thirds
 * full. */
typedef struct plb_keys {
    int64_t *key; /* [n] by number */
    int64_t n, room;
    int32_t *bucket; /* [n_buckets] number of the key in each bucket; -1: empty */
    int64_t n_buckets;
    bool borrowed; /* true: `key` is the caller's array; false: owned */
} plb_keys_t;

/** Make an empty table with room for `room` keys.  A table {0} is empty, too. */
int plb_keys_init(plb_keys_t *self, int64_t room, plb_err_t *err);

/** Give numbers to the keys of an array.  `self` uses the array itself: keep it as long as
 * `self`, and add no keys. */
int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err);
void plb_keys_free(plb_keys_t *self);

/** The number of a key, or -1. */
int32_t plb_keys_find(const plb_keys_t *self, int64_t key);

/** The number of a key; a new key is added.  PLB_ERR_RANGE: more than 2^30 keys. */
int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err);

#endif
