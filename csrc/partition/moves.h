/* Who changes his part: as lists, and packed for the ranks that they come to. */
#ifndef PLB_PARTITION_MOVES_H
#define PLB_PARTITION_MOVES_H

#include <stdint.h>

#include "base/err.h"

typedef struct plb_new_parts {
    int64_t n; /* own objects */
    int32_t n_parts, n_ranks;
    const int32_t *part; /* [n] new */
    const int32_t *old;  /* [n], or NULL; what is below zero counts as home */
    int32_t home;
    int64_t first;      /* id of the first object, the others follow, */
    const int64_t *ids; /* [n] or NULL: unless these are given */
} plb_new_parts_t;

typedef struct plb_moves {
    int32_t *where; /* [parts->n] rank of each object: part p of k is on rank p * n_ranks / k */
    int64_t n;
    int64_t *row, *id;    /* [n] of those that change their part, ascending by row */
    int32_t *rank, *part; /* [n] where to */
    int64_t *packed;      /* [n][2] id and part, by rank, their order kept among those of one */
    int32_t *count;       /* [n_ranks] for each rank */
} plb_moves_t;

/** Owns its arrays.  O(n + n_parts + n_ranks).  PLB_ERR_RANGE: a part is none. */
int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *parts, plb_err_t *err);
void plb_moves_free(plb_moves_t *self);

#endif
