/* RefineLB and RefineSwapLB: overloaded ranks give a few objects to ranks with room
 * (kit/refine.c).
 */
#include "place/kit/refine.h"

static int run_any(const plb_snapshot_t *in, plb_refine_fn refine, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_problem_t problem = {0};
    PLB_TRY(plb_problem_init(&problem, in, err));
    PLB_TRY(plb_problem_present(&problem, out, err));
    ret = refine(&problem, opts->params[0], out, err);
out:
    plb_problem_free(&problem);
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    (void)self;
    return run_any(in, plb_refine, opts, out, err);
}

static int run_swap(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                    int32_t *out, plb_err_t *err)
{
    (void)self;
    return run_any(in, plb_refine_swap, opts, out, err);
}

static const plb_param_t params[] = {
    {"overload", "x average", "a rank above this multiple of the average gives away objects",
     PLB_REFINE_OVERLOAD, 1.0, 1e6},
};

const plb_strategy_t plb_strategy_refine = {
    .name = "RefineLB",
    .help =
        "moves objects from overloaded ranks to ranks with room, or exchanges sets of objects; "
        "few migrations",
    .source = "Menon 2.2, 2.3.1; Dasgupta algorithm 1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run,
};

const plb_strategy_t plb_strategy_refine_swap = {
    .name = "RefineSwapLB",
    .help = "like RefineLB, but first swaps two objects where none can be moved",
    .source = "Menon 2.3.1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run_swap,
};
