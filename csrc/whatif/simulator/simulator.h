/* What would happen if these processes ran elsewhere: discrete-event simulation of recorded
 * operations under a target (Eom and Hollingsworth 1998, "process LBF").
 *
 * Processors.  Processes that have something to compute share their processor: with quantum 0
 * each of k gets a k-th at any time (the paper's round-robin with an infinitely small quantum),
 * else they take turns of `quantum` seconds.  What a process that waits in MPI does to its
 * processor is an option, see plb_waiting_t.
 *
 * A processor with a share below 1 is there for the first part of each period, as for a control
 * group with a quota whose process uses it up, computing or asking MPI; the periods of different
 * processors do not begin at the same time.
 *
 * Messages.  Sent at t, the envelope is at the receiver at t + alpha; it matches the first
 * receive posted there that fits, as messages of one sender and communicator do in the order in
 * which they were sent.  Up to `eager` bytes the data follow at once and the sender goes on;
 * longer or synchronous ones go when the receiver is within MPI and its receive is posted
 * (there is no progress outside of calls), alpha for the answer and alpha + beta bytes for
 * the data later; both sides are then through.  Each call costs `overhead` processor seconds.
 * Blocking collectives are trees of such messages (trees.h); a nonblocking one
 * completes when the ranks that it depends on have entered, and the time of such a tree has
 * passed.
 *
 * Operations take effect strictly in order of simulated time, ties by a fixed rule: the result
 * does not depend on the order in which the ranks' records become known.
 */
#ifndef PLB_WHATIF_SIMULATOR_SIMULATOR_H
#define PLB_WHATIF_SIMULATOR_SIMULATOR_H

#include <stdbool.h>

#include "base/err.h"
#include "whatif/ops.h"

typedef enum plb_waiting {
    PLB_WAIT_BLOCK, /* sleeps, sometimes polls; goes first when its message comes */
    PLB_WAIT_YIELD, /* polls and yields: takes little, and its turn comes last */
    PLB_WAIT_SPIN,  /* polls all the time: takes its share like a process that computes */
} plb_waiting_t;

typedef struct plb_target { /* borrowed */
    int32_t n_processors, n_nodes;
    const int32_t *place; /* [n_ranks] processor */
    const double *speed;  /* [n_processors] recorded processor seconds done in a second */
    const double *share;  /* [n_processors] part of each period that there is; NULL: all of it */
    double period;        /* seconds in which a share is given out; 0: as a lower speed */
    const int32_t *node;  /* [n_processors] */
    const double *alpha;  /* [n_nodes * n_nodes] seconds per message from one to the other */
    const double *beta;   /* [n_nodes * n_nodes] seconds per byte */
    double overhead;      /* processor seconds of a call, as recorded ones */
    int64_t eager;        /* bytes */
    double quantum;       /* seconds, 0: infinitely small */
    plb_waiting_t waiting;
    double polling;   /* what each that waits and does not spin takes, per second of those that
                       * compute */
    bool as_recorded; /* receives from any source take the messages that they took when recorded;
                       * else the first one that comes, as MPI does */
} plb_target_t;

typedef enum plb_end {
    PLB_END_RUNNING, /* its records are not all known */
    PLB_END_THROUGH, /* reached its END */
    PLB_END_CUT,     /* records end before END: killed, or lost */
    PLB_END_STUCK,   /* waits for ever */
} plb_end_t;

typedef struct plb_process_times {
    double finish;  /* when it ended, or how far it came */
    double busy;    /* seconds of its processor's work */
    double waiting; /* within MPI */
    double paused;
    int64_t done;   /* operations */
    int32_t end;    /* plb_end_t */
    int32_t unread; /* messages to it that it has not received */
} plb_process_times_t;

/* When an operation was reached and was through, and which one of another rank it waited for
 * last. */
typedef struct plb_op_time {
    double begin, end;
    int64_t cause_op;
    int32_t cause_rank; /* -1: it waited for nobody */
    int32_t pad;
} plb_op_time_t;

typedef struct plb_whatif plb_whatif_t;

/** A simulation at time 0.  `comms` and the target are copied.  NULL with an error. */
plb_whatif_t *plb_whatif_new(int32_t n_ranks, const plb_comms_t *comms, const plb_target_t *target,
                             plb_err_t *err);
void plb_whatif_destroy(plb_whatif_t *self);

/** The operations of a rank that are known by now: the same as before and more.  Borrowed until
 *  the next call for that rank; steps[n] (or NULL) is written as they are done.  `closed`: there
 *  will be no more. */
int plb_whatif_feed(plb_whatif_t *self, int32_t rank, const plb_op_t *op, int64_t n, bool closed,
                    plb_op_time_t *step, plb_err_t *err);

/** All communicators that are known so far. */
int plb_whatif_comms(plb_whatif_t *self, const plb_comms_t *comms, plb_err_t *err);

/** Simulate as far as the records go.  *missing: the rank whose next operation is needed to go
 *  on, or -1 when all is done that can be done. */
int plb_whatif_run(plb_whatif_t *self, int32_t *missing, plb_tick_fn tick, void *tick_arg,
                   plb_err_t *err);

/** Of each rank, out[n_ranks]. */
void plb_whatif_times(const plb_whatif_t *self, plb_process_times_t *out);

/** Bytes that the simulation itself holds, beside the records. */
int64_t plb_whatif_memory(const plb_whatif_t *self);

#endif
