/* Lists the objects that change their part; also sorted by their new rank. */
#ifndef PLB_PARTITION_MOVES_H
#define PLB_PARTITION_MOVES_H

#include <stdint.h>

#include "base/err.h"

/** The rank on which a part is: parts are assigned to ranks in order, as evenly as possible. */
static inline int32_t plb_rank_of(int32_t part, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)((int64_t)part * n_ranks / n_parts);
}

/** The first part on a rank; if it has none, the first part on a later rank. */
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
    int64_t n; /* own objects, below 2^31 */
    int32_t n_parts, n_ranks;
    const int32_t *part; /* [n] new */
    const int32_t *old;  /* [n], or NULL; a negative part counts as `home` */
    int32_t home;        /* the first part of this rank, -1 if it has none */
    int64_t first;       /* id of the first object, if ids are consecutive */
    const int64_t *ids;  /* [n] ids, or NULL: consecutive from `first` */
} plb_new_parts_t;

typedef struct plb_moves {
    int32_t *where; /* [parts->n] rank of each object */
    int64_t n;
    int64_t *row, *id;    /* [n] of the objects that change their part, ascending by row */
    int32_t *rank, *part; /* [n] their new rank and part */
    int32_t *packed;      /* [n] rows sorted by part (and so by rank), ascending within a part */
    int32_t *count;       /* [parts->n_parts] number of moves to each part */
} plb_moves_t;

/** List the moves.  Owns its arrays.  O(n + n_parts + n_ranks).  PLB_ERR_RANGE: a part is out of
 * range. */
int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *parts, plb_err_t *err);
void plb_moves_free(plb_moves_t *self);

#endif
