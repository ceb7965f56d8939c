/* The decider: when to rebalance, with which strategy, and what each LB step achieved.
 *
 * It reads no file or message, and no clock except to measure how long a strategy takes.  It is
 * the same in every setting: a run under MPI with or without a lag, virtual ranks, shadow mode,
 * the replay of a recorded run, a program with its own loop.  The same inputs give exactly the
 * same decisions.  It holds
 *   - the trigger, which says when an LB step is due,
 *   - the ledger of what LB steps cost and saved, which switches them off if they do not pay,
 *   - the selection of the strategy (Menon 3.7), or the given strategy; it selects a distributed
 *     one if the work on rank 0 would take too long (central.h),
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
 *         plb_decider_previewed with its answer, on all ranks
 *     PLB_ASK_BALANCE: rebalance
 *         plb_decider_choose, on all ranks
 *         plb_decider_place, on the rank that has the loads
 *         plb_decider_placed with its answer, on all ranks
 *         plb_decider_balanced, when the objects have moved
 *
 * Calls in a wrong order give PLB_ERR_STATE, impossible values PLB_ERR_VALUE; neither changes
 * anything.  If an error elsewhere prevents an answer, call plb_decider_abandon. */
#pragma once

#include "decide/central.h"
#include "decide/ledger.h"
#include "decide/promise.h"
#include "decide/receipt.h"
#include "decide/select.h"
#include "measure/learner.h"
#include "model/cost.h"

/* The statistics of an iteration, over all ranks (measure/stats.h). */
typedef struct plb_iteration {
    int64_t iteration;       /* number of the iteration; numbers increase */
    double time;             /* seconds, time of the slowest rank */
    double max, mean, min;   /* seconds: loads of the ranks */
    double total;            /* seconds: sum over all ranks */
    double utilization;      /* utilization of the least utilized rank (Menon eq. 3.2) */
    int64_t messages, bytes; /* sent between objects on different ranks */
} plb_iteration_t;

/* What the decider asks its caller to do. */
typedef enum plb_ask {
    PLB_ASK_NOTHING,
    PLB_ASK_JUDGE,
    PLB_ASK_PREVIEW,
    PLB_ASK_BALANCE,
} plb_ask_t;

/* A strategy and the values of its parameters, in the order of its table. */
typedef struct plb_candidate_strategy {
    plb_strategy_t strategy;
    const double *params;
} plb_candidate_strategy_t;

typedef struct plb_decider_options {
    int32_t n_ranks;
    /* [n]; copied with their parameters.  If strategies are selected, the distributed ones come
     * last. */
    const plb_candidate_strategy_t *candidates;
    int32_t n;
    bool selects;            /* true: choose one for each LB step (Menon 3.7); false: n is 1 */
    const double *selection; /* [PLB_N_SELECTION] parameters */
    const double *ledger;    /* [PLB_N_LEDGER] parameters */
    bool gives_up;           /* true: switch LB steps off while they do not pay; false: never */
    bool learns;             /* true: learn the ranks' speeds; false: do not */
    bool watches; /* true: check whether the last LB step achieves what it predicted (promise.h) */
    plb_network_t network; /* cost of messages; zeros: messages cost nothing */
    uint64_t seed;         /* seed of strategies that draw random numbers */
    int64_t keep;          /* how many receipts to keep, see plb_receipts_thin; 0: all */
} plb_decider_options_t;

typedef struct plb_decider {
    plb_decider_options_t opt;
    plb_trigger_t *trigger;               /* borrowed */
    plb_candidate_strategy_t *candidates; /* owned, with their parameters */
    plb_candidate_t *traits; /* owned: family of each candidate and what its placement depends on,
                                for the selection */
    double *left; /* owned: max/mean predicted at the last LB step of each candidate; NAN: it never
                     ran */
    double foreseen;   /* expected seconds of a first LB step in which all objects move; NAN: not
                          known */
    double moving;     /* seconds of this cost that depend on what moves; NAN: not known */
    double per_byte;   /* seconds of migration per byte that leaves a rank; NAN: not known */
    double most_bytes; /* largest number of bytes that leave a rank in this LB step; known on the
                          placing rank only */
    plb_ledger_t ledger;
    plb_selector_t selector;
    plb_central_t central;
    plb_promise_t promise;
    plb_learner_t learner;
    int64_t end; /* number of the last iteration plus 1; INT64_MAX: not known */
    plb_iteration_t seen;
    bool started;
    /* Sums over the iterations since the last LB step. */
    double n_since, sum_max, sum_mean, sum_min;
    double grown;           /* seconds by which max - mean has grown in the last iteration */
    double usual;           /* mean of |grown|, in which older iterations count less */
    bool sudden;            /* whether the loads have jumped in the last iteration */
    double jumps, observed; /* number of jumps, and of iterations, since the start */
    int64_t cycle;          /* index of the first receipt since the last LB step */
    bool judging;    /* whether the caller was asked for the gain of the last LB step, and has not
                        answered yet */
    bool previewing; /* whether the caller was asked for a preview, and has not answered yet */
    double found; /* seconds per iteration that a preview expects to save; NAN: no preview led to
                     this LB step */
    /* The LB step under way. */
    bool pending;      /* whether an LB step has begun */
    bool answered;     /* whether that LB step has its placement */
    int32_t chosen;    /* index of the chosen strategy */
    int32_t instead;   /* index of a refinement that may replace the chosen strategy; -1: none */
    int64_t n_objects; /* number of objects on all ranks; 0: not known */
    plb_receipt_t next;
    plb_receipt_t *receipts; /* owned */
    int64_t n_receipts, capacity;
    int64_t held_before; /* in the receipt that hold() (decider.c) changed last: the value of
                            `until` before this change */
    int64_t last;        /* index of the receipt of the last LB step; -1: there was none */
    plb_dropped_t dropped;
    int64_t n_balancings;
} plb_decider_t;

int plb_decider_init(plb_decider_t *self, const plb_decider_options_t *opt, plb_trigger_t *trigger,
                     plb_err_t *err);
void plb_decider_free(plb_decider_t *self);

/** Set the cost of messages, if it was measured after plb_decider_init.  Call it before the first
 *  iteration and the first LB step. */
int plb_decider_network(plb_decider_t *self, plb_network_t network, plb_err_t *err);

/** Set the memory limit of rank 0 in bytes; negative: none. */
void plb_decider_limit(plb_decider_t *self, int64_t bytes);

/** Set the end of the run and the expected cost of the first LB step; see plb_trigger_expect.
 * moving: the seconds of this cost that would be spent on objects if all of them moved; NAN: not
 * known. */
int plb_decider_expect(plb_decider_t *self, int64_t end, double cost, double moving,
                       plb_err_t *err);

/** Whether the decider would use an estimate of the cost of a first LB step. */
bool plb_decider_foresees(const plb_decider_t *self);

/** Observe an iteration that is over; the trigger's verdict is then in self->trigger->verdict. */
int plb_decider_observe(plb_decider_t *self, const plb_iteration_t *it, plb_err_t *err);

/** Decide what to do now (see the top of this file).  asked: true: this verdict or an earlier one
 * asks for an LB step; false: none does.  may_preview: false: this is the end of a loop, where a
 * preview is useless; true: it is not. */
int plb_decider_next(plb_decider_t *self, bool asked, bool may_preview, plb_ask_t *ask,
                     plb_err_t *err);

/** Take `gain`, the seconds that the last LB step has saved up to now, compared with the placement
 * before it. */
int plb_decider_judge(plb_decider_t *self, double gain, plb_err_t *err);

/** Whether there is anything to judge: the last LB step moved objects, and iterations have
 * followed. */
bool plb_decider_can_judge(const plb_decider_t *self);

/* The load database, on the rank where it was gathered. */
typedef struct plb_database {
    plb_snapshot_t snapshot; /* load: expected seconds; keys are needed */
    const double *here;      /* [n_objects] mean seconds on the present rank; NULL: not learning */
    const double *work;      /* [n_objects] the user's own estimates, or NULL */
    const double *drift; /* [n_objects] seconds by which the loads grow per iteration, or NULL */
} plb_database_t;

/** Estimate the seconds per iteration that a new placement would save.  It uses the ranks' speeds
 * if these differ.  It uses the loads alone if a rank has changed its speed, or if the last LB
 * step has achieved far less than predicted.  Otherwise it returns 0.  Call it on the rank that
 * has the loads. */
int plb_decider_preview(plb_decider_t *self, const plb_database_t *db, double *gain,
                        plb_err_t *err);

/** Take `gain`, the answer of plb_decider_preview.  *ask is PLB_ASK_BALANCE if it would repay an
 * LB step, else PLB_ASK_NOTHING. */
int plb_decider_previewed(plb_decider_t *self, double gain, plb_ask_t *ask, plb_err_t *err);

/** Begin an LB step and choose its strategy, self->chosen.  why: the verdict that asked for the LB
 * step; NULL: the most recent verdict.  n_objects: number of objects on all ranks; 0: not known,
 * then a central strategy is selected. */
int plb_decider_choose(plb_decider_t *self, const plb_verdict_t *why, int64_t n_objects,
                       plb_err_t *err);

/** Select the strategy, for plb_decider_choose: self->chosen, self->instead and the reason. */
int plb_decider_select(plb_decider_t *self, plb_err_t *err);

/** Whether candidate i is a distributed strategy. */
bool plb_decider_in_rounds(const plb_decider_t *self, int32_t i);

/** Place the objects.  Call it on the rank that has the loads.  Writes rank[n_objects] and
 * speed[n_ranks], learned or given (zeros: all ranks count as equally fast, or each knows only its
 * own speed).  The placement of a refinement is taken if it leaves at most `tolerance` times the
 * imbalance of the chosen strategy and moves fewer objects. */
int plb_decider_place(plb_decider_t *self, const plb_database_t *db, int32_t *rank, double *speed,
                      plb_placing_t *out, plb_err_t *err);

enum { PLB_DECIDER_SAMPLE = 32, PLB_DECIDER_MOST_SAMPLED = 1 << 18 };

/** With a distributed strategy, speeds are learned from a sample of the objects.  Return its size
 * as a fraction of all objects: on average PLB_DECIDER_SAMPLE objects of a rank, but at most
 * PLB_DECIDER_MOST_SAMPLED in all, so that the learning on rank 0 does not take most of the time
 * of an LB step. */
double plb_decider_sample(int64_t n_objects, int32_t n_ranks);

/** Write the indices of the objects that belong to the sample to out[n]; return their number. */
int64_t plb_decider_sampled(const int64_t *key, int64_t n, double fraction, int64_t *out);

/** Learn speed[n_ranks] from the objects of the sample; zeros: all ranks count as equally fast.
 * Call it on the rank that has the sample. */
int plb_decider_learn(plb_decider_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                      const double *here, const double *work, double *speed, plb_err_t *err);

/** The fraction of its memory limit that a rank uses; `held` bytes are in use. */
double plb_decider_full(int64_t held, int64_t limit);

/** Take the result of plb_decider_place.  Call it on all ranks.  speed: may be NULL. */
int plb_decider_placed(plb_decider_t *self, const plb_placing_t *placing, const double *speed,
                       plb_err_t *err);

/* What an LB step did, over all ranks.  Seconds are those of the slowest rank. */
typedef struct plb_step_done {
    int64_t migrations, bytes;
    double seconds_migration;
    double cost; /* seconds of the whole LB step */
    bool moved;  /* true: objects have moved; false: nothing has (shadow mode) */
    bool given;  /* true: `cost` is the whole cost, even zero; false: the cost is the larger of
                    `cost` and the sum of the parts */
} plb_step_done_t;

int plb_decider_balanced(plb_decider_t *self, const plb_step_done_t *done, plb_err_t *err);

/** After a failure: cancel the question that waits for an answer, or the LB step that has begun.
 */
void plb_decider_abandon(plb_decider_t *self);

/** Update the receipt of the last LB step: max/mean and idle times of the iterations since then.
 */
void plb_decider_settle(plb_decider_t *self);
