/* Lists the objects that change their part, in two orders: by index, and by new part. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** The rank of a part.  Parts are assigned to ranks in order, as evenly as possible. */
static inline int32_t plb_rank_of(int32_t part, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)((int64_t)part * n_ranks / n_parts);
}

/** The first part on a rank; if the rank has none, the first one on a later rank. */
static inline int32_t plb_first_on(int32_t rank, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)(((int64_t)rank * n_parts + n_ranks - 1) / n_ranks);
}

/** The first part on a rank; -1: it has none. */
static inline int32_t plb_own_part(int32_t rank, int32_t n_ranks, int32_t n_parts)
{
    const int32_t first = plb_first_on(rank, n_ranks, n_parts);
    return first < plb_first_on(rank + 1, n_ranks, n_parts) ? first : -1;
}

typedef struct plb_new_parts {
    int64_t n; /* this rank's objects, fewer than 2^31 */
    int32_t n_parts, n_ranks;
    const int32_t *part; /* [n] new parts */
    const int32_t *old;  /* [n] old parts, `home` if negative; NULL: all are `home` */
    int32_t home;        /* the first part on this rank; -1: it has none */
    int64_t first;       /* id of the first object, if `ids` is NULL */
    const int64_t *ids;  /* [n] ids, or NULL: consecutive from `first` */
} plb_new_parts_t;

typedef struct plb_moves {
    int32_t *where;       /* [parts->n] new rank of every object */
    int64_t n;            /* number of objects that change their part ("movers") */
    int64_t *row, *id;    /* [n] index of each mover in parts->part (row), ascending; its id */
    int32_t *rank, *part; /* [n] new rank and new part of each mover, in the order of row[] */
    int32_t *packed;      /* [n] the same rows, sorted by new part; within a part, ascending */
    int32_t *count;       /* [parts->n_parts] number of movers to each part */
} plb_moves_t;

/** Make the lists in time O(n + n_parts).  PLB_ERR_RANGE: a part is out of range. */
int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *parts, plb_err_t *err);
void plb_moves_free(plb_moves_t *self);
