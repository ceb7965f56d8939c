/* Triggers: when to rebalance.  Like the strategies, they are entries of a table.
 *
 * A trigger is a state machine without input or output.  It is told of every iteration
 * (plb_trigger_observe) and of every LB step (plb_trigger_balanced), and answers each iteration
 * with a verdict.  It never reads a clock: the same calls give the same verdicts, so that all
 * ranks, a replay and a simulation decide the same.  / */
#ifndef PLB_DECIDE_TRIGGER_H
#define PLB_DECIDE_TRIGGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/param.h"

/* The figures of one iteration for a trigger.  Iteration numbers increase; gaps are allowed. */
typedef struct plb_observation {
    int64_t iteration;
    double max, mean; /* seconds: of the ranks' times */
} plb_observation_t;

/* X(name, why, in words).  Those that balance come last, from PLB_REASON_EVERY on; before them,
 * from PLB_REASON_SUSPECT on, come those that find an imbalance not worth an LB step. */
#define PLB_REASONS(X)                                                                            \
    X(START, "nothing was observed yet")                                                          \
    X(FEW, "too few iterations since the last balancing")                                         \
    X(STALE, "an iteration from before the last balancing")                                       \
    X(WITHIN, "the imbalance is within the threshold")                                            \
    X(UNTOLD, "the cost of a balancing is not known yet, and the imbalance has not cost enough "  \
              "to try one")                                                                       \
    X(FLAT, "the imbalance does not grow")                                                        \
    X(EARLY, "the period is not over")                                                            \
    X(SUSPECT, "the imbalance is beyond the threshold; it may be a spike")                        \
    X(CHEAP, "the imbalance costs less than an average iteration of the best cycle would")        \
    X(GAIN, "the iterations left would not repay a balancing")                                    \
    X(EVERY, "the given number of iterations is over")                                            \
    X(PERIOD, "the ideal period is over")                                                         \
    X(FIRST, "no balancing was tried yet, and the imbalance has cost enough to try one")          \
    X(SUDDEN, "the imbalance is beyond the threshold and beyond what its growth explains")        \
    X(UNBALANCED, "a rank is beyond the tolerance")                                               \
    X(LOSS, "the imbalance since the last balancing has cost as much as a balancing")             \
    X(RATE, "the imbalance costs more than an average iteration of the best cycle would")         \
    X(ASKED, "the function that was given says so")                                               \
    X(REPAYS, "balanced iterations would repay a balancing")                                      \
    X(PAYS, "the imbalance is beyond the threshold and has cost as much as a balancing")

typedef enum plb_reason {
#define X(name, words) PLB_REASON_##name,
    PLB_REASONS(X)
#undef X
} plb_reason_t;

/** The reason in words. */
const char *plb_reason_words(plb_reason_t reason);

/* X(name, unit, help).  The figures behind a verdict; NAN: unknown. */
#define PLB_VERDICT(X)                                                                            \
    X(tau, "iterations", "ideal period; infinite where the imbalance does not grow")              \
    X(next, "iteration", "at whose end the next balancing is due; infinite: none in sight")       \
    X(max_slope, "s", "growth of the maximum per iteration")                                      \
    X(max_offset, "s", "its line at the last balancing")                                          \
    X(mean_slope, "s", "growth of the mean per iteration (Menon eq. 3.4, a)")                     \
    X(mean_offset, "s", "its line at the last balancing (c_a)")                                   \
    X(growth, "s", "growth of the maximum over residual times the mean (eq. 3.3, m)")             \
    X(residual, "", "max/mean that the last balancing could not even out (3.5.3)")                \
    X(excess, "s", "what the imbalance beyond the residual has cost since the last balancing")    \
    X(level, "s", "excess of an iteration that is expected to stay")                              \
    X(rate, "s", "least average cost of an iteration that there is evidence of")                  \
    X(gain, "s", "expected of a balancing over the iterations left")                              \
    X(cost, "s", "of one balancing (theta)")

typedef struct plb_verdict {
    bool balance; /* at the end of this iteration */
    plb_reason_t reason;
#define X(name, unit, help) double name;
    PLB_VERDICT(X)
#undef X
} plb_verdict_t;

/* What has happened since the last LB step, in the letters of Boulmier 2021. */
typedef struct plb_cycle {
    int64_t n; /* tau: iterations observed */
    double u;  /* max - mean of the last one, seconds */
    double U;  /* their sum */
} plb_cycle_t;

typedef struct plb_trigger plb_trigger_t;

/* One entry of the table. */
typedef struct plb_trigger_kind {
    const char *name, *help, *source;
    const plb_param_t *params;
    int n_params;
    size_t state_size;
    void (*init)(plb_trigger_t *self); /* or NULL; the state is zeroed */
    /** Fill the verdict, in which every figure is unknown. */
    void (*observe)(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v);
    void (*balanced)(plb_trigger_t *self, double cost, double max_over_mean); /* or NULL */
} plb_trigger_kind_t;

struct plb_trigger {
    const plb_trigger_kind_t *kind;
    double *params; /* owned; n_params values */
    void *state;    /* owned; private to the kind */
    int64_t seen;   /* last iteration observed */
    int64_t last;   /* iteration of the last LB step, or the one before the first observed */
    bool started;   /* something was observed */
    int64_t end;    /* the number behind the last iteration; INT64_MAX: not known */
    double cost;    /* of the next LB step, as far as is known; NAN: nothing is */
    plb_cycle_t cycle;
    int failed;            /* error code of a kind that can fail, else PLB_OK */
    plb_verdict_t verdict; /* the last one */
};

/* X(name of plb_trigger_*), in the order in which they are listed. */
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

/** By name, or NULL. */
const plb_trigger_kind_t *plb_trigger_find(const char *name);

/** `params`: n_params values in the order of the table, copied, checked against their ranges. */
int plb_trigger_init(plb_trigger_t *self, const plb_trigger_kind_t *kind, const double *params,
                     plb_err_t *err);
void plb_trigger_free(plb_trigger_t *self);

/** What is known before the run: `end`, the number behind the last iteration, INT64_MAX where it
 *  is not known; `cost`, the expected seconds of an LB step, NAN if there is no new estimate.
 * PLB_ERR_VALUE: cost is infinite or negative. */
int plb_trigger_expect(plb_trigger_t *self, int64_t end, double cost, plb_err_t *err);

/** Observe an iteration; the verdict is in self->verdict.  An observation from before the last LB
 *  step (it was under way) changes nothing.  PLB_ERR_VALUE: a time is NaN, infinite or
 *  negative; PLB_ERR_STATE: the iteration number does not increase.  Or the
 *  code that a kind written in another language left in self->failed. */
int plb_trigger_observe(plb_trigger_t *self, const plb_observation_t *o, plb_err_t *err);

/** An LB step took place at the end of `iteration`, cost `cost` seconds, and promises
 *  max_over_mean >= 1 on the loads that it saw. */
int plb_trigger_balanced(plb_trigger_t *self, int64_t iteration, double cost, double max_over_mean,
                         plb_err_t *err);

/** Iterations that an LB step of unknown cost is taken for: `most`, and in a short run the share
 *  of its iterations that an LB step worth trying costs at most. */
double plb_trigger_guess(const plb_trigger_t *self, double most);

/** Is a first LB step due, to learn its cost?  As in ski rental: when the imbalance has cost as
 *  much (`excess`) as the doubt is worth.  False once a cost is known.  `mean`: seconds of a
 *  balanced iteration. */
bool plb_trigger_trial(const plb_trigger_t *self, double excess, double mean);

/** The verdict of triggers that need the cost while it is unknown.  False, and `v` unchanged, if
 * it is known. */
bool plb_trigger_first(const plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v);

#endif
