/* A duplicate of the user's communicator, for the messages of pylb, and collective calls on it.
 * MPI calls on the duplicate return errors (MPI_ERRORS_RETURN). */
#pragma once

#include <mpi.h>
#include <stdint.h>

#include "base/err.h"
#include "base/wait.h"

/* bytes of the largest message: MPI counts in int, so larger data go in pieces of this size */
enum { PLB_PIECE = 1 << 30 };

/* Message tags; odd and even steps differ, because a rank can be one step ahead of another. */
enum plb_tag {
    PLB_TAG_HEAD = 1, /* the head of a parcel (step.h) in even steps; 2 in odd steps */
    PLB_TAG_PART = 3, /* a part of a parcel in even steps; 4 in odd steps */
};

typedef struct plb_comm {
    MPI_Comm comm; /* MPI_COMM_NULL after plb_comm_free, and if plb_comm_init has failed */
    int rank, size;
    MPI_Datatype record;            /* MPI's type for a plb_stats_t */
    MPI_Op merge;                   /* merges two records (plb_stats_merge) */
    const plb_patience_t *patience; /* borrowed: what to do in a long wait; NULL: nothing */
} plb_comm_t;

int plb_mpi_fail(plb_err_t *err, int code, const char *call, const char *file, int line);

/* Make an MPI call; if it fails, set the error to PLB_ERR_MPI with MPI's text, and jump to `out`.
 * Needs `ret`, `err` and the label. */
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
int plb_comm_finish(MPI_Request *request, const plb_patience_t *patience, plb_err_t *err);

/** If a rank has an error, return one on all ranks: `mine` if it is an error, else the lowest code
 * of all, with a message that names the failed rank.  Collective; waits like plb_comm_finish. */
int plb_agree(MPI_Comm comm, int mine, plb_err_t *err);
int plb_agree_patiently(MPI_Comm comm, int mine, const plb_patience_t *patience, plb_err_t *err);

/** Return `code`, the error of another rank, with a message that names `rank`.  PLB_ERR_STATE
 * means that `rank` has left (transport.h). */
int plb_comm_raise_for(int code, int rank, plb_err_t *err);

/** If `mine` is an error (negative), set *err to its message `own`, and return `mine`.  Otherwise
 * return `ret`, the code that all ranks agreed on. */
int plb_comm_own_first(int64_t mine, const plb_err_t *own, int ret, plb_err_t *err);

/** Broadcast n <= INT_MAX bytes, n equal on all ranks.  Collective; waits like plb_comm_finish. */
int plb_comm_bcast(plb_comm_t *self, void *data, int64_t n, int root, plb_err_t *err);

/** The bytes of a rank in a gather: their number, and the first of them. */
enum { PLB_HEAD_BYTES = 56 };
typedef struct plb_head {
    int64_t size;
    char bytes[PLB_HEAD_BYTES];
} plb_head_t;

/** Set head[p] on all ranks.  This is a whole gather if no rank has more than PLB_HEAD_BYTES.
 * Collective; waits like plb_comm_finish. */
int plb_comm_heads(plb_comm_t *self, const void *mine, int64_t n, plb_head_t *head,
                   plb_err_t *err);

/** Gather bytes of all ranks on all ranks, at most INT_MAX in total.  First call plb_comm_sizes
 * or plb_comm_heads for size[p], the bytes of each rank; then plb_comm_allgather, which writes all
 * bytes to `all`, in order of the ranks; count[2p]: scratch.  Collective; waits like
 * plb_comm_finish. */
int plb_comm_sizes(plb_comm_t *self, int64_t mine, int64_t *size, plb_err_t *err);
int plb_comm_allgather(plb_comm_t *self, const void *mine, const int64_t *size, int *count,
                       void *all, plb_err_t *err);
