/* marquez: rebalance when a rank is outside a band around the mean.  Only the slow side of the
 * band is checked: the reduced statistics have the maximum and the mean, and only the slowest
 * rank costs time. */
#include "decide/trigger.h"

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const double band = 1.0 + self->params[0];
    v->reason = o->max > band * o->mean ? PLB_REASON_UNBALANCED : PLB_REASON_WITHIN;
}

static const plb_param_t params[] = {
    {"tolerance", "", "share of the mean by which a rank may be slower", 0.65, 0, 1e6},
};

const plb_trigger_kind_t plb_trigger_marquez = {
    .name = "marquez",
    .help = "whenever a rank is slower than the mean by more than the tolerance",
    .source = "Marquez 2013, as in Boulmier 2021 (arXiv 2104.01688)",
    .params = params,
    .n_params = 1,
    .observe = observe,
};
