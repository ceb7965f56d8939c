/* Reductions of statistics that are under way: what AtSync needs of a machine.
 *
 * Statistics and maxima are two kinds of traffic; each is begun in one order on all ranks and its
 * results come in that order.  MPI's are in csrc/mpi/reduction.h; the one of a single rank is
 * here.
 */
#ifndef PLB_MEASURE_REDUCTION_H
#define PLB_MEASURE_REDUCTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "measure/stats.h"

typedef struct plb_reduction {
    void *self;
    int rank, size;
    int depth; /* at most so many reductions of statistics are under way */
    /** Contribute to the next reduction; `mine` is copied.  Returns at once. */
    int (*begin_stats)(void *self, const plb_stats_t *mine, plb_err_t *err);
    /** The oldest one under way, if there is one: *done and `all`.  Makes progress. */
    int (*test_stats)(void *self, plb_stats_t *all, bool *done, plb_err_t *err);
    /** Likewise for maxima, one at a time. */
    int (*begin_maximum)(void *self, int64_t mine, plb_err_t *err);
    int (*test_maximum)(void *self, int64_t *all, bool *done, plb_err_t *err);
} plb_reduction_t;

/** Of one rank: what is contributed is the result.  Owned, plb_reduction_alone_free. */
int plb_reduction_alone(plb_reduction_t *out, int depth, plb_err_t *err);
void plb_reduction_alone_free(plb_reduction_t *self);

#endif
