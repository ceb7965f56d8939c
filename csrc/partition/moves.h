/* Lists the objects that change their part, in the order of the objects and in the order of their
 * new ranks. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Return the rank on which a part is.  Parts are assigned to ranks in order, as evenly as
 * possible. */
static inline int32_t plb_rank_of(int32_t part, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)((int64_t)part * n_ranks / n_parts);
}

/** Return the first part on a rank; if the rank has none, the first part on any later rank. */
static inline int32_t plb_first_on(int32_t rank, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)(((int64_t)rank * n_parts + n_ranks - 1) / n_ranks);
}

/** Return the first part on a rank; -1: the rank has no part. */
static inline int32_t plb_own_part(int32_t rank, int32_t n_ranks, int32_t n_parts)
{
    const int32_t first = plb_first_on(rank, n_ranks, n_parts);
    return first < plb_first_on(rank + 1, n_ranks, n_parts) ? first : -1;
}

typedef struct plb_new_parts {
    int64_t n; /* number of this rank's objects, below 2^31 */
    int32_t n_parts, n_ranks;
    const int32_t *part; /* [n] new part of each object */
    const int32_t *old;  /* [n] old part of each object; negative: the old part is `home`; NULL:
                            all old parts are `home` */
    int32_t home;        /* the first part on this rank; -1: the rank has no part */
    int64_t first;       /* id of the first object, if ids are consecutive */
    const int64_t *ids;  /* [n] ids, or NULL: consecutive from `first` */
} plb_new_parts_t;

typedef struct plb_moves {
    int32_t *where;    /* [parts->n] new rank of each object */
    int64_t n;         /* number of objects that change their part */
    int64_t *row, *id; /* [n] index in part[] (row) and id of each object that changes its part, by
                          ascending row */
    int32_t *rank, *part; /* [n] new rank and part of these objects, in the same order */
    int32_t *packed; /* [n] the rows sorted by new part, and so by new rank; ascending within a
                        part */
    int32_t *count;  /* [parts->n_parts] number of objects that move to each part */
} plb_moves_t;

/** List the moves.  `self` owns its arrays.  Time: O(n + n_parts + n_ranks).  PLB_ERR_RANGE: a
 * part is out of range. */
int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *parts, plb_err_t *err);
void plb_moves_free(plb_moves_t *self);
