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
 * If a message is buffered or has at most `eager` bytes, its data follow immediately, and the
 * sender continues.  Longer or synchronous messages (rendezvous messages) are transferred when the
 * receiver is inside MPI and its receive is posted (there is no progress outside of calls): alpha
 * for the answer, then alpha + beta * bytes for the data; then both sides are complete.  Each call
 * costs `overhead` processor seconds.  Blocking collectives are trees of buffered messages
 * (trees.h).  A nonblocking collective is complete when the ranks on which it depends have entered
 * it, and the time of such a tree has passed since then.
 *
 * Operations take effect strictly in order of simulated time, with a fixed rule for ties, so that
 * the result does not depend on the order in which the ranks' operations are passed. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "whatif/ops.h"

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
    int64_t eager;    /* bytes: longest message that is sent without an answer of the receiver */
    bool as_recorded; /* true: receives from any source take the recorded message; false: the first
                         one that arrives, as in MPI */
} plb_target_t;

typedef enum plb_end {
    PLB_END_RUNNING, /* the caller has not passed all operations of the rank */
    PLB_END_THROUGH, /* the rank has reached its END */
    PLB_END_CUT,     /* no END was recorded: the process was killed, or operations are lost */
    PLB_END_STUCK,   /* the rank waits forever */
} plb_end_t;

typedef struct plb_process_times {
    double finish;  /* time at which the rank ended, or which it has reached so far */
    double busy;    /* seconds of work on its processor */
    double waiting; /* seconds of waiting in MPI */
    double paused;
    int64_t done;   /* number of simulated operations */
    int32_t end;    /* a plb_end_t */
    int32_t unread; /* number of messages to the rank that it has not received */
} plb_process_times_t;
/* When an operation began and ended, and which operation of another rank it last waited for. */
typedef struct plb_op_time {
    double begin, end;
    int64_t cause_op;
    int32_t cause_rank; /* -1: it did not wait, or is a probe */
    int32_t pad;
} plb_op_time_t;

typedef struct plb_whatif plb_whatif_t;

/** Begin a simulation at time 0.  Copies `comms` and the target.  Returns NULL after an error. */
plb_whatif_t *plb_whatif_new(int32_t n_ranks, const plb_comms_t *comms, const plb_target_t *target,
                             plb_err_t *err);
void plb_whatif_destroy(plb_whatif_t *self);

/** Pass all operations of a rank that are known so far: op[n] has those that were passed before,
 * then new ones.  step[n] (or NULL) gets the times of each operation when it is simulated.  Keep
 * both arrays until the next call for that rank.  closed: whether these are all operations. */
int plb_whatif_feed(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int64_t n, bool closed,
                    plb_op_time_t *step, plb_err_t *err);

/** Pass all communicators that are known so far. */
int plb_whatif_comms(plb_whatif_t *self, const plb_comms_t *comms, plb_err_t *err);

/** Simulate as far as possible.  *missing: the rank whose next operation must be passed before the
 * simulation can continue; -1: none, the simulation is over. */
int plb_whatif_run(plb_whatif_t *self, int32_t *missing, plb_err_t *err);

/** Get the times of each rank, out[n_ranks]. */
void plb_whatif_times(const plb_whatif_t *self, plb_process_times_t *out);

/** Return about how many bytes of memory the simulation itself uses, without the operations. */
int64_t plb_whatif_memory(const plb_whatif_t *self);
