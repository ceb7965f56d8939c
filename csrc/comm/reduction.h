/* Nonblocking reductions of statistics and of maxima, several at a time.  Each kind has its own
 * communicator, because all ranks begin reductions of one kind in the same order, but not of both.
 */
#ifndef PLB_COMM_REDUCTION_H
#define PLB_COMM_REDUCTION_H

#include "comm/comm.h"
#include "measure/reduction.h"

typedef struct plb_reducer {
    plb_reduction_t face; /* the interface that plb_atsync_t uses; its `self` is this reducer */
    plb_comm_t *comm;     /* borrowed: the record and its merge */
    MPI_Comm stats, maxima;
    int64_t begun, taken;    /* reductions of statistics */
    plb_stats_t *mine, *all; /* [depth], owned: the i-th at i % depth */
    MPI_Request *request;
    int64_t maximum[PLB_MAXIMA], greatest[PLB_MAXIMA];
    MPI_Request maximum_request;
} plb_reducer_t;

void plb_reducer_init(plb_reducer_t *self, plb_comm_t *comm);

/** Make room for `depth` reductions at once.  Collective the first time, may block; PLB_ERR_STATE:
 *  some are under way. */
int plb_reducer_reserve(plb_reducer_t *self, int depth, plb_err_t *err);

/** Free the memory; the communicators are kept.  Local; no reduction may be under way. */
void plb_reducer_free(plb_reducer_t *self);

#endif
