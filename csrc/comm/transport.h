/* The communication of the C library: an interface, and its version for a single rank;
 * comm/transport_mpi.h has the version for MPI.  All calls except `leave` are collective.  A rank
 * that waits in a call lets other ranks use the processor core (base/wait.h). */
#pragma once

#include "base/wait.h"
#include "measure/reduction.h"

typedef struct plb_transport plb_transport_t;
struct plb_transport {
    int rank, size;
    const plb_reduction_t *reduction; /* valid after a call of `reserve` */
    plb_patience_t patience;          /* what to do if a call waits long; the caller may set it */
    const int64_t *sizes; /* [size] bytes of each rank; valid after a gather until the next call */

    /** Allocate memory for `depth` reductions of records at a time.  If one rank fails, all do. */
    int (*reserve)(plb_transport_t *self, int depth, plb_err_t *err);

    /** Gather n bytes of each rank on rank 0; n may differ between ranks.  *all: on rank 0, the
     * bytes in order of the ranks, which the caller frees by plb_free; on other ranks, NULL.  A
     * rank that has failed passes the code of its error as n (negative).  The other ranks then do
     * not wait, but return an error that names the failed rank. */
    int (*gather)(plb_transport_t *self, const void *mine, int64_t n, char **all, plb_err_t *err);

    /** Return `ret` if it is an error, else the lowest code of all ranks: if one fails, all do. */
    int (*agree)(plb_transport_t *self, int ret, plb_err_t *err);

    /** Announce that this rank makes no more calls except `free`; ranks that wait for it in a
     * gather or an exchange get an error, and all their later calls of these two do.  Does not
     * wait. */
    int (*leave)(plb_transport_t *self, plb_err_t *err);

    /** Broadcast n bytes from rank 0; n is the same on all ranks. */
    int (*bcast)(plb_transport_t *self, void *data, int64_t n, plb_err_t *err);

    /** Exchange items of `bytes` bytes each: items send[r] ... send[r + 1] - 1 of `from` go to
     * rank r; the items from rank r become items receive[r] ... receive[r + 1] - 1 of `to`.
     * failed: PLB_OK, or an error of this rank; then all ranks fail, and no item is sent. */
    int (*exchange)(plb_transport_t *self, int failed, const char *from, const int64_t *send,
                    char *to, const int64_t *receive, int64_t bytes, plb_err_t *err);

    /** Free all memory, including `self`. */
    void (*free)(plb_transport_t *self);
};

/** Make the transport for a single rank.  The caller owns it and frees it by (*out)->free. */
int plb_transport_alone(plb_transport_t **out, plb_err_t *err);
