/* none: all objects stay; the baseline for comparisons. */
#include <string.h>

#include "place/strategy.h"

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    (void)self, (void)opts, (void)err;
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    return PLB_OK;
}

const plb_strategy_t plb_strategy_none = {
    .name = "none",
    .help = "leave every object where it is",
    .source = "the baseline",
    .family = PLB_REFINEMENT,
    .run = run,
};
