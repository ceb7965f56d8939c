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
 *     PLB_ASK_BEGIN: the strategy takes long: let it place while the next iterations compute
 *         plb_decider_begin, on the rank that has the loads; when these have taken as long as the
 *         strategy, plb_decider_next asks for the LB step
 *     PLB_ASK_BALANCE: rebalance
 *         plb_decider_choose, on all ranks
 *         plb_decider_place, on the rank that has the loads
 *         plb_decider_placed with the result of plb_decider_place, on all ranks
 *         plb_decider_balanced, when the objects have moved
 *
 * Calls in a wrong order give PLB_ERR_STATE, impossible values PLB_ERR_VALUE; neither changes
 * anything.  If an error elsewhere prevents an answer, call plb_decider_abandon. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "decide/trigger.h"
#include "measure/measure.h"
#include "model/model.h"
#include "place/strategy.h"

/* Does rebalancing pay?  The ledger of a run: the seconds that its LB steps cost and saved.
 *
 * The trigger says when an LB step is due; the ledger says if LB steps pay at all.  Its states:
 *
 * - on: when an LB step is due, the previous one is judged by the seconds that it has saved.  If
 *   recent LB steps have saved less than they cost (older ones count less), LB steps are switched
 *   off, but not before `tries` of them have been judged.
 * - off: there are no LB steps for `pause` iterations, or for more if one LB step in each pause
 *   would otherwise take more than `share` of the run's time.  The pause ends early if the
 *   imbalance of three iterations in a row is above `rise` times the largest imbalance before an
 *   LB step that did not pay.  After the pause, the next LB step that is due is a trial.
 * - trial: the trial is judged after another pause.  If it has paid, LB steps are on again; if
 *   not, the pause doubles.  So the cost of LB steps that never pay grows only with the logarithm
 *   of the run's length.
 *
 * The cost theta of a strategy is the measured cost plus the warm-up: the time by which the first
 * iterations after the LB step are longer than the longest of the following ones (cold caches, new
 * message routes).  If the time of the whole LB step is more than the sum of its parts, the whole
 * time counts.  If no time above zero is reported, the LB step counts as long as earlier ones with
 * the strategy, or as long as a balanced iteration. */

/* X(name, unit, default, least, most, help). */
#define PLB_LEDGER(X)                                                                             \
    X(tries, "LB steps", 3, 1, 1e6,                                                               \
      "number of LB steps that are judged before LB steps may be switched off")                   \
    X(fade, "", 0.8, 0, 1, "weight of an LB step relative to the one after it")                   \
    X(pause, "iterations", 16, 1, 1e9, "shortest time for which LB steps are switched off")       \
    X(share, "", 0.01, 1e-6, 1, "largest share of the run's time that trial LB steps may cost")   \
    X(rise, "", 2, 1, 1e6,                                                                        \
      "imbalance that ends a pause early, relative to the imbalance before LB steps that did "    \
      "not pay")

enum {
#define X(name, unit, fallback, least, most, help) PLB_LEDGER_##name,
    PLB_LEDGER(X)
#undef X
        PLB_N_LEDGER
};

/** The table, PLB_N_LEDGER entries. */
extern const plb_param_t plb_ledger_params[];

/* The cost of an LB step, in seconds; NAN or 0: not reported. */
typedef struct plb_costs {
    double statistics, strategy, migration;
    double whole; /* seconds of the whole LB step */
    bool given;   /* true: `whole` is the cost, even 0; false: `whole`, or the parts' sum if
                     larger */
    double felt;  /* expected warm-up, part of the cost until it is measured; not NAN */
    bool goes_on; /* whether this LB step is a further slice of the last one: both count as one */
} plb_costs_t;

/* The measured cost of LB steps with one strategy. */
typedef struct plb_account {
    int64_t n;
    double cost;    /* seconds: mean of the old value and the new measurement */
    double warm_up; /* seconds of warm-up beyond `felt`, averaged like `cost`; 0: not measured */
} plb_account_t;

/* PLB_FEW iterations after an LB step may be slow; they are compared with as many later ones. */

typedef struct plb_ledger {
    plb_account_t *accounts; /* owned; one for each strategy */
    int32_t n;
    double params[PLB_N_LEDGER];
    double paid, gained; /* seconds: cost and savings of judged LB steps; older ones count less */
    int64_t judged;      /* judged LB steps since the start or the last successful trial */
    /* The last LB step. */
    bool open;                 /* whether this LB step is not judged yet */
    int64_t last;              /* iteration at whose end this LB step took place */
    int32_t strategy;          /* index of its strategy; -1: there was no LB step */
    double cost;               /* seconds, including the warm-up once it is known */
    double felt, warm_up;      /* seconds of warm-up: expected; measured; NAN: not known yet */
    double excess_before;      /* seconds: max - mean before this LB step */
    double times[2 * PLB_FEW]; /* seconds of the iterations after this LB step */
    int n_times;
    bool off, trial; /* off: LB steps are off; trial: a trial LB step was made since */
    int64_t until;   /* if `off`: no LB step (except an early trial) and no judgement before this
                        iteration */
    int64_t pause;   /* iterations: the present pause */
    double beaten;   /* seconds: the largest `excess_before` of LB steps that did not pay */
    int high;        /* iterations in a row with max - mean above rise * beaten */
    double mean, excess; /* seconds: mean load and max - mean in the last iteration */
} plb_ledger_t;

/* Estimates the seconds per iteration that a placement loses until the next LB step, if the loads
 * go on changing as they do now.  With these estimates, the decider chooses for how many
 * iterations ahead a strategy places.  A cycle is the time from one LB step to the next. */

/* The strategy places for the loads expected in plb_cycle_times[k] iterations, for each k <
 * PLB_CYCLE_AHEADS. */
enum { PLB_CYCLE_AHEADS = 5 };
extern const int plb_cycle_times[];

typedef struct plb_cycle_costs {
    const plb_snapshot_t *now; /* the present loads */
    const double *drift;       /* [n_objects] growth of the loads, seconds per iteration */
    double step;               /* seconds of an LB step in which nothing moves */
    double per_byte;           /* seconds per byte that leaves a rank */
    double left;               /* iterations until the end of the run; at least 1 */
    double belief;             /* factor on the drift, 0 ... 1; 0: constant loads */
    double jumps;              /* probability per iteration that the loads jump to other objects */
    double stretch;            /* plb_decider_stretch */
    plb_network_t network;
} plb_cycle_costs_t;

/** Compute load[n_objects], the loads expected in t iterations. */
void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load);

/** Set `belief`: the growth of the ranks' waiting in the last iteration (`grown`, seconds),
 * divided by the growth that the drift predicts. */
int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err);

/** Compute *bytes, the most bytes that leave one rank if objects move to rank[] (NULL: all leave).
 */
int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err);

/** Compute *loss, the average seconds per iteration that the placement rank[n_objects] loses in a
 * cycle of the best length: by the LB step, its migrations, messages, waiting for the slowest
 * rank, and waiting after possible jumps. */
int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err);

/* Has the last LB step achieved what it predicted (its "promise")?
 *
 * If iterations take longer than the last LB step predicted, a "preview" (plb_decider_preview)
 * checks whether a new placement would save time.  It would, for example, if ranks have different
 * speeds, or if a rank has just changed its speed: the strategy could not see this from the loads
 * alone.  This part says when a preview is due.
 *
 * A preview costs about as much as an LB step without migrations (`price`).  So it is due when the
 * time lost since the last LB step or preview is ten times this price.  While the prediction
 * stays wrong, the pauses between previews double, so that the cost of previews that do not help
 * grows only with the logarithm of the run's length.  If the imbalance becomes worse than at the
 * last preview, the next preview needs no pause, and the doubling starts again. */

typedef struct plb_promise {
    double predicted;  /* max/mean; INFINITY before the first LB step */
    double price;      /* seconds of a preview */
    double since;      /* iterations since the last LB step or preview */
    double lost;       /* seconds by which these iterations were longer than predicted */
    double last;       /* max/mean of the previous iteration */
    double n_previews; /* number of previews since the pause last had its shortest length */
    double level;      /* max/mean at the last preview */
} plb_promise_t;

/* The receipt of a decision: its reasons, its cost, and the time that it saved.  The comments of
 * Python's `Receipt` describe most fields. */

/* X(name): the numbers of a placement, which the rank that places sends to all other ranks. */
#define PLB_PLACING(X)                                                                            \
    X(before)                                                                                     \
    X(predicted)                                                                                  \
    X(before_with_messages)                                                                       \
    X(predicted_with_messages)                                                                    \
    X(passed_over)                                                                                \
    X(placed_by)                                                                                  \
    X(compared)                                                                                   \
    X(idle_mean)                                                                                  \
    X(idle_max)                                                                                   \
    X(predicted_idle_mean)                                                                        \
    X(predicted_idle_max)                                                                         \
    X(memory_full)                                                                                \
    X(heaviest)                                                                                   \
    X(next_heaviest)                                                                              \
    X(heaviest_key)                                                                               \
    X(ahead)                                                                                      \
    X(present)                                                                                    \
    X(loss_0)                                                                                     \
    X(loss_1)                                                                                     \
    X(loss_2)                                                                                     \
    X(loss_4)                                                                                     \
    X(loss_8)                                                                                     \
    X(loss_scattered)                                                                             \
    X(tolerance)                                                                                  \
    X(loss_tolerant)                                                                              \
    X(seconds_statistics)                                                                         \
    X(seconds_strategy)                                                                           \
    X(by_sum)                                                                                     \
    X(felt)                                                                                       \
    X(moves_left)

typedef struct plb_placing {
#define X(name) double name;
    PLB_PLACING(X)
#undef X
} plb_placing_t;

/** Return a plb_placing_t in which all numbers are NAN. */
plb_placing_t plb_placing_unknown(void);

/* X(name): the other numbers of a receipt; NAN: unknown. */
#define PLB_RECEIPT(X)                                                                            \
    X(max)                                                                                        \
    X(mean)                                                                                       \
    X(left)                                                                                       \
    X(realised)                                                                                   \
    X(realised_idle_mean)                                                                         \
    X(realised_idle_max)                                                                          \
    X(seconds_migration)                                                                          \
    X(seconds_warm_up)                                                                            \
    X(seconds_hidden)                                                                             \
    X(seconds)                                                                                    \
    X(slice)                                                                                      \
    X(cost)                                                                                       \
    X(gain)                                                                                       \
    X(paid)                                                                                       \
    X(saved)                                                                                      \
    X(found)

/* X(name): the integers of a receipt: counts and iteration numbers. */
#define PLB_RECEIPT_COUNTS(X)                                                                     \
    X(iteration)                                                                                  \
    X(until)                                                                                      \
    X(times)                                                                                      \
    X(migrations)                                                                                 \
    X(nbytes)                                                                                     \
    X(iterations)                                                                                 \
    X(off_until)

typedef enum plb_decision_kind {
    PLB_DECISION_HOLD,    /* the trigger considered an LB step and decided against it */
    PLB_DECISION_OFF,     /* LB steps did not pay: off until `off_until` or an early trial */
    PLB_DECISION_BALANCE, /* rebalance, as the trigger asked */
    PLB_DECISION_SPEEDS,  /* rebalance: a preview expects to save `found` seconds per iteration */
} plb_decision_kind_t;

/* The expected gain and cost of a strategy. */
typedef struct plb_alternative {
    double gain; /* seconds per iteration */
    double cost; /* seconds; NAN: not known */
} plb_alternative_t;

typedef struct plb_receipt {
    plb_decision_kind_t kind;
    int32_t strategy; /* index; -1: none ran */
    bool moved;       /* false: nothing moved (shadow mode) */
    plb_verdict_t verdict;
    plb_placing_t placing;
#define X(name) double name;
    PLB_RECEIPT(X)
#undef X
#define X(name) int64_t name;
    PLB_RECEIPT_COUNTS(X)
#undef X
    char why[512];                   /* why this strategy was chosen; empty: there was no choice */
    plb_alternative_t *alternatives; /* owned; one for each strategy */
    double *speed; /* owned; [n_ranks] speeds given to the strategy; NULL: none were given */
} plb_receipt_t;

/* X(name, type): sums over the dropped receipts; `n` of them, from index `from` on. */
#define PLB_DROPPED(X)                                                                            \
    X(from, int64_t)                                                                              \
    X(n, int64_t)                                                                                 \
    X(n_lb_steps, int64_t)                                                                        \
    X(migrations, int64_t)                                                                        \
    X(nbytes, int64_t)                                                                            \
    X(cost, double)                                                                               \
    X(step_seconds, double)

typedef struct plb_dropped {
#define X(name, type) type name;
    PLB_DROPPED(X)
#undef X
} plb_dropped_t;

/* The statistics of an iteration, over all ranks (measure/measure.h). */
typedef struct plb_iteration {
    int64_t iteration;     /* number of the iteration; larger than the one before */
    double time;           /* seconds: time of the slowest rank */
    double max, mean, min; /* seconds: largest, mean and smallest load of a rank */
    double total;          /* seconds: sum of the loads of all ranks */
    double utilization;    /* lowest load / (load + idle) of a rank, 0 ... 1 (measure/measure.h) */
    int64_t messages, bytes; /* number and bytes of messages between objects on different ranks */
    double hidden; /* seconds for which a rank computed while data of the last LB step moved; 0 */
    double idle;   /* seconds for which a rank waited for other ranks, but not for a core: mean */
} plb_iteration_t;

/* Strategy selection (Menon 3.7, figure 3.8, eq. 3.6).
 *
 * In: the statistics of every iteration (plb_selector_observe), and the outcome of every LB step
 * (plb_selector_balanced).  Out, after each iteration: whether anything is out of balance, and
 * which of the candidate strategies an LB step would use now.  A strategy whose placement depends
 * on communication is a communication strategy; if it depends on load but not on communication, it
 * is a computation strategy; other strategies cannot be selected.
 *
 * The path through figure 3.8:
 *
 *   max/mean <= imbalance, utilization >= `utilization`        balanced
 *   alpha m_n + beta m_v >= communication * total load         communication strategy  (3.6)
 *   else: max/mean > imbalance                                 computation strategy
 *   else                                                       idle, but no strategy helps
 *
 *   here: messages, bytes     in the thesis: m_n, m_v     (alpha, beta: seconds per message, byte)
 *
 * The rules.  The kind of a strategy is computation or communication; its family is comprehensive
 * (it makes a placement from scratch) or refinement (it changes the present one).
 *
 *   1. A strategy is chosen even if nothing is out of balance: the trigger may ask for an LB step
 *      nevertheless.  Communication is intensive from 10 % of the load on (3.7.1; 3.7.3: beyond).
 *   2. The first LB step of each kind uses a comprehensive strategy, the following ones use
 *      refinements (3.7.2; there, only the first of the run: but a placement that ignores
 *      communication is a poor start for a communication refinement).
 *   3. Comprehensive strategies follow if the last refinement left more than `tolerance` times the
 *      max/mean of the last comprehensive strategy; or if it left no smaller max/mean, and
 *      refinements cost more than `dearer` times as much.  The best of each family counts (5).
 *   4. Experience becomes out of date.  After `again` comprehensive strategies in a row, a
 *      refinement gets another chance.  After `again` refinements in a row, if the last one left
 *      more than `imbalance`, a comprehensive strategy gets another chance.
 *   5. Of several candidates of the same kind and family, the one whose most recent LB step left
 *      the smallest max/mean is used; ties: the cheapest, then the first in the table.  If this
 *      max/mean is above `imbalance`, or none has run, the first untried one, if any, is used.
 *   6. If there is no candidate of the wanted kind, the other kind is used; the same holds for
 *      the family.
 *   7. If messages within a node cost less than between nodes, the cost model compares placements:
 *      a comprehensive strategy's with those of all comprehensive communication strategies, of
 *      which the best is improved by the first communication refinement; a refinement's with that
 *      of this refinement.  The one with the shortest iteration is used. */

typedef enum plb_kind {
    PLB_COMPUTATION,   /* balances the load */
    PLB_COMMUNICATION, /* keeps objects together that communicate */
} plb_kind_t;

/* X(name, in words): the ends of the path through figure 3.8.  From PLB_NEED_IDLE_COMMUNICATION
 * on, they ask for a strategy. */
#define PLB_NEEDS(X)                                                                              \
    X(START, "nothing was observed yet")                                                          \
    X(BALANCED, "the load is balanced and no rank is idle for long")                              \
    X(IDLE, "ranks are idle, but neither imbalance nor communication explains it")                \
    X(IDLE_COMMUNICATION, "the load is balanced, but ranks are idle and communication is "        \
                          "intensive")                                                            \
    X(IMBALANCED_COMMUNICATION, "the load is imbalanced and communication is intensive")          \
    X(IMBALANCED, "the load is imbalanced and communication is not intensive")

typedef enum plb_need {
#define X(name, words) PLB_NEED_##name,
    PLB_NEEDS(X)
#undef X
} plb_need_t;

/* X(name, in words): why this family was chosen. */
#define PLB_LEADS(X)                                                                              \
    X(FIRST, "the first LB step of its kind places all objects from scratch")                     \
    X(NEXT, "the LB steps after the first one move few objects")                                  \
    X(COMPARABLE, "moving few objects balances about as well as placing all from scratch")        \
    X(POOR, "the last LB step that moved few objects left more imbalance than the last one "      \
            "from scratch")                                                                       \
    X(DEAR, "LB steps that move few objects cost more than those from scratch, and the last "     \
            "one left no less imbalance")                                                         \
    X(REFINE_AGAIN, "after several LB steps from scratch, one that moves few objects gets "       \
                    "another chance")                                                             \
    X(COMPREHENSIVE_AGAIN, "imbalance is left after several LB steps that moved few objects, so " \
                           "one from scratch gets another chance")                                \
    X(ONLY, "there is no strategy of another family for this kind")

typedef enum plb_lead {
#define X(name, words) PLB_LEAD_##name,
    PLB_LEADS(X)
#undef X
} plb_lead_t;

/* X(name, unit, default, least, most, help and source). */
#define PLB_SELECTION(X)                                                                          \
    X(imbalance, "", 1.1, 1.0, 1e6, "max/mean beyond which the load is imbalanced (Menon 3.7.1)") \
    X(utilization, "", 0.7, 0.0, 1.0,                                                             \
      "lowest utilization of a rank below which ranks count as idle (Charm++, MetaBalancer.C)")   \
    X(communication, "", 0.1, 0.0, 1e6,                                                           \
      "share of the total load at which communication is intensive (Menon 3.7.1)")                \
    X(tolerance, "", 1.05, 1.0, 1e6,                                                              \
      "a refinement is good enough if it leaves at most this many times the max/mean of a "       \
      "comprehensive strategy (pylb: half of what `imbalance` allows)")                           \
    X(dearer, "", 2.0, 1.0, 1e6,                                                                  \
      "refinements are too expensive if they cost more than this many times as much as "          \
      "comprehensive strategies "                                                                 \
      "(pylb: measured costs are few and noisy)")                                                 \
    X(again, "LB steps", 5, 1, 1e6,                                                               \
      "number of LB steps with one family in a row after which the other is tried again (pylb)")

enum {
#define X(name, unit, fallback, least, most, help) PLB_SELECTION_##name,
    PLB_SELECTION(X)
#undef X
        PLB_N_SELECTION
};

/** The table, PLB_N_SELECTION entries. */
extern const plb_param_t plb_selection_params[];

/* params: one value for each of strategy.params */
typedef struct plb_candidate_strategy {
    plb_strategy_t strategy;
    const double *params;
} plb_candidate_strategy_t;

typedef struct plb_record {
    int64_t n;    /* number of LB steps */
    double after; /* max/mean that the last one predicts, including messages if their cost is
                     known */
    double cost;  /* seconds; averaged with its old value, because a single LB step may have been
                     disturbed */
} plb_record_t;

typedef struct plb_choice {
    plb_need_t need; /* where the path through figure 3.8 ends */
    plb_kind_t kind; /* the kind that the statistics ask for */
    plb_kind_t used; /* `kind`, or the other kind if there is no candidate of `kind` */
    plb_family_t family;
    plb_lead_t lead;   /* why this family was chosen */
    int32_t candidate; /* index of the chosen candidate */
} plb_choice_t;

typedef struct plb_selector {
    const plb_candidate_strategy_t *candidates; /* [n] borrowed; only the central ones count */
    plb_record_t *records;                      /* [n] owned: record of each candidate */
    int32_t n;
    plb_network_t network;
    double params[PLB_N_SELECTION];
    plb_family_t latest[2]; /* for each kind: family of the last LB step */
    int64_t in_row[2];      /* for each kind: LB steps in a row with this family */
    plb_choice_t choice;    /* choice for the last observed iteration */
} plb_selector_t;

/** Return the first candidate from index i on that has this kind and family; -1: none. */
int32_t plb_selector_next(const plb_selector_t *self, int32_t i, plb_kind_t kind,
                          plb_family_t family);

/** Begin.  PLB_ERR_VALUE: no central candidate looks at load or communication, or a parameter is
 * out of range.  The caller frees self->records. */
int plb_selector_init(plb_selector_t *self, const plb_candidate_strategy_t *candidates, int32_t n,
                      plb_network_t network, const double *params, plb_err_t *err);

/** Observe an iteration; the answer is in self->choice. */
void plb_selector_observe(plb_selector_t *self, const plb_iteration_t *it);

/** Record an LB step with `candidate`, chosen here or not, and choose again. */
void plb_selector_balanced(plb_selector_t *self, int32_t candidate, double after, double cost);

/* What the decider asks its caller to do. */
typedef enum plb_ask {
    PLB_ASK_NOTHING,
    PLB_ASK_JUDGE,
    PLB_ASK_PREVIEW,
    PLB_ASK_BEGIN,
    PLB_ASK_BALANCE,
} plb_ask_t;

typedef struct plb_decider_options {
    int32_t n_ranks;
    /* [n], copied with their parameters; if `selects`, distributed strategies come last */
    const plb_candidate_strategy_t *candidates;
    int32_t n;
    bool selects;            /* true: choose a candidate per LB step (Menon 3.7); false: n is 1 */
    const double *selection; /* [PLB_N_SELECTION] parameters of the choice */
    const double *ledger;    /* [PLB_N_LEDGER] parameters of the ledger */
    bool gives_up;           /* switch LB steps off while they do not pay */
    bool learns;             /* learn the ranks' speeds; false: use only given speeds */
    bool watches; /* check whether the last LB step achieves what it predicted (plb_promise_t) */
    /* If data move while the next iteration runs: an LB step moves only a part (a "slice") if this
     * iteration would otherwise be longer than the present one by more than this fraction.  0:
     * data do not move during an iteration. */
    double move_at_most;
    bool beside; /* the strategy is one Python function, and may run beside an iteration */
    plb_network_t network; /* cost of messages; zeros: messages cost nothing */
    uint64_t seed;
    int64_t keep; /* how many receipts to keep; 0: all */
} plb_decider_options_t;

/* What the decider waits for. */
typedef enum plb_decider_phase {
    PLB_DECIDER_OBSERVES, /* an iteration, or the beginning of an LB step */
    PLB_DECIDER_JUDGES,   /* the gain of the last LB step */
    PLB_DECIDER_PREVIEWS, /* the gain of a preview */
    PLB_DECIDER_PLACES,   /* the placement of the LB step that has begun */
    PLB_DECIDER_MOVES,    /* the end of that LB step */
} plb_decider_phase_t;

typedef struct plb_decider {
    plb_decider_options_t opt;
    plb_trigger_t *trigger;               /* borrowed */
    plb_candidate_strategy_t *candidates; /* owned, with their parameters */
    double *left;      /* owned: max/mean that each candidate predicted last; NAN: it never ran */
    double foreseen;   /* expected seconds of a first LB step if all objects move; NAN: unknown */
    double moving;     /* part of `foreseen` for the migrations; NAN: not known */
    double per_byte;   /* seconds per byte that leaves a rank; with move_at_most, first estimate */
    double most_bytes; /* most bytes that leave one rank in this LB step; 0: not known here */
    /* with move_at_most, sums: seconds by which moves made iterations longer; `most_bytes` */
    double felt, felt_bytes;
    double rest;   /* seconds of the last iteration without moves beyond its largest load */
    bool goes_on;  /* whether the next slice is due */
    bool late;     /* whether the strategy has begun to place for the next LB step */
    double waited; /* seconds of the iterations since then */
    plb_reason_t why_late; /* reason for this LB step */
    double fastest;        /* seconds of the strategy's shortest call, not beside an iteration */
    /* Only where the loads are: seconds of the slowest rank before the first slice; and the
     * placement of which some moves are left (both arrays are owned). */
    double longest;
    int32_t *target;
    int64_t *target_key;
    int64_t n_target;
    plb_ledger_t ledger;
    plb_selector_t selector;
    int64_t limit; /* memory limit of rank 0 in bytes; negative: none; the caller sets it */
    plb_promise_t promise;
    plb_learner_t learner[1 + PLB_MOST_PHASES]; /* for the whole load, and for each phase */
    plb_iteration_t seen;                       /* the last observed iteration */
    double share; /* cores per rank, if all ranks share cores, else 1; the caller sets it */
    /* seconds of the last iteration, and of the same with perfect balance: max and mean, unless
     * ranks share cores (see use_cores in decider.c) */
    double span, even;
    bool started; /* whether an iteration was observed */
    /* Number of iterations since the last LB step, and sums of their max, mean, min and `even`. */
    double n_since, sum_max, sum_mean, sum_min, sum_even;
    double grown;           /* seconds by which max - mean has grown in the last iteration */
    double usual;           /* mean of |grown|; older iterations count less */
    bool sudden;            /* whether the loads jumped in the last iteration (watch_jumps) */
    double jumps, observed; /* number of iterations with a jump, and of all iterations */
    int64_t cycle;          /* index of the first receipt since the last LB step */
    double found; /* seconds per iteration that the previewed LB step would save; NAN: none */
    plb_decider_phase_t phase;
    /* The LB step under way. */
    int32_t chosen;
    int32_t instead;         /* a refinement strategy that may replace `chosen`; -1: none */
    int64_t n_objects;       /* number of objects on all ranks; 0: not known */
    plb_receipt_t next;      /* receipt of that LB step */
    plb_receipt_t *receipts; /* owned */
    int64_t n_receipts, capacity;
    int64_t held_before;   /* old `until` of the receipt that hold() in decider.c changed last */
    int64_t last;          /* index of the receipt of the last LB step; -1: there was none */
    plb_dropped_t dropped; /* sums over the receipts that were dropped to save memory */
    int64_t n_lb_steps;
} plb_decider_t;

int plb_decider_init(plb_decider_t *self, const plb_decider_options_t *opt, plb_trigger_t *trigger,
                     plb_err_t *err);
void plb_decider_free(plb_decider_t *self);

/** Set the cost of messages, also as alpha and beta of the strategies; only before the first
 * iteration and the first LB step. */
int plb_decider_network(plb_decider_t *self, plb_network_t network, plb_err_t *err);

/** Set the end of the run and the expected cost of the first LB step; see plb_trigger_expect.
 * moving: seconds of this cost that the migrations take if all objects move; NAN: not known. */
int plb_decider_expect(plb_decider_t *self, int64_t end, double cost, double moving,
                       plb_err_t *err);

/** Observe an iteration; the trigger's verdict is then in self->trigger->verdict. */
int plb_decider_observe(plb_decider_t *self, const plb_iteration_t *it, plb_err_t *err);

/** Observe a snapshot as iteration 0: its objects on their present ranks. */
int plb_decider_see(plb_decider_t *self, const plb_snapshot_t *in, plb_err_t *err);

/** Decide what to do now (see the top of this file).  asked: whether a verdict asks for an LB
 * step.  may_preview: whether a preview is possible and useful, e.g. not at the end of a loop. */
int plb_decider_next(plb_decider_t *self, bool asked, bool may_preview, plb_ask_t *ask,
                     plb_err_t *err);

/** Return the seconds of a balanced iteration divided by the mean load: above 1 if ranks share
 * cores. */
static inline double plb_decider_stretch(const plb_decider_t *self)
{
    return self->seen.mean > 0.0 ? self->even / self->seen.mean : 1.0;
}

/** Return the seconds that the last LB step has saved so far, for plb_decider_judge.  now: sum of
 * the loads since then on the slowest rank; was: the same under the placement before. */
static inline double plb_decider_saving(const plb_decider_t *self, double was, double now)
{
    return self->share < 1.0 ? fmax(was, self->sum_even) - fmax(now, self->sum_even) : was - now;
}

/** Take `gain`: seconds saved so far by the last LB step, compared with the placement before. */
int plb_decider_judge(plb_decider_t *self, double gain, plb_err_t *err);

/** Whether there were iterations since the last LB step, or since its last judgement, if any. */
bool plb_decider_can_judge(const plb_decider_t *self);

/* The load database, on the rank where it was gathered. */
typedef struct plb_database {
    /* The loads are the expected seconds, one number for each object or for each of its phases.
     * The snapshot must have keys. */
    plb_snapshot_t snapshot;
    const double *here;  /* [n_objects * n_components] mean seconds on the present rank, like the
                            loads; NULL: learn no speeds */
    const double *work;  /* [n_objects] the user's estimates of the work, in any unit; or NULL */
    const double *drift; /* [n_objects] growth of the loads, seconds per iteration; or NULL */
} plb_database_t;

/** Estimate *gain, the seconds per iteration that a new placement would save.  The placement uses
 * the ranks' speeds if these differ.  If no different speeds are known, but a rank has changed its
 * speed, or the last LB step has achieved far less than predicted, it uses the loads alone.
 * Otherwise *gain is 0. */
int plb_decider_preview(plb_decider_t *self, const plb_database_t *db, double *gain,
                        plb_err_t *err);

/** Take `gain`, the answer of plb_decider_preview.  *ask is PLB_ASK_BALANCE or PLB_ASK_BEGIN if
 * this gain would repay an LB step until the end of the run, else PLB_ASK_NOTHING.  If the end is
 * not known, as many iterations are expected to follow as have run. */
int plb_decider_previewed(plb_decider_t *self, double gain, plb_ask_t *ask, plb_err_t *err);

/** Let the strategy begin to place the objects of `db`, on the rank that has the loads.  If the LB
 * step has the same objects, it takes this placement; if not, it calls the strategy again. */
int plb_decider_begin(plb_decider_t *self, const plb_database_t *db, plb_err_t *err);

/** Begin an LB step and choose its strategy, self->chosen.  why: the verdict that asked for it;
 * NULL: the most recent one.  n_objects: on all ranks; 0: unknown, take a central strategy. */
int plb_decider_choose(plb_decider_t *self, const plb_verdict_t *why, int64_t n_objects,
                       plb_err_t *err);

/** For plb_decider_choose: set self->chosen, self->instead and the reason. */
void plb_decider_select(plb_decider_t *self);

/** Append to the reason in the receipt of the LB step under way. */
void plb_decider_say(plb_decider_t *self, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/** Whether candidate i is a distributed strategy. */
static inline bool plb_decider_in_rounds(const plb_decider_t *self, int32_t i)
{
    return self->candidates[i].strategy.agent != NULL;
}

/** Place the objects.  Call this on the rank that has the loads.  Writes rank[n_objects], and the
 * learned or given speed[n_ranks]; zeros: all ranks count as equally fast, or each rank knows only
 * its own speed.  out->placed_by: the index of the strategy.  It is self->instead if this moves
 * fewer objects and leaves at most `tolerance` times the max/mean of the chosen strategy. */
int plb_decider_place(plb_decider_t *self, const plb_database_t *db, int32_t *rank, double *speed,
                      plb_placing_t *out, plb_err_t *err);

enum { PLB_DECIDER_MOST_SAMPLED = 1 << 18 }; /* 10 MB on rank 0 */

/** A distributed strategy learns speeds from a sample of the objects.  Write the indices of those
 * objects of key[n] that are in the sample to out[n]; return their number.  n_objects: on all
 * ranks.  The sample has on average PLB_LEARNER_SAMPLE / 8 objects of a rank, but at most
 * PLB_DECIDER_MOST_SAMPLED in all, so that learning takes little time on rank 0. */
int64_t plb_decider_sampled(const int64_t *key, int64_t n, int64_t n_objects, int32_t n_ranks,
                            int64_t *out);

/** Learn speed[n_ranks] from the sample, on the rank that has it; zeros: all are equally fast. */
int plb_decider_learn(plb_decider_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                      const double *here, const double *work, double *speed, plb_err_t *err);

/** Take the result of plb_decider_place, on all ranks.  speed: may be NULL. */
int plb_decider_placed(plb_decider_t *self, const plb_placing_t *placing, const double *speed,
                       plb_err_t *err);

/* What an LB step did, over all ranks.  Seconds are those of the slowest rank. */
typedef struct plb_step_done {
    int64_t migrations, bytes; /* objects that migrated, and their bytes */
    double seconds_migration;  /* seconds of the migrations; NAN: not known */
    double cost;               /* seconds of the whole LB step */
    bool moved;                /* false: nothing has moved (shadow mode) */
    bool goes_on;              /* the next LB step is a further part of this one, a "slice" */
    bool given; /* true: `cost` is the whole cost, even zero; false: the larger of `cost` and the
                   sum of its known parts counts */
} plb_step_done_t;

/** End the LB step, and write its receipt, on all ranks.  This allocates no memory: if it failed
 * on one rank, the others would not learn of it, because they may have gone on. */
int plb_decider_balanced(plb_decider_t *self, const plb_step_done_t *done, plb_err_t *err);

/** After a failure: cancel the open question, or the LB step that has begun. */
void plb_decider_abandon(plb_decider_t *self);

/** Update max/mean and idle times since the last LB step in its receipt. */
void plb_decider_settle(plb_decider_t *self);
