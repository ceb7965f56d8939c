/* RefineLB, RefineSwapLB and BestFitLB: overloaded ranks give a few objects to less loaded ranks,
 * until no rank takes longer than a limit.
 *
 * Menon 2.2 and 2.3.1: a rank is overloaded above `overload` times the average; only overloaded
 * ranks are examined, and no receiver becomes overloaded.  Here the limit is at least the lower
 * bound for all placements, and the steps are those of place/transfer.c.  If they end far above
 * the limit, the search starts again from GreedyLB's placement. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "place/internal.h"

/* BestFitLB leaves at least this imbalance (max/mean - 1); LITTLE_OF_FEW if objects are scarce,
 * which cannot be divided more evenly without many migrations. */
static const double LITTLE = 4e-4, LITTLE_OF_FEW = 3e-3;

enum { KICKS = 32 }; /* largest number of random changes */

/* GreedyLB's placement is worth its migrations only if the maximum falls by this factor. */
static const double WORTH = 1.05;

/* Search from GreedyLB's placement; its ranks are renumbered, so that fewer objects migrate. */
static int try_greedy(const plb_problem_t *problem, plb_refinement_t *best, const plb_opts_t *opts,
                      int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = problem->in;
    int32_t *start = NULL, *other = NULL, *name = NULL;
    plb_refinement_t how = *best;
    PLB_NEW_EACH(in->n_objects, start, other);
    PLB_NEW(name, in->n_ranks);
    PLB_TRY(plb_strategy_greedy.run(&plb_strategy_greedy, in, opts, start, err));
    if (plb_problem_all_alike(problem)) {
        PLB_TRY(plb_relabel(in->n_objects, in->rank, start, NULL, in->n_ranks, NULL, name, err));
        for (int64_t i = 0; i < in->n_objects; i++) {
            start[i] = name[start[i]];
        }
    }
    PLB_TRY(plb_refine(problem, &how, start, other, err));
    if (how.after * WORTH < best->after) {
        best->after = how.after;
        memcpy(rank, other, (size_t)in->n_objects * sizeof *rank);
    }
out:
    PLB_FREE(start, other, name);
    return ret;
}

static int refine_run_any(const plb_snapshot_t *in, double overload, unsigned families,
                          const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    int32_t *start = NULL;
    const int32_t *from = in->rank;
    int ret = PLB_OK;
    PLB_TRY(plb_problem_init(&problem, in, err));
    if (problem.room != NULL) {
        PLB_NEW(start, in->n_objects);
        memcpy(start, in->rank, (size_t)in->n_objects * sizeof *start);
        PLB_TRY(plb_start_repaired(in, start, err));
        from = start;
    }
    plb_refinement_t how = {overload, families, KICKS, opts->seed, 0.0, 0.0, 0.0};
    PLB_TRY(plb_refine(&problem, &how, from, out, err));
    if (how.after > WORTH * how.limit) {
        ret = try_greedy(&problem, &how, opts, out, err);
    }
out:
    plb_free(start);
    plb_problem_free(&problem);
    return ret;
}

static int refine_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    (void)self;
    return refine_run_any(in, opts->params[0], PLB_MOVES | PLB_SETS, opts, out, err);
}

static int swap_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                    int32_t *out, plb_err_t *err)
{
    (void)self;
    return refine_run_any(in, opts->params[0], PLB_ALL_STEPS, opts, out, err);
}

static int bestfit_run(const plb_strategy_t *self, const plb_snapshot_t *in,
                       const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    (void)self;
    const bool few = in->n_objects < (int64_t)PLB_REFINE_SCARCE * in->n_ranks;
    const double above = fmax(few ? LITTLE_OF_FEW : LITTLE, opts->params[0]);
    return refine_run_any(in, 1.0 + above, PLB_ALL_STEPS, opts, out, err);
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
    .run = refine_run,
};

const plb_strategy_t plb_strategy_refine_swap = {
    .name = "RefineSwapLB",
    .help = "like RefineLB, but if no object can be moved, it first tries to swap two objects",
    .source = "Menon 2.3.1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = swap_run,
};

static const plb_param_t bestfit_params[] = {
    {"tolerance", "x average",
     "imbalance (max/mean - 1) that may be left; at least 0.0004, or 0.003 with fewer than 40 "
     "objects per rank",
     0.0, 0.0, 1e6},
};

const plb_strategy_t plb_strategy_bestfit = {
    .name = "BestFitLB",
    .help = "moves each rank's excess load to the rank that it fits best: good balance, few moves",
    .source = "pylb; transportation problem, best fit",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = bestfit_params,
    .n_params = 1,
    .run = bestfit_run,
};
