/* The triggers of papers, each a rule of a few lines; the table of all triggers. */
#include <string.h>

#include "base/base.h"
#include "decide/trigger.h"

/* periodic: rebalance after a fixed number of iterations, whatever the loads are. */
static void periodic_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const double every = self->params[0];
    v->tau = every;
    v->next = (double)self->last + every;
    v->reason = (double)o->iteration >= v->next ? PLB_REASON_EVERY : PLB_REASON_EARLY;
    if (v->reason == PLB_REASON_EVERY) {
        /* start again, because no LB step follows while LB steps are off (decider.h) */
        self->last = o->iteration;
    }
}

static const plb_param_t periodic_params[] = {
    {"every", "iterations", "iterations from one LB step to the next", 10, 1, 1e15},
};

const plb_trigger_kind_t plb_trigger_periodic = {
    .name = "periodic",
    .help = "after a fixed number of iterations",
    .source = "the practice that Menon 2012 (3.5.2) compares with",
    .params = periodic_params,
    .n_params = 1,
    .observe = periodic_observe,
};

/* threshold: rebalance when max/mean of this iteration alone is above a threshold. */
static void threshold_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    v->reason = o->max > self->params[0] * o->mean ? PLB_REASON_UNBALANCED : PLB_REASON_WITHIN;
}

static const plb_param_t threshold_params[] = {
    {"threshold", "", "max/mean of an iteration above which an LB step is due", 1.1, 1, 1e6},
};

const plb_trigger_kind_t plb_trigger_threshold = {
    .name = "threshold",
    .help = "whenever max/mean of an iteration is above a threshold",
    .source = "Menon 2012, 3.5.5, without further conditions",
    .params = threshold_params,
    .n_params = 1,
    .observe = threshold_observe,
};

/* menon: rebalance when U >= C (Menon 2012, as written in Boulmier 2021).  U is the sum of the
 * imbalance (max - mean) since the last LB step, C the cost of an LB step.  If the imbalance
 * grows from zero by m per iteration, U = m tau^2 / 2 after tau iterations, and U = C is eq. 3.5.
 * If C is not known, it is learned from a first LB step (plb_trigger_first). */
static void menon_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    v->excess = self->cycle.U;
    if (plb_trigger_first(self, o, v)) {
        return;
    }
    const double U = self->cycle.U;
    v->reason = U > 0.0 && U >= self->cost ? PLB_REASON_LOSS : PLB_REASON_EARLY;
}

const plb_trigger_kind_t plb_trigger_menon = {
    .name = "menon",
    .help = "when the imbalance since the last LB step has cost as much as an LB step",
    .source = "Menon 2012, eq. 3.5, as U >= C of Boulmier 2021 (arXiv 2104.01688)",
    .observe = menon_observe,
};

/* procassini: rebalance when T e / e_lb + C < speedup T.  T is the time of `batch` iterations
 * like this one, e their efficiency mean/max, e_lb the mean efficiency that the LB steps so far
 * have predicted, and C the cost of an LB step.  So the left side is the time of an LB step and of
 * `batch` iterations after it.  Before the first LB step e_lb is 1.  If the cost is not known, it
 * is learned from a first LB step (plb_trigger_first). */
enum { SPEEDUP, BATCH, N_PROCASSINI };

typedef struct procassini {
    double efficiency; /* sum of the predicted mean/max of the LB steps */
    int64_t n;
} procassini_t;

static void procassini_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
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

static void procassini_balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)cost;
    procassini_t *s = self->state;
    s->efficiency += 1.0 / max_over_mean;
    s->n++;
}

static const plb_param_t procassini_params[N_PROCASSINI] = {
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
    .params = procassini_params,
    .n_params = N_PROCASSINI,
    .state_size = sizeof(procassini_t),
    .observe = procassini_observe,
    .balanced = procassini_balanced,
};

/* marquez: rebalance when a rank is outside a band around the mean.  Only the slow side of the
 * band is checked: the reduced statistics have the maximum and the mean, and only the slowest
 * rank costs time. */
static void marquez_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const double band = 1.0 + self->params[0];
    v->reason = o->max > band * o->mean ? PLB_REASON_UNBALANCED : PLB_REASON_WITHIN;
}

static const plb_param_t marquez_params[] = {
    {"tolerance", "", "share of the mean by which a rank may be slower", 0.65, 0, 1e6},
};

const plb_trigger_kind_t plb_trigger_marquez = {
    .name = "marquez",
    .help = "whenever a rank is slower than the mean by more than the tolerance",
    .source = "Marquez 2013, as in Boulmier 2021 (arXiv 2104.01688)",
    .params = marquez_params,
    .n_params = 1,
    .observe = marquez_observe,
};

/* zhai: rebalance when the sum of (median of the last three iteration times - reference) >= C.  C
 * is the cost of an LB step.  The reference is the mean of the first `reference` iteration times
 * after the LB step; the mean load is not used.  If the cost is not known, it is learned from a
 * first LB step (plb_trigger_first). */

typedef struct zhai {
    double time[PLB_FEW]; /* ring buffer: the last iteration times */
    double reference;     /* sum (not mean) of the first iteration times after the LB step */
    double loss;          /* sum of (median - reference) since the LB step */
} zhai_t;

static void zhai_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    zhai_t *s = self->state;
    const int64_t n = self->cycle.n, first = (int64_t)self->params[0];
    s->time[n % PLB_FEW] = o->max;
    if (n <= first) {
        s->reference += o->max;
    }
    if (plb_trigger_first(self, o, v)) {
        return;
    }
    if (n < PLB_FEW || n <= first) {
        v->reason = PLB_REASON_FEW;
        return;
    }
    s->loss += plb_median3(s->time) - s->reference / (double)first;
    v->excess = s->loss;
    v->reason = s->loss > 0.0 && s->loss >= self->cost ? PLB_REASON_LOSS : PLB_REASON_EARLY;
}

static void zhai_balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)cost, (void)max_over_mean;
    *(zhai_t *)self->state = (zhai_t){0};
}

static const plb_param_t zhai_params[] = {
    {"reference", "iterations",
     "number of iterations after an LB step whose mean time is the reference", 3, 1, 1e6},
};

const plb_trigger_kind_t plb_trigger_zhai = {
    .name = "zhai",
    .help = "when the slowdown since the first iterations after the last LB step has cost as much "
            "as an LB step",
    .source = "Zhai 2018, as in Boulmier 2021 (arXiv 2104.01688)",
    .params = zhai_params,
    .n_params = 1,
    .state_size = sizeof(zhai_t),
    .observe = zhai_observe,
    .balanced = zhai_balanced,
};

/* boulmier: rebalance when u tau - U >= C.
 *
 * u is the imbalance (max - mean) of the last iteration, U its sum over the tau iterations since
 * the last LB step, and C the cost of an LB step.  An iteration of a cycle costs (C + U) / tau on
 * average.  This average falls until u exceeds it: u tau >= C + U.  So this is the best period if
 * u repeats after each LB step and never falls between two of them.  If the cost is not known, it
 * is learned from a first LB step (plb_trigger_first). */
static void boulmier_observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const plb_cycle_t *c = &self->cycle;
    v->excess = c->U;
    if (plb_trigger_first(self, o, v)) {
        return;
    }
    v->reason = c->u > 0.0 && c->u * (double)c->n - c->U >= self->cost ? PLB_REASON_RATE
                                                                       : PLB_REASON_CHEAP;
}

const plb_trigger_kind_t plb_trigger_boulmier = {
    .name = "boulmier",
    .help = "when an iteration's imbalance costs more than the average per iteration since the "
            "last LB step, including the cost of an LB step",
    .source = "Boulmier 2021 (arXiv 2104.01688), u tau - U >= C",
    .observe = boulmier_observe,
};

#define ADDRESS(name) &plb_trigger_##name,
const plb_trigger_kind_t *const plb_triggers[] = {PLB_TRIGGERS(ADDRESS) NULL};

const plb_trigger_kind_t *plb_trigger_find(const char *name)
{
    const plb_trigger_kind_t *const *k = plb_triggers;
    while (*k != NULL && strcmp((*k)->name, name) != 0) {
        k++;
    }
    return *k;
}
