/* Consensus of all ranks on the iteration at which all objects rebalance (Menon 3.6.1,
 * figure 3.5), and the change of an announced iteration (3.6.2).
 *
 * Objects run iterations 1, 2, ...; at the end of each they reach AtSync.  Statistics of every
 * iteration are reduced without a barrier.  So objects may be at different iterations when the
 * statistics ask for an LB step.  Two state machines find an iteration that no object has passed:
 *
 *   plb_consensus_root_t   In: the statistics of each iteration, in order; the iteration at which
 *                          the trigger wants an LB step; the reduced maxima.  Out: rulings, which
 *                          are the root's decisions.
 *   plb_consensus_t        One rank.  In: the arrival of its objects at AtSync, the statistics,
 *                          the rulings.  Out: actions.
 *
 * The letters are those of the thesis, which calls iterations periods.  T is the tentative
 * iteration of the LB step, M the greatest iteration that any object has begun, F the final
 * iteration.  In a round the root announces T, the ranks reduce M, and the root announces F.
 *
 * All ranks get the results of the reductions, so every rank has a root, or one root broadcasts
 * its rulings, as in the thesis.  docs/consensus.md has the rules, by number, and why they hold.
 * Whether objects have reached T or F is tested with <= or >=, never with =. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "comm/transport.h"
#include "decide/decider.h"
#include "decide/trigger.h"

#define PLB_NEVER INT64_MAX /* no iteration, e.g. there is no LB step */

typedef enum plb_ruling_kind {
    PLB_RULING_NOTHING,
    PLB_RULING_TENTATIVE, /* round `round` opens with T = `iteration` */
    PLB_RULING_FINAL,     /* F = `iteration`; PLB_NEVER: there is no LB step */
    PLB_RULING_BALANCE,   /* all objects wait at AtSync(`iteration`): rebalance */
    PLB_RULING_OVER,      /* all ranks have ended: no more statistics will come */
} plb_ruling_kind_t;

typedef struct plb_ruling {
    plb_ruling_kind_t kind;
    int64_t round, iteration;
} plb_ruling_t;

/* ---- the root ------------------------------------------------------------------------------- */

typedef struct plb_consensus_root {
    int64_t n_ranks;
    int32_t lag;              /* the lag D of rule 5; 0: no lag */
    int64_t seen;             /* the last iteration whose statistics were taken */
    int64_t round;            /* number of rounds opened */
    int64_t tentative, final; /* T of the open round; F; PLB_NEVER: there is none */
} plb_consensus_root_t;
/* a wish (plb_consensus_root_stats) that leaves the final iteration F as it is */
#define PLB_WISH_NONE INT64_C(-1)

void plb_consensus_root_init(plb_consensus_root_t *self, int64_t n_ranks, int32_t lag);

/** Take the reduced statistics of `iteration` (in order: 1, 2, ...).  n_ended: number of ranks
 * that had ended.  wish: iteration at which the trigger wants an LB step (if that is too early,
 * the root takes the first possible one); PLB_NEVER: none; PLB_WISH_NONE: F stays as it is. */
int plb_consensus_root_stats(plb_consensus_root_t *self, int64_t iteration, int64_t n_ended,
                             int64_t wish, plb_ruling_t *out, plb_err_t *err);

/* ---- a rank --------------------------------------------------------------------------------- */

/* What a call of plb_consensus_t asks its caller to do. */
typedef struct plb_actions {
    int64_t first, last; /* contribute the statistics of the iterations `first` ... `last` */
    int64_t maximum;     /* contribute this to the maximum of the open round; -1: nothing */
    bool balance;        /* rebalance at the final iteration F, then call consensus_balanced */
    bool done;           /* all ranks have ended: nothing more is asked for */
} plb_actions_t;

typedef struct plb_consensus {
    int64_t *reach; /* [capacity], owned; the reach of the object in each slot.  2k: it waits at
                       AtSync(k); 2k - 1: it runs iteration k; negative: free, the next free slot
                       is -1 - reach */
    int64_t capacity, free; /* first free slot; `capacity`: there is none */
    int64_t n_objects;
    /* number of objects that have not finished iteration `contributed` + 1 */
    int64_t n_behind;
    int32_t lag;          /* the lag D of rule 5; 0: no lag */
    int64_t contributed;  /* the last iteration whose statistics this rank has contributed */
    int64_t seen;         /* the last iteration whose reduced statistics this rank has taken */
    int64_t round;        /* the last round to which this rank has contributed */
    int64_t limit, final; /* limit: no object goes beyond this iteration (at most F); final: F */
    int64_t end;          /* last iteration of this rank */
    bool open;            /* whether the outcome of round `round` is not known yet */
    bool balancing, done;
} plb_consensus_t;

/* One rank in a loop without barriers.  AtSync is the end of an object's iteration, where the
 * object may have to wait.  This part reduces statistics of each iteration while the program goes
 * on (Menon 3.4), shows them to the trigger, and runs the consensus on the iteration at whose end
 * to rebalance (3.6; see the top of this file).
 *
 * Objects report their load at the end of each iteration, and ask whether they may go on.  The
 * rank contributes the statistics of iteration i when its last object has finished iteration i.
 * Every rank gets the same results in the same order, so all ranks decide the same.
 *
 * The trigger's verdict leads to an LB step in one of two ways:
 *   - A forecast (verdict.next) announces the iteration of the LB step early.  Later forecasts may
 *     postpone it, advance it, or cancel it (dynamic refinement, 3.6.2).
 *   - A verdict to rebalance is final: the LB step takes place at the first possible iteration.
 * If the trigger is a user's function, it may give different answers on different ranks; then the
 * ranks would wait for each other forever.  So its answers are reduced, too, before a rank acts on
 * them.  If they differ, all ranks raise an error at the iteration of the LB step.
 *
 * No clock is read here: the caller gives `now` in nanoseconds, which may step back.  Memory is
 * allocated only when objects join and when rows are added.  Iterations count from 1. */

/* Without a lag, an object that has finished iteration k waits until the statistics of iteration
 * k - PLB_ATSYNC_WINDOW are known: a rank has room for this many rows. */
enum { PLB_ATSYNC_WINDOW = 64 };

typedef struct plb_atsync_row {
    double time;        /* seconds: time of the slowest rank, without its waiting at AtSync */
    double max, mean;   /* seconds: loads of the ranks */
    double idle;        /* mean seconds in which a rank runs no object and no other work */
    double utilization; /* lowest load / (load + idle) of a rank, 0 ... 1 (measure/measure.h) */
    double min;         /* seconds: smallest load of a rank */
    double messages;    /* number of messages between ranks */
    double bytes;       /* total size of these messages */
    double load;        /* seconds: load of this rank */
    /* seconds: with d phases, the d largest loads of a rank, then the d mean loads */
    double phase[2 * PLB_MOST_PHASES];
} plb_atsync_row_t;

typedef struct plb_atsync_options {
    int64_t
        kind; /* the field `kind` of the statistics (measure/measure.h); the same on all ranks */
    int64_t first; /* number of the loop's first iteration in the statistics and for the trigger */
    int64_t n;     /* number of iterations, 1 or more */
    int32_t lag;   /* the lag D (rule 5, see above); 0: no lag; then the program must call
                      plb_atsync_progress whenever it waits */
    bool balance;  /* rebalance when the trigger wants it; false: only measure */
} plb_atsync_options_t;

typedef enum plb_atsync_answer {
    PLB_ATSYNC_GO,      /* begin the next iteration */
    PLB_ATSYNC_PAUSE,   /* make progress, and ask again */
    PLB_ATSYNC_BALANCE, /* all objects wait at the same iteration: rebalance now */
    PLB_ATSYNC_END,     /* the last iteration is over */
    PLB_ATSYNC_FAILED,  /* a rank has failed: leave the loop */
} plb_atsync_answer_t;

/* This rank's part of an iteration whose statistics are not known yet. */
typedef struct plb_atsync_part {
    plb_exact_t load; /* sum of the loads reported so far by this rank's objects */
    double total;     /* seconds: `load` + `background`; set when the iteration is contributed */
    double phase[PLB_MOST_PHASES]; /* seconds of each phase */
} plb_atsync_part_t;

/* The trigger's wish for an LB step.  Iteration 1 of the loop is number `first` in the program. */
typedef struct plb_wish {
    int64_t first, n;
    int32_t lag;
    bool decided;       /* the trigger wants an LB step now; false: only a forecast, or none */
    int64_t decided_at; /* if `decided`: this decision's iteration, by its number in the program */
    plb_verdict_t why;  /* the verdict that decided, or the most recent one */
} plb_wish_t;

/** Convert the verdict on iteration `seen` of the loop to a wish, see plb_consensus_root_stats.
 * final: the F of the consensus before this wish. */
int64_t plb_wish_of(plb_wish_t *self, const plb_verdict_t *verdict, int64_t seen, int64_t final);

typedef struct plb_dispute { /* A user's trigger gave different answers on different ranks. */
    int64_t iteration;       /* number of the iteration in the program, see plb_wish_t.first */
    int64_t yes, no;         /* lowest rank that answered yes, and no; equal: no dispute */
} plb_dispute_t;

typedef struct plb_atsync {
    plb_atsync_options_t opt;
    const plb_reduction_t *net; /* borrowed */
    plb_trigger_t *trigger;     /* borrowed */
    plb_decider_t *decider; /* borrowed, or NULL; the caller sets it before the first iteration if
                               it is to observe the iterations; it has the same trigger */
    plb_consensus_t rank;
    plb_consensus_root_t root;
    plb_actions_t acts;
    int32_t window; /* lag, or PLB_ATSYNC_WINDOW; at most window + 1 iterations are under way */
    plb_atsync_part_t *part; /* [window + 2], owned; iteration i is at i % (window + 2) */
    double background; /* seconds of this rank's other work in an iteration, set by the caller */
    /* Set by the caller before plb_atsync_reached, if this rank runs as a whole: a fingerprint of
     * the names of the phases, their number, and this rank's seconds in each. */
    int64_t arguments, n_phases;
    double phase[PLB_MOST_PHASES];
    int64_t mark;        /* ns: when this rank last contributed */
    double busy, waited; /* seconds since `mark`: loads of objects; waiting, added by the caller */
    plb_atsync_row_t *row; /* [capacity], owned; the caller may read the rows and reset n_rows */
    int64_t n_rows, capacity;
    bool maximum; /* whether a maximum is being reduced */
    bool votes; /* whether answers of a user's trigger are being reduced (vote() in consensus.c) */
    plb_wish_t wish;
    plb_dispute_t dispute;
    int64_t n_ended; /* number of ranks that had ended, according to the last statistics */
    bool complete;   /* whether all ranks have run every iteration so far */
    bool whole;      /* `complete`, and the trigger has observed all iterations without an error */
    bool balance;    /* the consensus has asked to rebalance */
    bool done;       /* the consensus has asked to end the loop */
    bool failed;
    int64_t failed_rank; /* lowest rank known to have failed, or INT64_MAX */
} plb_atsync_t;

/** Begin without objects, before iteration 1.  `net->depth` must be at least `lag` + 2, or
 * PLB_ATSYNC_WINDOW + 2 if lag is 0.  PLB_ERR_VALUE: an option is out of its domain. */
int plb_atsync_init(plb_atsync_t *self, const plb_atsync_options_t *opt,
                    const plb_reduction_t *net, plb_trigger_t *trigger, int64_t now,
                    plb_err_t *err);

void plb_atsync_free(plb_atsync_t *self);

/** Add an object that has finished the last iteration to which this rank has contributed (at first
 * 0); *slot identifies the object.  A program that runs its rank as a whole adds one object. */
int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err);

/** Begin the loop, after the first objects were added; also on a rank without objects. */
int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Remove an object; allowed at any time.  The loads that it has reported still count. */
int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err);

/** Report that an object has finished its iteration.  load[n], n >= 0, goes to the statistics: one
 * load for each object of the program if the rank runs as a whole.  PLB_ERR_VALUE, and nothing
 * changes: a load is not in 0 ... 1e30 seconds. */
int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err);

/** Process the results that have arrived.  Local, returns at once. */
int plb_atsync_progress(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Ask what an object that waits at AtSync may do; after PLB_ATSYNC_GO it counts as running.  If
 * `slot` is -1, ask for the rank itself; then the answer is never PLB_ATSYNC_GO.  PLB_ERR_VALUE: a
 * user's trigger wants an LB step on some ranks only (see above). */
int plb_atsync_ask(plb_atsync_t *self, int64_t slot, plb_atsync_answer_t *answer, plb_err_t *err);

static inline bool plb_atsync_runs(const plb_atsync_t *self, int64_t slot)
{
    return (self->rank.reach[slot] & 1) != 0;
}

/** End the LB step, after all objects that migrate have left their ranks and joined. */
int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Leave the loop.  After this, call plb_atsync_progress until plb_atsync_over.  failed: whether
 * the other ranks must leave, too.  May be called again to report a failure. */
int plb_atsync_give_up(plb_atsync_t *self, bool failed, int64_t now, plb_err_t *err);

/** Whether no reduction is under way: all ranks have ended the loop, or are about to rebalance. */
static inline bool plb_atsync_over(const plb_atsync_t *self)
{
    return self->done || self->balance;
}
