/* pylb's own duplicate of the user's communicator, and a few plain collective calls on it.
 *
 * MPI returns its errors (MPI_ERRORS_RETURN on the duplicate).  PLB_MPI checks the code of a call,
 * and turns an error into PLB_ERR_MPI with MPI's own text.
 */
#pragma once

#include <mpi.h>
#include <stdint.h>

#include "base/err.h"

/* The message tags.  A rank can be at most one step ahead of another, so odd and even steps use
 * different tags. */
enum plb_tag {
    PLB_TAG_HEAD = 1, /* the head of a parcel (step.h) in even steps; 2 in odd steps */
    PLB_TAG_PART = 3, /* a part of a parcel in even steps; 4 in odd steps */
};

typedef struct plb_comm {
    MPI_Comm comm; /* MPI_COMM_NULL after plb_comm_free, and if plb_comm_init has failed */
    int rank, size;
    MPI_Datatype record; /* MPI's type for a plb_stats_t */
    MPI_Op merge;        /* merges two records (plb_stats_merge) */
} plb_comm_t;

int plb_mpi_fail(plb_err_t *err, int code, const char *call, const char *file, int line);

/* Make an MPI call; if it fails, set the error and jump to `out`.  Needs `ret`, `err` and the
 * label. */
#define PLB_MPI(call)                                                                             \
    do {                                                                                          \
        const int code_ = (call);                                                                 \
        if (code_ != MPI_SUCCESS) {                                                               \
            ret = plb_mpi_fail(err, code_, #call, __FILE__, __LINE__);                            \
            goto out;                                                                             \
        }                                                                                         \
    } while (0)

/** Duplicate `user`.  Collective, blocks. */
int plb_comm_init(plb_comm_t *self, MPI_Comm user, plb_err_t *err);

/** Free the duplicate, if there is one (only then is the call collective). */
void plb_comm_free(plb_comm_t *self);

/** Wait for a request, and let other ranks use the processor meanwhile (base/wait.h). */
int plb_comm_finish(MPI_Request *request, plb_err_t *err);

/** Return `mine` if it is an error, else the lowest code of all ranks; if that is an error, its
 * message names the rank that failed.  So if one rank has failed, all fail.  Collective; waits
 * like plb_comm_finish. */
int plb_agree(MPI_Comm comm, int mine, plb_err_t *err);

/** Return `code`, the error of another rank, with a message that names this other rank.  The code
 * PLB_ERR_STATE means that the other rank has left (transport.h). */
int plb_comm_raise_for(int code, int rank, plb_err_t *err);

/** If this rank had an error itself (`mine` is negative), set *err to its message `own`, and
 * return `mine`.  Otherwise return `ret`, the code that all ranks agreed on. */
int plb_comm_own_first(int64_t mine, const plb_err_t *own, int ret, plb_err_t *err);

/** Broadcast n bytes from `root`; n is the same on all ranks, at most INT_MAX.  Collective; waits
 * like plb_comm_finish. */
int plb_comm_bcast(plb_comm_t *self, void *data, int64_t n, int root, plb_err_t *err);

/** Gather the contributions of all ranks on all ranks.  First call plb_comm_sizes, which sets
 * size[p], the number of bytes of each rank.  Then allocate memory for their sum on all ranks, and
 * call plb_comm_allgather, which writes the contributions to `all`, in order of the ranks;
 * count[2p] is scratch memory.  At most INT_MAX bytes in total.  Collective; both functions wait
 * like plb_comm_finish. */
int plb_comm_sizes(plb_comm_t *self, int64_t mine, int64_t *size, plb_err_t *err);
int plb_comm_allgather(plb_comm_t *self, const void *mine, const int64_t *size, int *count,
                       void *all, plb_err_t *err);
