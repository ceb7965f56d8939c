/* Nonblocking reductions over all ranks: the interface through which AtSync (decide/atsync.h)
 * communicates.
 *
 * There are two kinds: reductions of statistics, and of maxima.  All ranks begin reductions of one
 * kind in the same order, and the results come in that order.  comm/reduction.h implements the
 * interface with MPI, and plb_reduction_alone for a single rank. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "measure/stats.h"

enum { PLB_MAXIMA = 3 }; /* how many maxima one reduction computes */

typedef struct plb_reduction {
    void *self;
    int rank, size;
    int depth; /* largest number of reductions of statistics that may be under way together */
    /** Contribute to the next reduction; `mine` is copied.  Does not wait. */
    int (*begin_stats)(void *self, const plb_stats_t *mine, plb_err_t *err);
    /** Make progress.  *done: whether `all` is the result of the oldest reduction under way. */
    int (*test_stats)(void *self, plb_stats_t *all, bool *done, plb_err_t *err);
    /** Begin and test a reduction of maxima; only one may be under way. */
    int (*begin_maximum)(void *self, const int64_t mine[PLB_MAXIMA], plb_err_t *err);
    int (*test_maximum)(void *self, int64_t all[PLB_MAXIMA], bool *done, plb_err_t *err);
} plb_reduction_t;

/** Make reductions for a single rank, whose contribution is the result. */
int plb_reduction_alone(plb_reduction_t *out, int depth, plb_err_t *err);
void plb_reduction_alone_free(plb_reduction_t *self);
