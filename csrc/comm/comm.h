/* A duplicate of the user's communicator, for the messages of pylb, and collective calls on it.
 * MPI calls on the duplicate return errors (MPI_ERRORS_RETURN). */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "comm/share.h"
#include "comm/transport.h"
#include "measure/measure.h"

/* bytes of the largest message: MPI counts in int, so larger data go in pieces of this size */
enum { PLB_PIECE = 1 << 30 };

/* Message tags; odd and even steps differ, because a rank can be one step ahead of another. */
enum plb_tag {
    PLB_TAG_HEAD = 1, /* the head of a parcel (plb_parcel_t) in even steps; 2 in odd steps */
    PLB_TAG_PART = 3, /* a part of a parcel in even steps; 4 in odd steps */
    PLB_TAG_LATE = 5, /* objects that arrive while the program goes on (transport_mpi.py) */
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

/** Wait for a request, and let other ranks use the processor meanwhile (base/base.h). */
int plb_comm_finish(MPI_Request *request, const plb_patience_t *patience, plb_err_t *err);

/** If a rank has an error, return an error on all ranks: `mine` if it is one, else the lowest code
 * of all, with a message that names the failed rank.  Collective; waits like plb_comm_finish. */
int plb_agree(MPI_Comm comm, int mine, const plb_patience_t *patience, plb_err_t *err);

/** Return `code`, the error of another rank, with a message that names `rank`.  PLB_ERR_STATE
 * means that `rank` has left (transport.h). */
int plb_comm_raise_for(int code, int rank, plb_err_t *err);

/** If `mine` is an error (negative), set *err to its message `own`, and return `mine`.  Otherwise
 * return `ret`, the code that all ranks agreed on. */
int plb_comm_own_first(int64_t mine, const plb_err_t *own, int ret, plb_err_t *err);

/** Broadcast n bytes, n equal on all ranks.  Collective; waits like plb_comm_finish. */
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

/* An exchange of rows with a known pattern: each rank knows how many rows it sends to which ranks
 * and gets from which ranks.  It communicates only with these ranks, its partners.
 *
 * To agree beforehand which exchange the ranks are in would cost more than the exchange itself.
 * Instead the tag of each message identifies the exchange (plan, direction, kind of items).  A
 * receive accepts any tag, and plb_transfer_wait returns an error if the tag is wrong.  A rank
 * that has failed sends its partners an empty message with PLB_TAG_FAILED.
 *
 * Ranks that exchange Python objects first meet, by an exchange of empty rows with an odd tag;
 * then they come to a collective step.  The tags of other exchanges are even.  So a rank that
 * exchanges rows knows whether a partner has come to a meeting instead. */

enum { PLB_TAG_FAILED = 1, PLB_TAG_ITEMS = 2, PLB_TAG_MOST = 32767 };

/* What a rank sends or receives: rows start[i] ... start[i+1]-1 of `data` to or from rank[i]; rank
 * NULL: to or from rank i, if there are any. */
typedef struct plb_side {
    int32_t n;
    const int32_t *rank;
    const int64_t *start;
    char *data;
} plb_side_t;

typedef struct plb_transfer {
    plb_comm_t *comm;
    int tag, n, n_receives; /* n: number of messages; 0: no exchange is under way */
    MPI_Request *request;   /* [n] receives, then sends */
    int32_t *peer;          /* [n] the other rank of each message */
    int64_t *bytes;         /* [n] size of each message */
    bool *unlike;           /* [n] whether one side was at a meeting, and the other not */
    bool skips_own;         /* whether the caller copies the rows that a rank sends to itself */
} plb_transfer_t;

/** Allocate memory for exchanges, one at a time, of at most n_partners sends plus receives. */
int plb_transfer_init(plb_transfer_t *self, plb_comm_t *comm, int32_t n_partners, plb_err_t *err);
void plb_transfer_free(plb_transfer_t *self);

/** Begin an exchange.  Local; does not wait.  The communicator must be used for exchanges only,
 * because a receive accepts any tag.  Do not change the data until the exchange is over; rows that
 * a rank sends to itself are copied at once, unless skips_own is set.  tag: PLB_TAG_ITEMS ...
 * PLB_TAG_MOST.  PLB_ERR_VALUE: `out` and `in` differ in the number of rows that this rank sends
 * to itself; no message was sent.  After an error of MPI, messages may be under way (n > 0). */
int plb_transfer_begin(plb_transfer_t *self, const plb_side_t *out, const plb_side_t *in,
                       int64_t row_bytes, int tag, plb_err_t *err);

/** Wait for the end of the exchange, and let other ranks use the processor meanwhile.
 * PLB_ERR_STATE: a partner has failed, or has sent a message of another exchange; the messages are
 * complete nevertheless.  After PLB_ERR_INTERRUPTED the exchange is still under way. */
int plb_transfer_wait(plb_transfer_t *self, plb_tick_fn tick, void *tick_arg, plb_err_t *err);

/** Take part in an exchange after a failure, without data: send PLB_TAG_FAILED to the ranks that
 * wait for rows of this rank, then wait for the rows that are sent to this rank, and drop them.
 * *met: whether a partner was at a meeting. */
int plb_transfer_fail(plb_comm_t *comm, const plb_side_t *out, const plb_side_t *in,
                      plb_tick_fn tick, void *tick_arg, bool *met, plb_err_t *err);

/* One collective step: sends parcels of bytes to some ranks and, at the same time, reduces one
 * record of statistics (measure/measure.h).
 *
 * A parcel is a list of parts.  Its head is a message with the sizes of all parts and the contents
 * of small parts, up to 1 MiB.  All other parts follow in separate messages of 1 GiB at most.
 *
 * The exchange is NBX (Hoefler, Siebert and Lumsdaine, PPoPP 2010, algorithm 2): synchronous
 * sends, then a nonblocking barrier; meanwhile each rank receives.  There are two differences: the
 * barrier is the Iallreduce of the record, so a step costs one collective call; and only the heads
 * are sent synchronously.  When the reduction is complete, every rank has the same record, and all
 * heads have been received. */

typedef struct plb_parcel {
    int peer, n;   /* the other rank; the number of parts */
    void **part;   /* [n] */
    int64_t *size; /* [n] bytes of each part */
} plb_parcel_t;

/** Allocate memory for the parts of a parcel that has arrived, and set part[n] to it. */
typedef int (*plb_take_fn)(void *arg, plb_parcel_t *parcel, plb_err_t *err);

typedef struct plb_requests {
    MPI_Request *r;
    int n;
    int64_t room;
} plb_requests_t;

typedef enum plb_phase {
    PLB_STEP_IDLE,     /* no step is under way */
    PLB_STEP_SENDING,  /* the other ranks have not yet received all heads of this rank */
    PLB_STEP_REDUCING, /* the reduction is not complete */
    PLB_STEP_DRAINING, /* parts outside of heads are still being sent or received */
    PLB_STEP_BROKEN    /* plb_step_begin failed after it had sent heads: no more steps */
} plb_phase_t;

typedef struct plb_step {
    plb_comm_t *comm;
    plb_phase_t phase;
    int parity;            /* 0 in even steps, 1 in odd steps; chooses the tags */
    plb_stats_t mine, all; /* this rank's record; the merged record, valid after the step */
    plb_requests_t heads, parts;
    MPI_Request reduction;
    void **wire; /* [n_wires] owned: the heads that are being sent */
    int n_wires;
    char *head; /* owned: the head of a parcel whose parts are not received yet; NULL: none */
    int source; /* the rank that has sent `head` */
    plb_take_fn take;
    void *take_arg;
} plb_step_t;

void plb_step_init(plb_step_t *self, plb_comm_t *comm, plb_take_fn take, void *take_arg);
void plb_step_free(plb_step_t *self);

/** Return PLB_ERR_STATE if a step is under way, or if an earlier one is broken. */
int plb_step_check_idle(const plb_step_t *self, plb_err_t *err);

/** Begin a step.  Collective over comm; does not wait.  There is at most one parcel for each
 * other rank, and none for this rank.  Do not change the memory of the parts until the step is
 * complete.  PLB_ERR_STATE: a step is under way already, or an earlier one is broken. */
int plb_step_begin(plb_step_t *self, const plb_stats_t *mine, const plb_parcel_t *parcel,
                   int n_parcels, plb_err_t *err);

/** Wait until self->all is the merged record and all parcels have arrived, for at most
 * `timeout_ns` nanoseconds (negative: no limit); other ranks can use the processor meanwhile.
 * *done: whether the step is complete.  If it is not, or after PLB_ERR_INTERRUPTED or a lack of
 * memory, the step is still under way: call this function again. */
int plb_step_wait(plb_step_t *self, int64_t timeout_ns, plb_tick_fn tick, void *tick_arg,
                  bool *done, plb_err_t *err);

/* The reductions of comm/transport.h, by MPI.  Statistics and maxima have a communicator each,
 * because ranks may begin a reduction of statistics and one of maxima in different orders. */

typedef struct plb_reducer {
    plb_reduction_t face; /* the interface; its member `self` points to this reducer */
    plb_comm_t *comm;     /* borrowed; has MPI's type and operation for the record */
    MPI_Comm stats, maxima;
    int64_t begun, taken; /* numbers of reductions of statistics that have begun, and that were
                             taken */
    /* [depth], owned: contribution and result of the i-th reduction at i % depth */
    plb_stats_t *mine, *all;
    MPI_Request *request;
    int64_t maximum[PLB_MAXIMA], greatest[PLB_MAXIMA]; /* values of this rank; maxima of all
                                                          ranks */
    MPI_Request maximum_request;
} plb_reducer_t;

void plb_reducer_init(plb_reducer_t *self, plb_comm_t *comm);

/** Allocate memory for up to `depth` reductions of statistics under way.  The first call is
 * collective and may block.  PLB_ERR_STATE: reductions are under way. */
int plb_reducer_reserve(plb_reducer_t *self, int depth, plb_err_t *err);

/** Free the memory; the communicators are kept.  Local; no reduction may be under way. */
void plb_reducer_free(plb_reducer_t *self);

/* The communication of the C library by MPI, on duplicates of the user's communicator. */

/** Make the transport for MPI; the caller frees it by (*out)->free.  Both calls are collective.
 * patience: what to do if another rank is late in this call. */
int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, const plb_patience_t *patience,
                      plb_err_t *err);

/* Work lent within a step (comm/share.h), over MPI. */

typedef struct plb_sharer plb_sharer_t;

typedef struct plb_share_options {
    bool lend;     /* false: only compute what lending would have saved */
    bool reactive; /* whether a rank that has no more work asks others for some */
    double beta;   /* seconds for a byte that is sent and received; 0: a default */
} plb_share_options_t;

/** Make what the ranks of `user` need to lend each other work.  Collective. */
int plb_share_new(plb_sharer_t **out, MPI_Comm user, const plb_share_options_t *options,
                  const plb_patience_t *patience, plb_err_t *err);

/** Compute all rows of all ranks.  Collective.  If a rank fails, all ranks fail: the rank itself
 * with its own error, the others with one that names it.  If nothing is lent in this call, the
 * others learn of it only at their next decision.  Sets `figures`. */
int plb_share_call(plb_sharer_t *self, const plb_shared_rows_t *rows, plb_tick_fn tick,
                   void *tick_arg, plb_share_figures_t *figures, plb_err_t *err);

/** Whether the last decision, that lending does not pay, still holds; then this rank just computes
 * its rows.  (Several short calls share a decision.)  plb_share_call begins with this; a program
 * that calls it itself must not call plb_share_call if it is true.  It is equal on all ranks. */
bool plb_share_holds(plb_sharer_t *self);

/** Announce that this rank makes no more calls; the other ranks learn it at their next decision.
 * why: the code of this rank's error; PLB_ERR_STATE: the program does something else.  Local. */
void plb_share_leave(plb_sharer_t *self, int why);

/** If other ranks have waited for ten seconds for this rank, which waits for them in another
 * collective call, leave (plb_share_leave), so that nobody waits forever.  ends: leave in any
 * case, because the program ends.  Returns whether MPI no longer uses memory of `self`.  Local. */
bool plb_share_look(plb_sharer_t *self, bool ends);

/** Return the seconds of each row in the most recent call, at the speed of this rank.  *n: number
 * of rows; 0: they were not measured, because a decision still held. */
const double *plb_share_seconds(const plb_sharer_t *self, int64_t *n);

/** Free the communicator.  Collective.  After that, plb_share_free frees the memory. */
void plb_share_close(plb_sharer_t *self);
void plb_share_free(plb_sharer_t *self);
