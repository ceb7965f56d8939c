/* One rank at AtSync: the statistics of each iteration (Menon 3.4), reduced while the program goes
 * on, the trigger that sees them, and the consensus on the iteration that balances (3.6).
 *
 * It drives the state machines of consensus.h.  Objects report the end of each iteration with
 * their load and ask whether they may go on; the rank contributes the statistics of iteration i
 * when its last object has finished it, several iterations may be under way.  Every rank sees the
 * same results in the same order, and so its trigger and its root decide alike.
 *
 * What the trigger says becomes a period so:
 *   - a forecast (verdict.next) announces the final iteration early; later forecasts extend it,
 *     reduce it or drop it (dynamic refinement, 3.6.2);
 *   - a verdict that balances is a decision: the first iteration that is free, and it stands.
 *
 * No clock is read here: `now` is the caller's, in nanoseconds, and may step back.  Only objects
 *that join and the rows take memory.  Iterations count from 1. / */
#ifndef PLB_DECIDE_ATSYNC_H
#define PLB_DECIDE_ATSYNC_H

#include "decide/consensus.h"
#include "decide/decider.h"
#include "decide/trigger.h"
#include "measure/reduction.h"

enum { PLB_ATSYNC_WINDOW = 64 }; /* iterations an object may be ahead where there is no lag */

/* What is known of an iteration; seconds but for the utilization. */
typedef struct plb_atsync_row {
    double time;        /* the longest that a rank's program took, without waiting here */
    double max, mean;   /* loads of the ranks */
    double idle;        /* mean over the ranks: no object ran */
    double utilization; /* the lowest of a rank (eq. 3.2) */
    double min;         /* load of the least loaded rank */
    double messages;    /* between ranks */
    double bytes;       /* of these */
    double load;        /* of this rank */
} plb_atsync_row_t;

typedef struct plb_atsync_options {
    int64_t kind;  /* of the statistics, the same on all ranks */
    int64_t first; /* what iteration 1 is called in them, and to the trigger */
    int64_t n;     /* iterations of the loop, 1 or more */
    int32_t lag;   /* D; 0: none, and every wait must be one that serves the balancer */
    bool balance;  /* false: watch only */
} plb_atsync_options_t;

typedef enum plb_atsync_answer {
    PLB_ATSYNC_GO,      /* begin the next iteration */
    PLB_ATSYNC_PAUSE,   /* serve, and ask again */
    PLB_ATSYNC_BALANCE, /* all objects of all ranks stand at one iteration: balance now */
    PLB_ATSYNC_END,     /* that was the last iteration */
    PLB_ATSYNC_FAILED,  /* another rank has failed: leave */
} plb_atsync_answer_t;

typedef struct plb_atsync_part { /* of an iteration whose statistics are not known yet */
    plb_exact_t load;            /* what this rank's objects have reported so far */
    double total;                /* the same, rounded, once it was contributed */
} plb_atsync_part_t;

/* What a trigger's verdicts become in a loop: the iteration that it wishes to balance at.
 * Iterations of the loop count from 1, those of the program from `first`. */
typedef struct plb_wish {
    int64_t first, n; /* of the loop */
    int32_t lag;
    bool decided;       /* the trigger has decided, not only forecast */
    int64_t decided_at; /* iteration whose statistics decided, as the trigger calls it */
    plb_verdict_t why;  /* what the trigger said there */
} plb_wish_t;

/** The period that the verdict on iteration `seen` of the loop wishes, for the root of the
 *  consensus, whose final iteration is `final`; PLB_WISH_NONE. */
int64_t plb_wish_of(plb_wish_t *self, const plb_verdict_t *verdict, int64_t seen, int64_t final);

typedef struct plb_atsync {
    plb_atsync_options_t opt;
    const plb_reduction_t *net; /* borrowed */
    plb_trigger_t *trigger;     /* borrowed */
    plb_decider_t *decider;     /* borrowed; NULL: the trigger is alone */
    plb_consensus_t rank;
    plb_consensus_root_t root;
    plb_actions_t acts;
    int32_t window;          /* D, or PLB_ATSYNC_WINDOW */
    plb_atsync_part_t *part; /* [window + 2], owned: iteration i at i % (window + 2) */
    int64_t mark;            /* ns: when the last statistics were contributed */
    double busy, waited;     /* s since then: objects ran; waited here */
    plb_atsync_row_t *row;   /* [capacity], owned: of the iterations that are known, n_rows */
    int64_t n_rows, capacity;
    bool maximum; /* a maximum is under way */
    plb_wish_t wish;
    bool whole;          /* all ranks have run every iteration so far */
    bool balance, done;  /* what the consensus has asked for */
    bool failed;         /* this rank */
    int64_t failed_rank; /* lowest rank that is known to have failed, or INT64_MAX */
} plb_atsync_t;

/** A rank without objects before iteration 1.  `net->depth` must be `lag` + 2 or more (where lag
 *  is 0: PLB_ATSYNC_WINDOW + 2).  PLB_ERR_VALUE: an option is out of its domain. */
int plb_atsync_init(plb_atsync_t *self, const plb_atsync_options_t *opt,
                    const plb_reduction_t *net, plb_trigger_t *trigger, int64_t now,
                    plb_err_t *err);

/** The decider of this trigger learns of each iteration too; before the first one. */
void plb_atsync_decide(plb_atsync_t *self, plb_decider_t *decider);
void plb_atsync_free(plb_atsync_t *self);

/** An object joins, standing where all of this rank are through; its slot is its name.  A program
 *  that runs its rank as a whole joins once. */
int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err);

/** The first objects have joined: also a rank without any takes part from now on. */
int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** An object leaves, wherever it is.  What it did counts. */
int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err);

/** An object is through its iteration.  Its n >= 0 loads (one for each object where the rank runs
 *  as a whole; 0 ... 1e30 seconds) go to the statistics. */
int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err);

/** Take what has come.  Local, returns at once. */
int plb_atsync_progress(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** What an object that stands may do; after PLB_ATSYNC_GO it runs.  slot -1: the rank itself,
 *  which only pauses, balances or ends. */
int plb_atsync_ask(plb_atsync_t *self, int64_t slot, plb_atsync_answer_t *answer, plb_err_t *err);

/** Whether the object runs an iteration. */
bool plb_atsync_runs(const plb_atsync_t *self, int64_t slot);

/** The LB step is over, all objects have left or joined. */
int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** This rank leaves the loop; it serves on until plb_atsync_over.  `failed`: and the others shall
 *  leave too.  Can be called again, to say that it failed. */
int plb_atsync_give_up(plb_atsync_t *self, bool failed, int64_t now, plb_err_t *err);

/** Nothing is under way any more: all ranks have ended, or are about to balance. */
bool plb_atsync_over(const plb_atsync_t *self);

#endif
