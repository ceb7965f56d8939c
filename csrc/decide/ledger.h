/* Does rebalancing pay?  The ledger of a run: what its LB steps cost and what they saved.
 *
 * A state machine without input or output, like a trigger.  The trigger says when an LB step is
 * due, the ledger whether LB steps pay at all.
 *
 *   on        Each balancing is judged when the next one is due, by what it has saved in between.
 *             Where the last ones, faded, have saved less than they cost, balancing is switched
 *             off, after `tries` of them at the earliest.
 *   off       for `pause` iterations, and so many that one LB step in each pause takes `share`
 * of the run's time.  Then, or as soon as three iterations in a row show `rise` times the
 *             imbalance of the LB steps that did not pay, the next one that is due is a trial.
 *   trial     judged after another pause: it has paid, and balancing is on again; or not, and
 *             the pause doubles.  So the cost of LB steps that never pay grows only with the
 *             logarithm of the run.
 *
 * The cost theta of each strategy is what was measured, and what the first iterations took beyond
 * the longest of those that follow (caches, paths of messages).  A strategy that reports no cost
 * is not free: the time of the whole LB step counts where it is more than that of the parts, and
 * a balanced iteration where even that is unknown or nothing.
 */
#ifndef PLB_DECIDE_LEDGER_H
#define PLB_DECIDE_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

/* X(name, unit, default, least, most, help). */
#define PLB_LEDGER(X)                                                                             \
    X(tries, "balancings", 3, 1, 1e6, "judged before balancing may be switched off")              \
    X(fade, "", 0.8, 0, 1, "weight of a balancing against the one after it")                      \
    X(pause, "iterations", 16, 1, 1e9, "that balancing is switched off at least")                 \
    X(share, "", 0.01, 1e-6, 1, "of the run's time that looking again may cost")                  \
    X(rise, "", 2, 1, 1e6,                                                                        \
      "imbalance over that of balancings that did not pay, at which it is "                       \
      "looked at again at once")

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
    double whole; /* by the clock, from its first step to its last */
    bool given;   /* `whole` is what it cost, also where that is nothing */
} plb_costs_t;

/* What is remembered of a strategy. */
typedef struct plb_account {
    int64_t n;      /* LB steps */
    double cost;    /* seconds: halfway from the value before to each one measured */
    double warm_up; /* likewise; 0 until the first was measured */
} plb_account_t;

enum {
    PLB_WARM_UP = 3
}; /* iterations after an LB step that may be slow; as many more are compared with them */

typedef struct plb_ledger {
    plb_account_t *accounts; /* owned; one for each strategy */
    int32_t n;
    double params[PLB_N_LEDGER];
    double paid, gained; /* faded sums over the judged LB steps */
    int64_t judged;
    /* the last LB step */
    bool open;                     /* it is not judged yet */
    int64_t last;                  /* at whose end it took place */
    int32_t strategy;              /* its index, or -1: there was none */
    double cost;                   /* of it, with its warm-up once that is known */
    double warm_up;                /* NAN while it is not known */
    double found;                  /* seconds, max - mean that it was to remove */
    double times[2 * PLB_WARM_UP]; /* of the iterations since */
    int n_times;
    /* switched off */
    bool off, trial;
    int64_t until; /* no balancing, and no judgement, before its end */
    int64_t pause;
    double beaten;       /* the most `found` of LB steps that did not pay */
    int high;            /* iterations in a row beyond rise * beaten */
    double mean, excess; /* seconds, of the last iteration */
} plb_ledger_t;

/** For n strategies.  `params`: PLB_N_LEDGER values.  PLB_ERR_VALUE: one is out of its range. */
int plb_ledger_init(plb_ledger_t *self, int32_t n, const double *params, plb_err_t *err);
void plb_ledger_free(plb_ledger_t *self);

/** An iteration is over: its time, maximum and mean load.  PLB_ERR_VALUE: one is no time. */
int plb_ledger_observe(plb_ledger_t *self, double time, double max, double mean, plb_err_t *err);

/** Whether the last balancing is to be judged now.  `asked`: the trigger wants to balance. */
bool plb_ledger_judges(const plb_ledger_t *self, int64_t iteration, bool asked);

/** The last LB step has saved `gain` seconds (or lost: negative) up to and with `iteration`.
 *  PLB_ERR_STATE: there is none to judge; PLB_ERR_VALUE: the gain is not finite. */
int plb_ledger_judge(plb_ledger_t *self, int64_t iteration, double gain, plb_err_t *err);

/** Whether an LB step that is due may take place. */
bool plb_ledger_allows(const plb_ledger_t *self, int64_t iteration);

/** An LB step took place.  PLB_ERR_RANGE: no such strategy; PLB_ERR_VALUE: a cost is negative or
 *  infinite. */
int plb_ledger_balanced(plb_ledger_t *self, int64_t iteration, int32_t strategy,
                        const plb_costs_t *costs, plb_err_t *err);

/** Seconds that an LB step with a strategy is expected to cost; NAN where it was never tried. */
double plb_ledger_theta(const plb_ledger_t *self, int32_t strategy);

#endif
