/* Hashing of 64-bit keys, and a table that numbers keys in the order of their first use. */
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

/* A hash table of different keys, numbered from 0: open addressing with linear probing, at most
 * two thirds full. */
typedef struct plb_keys {
    int64_t *key;    /* [n] key[k]: the key with number k */
    int64_t n, room; /* number of keys; capacity of `key` */
    int32_t *bucket; /* [n_buckets] number of the key in each bucket; -1: empty */
    int64_t n_buckets;
    bool borrowed; /* true: `key` is the caller's array; false: owned */
} plb_keys_t;

/** Make an empty table with capacity for `room` keys.  {0} is a valid empty table, too. */
int plb_keys_init(plb_keys_t *self, int64_t room, plb_err_t *err);

/** Number the keys of an array, which must all differ: key[i] gets the number i.  The array is not
 * copied: it must live as long as `self`, and no keys may be added to `self`. */
int plb_keys_over(plb_keys_t *self, const int64_t *key, int64_t n, plb_err_t *err);
void plb_keys_free(plb_keys_t *self);

/** The number of a key; -1: the key is not in the table. */
int32_t plb_keys_find(const plb_keys_t *self, int64_t key);

/** Add a key if it is new; *number: its number.  PLB_ERR_RANGE: more than 2^30 keys. */
int plb_keys_add(plb_keys_t *self, int64_t key, int32_t *number, plb_err_t *err);
