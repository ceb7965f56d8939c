/* threshold: rebalance when max/mean of this iteration alone is above a threshold. */
#include "decide/trigger.h"

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    v->reason = o->max > self->params[0] * o->mean ? PLB_REASON_UNBALANCED : PLB_REASON_WITHIN;
}

static const plb_param_t params[] = {
    {"threshold", "", "max/mean of an iteration above which an LB step is due", 1.1, 1, 1e6},
};

const plb_trigger_kind_t plb_trigger_threshold = {
    .name = "threshold",
    .help = "whenever max/mean of an iteration is above a threshold",
    .source = "Menon 2012, 3.5.5, without further conditions",
    .params = params,
    .n_params = 1,
    .observe = observe,
};
