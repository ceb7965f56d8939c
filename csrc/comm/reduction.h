/* Nonblocking reductions: of statistics, several at a time; of maxima, one at a time.  All ranks
 * must begin the reductions of one kind in the same order, but the order of the two kinds may
 * differ between ranks.  So each kind has its own communicator. */
#pragma once

#include "comm/comm.h"
#include "measure/reduction.h"

typedef struct plb_reducer {
    /* the interface of measure/reduction.h; its member `self` points to this reducer */
    plb_reduction_t face;
    plb_comm_t *comm; /* borrowed; has MPI's type and operation for the record */
    MPI_Comm stats, maxima;
    int64_t begun, taken; /* number of reductions of statistics that were begun; number of those
                             whose result was returned */
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
