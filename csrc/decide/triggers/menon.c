/* menon: rebalance when U >= C (Menon 2012, as written in Boulmier 2021).  U is the sum of the
 * imbalance (max - mean) since the last LB step, C the cost of an LB step.  If the imbalance
 * grows from zero by m per iteration, U = m tau^2 / 2 after tau iterations, and U = C is eq. 3.5.
 * If C is not known, it is learned from a first LB step (plb_trigger_first). */
#include "decide/trigger.h"

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
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
    .observe = observe,
};
