/* RefineLB and RefineSwapLB:
 * - Overloaded ranks give a few objects to less loaded ranks (kit/refine.c).
 * - If the threshold is missed by much, RefineLB also swaps objects.  If it is still missed by
 *   much, both strategies search from other placements (kit/restarts.c).
 * - If the threshold is missed, they try to reach nearly the same maximum with far fewer
 *   migrations (kit/fewer.c).
 * - If migrations are needless (plb_has_needless), BestFitLB's placement is taken if it balances
 *   as well with fewer migrations. */
#include "place/kit/refine.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "place/kit/fewer.h"
#include "place/kit/home.h"
#include "place/kit/pack.h"
#include "place/kit/restarts.h"

/* The threshold is missed by much if the slowest rank takes more than this multiple of it. */
static const double MUCH = 1.05;

/* The threshold counts as met if it is exceeded by at most this fraction. */
static const double ROUNDING = 1e-9;

/* BestFitLB's limit is lowered by this fraction: it may end above its limit by half as much. */
static const double OVER = 2e-4;

/* Refine with swaps, and take the result if it is better. */
static int try_swaps(const plb_problem_t *problem, double overload, plb_refined_t *reached,
                     int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_refined_t swapped;
    int32_t *other = NULL;
    PLB_NEW(other, problem->in->n_objects);
    PLB_TRY(plb_pack_present(problem, other, err));
    PLB_TRY(plb_refine_swap(problem, overload, other, &swapped, err));
    if (swapped.after < reached->after) {
        *reached = swapped;
        memcpy(rank, other, (size_t)problem->in->n_objects * sizeof *rank);
    }
out:
    plb_free(other);
    return ret;
}

static int refine(const plb_problem_t *problem, double overload, int32_t *rank, plb_refined_t *out,
                  plb_err_t *err)
{
    const int ret = plb_refine(problem, overload, rank, out, err);
    return ret == PLB_OK && out->after > MUCH * out->limit
               ? try_swaps(problem, overload, out, rank, err)
               : ret;
}

static int mend(const plb_problem_t *problem, const plb_opts_t *opts, plb_refined_t *reached,
                int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    if (reached->after > MUCH * reached->limit) {
        ret = plb_restarts(problem, reached->limit, rank, reached, opts, err);
        PLB_THEN(plb_home_return(problem, reached->after, rank, err));
    }
    const bool missed = reached->raised || reached->after > (1.0 + ROUNDING) * reached->limit;
    if (ret == PLB_OK && missed) {
        ret = plb_fewer(problem, rank, &reached->after, err);
    }
    return ret;
}

static int try_best_fit(const plb_problem_t *problem, const plb_opts_t *opts,
                        plb_refined_t *reached, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    bool needless = false, taken;
    const plb_snapshot_t *in = problem->in;
    const double tolerance = fmax(opts->params[0] / (1.0 + OVER) - 1.0, 0.0);
    const plb_opts_t loose = {.seed = opts->seed, .params = &tolerance, .lenient = opts->lenient};
    int32_t *other = NULL;
    PLB_TRY(plb_has_needless(problem, rank, reached->after, &needless, err));
    if (!needless) {
        return PLB_OK;
    }
    PLB_NEW(other, in->n_objects);
    PLB_TRY(plb_strategy_bestfit.run(&plb_strategy_bestfit, in, &loose, other, err));
    ret = plb_fewer_take(problem, other, (1.0 + ROUNDING) * fmax(reached->after, reached->limit),
                         1, rank, &reached->after, &taken, err);
out:
    plb_free(other);
    return ret;
}

static int run_any(const plb_snapshot_t *in, plb_refine_fn refiner, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_refined_t reached;
    plb_problem_t problem = {0};
    PLB_TRY(plb_problem_init(&problem, in, err));
    PLB_TRY(plb_pack_present(&problem, out, err));
    PLB_TRY(refiner(&problem, opts->params[0], out, &reached, err));
    PLB_TRY(mend(&problem, opts, &reached, out, err));
    PLB_TRY(try_best_fit(&problem, opts, &reached, out, err));
    ret = plb_home_unless_gained(&problem, reached.before, reached.after, out, err);
out:
    plb_problem_free(&problem);
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    (void)self;
    return run_any(in, refine, opts, out, err);
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
        "moves objects from overloaded ranks to less loaded ranks, or exchanges sets of objects; "
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
    .help = "like RefineLB, but if no object can be moved, it first tries to swap two objects",
    .source = "Menon 2.3.1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run_swap,
};
