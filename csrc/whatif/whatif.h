/* Recorded operations of a program, and what is computed from them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* The record of what a rank did: 48 bytes for each MPI operation that affects the run time.  The
 * recorder (csrc/whatif/recorder) sends these operations to a monitor, which writes them to a
 * file; the simulation (csrc/whatif/simulator) reads them.
 *
 * MPI's 300 functions are reduced to the few kinds below.  E.g. MPI_Sendrecv becomes IRECV, ISEND
 * and two WAITs; MPI_Start becomes ISEND or IRECV; MPI_Waitall becomes one WAIT per request.  If
 * a call becomes several operations, all but the first have compute = 0 and PLB_OP_SAME_CALL. */

/* X(name, what the operation is and what its fields mean) */
#define PLB_OPS(X)                                                                                \
    X(END, "the rank ends: MPI_Finalize")                                                         \
    X(SEND, "blocking send to `peer`")                                                            \
    X(ISEND, "nonblocking send, from now on identified by `request`")                             \
    X(RECV, "blocking receive from `peer`")                                                       \
    X(IRECV, "nonblocking receive, from now on identified by `request`")                          \
    X(WAIT, "wait until `request` is complete")                                                   \
    X(PROBE, "wait until a message from `peer` has arrived")                                      \
    X(COLL, "blocking collective `what`; `peer`: root, `tag`: own rank, both as ranks in `comm`") \
    X(ICOLL, "nonblocking collective, identified by `request`")                                   \
    X(PAUSE, "`bytes` ns in which the process neither ran nor waited for a processor: "           \
             "sleep, files")                                                                      \
    X(ENTER, "procedure `tag` begins")                                                            \
    X(LEAVE, "procedure `tag` ends")                                                              \
    X(ONE_SIDED, "one-sided call `what`, which cannot be simulated")

typedef enum plb_op_kind {
#define X(name, help) PLB_OP_##name,
    PLB_OPS(X)
#undef X
        PLB_N_OPS
} plb_op_kind_t;

/* X(name).  For all collectives, `bytes` of an operation is the number of bytes that one rank
 * sends to one other rank, or adds to the result. */
/* clang-format off */
#define PLB_COLLECTIVES(X) \
    X(BARRIER) X(BCAST) X(GATHER) X(SCATTER) X(REDUCE) X(ALLREDUCE) X(ALLGATHER) X(ALLTOALL) \
    X(REDUCE_SCATTER) X(SCAN) X(EXSCAN)
/* clang-format on */

typedef enum plb_collective {
#define X(name) PLB_##name,
    PLB_COLLECTIVES(X)
#undef X
        PLB_N_COLLECTIVES
} plb_collective_t;

/* X(name).  The one-sided calls that are recorded: those that make a window or access one. */
/* clang-format off */
#define PLB_ONE_SIDED_CALLS(X) \
    X(Win_create) X(Win_allocate) X(Win_allocate_shared) X(Win_create_dynamic) \
    X(Put) X(Rput) X(Get) X(Rget) X(Accumulate) X(Raccumulate) \
    X(Get_accumulate) X(Rget_accumulate) X(Fetch_and_op) X(Compare_and_swap)
/* clang-format on */

typedef enum plb_one_sided {
#define X(name) PLB_ONE_SIDED_##name,
    PLB_ONE_SIDED_CALLS(X)
#undef X
        PLB_N_ONE_SIDED
} plb_one_sided_t;

enum {                       /* Flags of an operation. */
       PLB_OP_SAME_CALL = 1, /* the operation belongs to the same call as the previous one */
       PLB_OP_ANY_SOURCE =
           2, /* receive or probe from any source; `peer`: the source, or -1 if the WAIT has it */
       PLB_OP_ANY_TAG =
           4, /* receive or probe with any tag; `tag`: the actual tag, or 0 if the WAIT has it */
       PLB_OP_SYNCHRONOUS = 8, /* a synchronous send: complete when the message is received */
       PLB_OP_BUFFERED = 16,   /* a buffered send: complete immediately */
       PLB_OP_CANCELLED = 32,  /* WAIT: the receive will never be matched */
};

typedef struct plb_op {
    /* ns of processor time from the end of the previous call to the start of this one */
    int64_t compute;
    int64_t begin; /* ns of wall time from the start of the recording to the start of the call */
    int64_t bytes; /* bytes (of a PAUSE: ns); a receive and its WAIT have 0 */
    float inside;  /* seconds of wall time within the call; only in the call's first operation */
    int32_t peer;  /* rank in MPI_COMM_WORLD; of a collective: the root, a rank in `comm` */
    int32_t tag;
    int32_t request;     /* a small number that identifies an open request; numbers are reused */
    int32_t comm;        /* index of a communicator in plb_comms_t */
    uint8_t kind, flags; /* a plb_op_kind_t; a sum of PLB_OP_SAME_CALL etc. */
    uint16_t what;       /* a plb_collective_t or plb_one_sided_t */
} plb_op_t;

_Static_assert(sizeof(plb_op_t) == 48, "a record has 48 bytes");

/* Communicators and their members, in order of rank.  Communicator 0 is MPI_COMM_WORLD. */
typedef struct plb_comms {
    int32_t n;
    const int64_t *start;  /* [n + 1] where the members of each communicator begin in `member` */
    const int32_t *member; /* ranks in MPI_COMM_WORLD */
} plb_comms_t;

/* Kinds of operations, and checks of operations from a file. */

static inline bool plb_op_is_send(const plb_op_t *op)
{
    return op->kind == PLB_OP_SEND || op->kind == PLB_OP_ISEND;
}
static inline bool plb_op_is_receive(const plb_op_t *op)
{
    return op->kind == PLB_OP_RECV || op->kind == PLB_OP_IRECV;
}
extern const char *const plb_one_sided_names[PLB_N_ONE_SIDED]; /* without MPI_ */

/** Check operation `at` of a rank: PLB_ERR_VALUE if it is one-sided; PLB_ERR_FORMAT if its kind,
 * peer, communicator, request, collective or own rank is impossible, or its processor time (ns) or
 * bytes not in 0 ... 2^53. */
int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err);

/** Check that all members are ranks: PLB_ERR_RANGE. */
int plb_comms_check(const plb_comms_t *comms, int32_t n_ranks, plb_err_t *err);

/* Finds the send of each receive in the recorded operations of all ranks, by the rule of MPI:
 * messages with the same sender, receiver, communicator and tag are received in the order in
 * which they were sent.  For MPI_ANY_SOURCE and MPI_ANY_TAG the recorded values are used, so the
 * pairs do not depend on time. */

typedef struct plb_streams { /* The operations of all ranks; borrowed. */
    int32_t n_ranks;
    const plb_op_t *const *op; /* [n_ranks] operations of each rank, in order */
    const int64_t *n;          /* [n_ranks] number of operations of each rank */
    plb_comms_t comms;
} plb_streams_t;

/* Sends (SEND, ISEND) and receives (RECV, IRECV) are numbered rank by rank, in order. */
typedef struct plb_pairing {
    /* [n_ranks + 1] number of each rank's first send, and of its first receive */
    int64_t *send_start, *receive_start;
    int64_t *send_of;           /* [receives] number of each receive's send; -1: none */
    int32_t *requests;          /* [n_ranks] each rank's highest request number plus 1 */
    int64_t unreceived, unsent; /* numbers of sends, receives that have no partner */
} plb_pairing_t;

/** Pair the messages.  Errors: those of plb_op_check and plb_comms_check.  Free `out` also after a
 * failure. */
int plb_pairing_make(const plb_streams_t *streams, plb_pairing_t *out, plb_err_t *err);
void plb_pairing_free(plb_pairing_t *self);

/* Finds the critical path of recorded operations.  Also computes how long the path would be if a
 * procedure F took no time ("critical path zeroing"), or if F ran on the ranks that receive its
 * results (Eom and Hollingsworth 1998, "procedure LBF", figure 2).
 *
 * The program activity graph has the operations as nodes.  Its arcs are messages, and the
 * processor time of a rank from one operation to the next.  The longest path is the run time if
 * each rank had its own processor and waited only for messages, collectives and pauses.  Sends
 * complete immediately.  Times are integers (ns), so the result does not depend on the order in
 * which ranks are processed.
 *
 * Running F elsewhere moves it from the senders to the receivers.  Cs and Cr are the lengths of
 * the paths of sender and receiver:
 *     send:     the message carries (Cs, work, gain); then Cs = Cs - gain
 *     receive:  Cr = max(Cs - gain, Cr + work)
 * `work` is F's time since the last message (F in figure 2).  `gain` is the time by which removing
 * F shortens the sender's path.  In the paper both are the same, and every message that the sender
 * sends or receives sets them to zero (lines 10 and 16; line 26 adds the received rmtF, misprinted
 * as rmtFCP).  The option `kept` keeps both until a message goes to the rank to which F moves, so
 * that F can move between any two ranks.  A receive then limits the gain to max(Cr - Cs, 0). */

typedef enum plb_path_change {
    PLB_PATH_NOTHING,
    PLB_PATH_MOVED,  /* the procedure runs where its results are received */
    PLB_PATH_ZEROED, /* the procedure takes no time */
} plb_path_change_t;

/* A change of the program, for which the length of the path is computed. */
typedef struct plb_path_query {
    plb_path_change_t change;
    int32_t procedure;
    int32_t from, to;   /* PLB_PATH_MOVED: F moves from rank `from` to rank `to`; -1: any rank */
    bool kept;          /* true: keep `work` and `gain`, see above; false: as in the paper */
    double alpha, beta; /* seconds per message and per byte */
} plb_path_query_t;

/* The operation before another one on its longest path: operation `op` of rank `rank`. */
typedef struct plb_path_hop {
    int64_t op;
    int32_t rank; /* -1: the previous operation of the same rank; `op` is not used */
    int32_t pad;
} plb_path_hop_t;

/** Compute longest[n_ranks], the ns of the longest path to each rank's last operation.  If `hop`
 * is not NULL, hop[rank][i] tells how the path comes to operation i of the rank.  *stuck: number
 * of ranks that wait forever; their path ends where they wait. */
int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_query_t *query, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err);

/* Describes a collective as a tree of messages: which messages each rank sends and receives. */

/* A step: send a message to rank `to`, then wait for one from rank `from`; -1: no such message. */
typedef struct plb_hop {
    int32_t to, from; /* ranks in the communicator */
    int64_t bytes;    /* bytes sent */
} plb_hop_t;

/** For which ranks a rank has to wait in a collective: for all, for the root, or for none. */
typedef enum plb_awaits { PLB_AWAITS_ALL, PLB_AWAITS_ROOT, PLB_AWAITS_NOBODY } plb_awaits_t;

static inline plb_awaits_t plb_awaits_of(const plb_op_t *op, bool is_root)
{
    switch (op->what) {
    case PLB_BCAST:
    case PLB_SCATTER:
        return is_root ? PLB_AWAITS_NOBODY : PLB_AWAITS_ROOT;
    case PLB_GATHER:
    case PLB_REDUCE:
        return is_root ? PLB_AWAITS_ALL : PLB_AWAITS_NOBODY;
    default:
        return PLB_AWAITS_ALL;
    }
}

/* Simulates recorded processes on a target machine: a discrete-event simulation of their
 * operations (Eom and Hollingsworth 1998, "process LBF").
 *
 * Processors.  Of k processes that compute on a processor, each gets 1/k of it at any time
 * (egalitarian processor sharing: the paper's round-robin with an infinitely small quantum).
 * Processes that wait in MPI use no processor.
 *
 * A processor with a share below 1 is available in the first part of each period, like in a Linux
 * control group with a quota.  The periods of different processors begin at different times.
 *
 * Messages.  The envelope of a message sent at t arrives at t + alpha, and matches the first
 * posted receive that fits; messages of one sender and communicator match in the order of sending.
 * A receive from any source, or with any tag, has the source and the tag that were recorded.
 * If a message is buffered or has at most `eager` bytes, its data follow immediately, and the
 * sender continues.  Longer or synchronous messages (rendezvous messages) are transferred when the
 * receiver is inside MPI and its receive is posted (there is no progress outside of calls): alpha
 * for the answer, then alpha + beta * bytes for the data; then both sides are complete.  Each call
 * costs `overhead` processor seconds.  Blocking collectives are trees of buffered messages.  A
 * nonblocking collective is complete when the ranks on which it depends have entered it, and the
 * time of such a tree has passed since then.
 *
 * Operations take effect strictly in order of simulated time, with a fixed rule for ties, so that
 * the result does not depend on the order in which the ranks' operations are passed. */

typedef struct plb_target { /* The target machine; borrowed. */
    int32_t n_processors, n_nodes;
    const int32_t *place; /* [n_ranks] processor of each rank */
    const double *speed;  /* [n_processors] speed relative to the processors of the recording */
    const double *share;  /* [n_processors] available fraction of each period; NULL: all are 1 */
    double period;        /* seconds of a period; 0: a share acts like a lower speed */
    const int32_t *node;  /* [n_processors] node of each processor */
    const double *alpha;  /* [n_nodes * n_nodes] seconds per message from node to node */
    const double *beta;   /* [n_nodes * n_nodes] seconds per byte from node to node */
    double overhead;      /* processor seconds of a call, at speed 1 */
    int64_t eager; /* bytes: longest message that is sent without an answer of the receiver */
} plb_target_t;

typedef enum plb_end {
    PLB_END_THROUGH, /* the rank has reached its END */
    PLB_END_CUT,     /* no END was recorded: the process was killed, or operations are lost */
    PLB_END_STUCK,   /* the rank waits forever */
} plb_end_t;

typedef struct plb_process_times {
    double finish;  /* time at which the rank ended, or began to wait forever */
    double busy;    /* seconds of work on its processor */
    double waiting; /* seconds of waiting in MPI */
    double paused;
    int64_t done;   /* number of simulated operations */
    int32_t end;    /* a plb_end_t */
    int32_t unread; /* number of messages that were sent to the rank but not received */
} plb_process_times_t;
/* When an operation began and ended, and which operation of another rank it last waited for. */
typedef struct plb_op_time {
    double begin, end;
    int64_t cause_op;
    int32_t cause_rank; /* -1: it did not wait, or is a probe */
    int32_t pad;
} plb_op_time_t;

/** Simulate all ranks; out[n_ranks]: their times.  step[r][i] gets the times of operation i of
 * rank r; step NULL: not wanted.  The operations of a rank may be cut off at any place. */
int plb_whatif(const plb_streams_t *streams, const plb_target_t *target,
               plb_op_time_t *const *step, plb_process_times_t *out, plb_err_t *err);
