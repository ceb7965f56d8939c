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

enum { PLB_ATSYNC_WINDOW = 64 }; /* iterations that an object may be ahead without a lag */

/* The figures of an iteration. */
typedef struct plb_atsync_row {
    double time;        /* s, longest time of a rank's program, without waiting here */
    double max, mean;   /* loads of the ranks */
    double idle;        /* s, mean over the ranks of the time in which no object ran */
    double utilization; /* the lowest of a rank (eq. 3.2) */
    double min;         /* load of the least loaded rank */
    double messages;    /* between ranks */
    double bytes;       /* of these */
    double load;        /* of this rank */
} plb_atsync_row_t;

typedef struct plb_atsync_options {
    int64_t kind;  /* of the statistics, the same on all ranks */
    int64_t first; /* number of iteration 1 in the statistics and for the trigger */
    int64_t n;     /* iterations of the loop, 1 or more */
    int32_t lag;   /* D; 0: none, then every wait must serve the balancer */
    bool balance;  /* false: only measure */
} plb_atsync_options_t;

typedef enum plb_atsync_answer {
    PLB_ATSYNC_GO,      /* begin the next iteration */
    PLB_ATSYNC_PAUSE,   /* serve, and ask again */
    PLB_ATSYNC_BALANCE, /* all objects of all ranks stand at one iteration: balance now */
    PLB_ATSYNC_END,     /* that was the last iteration */
    PLB_ATSYNC_FAILED,  /* another rank has failed: leave */
} plb_atsync_answer_t;

typedef struct plb_atsync_part { /* of an iteration whose statistics are not known yet */
    plb_exact_t load;            /* sum of what this rank's objects have reported so far */
    double total;                /* the same, rounded, after it was contributed */
} plb_atsync_part_t;

/* The iteration of a loop at which the trigger's verdicts ask to balance.  Iterations of the loop
 * count from 1, those of the program from `first`. */
typedef struct plb_wish {
    int64_t first, n; /* of the loop */
    int32_t lag;
    bool decided;       /* the trigger has decided; false: at most a forecast */
    int64_t decided_at; /* iteration whose statistics decided, in the trigger's numbers */
    plb_verdict_t why;  /* its verdict on that iteration */
} plb_wish_t;

/** The wish for the root of the consensus that follows from the verdict on iteration `seen` of the
 *  loop, or PLB_WISH_NONE.  `final`: the root's final iteration. */
int64_t plb_wish_of(plb_wish_t *self, const plb_verdict_t *verdict, int64_t seen, int64_t final);

typedef struct plb_atsync {
    plb_atsync_options_t opt;
    const plb_reduction_t *net; /* borrowed */
    plb_trigger_t *trigger;     /* borrowed */
    plb_decider_t *decider;     /* borrowed; NULL: only the trigger */
    plb_consensus_t rank;
    plb_consensus_root_t root;
    plb_actions_t acts;
    int32_t window;          /* D, or PLB_ATSYNC_WINDOW */
    plb_atsync_part_t *part; /* [window + 2], owned: iteration i at i % (window + 2) */
    int64_t mark;            /* ns: when the last statistics were contributed */
    double busy, waited;     /* s since then in which objects ran, and in which it waited here */
    plb_atsync_row_t *row;   /* [capacity], owned: the n_rows known iterations */
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

/** Let a decider with this trigger observe each iteration, too; call before the first one. */
void plb_atsync_decide(plb_atsync_t *self, plb_decider_t *decider);
void plb_atsync_free(plb_atsync_t *self);

/** Add an object, which has finished as many iterations as all objects of this rank; `slot`
 * identifies it.  A program that runs its rank as a whole adds one. */
int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err);

/** The first objects have been added: from now on, a rank without objects takes part, too. */
int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** Remove an object, at any point; what it has done counts. */
int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err);

/** An object has finished its iteration.  Its n >= 0 loads (0 ... 1e30 seconds; one per object if
 * the rank runs as a whole) go to the statistics. */
int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err);

/** Process the results that have arrived.  Local, returns at once. */
int plb_atsync_progress(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** What an object that stands at AtSync may do; after PLB_ATSYNC_GO it runs.  slot -1: the rank
 * itself, which only pauses, balances or ends. */
int plb_atsync_ask(plb_atsync_t *self, int64_t slot, plb_atsync_answer_t *answer, plb_err_t *err);

/** Whether the object is running an iteration. */
bool plb_atsync_runs(const plb_atsync_t *self, int64_t slot);

/** The LB step is over, all objects have left or joined. */
int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err);

/** This rank leaves the loop; it must keep serving until plb_atsync_over.  `failed`: the other
 * ranks must leave, too.  May be called again to report a failure. */
int plb_atsync_give_up(plb_atsync_t *self, bool failed, int64_t now, plb_err_t *err);

/** Whether nothing is under way any more: all ranks have ended, or are about to balance. */
bool plb_atsync_over(const plb_atsync_t *self);

#endif
