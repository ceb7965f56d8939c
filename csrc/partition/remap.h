/* Renumbers new parts such that the total size of the objects that stay in their part is largest.
 * Parts that get no number by this rule are numbered such that the total size of the objects that
 * stay on their rank is largest (Oliker and Biswas, PLUM, 1998, with each step solved exactly). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* With more parts than this, ranks are ignored: there would be too many pairs (rank, part). */
enum { PLB_REMAP_MOST = 4096 };

typedef struct plb_new_names {
    int32_t n_parts, n_ranks; /* plb_rank_of gives the rank of a part */
    const double *share; /* [n_parts] only parts of equal share swap numbers; NULL: all equal */
    const bool *fixed;   /* [n_parts] whether a part must keep its number; NULL: none must */

    int64_t n_kept;      /* pairs of a new and an old part that have objects in common */
    const int32_t *part; /* [n_kept] new part; the pairs (part, old) ascend, each occurs once */
    const int32_t *old;  /* [n_kept] old part */
    const double *kept;  /* [n_kept] total size of the objects that the pair has in common */

    const double *on_rank; /* [n_ranks][n_parts] total size of each new part's objects on each
                              rank; NULL: ranks do not matter */
} plb_new_names_t;

/** Compute name[n_parts], the new numbers, a permutation.  Parts keep their numbers unless others
 * are better.  PLB_ERR_RANGE: `part` or `old` is out of range or out of order. */
int plb_remap(const plb_new_names_t *in, int32_t *name, plb_err_t *err);
