/* boulmier: u tau - U >= C.
 *
 * The average cost of an iteration of a cycle, (C + U) / tau, is least where u exceeds it
 * (u tau >= C + U); that is the best period of an imbalance of any shape that repeats itself
 * after each LB step.  A cost that is not known is learned as in menon. */
#include "decide/trigger.h"

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
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
    .help = "when the imbalance costs more than the average iteration of the cycle would",
    .source = "Boulmier 2021 (arXiv 2104.01688), u tau - U >= C",
    .observe = observe,
};
