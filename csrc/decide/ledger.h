/* Does rebalancing pay?  The ledger of a run: the seconds that its LB steps cost and saved.
 *
 * The trigger says when an LB step is due; the ledger, whether LB steps pay at all.  Its states:
 *
 * - on: when an LB step is due, the previous one is judged by the seconds that it has saved.  If
 *   recent LB steps have saved less than they cost (older ones count less), LB steps are switched
 *   off, but not before `tries` of them have been judged.
 * - off: there are no LB steps for `pause` iterations, or for longer, so that one LB step in each
 *   pause takes at most `share` of the run's time.  The pause ends early if the imbalance of three
 *   iterations in a row is above `rise` times the largest imbalance before an LB step that did not
 *   pay.  After the pause, the next LB step that is due is a trial.
 * - trial: the trial is judged after another pause.  If it has paid, LB steps are on again; if
 *   not, the pause doubles.  So the cost of LB steps that never pay grows only with the logarithm
 *   of the run's length.
 *
 * The cost theta of a strategy is the measured cost plus the warm-up: the time by which the first
 * iterations after the LB step are longer than the longest of the following ones (cold caches, new
 * message routes).  If the time of the whole LB step is more than the sum of its parts, the whole
 * time counts.  If no time above zero is reported, the time of a balanced iteration counts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

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
    double whole; /* of the whole LB step */
    bool given;   /* `whole` is the cost, even 0; else the larger of `whole` and the parts' sum */
} plb_costs_t;

/* The measured cost of LB steps with one strategy. */
typedef struct plb_account {
    int64_t n;
    double cost;    /* seconds: mean of the old value and the new measurement */
    double warm_up; /* seconds, averaged like `cost`; 0 until the first was measured */
} plb_account_t;

/* This many iterations after an LB step may be slow; they are compared with as many later ones. */
enum { PLB_WARM_UP = 3 };

typedef struct plb_ledger {
    plb_account_t *accounts; /* owned; one for each strategy */
    int32_t n;
    double params[PLB_N_LEDGER];
    double paid, gained; /* seconds: cost and savings of judged LB steps; older ones count less */
    int64_t judged;      /* judged LB steps since the start or the last successful trial */
    /* The last LB step. */
    bool open;                     /* whether this LB step is not judged yet */
    int64_t last;                  /* iteration at whose end this LB step took place */
    int32_t strategy;              /* index of its strategy; -1: there was no LB step */
    double cost;                   /* seconds, with the warm-up as soon as that is known */
    double warm_up;                /* seconds; NAN: not known yet */
    double excess_before;          /* seconds: max - mean before this LB step */
    double times[2 * PLB_WARM_UP]; /* seconds of the iterations after this LB step */
    int n_times;
    bool off, trial; /* off: LB steps are off; trial: a trial LB step was made since */
    int64_t until;   /* if `off`: before it, no LB step (except an early trial) and no judgement */
    int64_t pause;   /* iterations: the present pause */
    double beaten;   /* seconds: the largest `excess_before` of LB steps that did not pay */
    int high;        /* iterations in a row with max - mean above rise * beaten */
    double mean, excess; /* seconds: mean load and max - mean in the last iteration */
} plb_ledger_t;

/** Begin for n strategies.  params: [PLB_N_LEDGER].  PLB_ERR_VALUE: a value is out of range. */
int plb_ledger_init(plb_ledger_t *self, int32_t n, const double *params, plb_err_t *err);
void plb_ledger_free(plb_ledger_t *self);

/** Observe an iteration: its time, largest and mean load, in 0 ... 1e30 seconds. */
int plb_ledger_observe(plb_ledger_t *self, double time, double max, double mean, plb_err_t *err);

/** Whether the last LB step must be judged now.  asked: the trigger wants an LB step. */
bool plb_ledger_judges(const plb_ledger_t *self, int64_t iteration, bool asked);

/** Record that the last LB step has saved `gain` seconds (negative: lost) up to and including
 * `iteration`.  PLB_ERR_STATE: no LB step to judge; PLB_ERR_VALUE: the gain is not finite. */
int plb_ledger_judge(plb_ledger_t *self, int64_t iteration, double gain, plb_err_t *err);

/** Whether an LB step that is due may take place. */
bool plb_ledger_allows(const plb_ledger_t *self, int64_t iteration);

/** Record an LB step.  PLB_ERR_RANGE: no such strategy; PLB_ERR_VALUE: a cost is out of range. */
int plb_ledger_balanced(plb_ledger_t *self, int64_t iteration, int32_t strategy,
                        const plb_costs_t *costs, plb_err_t *err);

/** Expected seconds of an LB step with this strategy; NAN: it never ran. */
double plb_ledger_theta(const plb_ledger_t *self, int32_t strategy);
