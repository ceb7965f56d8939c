/* ScotchRefineLB: refines the present placement on the communication graph, with a cost for
 * leaving the present rank, or maps the graph by Scotch.
 *
 * Menon 2.3.3: each vertex has a fictitious edge to a vertex that represents its old part,
 * weighted by its migration cost.  The cut then includes the costs of messages and of migrations.
 * pylb's own searches refine the present placement with these edges, because Scotch's remapping
 * (SCOTCH_graphRemap) begins with bisections, which move most objects, and its local searches from
 * an old mapping (strategy "cf" of Scotch 7.0.3) give varying results if vertices have weight 0.
 * Scotch's map from scratch is taken if it is better balanced, or if it is as well balanced and
 * its messages and migrations together cost less. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

typedef struct trial {
    int32_t *rank;  /* [n_objects] rank of each object */
    double longest; /* seconds of the most loaded rank */
    int64_t cost;   /* cost of messages and migrations */
} trial_t;

/* Set the part of each vertex from rank[], the objects' ranks. */
static void parts_of(const plb_parts_t *parts, const int32_t *rank, int32_t *part)
{
    for (int32_t v = 0; v < parts->question.n_vertices; v++) {
        part[v] = v < parts->n ? rank[plb_problem_object(&parts->problem, v)] : v - parts->n;
    }
}

/* Refine the present placement: overloaded ranks give their excess to ranks with which they
 * communicate.  Local searches and a V-cycle follow, with the edges to the old ranks. */
static int try_near(const plb_parts_t *parts, double imbalance, int32_t *part, int32_t *rank,
                    plb_err_t *err)
{
    const plb_snapshot_t *in = parts->problem.in;
    memcpy(rank, in->rank, (size_t)in->n_objects * sizeof *rank);
    PLB_PASS(plb_start_repaired(in, rank, err));
    PLB_PASS(plb_refine_comm(in, imbalance, true, NULL, rank, err));
    parts_of(parts, rank, part);
    PLB_PASS(plb_partition_improve(&parts->question, 1, part, err));
    return plb_parts_place(parts, part, imbalance, rank, err);
}

/* Measure the placement trial->rank.  Its cost: the cut of the graph, plus that of migrations, in
 * units of the edge weights. */
static int measure(const plb_parts_t *parts, trial_t *trial, int32_t *part, plb_err_t *err)
{
    const plb_question_t *q = &parts->question;
    int64_t twice = 0, moved = 0;
    plb_metrics_t after;
    PLB_PASS(plb_snapshot_metrics(parts->problem.in, trial->rank, &after, err));
    parts_of(parts, trial->rank, part);
    for (int32_t v = 0; v < q->n_vertices; v++) {
        for (int32_t j = q->start[v]; j < q->start[v + 1]; j++) {
            twice += part[v] != part[q->to[j]] ? q->edge_weight[j] : 0;
        }
        moved += part[v] != q->old[v] ? q->old_cost[v] : 0;
    }
    trial->longest = after.max;
    trial->cost = twice / 2 + moved;
    return PLB_OK;
}

static int run_refine(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    plb_parts_t parts = {0};
    plb_metrics_t before;
    int32_t *part = NULL;
    trial_t near = {out, 0.0, 0}, fresh = {NULL, 0.0, 0};
    double imbalance = opts->params[0];
    const double average = plb_average(in);
    int ret = PLB_OK;
    PLB_TRY(plb_parts_init(&parts, in, true, imbalance, opts->seed, err));
    PLB_TRY(plb_snapshot_metrics(in, NULL, &before, err));
    if (average > 0.0) { /* allow at most the present imbalance, but a possible value */
        imbalance = fmax(self->params[0].least, fmin(imbalance, before.max / average));
        parts.question.imbalance = imbalance;
    }
    PLB_NEW(part, parts.question.n_vertices);
    PLB_NEW(fresh.rank, in->n_objects);
    PLB_TRY(plb_parts_graph(&parts, err));
    PLB_TRY(plb_parts_keep(&parts, opts->params[1], err));
    PLB_TRY(try_near(&parts, imbalance, part, near.rank, err));
    plb_parts_t scratch = parts; /* map from scratch, as ScotchLB does */
    scratch.question.old = scratch.question.old_cost = NULL;
    PLB_TRY(plb_parts_ask(&scratch, "Scotch", part, err));
    PLB_TRY(plb_parts_relabel(&scratch, part, err));
    PLB_TRY(plb_parts_place(&scratch, part, imbalance, fresh.rank, err));
    PLB_TRY(measure(&parts, &fresh, part, err));
    PLB_TRY(measure(&parts, &near, part, err));
    /* the better balanced placement is better (times below the limit are equal, and so are times
     * that differ by less than PLB_NOISE); in a tie, the one with the lower cost */
    const double a = fmax(near.longest, imbalance * average);
    const double b = fmax(fresh.longest, imbalance * average);
    const double less = 1.0 - PLB_NOISE;
    if (a < less * b ? false : b < less * a ? true : near.cost > fresh.cost) {
        memcpy(out, fresh.rank, (size_t)in->n_objects * sizeof *out);
    }
out:
    PLB_FREE(part, fresh.rank);
    plb_parts_free(&parts);
    return ret;
}

static const plb_param_t params[] = {
    PLB_PARAM_IMBALANCE,
    {"iterations", "iterations",
     "number of iterations between LB steps: communication counts this many times, a migration "
     "once",
     10.0, 1e-6, 1e9},
};

const plb_strategy_t plb_strategy_scotch_refine = {
    .name = "ScotchRefineLB",
    .help = "refines the present placement, counting migration costs; uses a new map by Scotch "
            "if that balances better or costs less",
    .source = "Menon 2012, 2.3.3",
    .family = PLB_REFINEMENT,
    .looks_at =
        PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 2,
    .run = run_refine,
    .library = "Scotch",
};
