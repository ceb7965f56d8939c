/* One rank in a loop without barriers.  AtSync is the end of an object's iteration, where it may
 * have to wait.  This file reduces statistics of each iteration while the program goes on (Menon
 * 3.4), shows them to the trigger, and runs the consensus on the iteration at whose end to
 * rebalance (3.6; consensus.h).
 *
 * Objects report their load at the end of each iteration, and ask whether they may go on.  The
 * rank contributes the statistics of iteration i when its last object has finished iteration i.
 * Several iterations may be under way.  Every rank gets the same results in the same order, so
 * all ranks decide the same.
 *
 * The trigger's verdict leads to an LB step in one of two ways:
 *   - A forecast (verdict.next) announces the iteration of the LB step early.  Later forecasts may
 *     postpone it, advance it, or cancel it (dynamic refinement, 3.6.2).
 *   - A verdict to rebalance is final: the LB step takes place at the first possible iteration.
 * If the trigger is a user's function, it may give different answers on different ranks; then the
 * ranks would wait for each other forever.  So the answers of this function are reduced, too,
 * before a rank acts on them.  If the answers differ, all ranks raise an error at the iteration of
 * the LB step.
 *
 * No clock is read here: the caller gives `now` in nanoseconds, which may step back.  Memory is
 * allocated only when objects join and when rows are added.  Iterations count from 1. */
#pragma once

#include "decide/consensus.h"
#include "decide/decider.h"
#include "decide/trigger.h"
#include "measure/reduction.h"

/* Without a lag, an object that has finished iteration k waits until the statistics of iteration
 * k - PLB_ATSYNC_WINDOW are known. */
enum { PLB_ATSYNC_WINDOW = 64 };

/* The statistics of an iteration. */
typedef struct plb_atsync_row {
    double time; /* seconds: time of the slowest rank's program, without its waiting at AtSync */
    double max, mean;   /* seconds: loads of the ranks */
    double idle;        /* seconds: mean over the ranks of the time without work: neither an object
                           nor other work (`background`) ran */
    double utilization; /* lowest load / (load + idle) of a rank, 0 ... 1 (measure/stats.h) */
    double min;         /* seconds: load of the least loaded rank */
    double messages;    /* number of messages between ranks */
    double bytes;       /* bytes of the messages between ranks */
    double load;        /* seconds: load of this rank */
} plb_atsync_row_t;

typedef struct plb_atsync_options {
    int64_t kind; /* the field `kind` of the statistics (measure/stats.h); the same on all ranks */
    int64_t first; /* the number of iteration 1 in the statistics and for the trigger */
    int64_t n;     /* iterations of the loop, 1 or more */
    int32_t lag;   /* the lag D (rule 5 of consensus.h); 0: no lag; then the program must
                      call plb_atsync_progress whenever it waits */
    bool balance;  /* true: rebalance when the trigger wants it; false: only measure */
} plb_atsync_options_t;

typedef enum plb_atsync_answer {
    PLB_ATSYNC_GO,      /* begin the next iteration */
    PLB_ATSYNC_PAUSE,   /* make progress, and ask again */
    PLB_ATSYNC_BALANCE, /* all objects of all ranks wait at the same iteration: rebalance now */
    PLB_ATSYNC_END,     /* the last iteration is over */
    PLB_ATSYNC_FAILED,  /* a rank has failed: leave the loop */
} plb_atsync_answer_t;

/* This rank's part of an iteration whose statistics are not known yet. */
typedef struct plb_atsync_part {
    plb_exact_t load; /* sum of the loads that this rank's objects have reported so far */
    double total;     /* seconds: `load`, rounded, plus `background`; set when this rank
                         contributes the iteration */
} plb_atsync_part_t;

/* The trigger's wish for an LB step at a certain iteration.  The n iterations of the loop count
 * from 1; the program and the trigger count from `first`. */
typedef struct plb_wish {
    int64_t first, n;
    int32_t lag;
    bool decided; /* true: the trigger wants an LB step at once; false: the trigger has only made a
                     forecast, or wants no LB step */
    int64_t decided_at; /* if `decided`: number, counted from `first`, of the iteration after which
                           the trigger decided so */
    plb_verdict_t why;  /* if `decided`: the verdict that said so; else the most recent verdict */
} plb_wish_t;

/** Convert the verdict on iteration `seen` of the loop to a wish for the consensus, see
 * plb_consensus_root_stats.  `final`: the final iteration F of the consensus before this wish. */
int64_t plb_wish_of(plb_wish_t *self, const plb_verdict_t *verdict, int64_t seen, int64_t final);

typedef struct plb_dispute { /* A user's trigger gave different answers on different ranks. */
    int64_t iteration;       /* number of the iteration, counted from plb_wish_t.first */
    int64_t yes, no; /* the lowest rank that wants an LB step, and the lowest rank that does not;
                        equal: there is no dispute */
} plb_dispute_t;

typedef struct plb_atsync {
    plb_atsync_options_t opt;
    const plb_reduction_t *net; /* borrowed */
    plb_trigger_t *trigger;     /* borrowed */
    plb_decider_t *decider;     /* borrowed; NULL: only the trigger */
    plb_consensus_t rank;
    plb_consensus_root_t root;
    plb_actions_t acts;
    int32_t window; /* the lag, or PLB_ATSYNC_WINDOW without a lag; up to window + 1 iterations may
                       be under way */
    plb_atsync_part_t *part; /* [window + 2], owned; iteration i is at i % (window + 2) */
    double background; /* seconds of this rank's other work in an iteration; the caller may set it
                          at any time */
    int64_t mark;      /* ns: when this rank last contributed statistics */
    double busy, waited;   /* seconds since `mark`: busy: in which objects ran; waited: in which
                              this rank waited at AtSync (the caller adds to it) */
    plb_atsync_row_t *row; /* [capacity], owned: the statistics of the n_rows known iterations; the
                              caller may read the rows and then set n_rows to 0 */
    int64_t n_rows, capacity;
    bool maximum; /* whether a maximum is being reduced */
    bool votes;   /* whether answers of a user's trigger are being reduced (vote() in atsync.c) */
    plb_wish_t wish;
    plb_dispute_t dispute;
    int64_t n_ended; /* number of ranks that had ended, by the last reduced statistics */
    bool complete;   /* whether all ranks have run every iteration so far */
    bool whole;   /* true: all ranks have run every iteration so far, and the trigger has observed
                     all iterations without an error; false: a rank has left, or the trigger has
                     failed */
    bool balance; /* whether the consensus has asked to rebalance */
    bool done;    /* whether the consensus has asked to end the loop */
    bool failed;  /* whether this rank has failed */
    int64_t failed_rank; /* lowest rank that is known to have failed, or INT64_MAX */
} plb_atsync_t;

/** Begin as a rank without objects, before iteration 1.  `net->depth` must be at least `lag` + 2,
 *  or PLB_ATSYNC_WINDOW + 2 if lag is 0.  PLB_ERR_VALUE: an option is out of its domain. */
int plb_atsync_init(plb_atsync_t *self, const plb_atsync_options_t *opt,
                    const plb_reduction_t *net, plb_trigger_t *trigger, int64_t now,
                    plb_err_t *err);

/** Let a decider observe each iteration; the decider passes it on to its trigger, which must be
 * the trigger of plb_atsync_init.  Call this before the first iteration. */
void plb_atsync_decide(plb_atsync_t *self, plb_decider_t *decider);
void plb_atsync_free(plb_atsync_t *self);

/** Add an object that has finished the last iteration to which this rank has contributed (at first
 * 0); *slot identifies the object.  A program that runs its rank as a whole adds one object. */
int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err);

/** Begin the loop, after the first objects were added.  A rank without objects must call this,
 * too. */
int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Remove an object; allowed at any time.  The loads that it has reported still count. */
int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err);

/** Report that an object has finished its iteration.  load[n], n >= 0 (0 ... 1e30 seconds; if the
 * rank runs as a whole, one load for each object of the program), goes to the statistics.
 * PLB_ERR_VALUE, and nothing changes: a load is out of this range. */
int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err);

/** Process the results that have arrived.  Local, returns at once. */
int plb_atsync_progress(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Ask what an object that waits at AtSync may do; after the answer PLB_ATSYNC_GO the object
 * counts as running.  slot -1: ask for the rank itself; then the answer is never PLB_ATSYNC_GO.
 * PLB_ERR_VALUE: a user's trigger wants an LB step on some ranks only (see above). */
int plb_atsync_ask(plb_atsync_t *self, int64_t slot, plb_atsync_answer_t *answer, plb_err_t *err);

/** Whether the object is running an iteration. */
bool plb_atsync_runs(const plb_atsync_t *self, int64_t slot);

/** End the LB step.  Call it when all objects that migrate have left their ranks and joined. */
int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Leave the loop; call plb_atsync_progress until plb_atsync_over is true.  failed: true: the
 * other ranks must leave, too; false: they go on.  May be called again to report a failure. */
int plb_atsync_give_up(plb_atsync_t *self, bool failed, int64_t now, plb_err_t *err);

/** Whether no reduction is under way: all ranks have ended the loop, or are about to rebalance. */
bool plb_atsync_over(const plb_atsync_t *self);
