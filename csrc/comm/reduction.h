/* The reductions of measure/reduction.h, by MPI.  Statistics and maxima have a communicator each,
 * because ranks may begin a reduction of statistics and one of maxima in different orders. */
#pragma once

#include "comm/comm.h"
#include "measure/reduction.h"

typedef struct plb_reducer {
    plb_reduction_t face; /* the interface; its member `self` points to this reducer */
    plb_comm_t *comm;     /* borrowed; has MPI's type and operation for the record */
    MPI_Comm stats, maxima;
    int64_t begun, taken; /* numbers of reductions of statistics: begun; result returned */
    /* [depth], owned: contribution and result of the i-th reduction at i % depth */
    plb_stats_t *mine, *all;
    MPI_Request *request;
    int64_t maximum[PLB_MAXIMA], greatest[PLB_MAXIMA]; /* values of this rank; maxima of all */
    MPI_Request maximum_request;
} plb_reducer_t;

void plb_reducer_init(plb_reducer_t *self, plb_comm_t *comm);

/** Allocate memory for `depth` reductions of statistics at a time.  The first call is collective
 * and may block.  PLB_ERR_STATE: reductions are under way. */
int plb_reducer_reserve(plb_reducer_t *self, int depth, plb_err_t *err);

/** Free the memory; the communicators are kept.  Local; no reduction may be under way. */
void plb_reducer_free(plb_reducer_t *self);
