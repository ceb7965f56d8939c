/* periodic: rebalance after a fixed number of iterations, whatever the loads are. */

#include "decide/trigger.h"

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
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

static const plb_param_t params[] = {
    {"every", "iterations", "iterations from one LB step to the next", 10, 1, 1e15},
};

const plb_trigger_kind_t plb_trigger_periodic = {
    .name = "periodic",
    .help = "after a fixed number of iterations",
    .source = "the practice that Menon 2012 (3.5.2) compares with",
    .params = params,
    .n_params = 1,
    .observe = observe,
};
