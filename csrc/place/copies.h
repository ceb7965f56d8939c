/* Placement of objects that may have several copies, which share the object's load: experts of a
 * mixture-of-experts model, hot tables. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Objects and ranks.  Rank r has the slots first[r] ... first[r + 1] - 1.  A slot holds a copy of
 * an object, or is empty (-1); each object has at least one copy, and at most one on a rank. */
typedef struct plb_copies {
    int32_t n_objects, n_ranks;
    const int32_t *first;  /* [n_ranks + 1] */
    const int64_t *memory; /* [n_objects] bytes that a copy occupies; NULL: not limited */
    const int64_t *limit;  /* [n_ranks] bytes for the copies of each rank; NULL: not limited */
    const int64_t *bytes;  /* [n_objects] that a migration sends; NULL: 1 each */
    const int32_t
        *group;          /* [n_objects] all objects of a group stay on one node; NULL: no groups */
    const int32_t *node; /* [n_ranks] with groups: node of each rank; all have as many ranks */
    int32_t n_groups, n_nodes;
    double
        tolerance; /* the slowest rank may take this share above the bound, to save migrations */
    double move;   /* seconds that the migration of a byte costs; 0: no more than the tolerance
                      says */
    bool even;     /* the copies of an object share its load evenly; false: by the shares below */
} plb_copies_t;

typedef struct plb_copies_result {
    double max, mean;          /* time of the slowest rank, and of an average rank */
    double bound;              /* no placement has a smaller max */
    int64_t migrations, bytes; /* copies on ranks that did not hold the object before */
} plb_copies_result_t;

/** Place each layer on its own: load[n_layers][n_objects] to slot[n_layers][slots], the object in
 * each slot, and share[n_layers][slots], its part of the object's load.  was: the present slots,
 * of which as many as possible stay as they are; entries that are no object, and second copies on
 * one rank, count as empty; NULL: nothing is placed yet.  PLB_ERR_INFEASIBLE: the objects do not
 * fit.  Ties: the lowest rank, slot, object. */
int plb_copies_place(const plb_copies_t *of, int32_t n_layers, const double *load,
                     const int32_t *was, int32_t *slot, double *share, plb_copies_result_t *out,
                     plb_err_t *err);
