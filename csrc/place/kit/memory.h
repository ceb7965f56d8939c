/* The memory that is left on each rank while objects come and go.  A block that objects share
 * (vt's shared_id) needs memory once on each rank that has objects which use it. */
#pragma once

#include <stdbool.h>

#include "base/hash.h"
#include "model/snapshot.h"

typedef struct plb_memory {
    const plb_snapshot_t *in;
    int64_t *left;    /* [p] free bytes, negative above the limit; NULL: there are no limits */
    plb_keys_t pairs; /* pairs of a rank and a block; the key is rank * n_blocks + block */
    int32_t *uses;    /* for each pair: number of objects on its rank that use its block */
} plb_memory_t;

/** Begin with empty ranks, for at most `pairs` different pairs (rank, block).  Borrows `in`.  Free
 * `self` also after a failure. */
int plb_memory_init(plb_memory_t *self, const plb_snapshot_t *in, int64_t pairs, plb_err_t *err);
void plb_memory_free(plb_memory_t *self);

/** Return the bytes that object i, which is not on rank r, would need there. */
int64_t plb_memory_cost(const plb_memory_t *self, int64_t i, int32_t r);

static inline bool plb_memory_fits(const plb_memory_t *self, int64_t i, int32_t r)
{
    return self->left == NULL || plb_memory_cost(self, i, r) <= self->left[r];
}

void plb_memory_add(plb_memory_t *self, int64_t i, int32_t r);
void plb_memory_remove(plb_memory_t *self, int64_t i, int32_t r);
