/* zhai: rebalance when the sum of (median of the last three iteration times - reference) >= C.  C
 * is the cost of an LB step.  The reference is the mean of the first `reference` iteration times
 * after the LB step; the mean load is not used.  If the cost is not known, it is learned from a
 * first LB step (plb_trigger_first). */
#include "base/quantile.h"
#include "decide/trigger.h"

enum { LAST = 3 };

typedef struct zhai {
    double time[LAST]; /* ring buffer: the last iteration times */
    double reference;  /* sum (not mean) of the first iteration times after the LB step */
    double loss;       /* sum of (median - reference) since the LB step */
} zhai_t;

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    zhai_t *s = self->state;
    const int64_t n = self->cycle.n, first = (int64_t)self->params[0];
    s->time[n % LAST] = o->max;
    if (n <= first) {
        s->reference += o->max;
    }
    if (plb_trigger_first(self, o, v)) {
        return;
    }
    if (n < LAST || n <= first) {
        v->reason = PLB_REASON_FEW;
        return;
    }
    s->loss += plb_median3(s->time) - s->reference / (double)first;
    v->excess = s->loss;
    v->reason = s->loss > 0.0 && s->loss >= self->cost ? PLB_REASON_LOSS : PLB_REASON_EARLY;
}

static void balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)cost, (void)max_over_mean;
    *(zhai_t *)self->state = (zhai_t){0};
}

static const plb_param_t params[] = {
    {"reference", "iterations",
     "number of iterations after an LB step whose mean time is the reference", 3, 1, 1e6},
};

const plb_trigger_kind_t plb_trigger_zhai = {
    .name = "zhai",
    .help = "when the slowdown since the first iterations after the last LB step has cost as much "
            "as an LB step",
    .source = "Zhai 2018, as in Boulmier 2021 (arXiv 2104.01688)",
    .params = params,
    .n_params = 1,
    .state_size = sizeof(zhai_t),
    .observe = observe,
    .balanced = balanced,
};
