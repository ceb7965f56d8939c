/* Triggers: when to rebalance.  Like the strategies, they are entries of a table.
 *
 * A trigger answers each iteration with a verdict.  It reads no clock, file or message: the same
 * calls give the same verdicts, so that all ranks, a replay and a simulation decide the same. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* Iteration numbers increase; they need not be consecutive. */
typedef struct plb_observation {
    int64_t iteration;
    double max, mean; /* seconds: maximum and mean of the ranks' loads; if ranks share cores, of
                         the iteration, and of the same with perfect balance (decider.h) */
} plb_observation_t;

/* X(name, words): the reasons of verdicts, in this order: no LB step; from PLB_REASON_SUSPECT on,
 * an imbalance that is not worth an LB step; from PLB_REASON_EVERY on, an LB step. */
#define PLB_REASONS(X)                                                                            \
    X(START, "nothing was observed yet")                                                          \
    X(FEW, "too few iterations since the last LB step")                                           \
    X(STALE, "an iteration from before the last LB step")                                         \
    X(WITHIN, "the imbalance is within the threshold")                                            \
    X(UNTOLD, "the cost of an LB step is not known yet, and the imbalance has not cost "          \
              "enough to try one")                                                                \
    X(FLAT, "the imbalance does not grow")                                                        \
    X(EARLY, "the period is not over")                                                            \
    X(SUSPECT, "the imbalance is above the threshold, but it may be a spike")                     \
    X(CHEAP, "not yet worth it: the next iteration will lose less to imbalance than an average "  \
             "iteration loses to imbalance and LB steps if these come at the best interval")      \
    X(GAIN, "the remaining iterations may be too few to repay an LB step")                        \
    X(EVERY, "the given number of iterations is over")                                            \
    X(PERIOD, "the ideal period is over")                                                         \
    X(FIRST, "no LB step was tried yet, and the imbalance has cost enough to try one")            \
    X(SUDDEN, "the imbalance is above the threshold, and more than its growth explains")          \
    X(UNBALANCED, "a rank is slower than the tolerance allows")                                   \
    X(LOSS, "the imbalance since the last LB step has cost as much as an LB step")                \
    X(RATE, "the next iteration would lose more to imbalance than an average iteration loses to " \
            "imbalance and LB steps if these come at the best interval")                          \
    X(ASKED, "the user's function asks for it")                                                   \
    X(REPAYS, "an LB step and a batch of balanced iterations would take less time than the same " \
              "batch without an LB step")                                                         \
    X(PAYS, "the imbalance is above the threshold and has cost as much as an LB step")            \
    X(SLICE, "the last LB step moved only a part")

typedef enum plb_reason {
#define X(name, words) PLB_REASON_##name,
    PLB_REASONS(X)
#undef X
        PLB_N_REASONS
} plb_reason_t;

extern const char *const plb_reason_words[]; /* texts of the reasons, indexed by reason */

/* X(name, unit, help): the numbers behind a verdict; NAN: unknown. */
#define PLB_VERDICT(X)                                                                            \
    X(tau, "iterations", "ideal period; infinite if the imbalance does not grow")                 \
    X(next, "iteration",                                                                          \
      "iteration at whose end the next LB step is due; infinite: none "                           \
      "expected")                                                                                 \
    X(max_slope, "s", "growth of the maximum per iteration")                                      \
    X(max_offset, "s", "fitted maximum at the last LB step")                                      \
    X(mean_slope, "s", "growth of the mean per iteration (Menon eq. 3.4, a)")                     \
    X(mean_offset, "s", "fitted mean at the last LB step (c_a)")                                  \
    X(growth, "s", "growth per iteration of maximum - residual * mean (eq. 3.3, m)")              \
    X(residual, "", "max/mean that an LB step is expected to leave (3.5.3)")                      \
    X(excess, "s", "what the imbalance has cost since the last LB step")                          \
    X(level, "s", "imbalance per iteration that is expected to persist")                          \
    X(rate, "s", "lowest average cost per iteration, by the evidence so far")                     \
    X(gain, "s", "expected gain of an LB step over the remaining iterations")                     \
    X(cost, "s", "cost of one LB step (theta)")

typedef struct plb_verdict {
    bool balance; /* rebalance at the end of this iteration */
    plb_reason_t reason;
#define X(name, unit, help) double name;
    PLB_VERDICT(X)
#undef X
} plb_verdict_t;

/* Imbalance since the last LB step.  The letters are those of Boulmier 2021, who calls n tau. */
typedef struct plb_cycle {
    int64_t n; /* number of observed iterations */
    double u;  /* max - mean of the last iteration, seconds */
    double U;  /* sum of u, seconds */
} plb_cycle_t;

/* X(name, n, unit, help): n numbers that a run has learned, and with which a later run of the same
 * program may begin; NAN: not known. */
#define PLB_EXPERIENCE(X)                                                                         \
    X(iterations, 1, "iterations", "length of the run")                                           \
    X(mean, 1, "s", "mean load of a rank in an iteration")                                        \
    X(cost, 1, "s", "cost of an LB step")                                                         \
    X(residual, 1, "", "max/mean that LB steps leave")                                            \
    X(rate, 1, "s", "cost per iteration of imbalance and LB steps")                               \
    X(hoped, 8, "s",                                                                              \
      "imbalance in the 4, 8, ... 512 iterations after imagined LB steps, if it had stayed")      \
    X(gained, 8, "s", "the part of it that these LB steps would have saved")

typedef struct plb_experience {
#define X(name, n, unit, help) double name[n];
    PLB_EXPERIENCE(X)
#undef X
} plb_experience_t;

typedef struct plb_trigger plb_trigger_t;

typedef struct plb_trigger_kind {
    const char *name, *help, *source;
    const plb_param_t *params;
    int n_params;
    size_t state_size;
    bool foreign; /* a user's function, which may answer differently on different ranks */
    /** Set up the state, which is zero before; or NULL. */
    void (*init)(plb_trigger_t *self);
    /** Set the verdict's reason (before: PLB_REASON_START), and the numbers that the trigger knows
     * (before: NAN, except `cost`). */
    void (*observe)(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v);
    /** Called after each LB step; or NULL. */
    void (*balanced)(plb_trigger_t *self, double cost, double max_over_mean);
    /** Called before the first iteration with what earlier runs have learned, or later with NANs,
     * to forget it; or NULL. */
    void (*begin)(plb_trigger_t *self, const plb_experience_t *e);
    /** Write what the kind has learned beyond iterations, mean and cost; or NULL. */
    void (*learned)(const plb_trigger_t *self, plb_experience_t *out);
} plb_trigger_kind_t;

struct plb_trigger {
    const plb_trigger_kind_t *kind;
    double *params; /* owned; n_params values */
    void *state;    /* owned; private to the kind */
    int64_t seen;   /* last iteration observed */
    int64_t last; /* iteration of the last LB step; at first, the one before the first observed */
    bool started; /* whether an iteration was observed, or an LB step took place */
    int64_t end;  /* number of the last iteration plus 1; INT64_MAX: not known */
    double cost;  /* seconds: expected cost of the next LB step; NAN: unknown */
    bool misled;  /* the loads jumped just before the last LB step, so it used old estimates:
                     another LB step may remove the imbalance that is left */
    plb_cycle_t cycle;
    double spent; /* seconds: imbalance and LB steps before this cycle */
    double loads; /* seconds: sum of the mean loads of all `n` observed iterations */
    int64_t n;
    plb_experience_t told; /* what earlier runs have learned */
    int failed;            /* error code of a user's trigger that failed, or PLB_OK */
    plb_verdict_t verdict; /* the last verdict */
};

/* X(name of plb_trigger_*), in the order in which pylb.triggers() lists them. */
#define PLB_TRIGGERS(X)                                                                           \
    X(periodic)                                                                                   \
    X(threshold)                                                                                  \
    X(menon)                                                                                      \
    X(procassini)                                                                                 \
    X(marquez)                                                                                    \
    X(zhai)                                                                                       \
    X(boulmier)                                                                                   \
    X(metabalancer)                                                                               \
    X(auto)

#define X(name) extern const plb_trigger_kind_t plb_trigger_##name;
PLB_TRIGGERS(X)
#undef X

/** The table, ended by NULL. */
extern const plb_trigger_kind_t *const plb_triggers[];

const plb_trigger_kind_t *plb_trigger_find(const char *name);

/** params: kind->n_params values, which are copied.  PLB_ERR_VALUE: one is out of range. */
int plb_trigger_init(plb_trigger_t *self, const plb_trigger_kind_t *kind, const double *params,
                     plb_err_t *err);
void plb_trigger_free(plb_trigger_t *self);

/** Set the end of the run and the expected cost of the next LB step; may be called again with
 * better values.  end: the number of the last iteration plus 1; INT64_MAX: unknown.  cost:
 * seconds; NAN: no new estimate.  PLB_ERR_VALUE: the cost is not in 0 ... 1e30. */
int plb_trigger_expect(plb_trigger_t *self, int64_t end, double cost, plb_err_t *err);

/** Begin with what earlier runs of the program have learned; a known end or cost is kept.  All of
 * it is forgotten if the mean load of the second iteration differs from theirs by more than a
 * factor of 2.  PLB_ERR_STATE: an iteration was observed; PLB_ERR_VALUE: a number is out of range.
 */
int plb_trigger_begin(plb_trigger_t *self, const plb_experience_t *e, plb_err_t *err);

/** Return what this run and earlier ones have learned. */
plb_experience_t plb_trigger_learned(const plb_trigger_t *self);

/** Observe an iteration; the verdict is then in self->verdict.  For an iteration from before the
 * last LB step it is PLB_REASON_STALE.  PLB_ERR_VALUE: a load is not in 0 ... 1e30 seconds;
 * PLB_ERR_STATE: the iteration number does not increase; self->failed: a user's trigger failed. */
int plb_trigger_observe(plb_trigger_t *self, const plb_observation_t *o, plb_err_t *err);

/** Record an LB step at the end of `iteration`: its cost in seconds, its predicted max/mean. */
int plb_trigger_balanced(plb_trigger_t *self, int64_t iteration, double cost, double max_over_mean,
                         plb_err_t *err);

/** Return the assumed cost of an LB step, in balanced iterations, while it is unknown: `most`, or
 * less in a short run, because trying an LB step must cost only a small share of the run. */
double plb_trigger_guess(const plb_trigger_t *self, double most);

/** Return what a first LB step of unknown cost may cost, in balanced iterations. */
double plb_trigger_price(const plb_trigger_t *self);

/** Whether an LB step is due to learn its cost: when `excess`, the seconds lost by imbalance,
 * reaches the assumed cost (ski rental problem).  mean: seconds of a balanced iteration. */
bool plb_trigger_trial(const plb_trigger_t *self, double excess, double mean);

/** If the cost of an LB step is unknown, set the reason of *v, and return true. */
bool plb_trigger_first(const plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v);
