/* ScotchLB and ScotchRefineLB: the communication graph mapped by Scotch, anew or with a cost of
 * leaving the present rank.
 *
 * Menon 2.3.3: each vertex has a fictitious edge to one that stands for its old part, weighted by
 * what its migration costs; the cut then has both.  Scotch does that itself (SCOTCH_graphRemap).
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "place/parts.h"

/* ---- refinement -------------------------------------------------------------------------------
 */

/* The longest time of a rank before and after, and the average of those before. */
static int longest(const plb_snapshot_t *in, const int32_t *rank, double *before, double *after,
                   double *average, plb_err_t *err)
{
    int ret = PLB_OK;
    double *time = NULL;
    PLB_NEW(time, 2 * (int64_t)in->n_ranks);
    plb_snapshot_rank_times(in, NULL, time);
    plb_snapshot_rank_times(in, rank == NULL ? in->rank : rank, time + in->n_ranks);
    *before = *after = 0.0;
    double work = 0.0, speed = 0.0;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        *before = fmax(*before, time[r]);
        *after = fmax(*after, time[in->n_ranks + r]);
        work += time[r] * plb_speed(in, r);
        speed += plb_speed(in, r);
    }
    *average = work / speed;
out:
    plb_free(time);
    return ret;
}

/* Where the snapshot is within the tolerance already, what it has is the tolerance. */
static int tolerance(const plb_snapshot_t *in, double *imbalance, plb_err_t *err)
{
    double before, after, average;
    const int ret = longest(in, NULL, &before, &after, &average, err);
    if (ret == PLB_OK && average > 0.0) {
        *imbalance = fmax(1.001, fmin(*imbalance, before / average));
    }
    return ret;
}

static int run_refine(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    plb_parts_t parts = {0};
    int32_t *part = NULL;
    double imbalance = opts->params[0], before, after, average;
    int ret = tolerance(in, &imbalance, err);
    ret = ret == PLB_OK ? plb_parts_init(&parts, in, true, imbalance, opts->seed, err) : ret;
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(part, parts.question.n_vertices);
    if ((ret = plb_parts_graph(&parts, err)) ||
        (ret = plb_parts_keep(&parts, opts->params[1], err)) ||
        (ret = plb_parts_ask(&parts, self->library, opts, part, err)) ||
        (ret = plb_parts_place(&parts, part, imbalance, opts, out, err)) ||
        (ret = longest(in, out, &before, &after, &average, err))) {
        goto out;
    }
    if (after > before && parts.problem.room == NULL) { /* a refinement makes nothing worse */
        memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    }
out:
    plb_free(part);
    plb_parts_free(&parts);
    return ret;
}

static const plb_param_t params[] = {PLB_PARAM_IMBALANCE};
static const plb_param_t refine_params[] = {
    PLB_PARAM_IMBALANCE,
    {"iterations", "iterations",
     "between balancings: so often communication counts, a migration once", 100.0, 1e-6, 1e9},
};

const plb_strategy_t plb_strategy_scotch = {
    .name = "ScotchLB",
    .help = "Scotch maps the communication graph; multicasts are edges to each receiver",
    .source = "Menon 2012, 2.2",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = plb_parts_run,
    .library = "Scotch",
};

const plb_strategy_t plb_strategy_scotch_refine = {
    .name = "ScotchRefineLB",
    .help = "Scotch maps the communication graph anew, with what migrations cost",
    .source = "Menon 2012, 2.3.3",
    .family = PLB_REFINEMENT,
    .looks_at =
        PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = refine_params,
    .n_params = 2,
    .run = run_refine,
    .library = "Scotch",
};
