/* Memory left on each rank while objects come and go.  Each object takes its own memory; the first
 * object on a rank that uses a shared block also takes the block (VT's shared_id, once per rank).
 */
#ifndef PLB_PLACE_KIT_MEMORY_H
#define PLB_PLACE_KIT_MEMORY_H

#include <stdbool.h>

#include "base/hash.h"
#include "model/snapshot.h"

typedef struct plb_memory {
    const plb_snapshot_t *in;
    int64_t *left;    /* [p] bytes, negative if a limit is exceeded; NULL: there are no limits */
    plb_keys_t pairs; /* keys: rank * n_blocks + block */
    int32_t *uses;    /* by pair: how many objects on that rank use that block */
} plb_memory_t;

/** Begin with empty ranks, for at most `pairs` different pairs (rank, block).  Borrows `in`; free
 * also on failure. */
int plb_memory_init(plb_memory_t *self, const plb_snapshot_t *in, int64_t pairs, plb_err_t *err);
void plb_memory_free(plb_memory_t *self);

/** Bytes that object i, which is elsewhere, would take on rank r. */
int64_t plb_memory_cost(const plb_memory_t *self, int64_t i, int32_t r);

static inline bool plb_memory_fits(const plb_memory_t *self, int64_t i, int32_t r)
{
    return self->left == NULL || plb_memory_cost(self, i, r) <= self->left[r];
}

void plb_memory_add(plb_memory_t *self, int64_t i, int32_t r);
void plb_memory_remove(plb_memory_t *self, int64_t i, int32_t r);

#endif
