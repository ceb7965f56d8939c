/* The decider: when to rebalance, with which strategy, and what each LB step achieved.
 *
 * The same code serves every setting: a run under MPI with or without a lag, virtual ranks, shadow
 * mode, the replay of a recorded run, a program with its own loop.  The decider reads no file or
 * message, and no clock except to measure how long a strategy takes: the same inputs give exactly
 * the same decisions.  The decider holds
 *   - the trigger, which says when an LB step is due,
 *   - the ledger of what LB steps cost and saved, which switches LB steps off if they do not pay,
 *   - the given strategy, or the selection of the strategy (Menon 3.7), which takes a distributed
 *     strategy if the load database is too large for rank 0,
 *   - the ranks' speeds, learned from object times on different ranks, and the promise of the
 *     last LB step, which says when to check whether better speed estimates would save time.
 *
 * At the end of each iteration, on every rank:
 *
 *     plb_decider_observe(d, &statistics);
 *     plb_decider_next(d, asked, may_preview, &ask);
 *     ask is PLB_ASK_JUDGE: how much time has the last LB step saved?
 *         plb_decider_judge, then plb_decider_next again
 *     PLB_ASK_PREVIEW: compute whether a new placement would save time
 *         plb_decider_preview, on the rank that has the loads
 *         plb_decider_previewed with the gain that plb_decider_preview returned, on all ranks
 *     PLB_ASK_BALANCE: rebalance
 *         plb_decider_choose, on all ranks
 *         plb_decider_place, on the rank that has the loads
 *         plb_decider_placed with the result of plb_decider_place, on all ranks
 *         plb_decider_balanced, when the objects have moved
 *
 * Calls in a wrong order give PLB_ERR_STATE, impossible values PLB_ERR_VALUE; neither changes
 * anything.  If an error elsewhere prevents an answer, call plb_decider_abandon. */
#pragma once

#include "decide/ledger.h"
#include "decide/promise.h"
#include "decide/receipt.h"
#include "decide/select.h"
#include "measure/learner.h"
#include "model/cost.h"

/* The statistics of an iteration, over all ranks (measure/stats.h). */
typedef struct plb_iteration {
    int64_t iteration;       /* its number; larger than the one before */
    double time;             /* seconds: time of the slowest rank */
    double max, mean, min;   /* seconds: largest, mean and smallest load of a rank */
    double total;            /* seconds: sum of the loads of all ranks */
    double utilization;      /* lowest load / (load + idle) of a rank, 0 ... 1 (measure/stats.h) */
    int64_t messages, bytes; /* number and bytes of messages between objects on different ranks */
} plb_iteration_t;

/* What the decider asks its caller to do. */
typedef enum plb_ask {
    PLB_ASK_NOTHING,
    PLB_ASK_JUDGE,
    PLB_ASK_PREVIEW,
    PLB_ASK_BALANCE,
} plb_ask_t;

/* params: one value for each of strategy.params */
typedef struct plb_candidate_strategy {
    plb_strategy_t strategy;
    const double *params;
} plb_candidate_strategy_t;

typedef struct plb_decider_options {
    int32_t n_ranks;
    /* [n], copied with their parameters; if `selects`, distributed strategies come last */
    const plb_candidate_strategy_t *candidates;
    int32_t n;
    bool selects;            /* true: choose a candidate per LB step (Menon 3.7); false: n is 1 */
    const double *selection; /* [PLB_N_SELECTION] parameters of the choice (select.h) */
    const double *ledger;    /* [PLB_N_LEDGER] parameters of the ledger (ledger.h) */
    bool gives_up;           /* switch LB steps off while they do not pay */
    bool learns;             /* learn the ranks' speeds; false: use only given speeds */
    bool watches; /* check whether the last LB step achieves what it predicted (promise.h) */
    plb_network_t network; /* cost of messages; zeros: messages cost nothing */
    uint64_t seed;
    int64_t keep; /* how many receipts to keep (plb_receipts_thin); 0: all */
} plb_decider_options_t;

typedef struct plb_decider {
    plb_decider_options_t opt;
    plb_trigger_t *trigger;               /* borrowed */
    plb_candidate_strategy_t *candidates; /* owned, with their parameters */
    plb_candidate_t *traits;              /* owned: the candidates as the selection sees them */
    double *left;      /* owned: max/mean that each candidate predicted last; NAN: it never ran */
    double foreseen;   /* expected seconds of a first LB step if all objects move; NAN: unknown */
    double moving;     /* part of `foreseen` for the migrations; NAN: not known */
    double per_byte;   /* seconds of migration per byte that leaves a rank; NAN: not known */
    double most_bytes; /* most bytes that leave a rank in this LB step; 0: not known here */
    plb_ledger_t ledger;
    plb_selector_t selector;
    int64_t limit; /* memory limit of rank 0 in bytes; negative: none */
    plb_promise_t promise;
    plb_learner_t learner;
    int64_t end;          /* number of the last iteration plus 1; INT64_MAX: not known */
    plb_iteration_t seen; /* the last observed iteration */
    bool started;         /* whether an iteration was observed */
    /* Number of iterations since the last LB step, and sums of their max, mean and min. */
    double n_since, sum_max, sum_mean, sum_min;
    double grown;           /* seconds by which max - mean has grown in the last iteration */
    double usual;           /* mean of |grown|; older iterations count less */
    bool sudden;            /* whether the loads jumped in the last iteration (watch_jumps) */
    double jumps, observed; /* number of iterations with a jump; of all iterations */
    int64_t cycle;          /* index of the first receipt since the last LB step */
    bool judging;           /* whether the caller must still give the gain of the last LB step */
    bool previewing;        /* whether the caller must still give the result of a preview */
    double found; /* seconds per iteration that the previewed LB step would save; NAN: none */
    /* The LB step under way. */
    bool pending;  /* whether an LB step has begun */
    bool answered; /* whether the placement of that LB step is known */
    int32_t chosen;
    int32_t instead;         /* a refinement strategy that may replace `chosen`; -1: none */
    int64_t n_objects;       /* number of objects on all ranks; 0: not known */
    plb_receipt_t next;      /* receipt of that LB step */
    plb_receipt_t *receipts; /* owned */
    int64_t n_receipts, capacity;
    int64_t held_before;   /* old `until` of the receipt that hold() in decider.c changed last */
    int64_t last;          /* index of the receipt of the last LB step; -1: there was none */
    plb_dropped_t dropped; /* sums over the receipts that were dropped to save memory */
    int64_t n_balancings;
} plb_decider_t;

int plb_decider_init(plb_decider_t *self, const plb_decider_options_t *opt, plb_trigger_t *trigger,
                     plb_err_t *err);
void plb_decider_free(plb_decider_t *self);

/** Set the cost of messages; only before the first iteration and the first LB step. */
int plb_decider_network(plb_decider_t *self, plb_network_t network, plb_err_t *err);

/** Set the memory limit of rank 0 in bytes; negative: none. */
void plb_decider_limit(plb_decider_t *self, int64_t bytes);

/** Set the end of the run and the expected cost of the first LB step; see plb_trigger_expect.
 * moving: seconds of this cost that the migrations take if all objects move; NAN: not known. */
int plb_decider_expect(plb_decider_t *self, int64_t end, double cost, double moving,
                       plb_err_t *err);

/** Whether the decider would use an estimate of the cost of a first LB step. */
bool plb_decider_foresees(const plb_decider_t *self);

/** Observe an iteration; the trigger's verdict is then in self->trigger->verdict. */
int plb_decider_observe(plb_decider_t *self, const plb_iteration_t *it, plb_err_t *err);

/** Observe a snapshot as iteration 0: its objects on their present ranks. */
int plb_decider_see(plb_decider_t *self, const plb_snapshot_t *in, plb_err_t *err);

/** Decide what to do now (see the top of this file).  asked: whether a verdict asks for an LB
 * step.  may_preview: whether a preview is possible and useful, e.g. not at the end of a loop. */
int plb_decider_next(plb_decider_t *self, bool asked, bool may_preview, plb_ask_t *ask,
                     plb_err_t *err);

/** Take `gain`: seconds saved so far by the last LB step, compared with the placement before. */
int plb_decider_judge(plb_decider_t *self, double gain, plb_err_t *err);

/** Whether there were iterations since the last LB step, or since its last judgement, if any. */
bool plb_decider_can_judge(const plb_decider_t *self);

/* The load database, on the rank where it was gathered. */
typedef struct plb_database {
    plb_snapshot_t snapshot; /* its loads are the expected seconds; it must have keys */
    const double *here;  /* [n_objects] mean seconds on the present rank; NULL: learn no speeds */
    const double *work;  /* [n_objects] the user's estimates of the work, in any unit; or NULL */
    const double *drift; /* [n_objects] growth of the loads, seconds per iteration; or NULL */
} plb_database_t;

/** Estimate *gain, the seconds per iteration that a new placement would save.  The placement uses
 * the ranks' speeds if these differ.  If no different speeds are known, but a rank has changed its
 * speed, or the last LB step has achieved far less than predicted, it uses the loads alone.
 * Otherwise *gain is 0. */
int plb_decider_preview(plb_decider_t *self, const plb_database_t *db, double *gain,
                        plb_err_t *err);

/** Take `gain`, the answer of plb_decider_preview.  *ask is PLB_ASK_BALANCE if this gain would
 * repay an LB step until the end of the run, else PLB_ASK_NOTHING.  If the end is not known, as
 * many iterations are expected to follow as have run. */
int plb_decider_previewed(plb_decider_t *self, double gain, plb_ask_t *ask, plb_err_t *err);

/** Begin an LB step and choose its strategy, self->chosen.  why: the verdict that asked for it;
 * NULL: the most recent one.  n_objects: on all ranks; 0: unknown, take a central strategy. */
int plb_decider_choose(plb_decider_t *self, const plb_verdict_t *why, int64_t n_objects,
                       plb_err_t *err);

/** For plb_decider_choose: set self->chosen, self->instead and the reason. */
int plb_decider_select(plb_decider_t *self, plb_err_t *err);

/** Whether candidate i is a distributed strategy. */
bool plb_decider_in_rounds(const plb_decider_t *self, int32_t i);

/** Place the objects.  Call this on the rank that has the loads.  Writes rank[n_objects], and the
 * learned or given speed[n_ranks]; zeros: all ranks count as equally fast, or each rank knows only
 * its own speed.  The placement of self->instead is taken if it moves fewer objects and leaves at
 * most `tolerance` (select.h) times the max/mean of the chosen strategy. */
int plb_decider_place(plb_decider_t *self, const plb_database_t *db, int32_t *rank, double *speed,
                      plb_placing_t *out, plb_err_t *err);

enum { PLB_DECIDER_SAMPLE = 32, PLB_DECIDER_MOST_SAMPLED = 1 << 18 };

/** With a distributed strategy, speeds are learned from a sample of the objects.  Return its size
 * as a fraction of all objects: on average PLB_DECIDER_SAMPLE objects of a rank, but at most
 * PLB_DECIDER_MOST_SAMPLED in all, so that learning takes little time on rank 0. */
double plb_decider_sample(int64_t n_objects, int32_t n_ranks);

/** Write the indices of the sampled objects to out[n]; return their number. */
int64_t plb_decider_sampled(const int64_t *key, int64_t n, double fraction, int64_t *out);

/** Learn speed[n_ranks] from the sample, on the rank that has it; zeros: all are equally fast. */
int plb_decider_learn(plb_decider_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                      const double *here, const double *work, double *speed, plb_err_t *err);

/** Return the fraction of its memory limit that a rank uses.  held: bytes in use; limit: bytes. */
double plb_decider_full(int64_t held, int64_t limit);

/** Take the result of plb_decider_place, on all ranks.  speed: may be NULL. */
int plb_decider_placed(plb_decider_t *self, const plb_placing_t *placing, const double *speed,
                       plb_err_t *err);

/* What an LB step did, over all ranks.  Seconds are those of the slowest rank. */
typedef struct plb_step_done {
    int64_t migrations, bytes; /* objects that migrated, and their bytes */
    double seconds_migration;  /* seconds of the migrations; NAN: not known */
    double cost;               /* seconds of the whole LB step */
    bool moved;                /* false: nothing has moved (shadow mode) */
    bool given; /* `cost` is the whole cost, even zero; false: the larger of `cost` and the sum of
                   its known parts counts */
} plb_step_done_t;

/** End the LB step, and write its receipt, on all ranks.  Needs no memory: the other ranks may
 * have gone on, and would not learn that this rank has failed. */
int plb_decider_balanced(plb_decider_t *self, const plb_step_done_t *done, plb_err_t *err);

/** After a failure: cancel the open question, or the LB step that has begun. */
void plb_decider_abandon(plb_decider_t *self);

/** Update max/mean and idle times since the last LB step in its receipt. */
void plb_decider_settle(plb_decider_t *self);
