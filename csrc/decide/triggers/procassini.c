/* procassini: rebalance when T e / e_lb + C < speedup T.  T is the time of `batch` iterations
 * like this one, e their efficiency mean/max, e_lb the mean efficiency that the LB steps so far
 * have predicted, and C the cost of an LB step.  So the left side is the time of an LB step and of
 * `batch` iterations after it.  Before the first LB step e_lb is 1.  If the cost is not known, it
 * is learned from a first LB step (plb_trigger_first). */
#include "decide/trigger.h"

enum { SPEEDUP, BATCH, N_PARAMS };

typedef struct procassini {
    double efficiency; /* sum of the predicted mean/max of the LB steps */
    int64_t n;
} procassini_t;

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    procassini_t *s = self->state;
    if (plb_trigger_first(self, o, v)) {
        return;
    }
    const double present = o->max > 0.0 ? o->mean / o->max : 1.0;
    const double after = s->n > 0 ? s->efficiency / (double)s->n : 1.0;
    const double time = self->params[BATCH] * o->max;
    v->residual = 1.0 / after;
    const double then = time * present / after + self->cost;
    v->reason = then < self->params[SPEEDUP] * time ? PLB_REASON_REPAYS : PLB_REASON_EARLY;
}

static void balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)cost;
    procassini_t *s = self->state;
    s->efficiency += 1.0 / max_over_mean;
    s->n++;
}

static const plb_param_t params[N_PARAMS] = {
    [SPEEDUP] = {"speedup", "",
                 "an LB step and the batch after it must take less than this share of the batch's "
                 "present time",
                 1, 0, 1e6},
    [BATCH] = {"batch", "iterations", "number of iterations that must repay an LB step", 100, 1,
               1e15},
};

const plb_trigger_kind_t plb_trigger_procassini = {
    .name = "procassini",
    .help = "when an LB step and a batch of balanced iterations after it would take less time "
            "than the same batch without an LB step",
    .source = "Procassini 2005, as in Boulmier 2021 (arXiv 2104.01688)",
    .params = params,
    .n_params = N_PARAMS,
    .state_size = sizeof(procassini_t),
    .observe = observe,
    .balanced = balanced,
};
