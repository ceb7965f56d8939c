/* The communication that the C library needs: an interface, and that of a single rank.
 *
 * comm/ranks_mpi.h has the one by MPI.  All of it is collective, and waits politely.
 */
#ifndef PLB_COMM_RANKS_H
#define PLB_COMM_RANKS_H

#include "measure/reduction.h"

typedef struct plb_ranks plb_ranks_t;
struct plb_ranks {
    int rank, size;
    const plb_reduction_t *reduction; /* after `reserve` */

    /** Make room for `depth` reductions of records at once. */
    int (*reserve)(plb_ranks_t *self, int depth, plb_err_t *err);

    /** The n bytes of each rank, one rank after the other, on rank 0: *all (owned; NULL on the
     *  other ranks), and size[p] of each on every rank. */
    int (*gather)(plb_ranks_t *self, const void *mine, int64_t n, char **all, int64_t *size,
                  plb_err_t *err);

    /** Broadcast n bytes from rank 0; n is the same on all ranks. */
    int (*bcast)(plb_ranks_t *self, void *data, int64_t n, plb_err_t *err);

    /** Items of `bytes`: send[r] ... send[r + 1] - 1 of `from` go to rank r; those of rank r
     *  become receive[r] ... receive[r + 1] - 1 of `to`. */
    int (*exchange)(plb_ranks_t *self, const char *from, const int64_t *send, char *to,
                    const int64_t *receive, int64_t bytes, plb_err_t *err);

    /** Free everything, the interface as well. */
    void (*free)(plb_ranks_t *self);
};

/** A single rank.  Owned: (*out)->free. */
int plb_ranks_alone(plb_ranks_t **out, plb_err_t *err);

#endif
