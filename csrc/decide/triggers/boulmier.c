/* boulmier: rebalance when u tau - U >= C.
 *
 * u is the imbalance (max - mean) of the last iteration, U its sum over the tau iterations since
 * the last LB step, and C the cost of an LB step.  An iteration of a cycle costs (C + U) / tau on
 * average.  This average falls until u exceeds it: u tau >= C + U.  So this is the best period if
 * u repeats after each LB step and never falls between two of them.  If the cost is not known, it
 * is learned from a first LB step (plb_trigger_first). */
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
    .help = "when an iteration's imbalance costs more than the average per iteration since the "
            "last LB step, including the cost of an LB step",
    .source = "Boulmier 2021 (arXiv 2104.01688), u tau - U >= C",
    .observe = observe,
};
