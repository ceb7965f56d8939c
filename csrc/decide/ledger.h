/* Does rebalancing pay?  The ledger of a run: what its LB steps cost and what they saved.
 *
 * A state machine without input or output, like a trigger.  The trigger says when an LB step is
 * due, the ledger whether LB steps pay at all.
 *
 *   on        Each LB step is judged when the next one is due, by what it has saved in between.
 *             If recent LB steps have saved less than they cost (older ones count less), LB
 *             steps are switched off, at the earliest after `tries` of them.
 *   off       for `pause` iterations, or longer, so that one LB step in each pause takes at
 *             most `share` of the run's time.  The pause ends early if the imbalance of three
 *             iterations in a row is `rise` times that of the LB steps that did not pay.  The
 *             next LB step that is due is then a trial.
 *   trial     judged after another pause: if it has paid, LB steps are on again; if not, the
 *             pause doubles.  So the cost of LB steps that never pay grows only with the
 *             logarithm of the run.
 *
 * The cost theta of each strategy is the measured one plus the warm-up after it: what the first
 * iterations took beyond the longest of those that follow (caches, paths of messages).  A
 * strategy that reports no cost is not free: the time of the whole LB step counts if it is more
 * than the sum of its parts.  If even that is unknown or zero, the time of a balanced iteration
 * counts.
 */
#ifndef PLB_DECIDE_LEDGER_H
#define PLB_DECIDE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

/* X(name, unit, default, least, most, help). */
#define PLB_LEDGER(X)                                                                             \
    X(tries, "LB steps", 3, 1, 1e6, "judged before LB steps may be switched off")                 \
    X(fade, "", 0.8, 0, 1, "weight of an LB step relative to the next one")                       \
    X(pause, "iterations", 16, 1, 1e9, "shortest time for which LB steps are switched off")       \
    X(share, "", 0.01, 1e-6, 1, "of the run's time that trial LB steps may cost")                 \
    X(rise, "", 2, 1, 1e6,                                                                        \
      "a trial takes place at once at this imbalance, relative to that before LB steps that "     \
      "did not pay")

enum {
#define X(name, unit, fallback, least, most, help) PLB_LEDGER_##name,
    PLB_LEDGER(X)
#undef X
        PLB_N_LEDGER
};

/** The table, PLB_N_LEDGER entries. */
extern const plb_param_t plb_ledger_params[];

/* What an LB step reports of its cost, in seconds; NAN or 0 where it reports nothing. */
typedef struct plb_costs {
    double statistics, strategy, migration;
    double whole; /* elapsed time of the whole LB step */
    bool given;   /* true: the cost is `whole`, even zero; false: the larger of `whole` and the sum
                     of the parts */
} plb_costs_t;

/* What is remembered of a strategy. */
typedef struct plb_account {
    int64_t n;      /* number of LB steps */
    double cost;    /* seconds: mean of the previous value and the new measurement */
    double warm_up; /* seconds of warm-up, averaged like `cost`; 0 until the first was measured */
} plb_account_t;

enum {
    PLB_WARM_UP = 3
}; /* iterations after an LB step that may be slow; the same number after them is the reference */

typedef struct plb_ledger {
    plb_account_t *accounts; /* owned; one for each strategy */
    int32_t n;
    double params[PLB_N_LEDGER];
    double paid, gained; /* seconds: sums over the judged LB steps; older ones count less */
    int64_t judged;
    /* the last LB step */
    bool open;    /* true: the last LB step is not judged yet; false: it is, or there was none */
    int64_t last; /* iteration at whose end it took place */
    int32_t strategy;     /* index of its strategy; -1: there was no LB step */
    double cost;          /* seconds: cost of that LB step, with the warm-up once this is known */
    double warm_up;       /* NAN while it is not known */
    double excess_before; /* seconds: max - mean before it */
    double times[2 * PLB_WARM_UP]; /* seconds of the iterations since */
    int n_times;
    /* off: LB steps are switched off; trial: an LB step has been made as a trial nevertheless */
    bool off, trial;
    int64_t until; /* no LB step and no judgement before the end of this iteration */
    int64_t pause;
    double beaten;       /* the largest `excess_before` of the LB steps that did not pay */
    int high;            /* number of iterations in a row with max - mean above rise * beaten */
    double mean, excess; /* seconds, of the last iteration */
} plb_ledger_t;

/** Begin for n strategies.  `params`: PLB_N_LEDGER values.  PLB_ERR_VALUE: one is out of its
 * range. */
int plb_ledger_init(plb_ledger_t *self, int32_t n, const double *params, plb_err_t *err);
void plb_ledger_free(plb_ledger_t *self);

/** Observe an iteration: its time, maximum and mean load.  PLB_ERR_VALUE: one is not a valid
 * time. */
int plb_ledger_observe(plb_ledger_t *self, double time, double max, double mean, plb_err_t *err);

/** Whether the last LB step is to be judged now.  `asked`: the trigger wants an LB step. */
bool plb_ledger_judges(const plb_ledger_t *self, int64_t iteration, bool asked);

/** Record that the last LB step has saved `gain` seconds (negative: lost) up to and including
 * `iteration`.
 *  PLB_ERR_STATE: there is none to judge; PLB_ERR_VALUE: the gain is not finite. */
int plb_ledger_judge(plb_ledger_t *self, int64_t iteration, double gain, plb_err_t *err);

/** Whether an LB step that is due may take place. */
bool plb_ledger_allows(const plb_ledger_t *self, int64_t iteration);

/** Record an LB step.  PLB_ERR_RANGE: no such strategy; PLB_ERR_VALUE: a cost is negative or
 * infinite. */
int plb_ledger_balanced(plb_ledger_t *self, int64_t iteration, int32_t strategy,
                        const plb_costs_t *costs, plb_err_t *err);

/** Seconds that an LB step with a strategy is expected to cost; NAN if it was never tried. */
double plb_ledger_theta(const plb_ledger_t *self, int32_t strategy);

#endif
