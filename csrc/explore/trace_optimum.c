#include "explore/optimum.h"

int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_strategy_t *strategy, const double *params, uint64_t seed,
                         const plb_optimum_opts_t *opts, plb_err_t *err)
{
    (void)trace, (void)strategy, (void)params, (void)seed, (void)opts;
    *self = (plb_optimum_t){0};
    return PLB_FAIL(err, PLB_ERR_STATE, "not yet");
}
