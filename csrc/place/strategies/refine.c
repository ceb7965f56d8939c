/* RefineLB and RefineSwapLB: overloaded ranks give a few objects to ranks with room
 * (kit/refine.c).  If much imbalance is left, they also search from other placements
 * (kit/restarts.c). */
#include "place/kit/refine.h"

#include <math.h>

#include "place/kit/bound.h"
#include "place/kit/home.h"
#include "place/kit/restarts.h"

/* If the slowest rank takes more than this multiple of the threshold, other placements are
 * tried. */
static const double MUCH = 1.05;

/* Search from other placements if the refinement ended far above its threshold.  *max: the
 * resulting seconds of the slowest rank. */
static int mend(const plb_problem_t *problem, const plb_opts_t *opts, int32_t *rank, double *max,
                plb_err_t *err)
{
    plb_ranks_t ranks;
    int ret = plb_ranks_init(&ranks, problem, rank, err);
    if (ret == PLB_OK) {
        *max = plb_ranks_max(&ranks);
        const double limit =
            fmax(opts->params[0] * plb_ranks_average(&ranks), plb_bound(&ranks, 0.0));
        if (*max > MUCH * limit) {
            ret = plb_restarts(problem, limit, rank, max, opts, err);
            PLB_THEN(plb_home_return(problem, *max, rank, err));
        }
    }
    plb_ranks_free(&ranks);
    return ret;
}

static int run_any(const plb_snapshot_t *in, plb_refine_fn refine, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double before, after;
    plb_problem_t problem = {0};
    PLB_TRY(plb_problem_init(&problem, in, err));
    PLB_TRY(plb_problem_present(&problem, out, err));
    PLB_TRY(refine(&problem, opts->params[0], out, &before, err));
    PLB_TRY(mend(&problem, opts, out, &after, err));
    ret = plb_home_unless_gained(&problem, before, after, out, err);
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
