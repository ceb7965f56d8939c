#include "partition/partition.h"

#include <math.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"

enum {
    MAX_LEVELS = 48,
    PER_PART = 60,  /* coarsening ends at this many vertices per part ... */
    COARSEST = 200, /* ... or at this many vertices in total, if that is more */
    TRIES = 8,      /* bisections of a coarsest hypergraph */
};

static int64_t total_weight(const plb_hypergraph_t *self)
{
    int64_t total = 0;
    for (int32_t v = 0; v < self->n_vertices; v++) {
        total += self->weight[v];
    }
    return total;
}

/* ---- levels --------------------------------------------------------------------------------- */

typedef struct levels {
    plb_hypergraph_t hg[MAX_LEVELS]; /* hg[0] is the caller's */
    int32_t *cluster[MAX_LEVELS];    /* vertex of hg[i + 1] that contains vertex v of hg[i] */
    int n;
} levels_t;

static void levels_free(levels_t *self)
{
    for (int i = 0; i < self->n; i++) {
        plb_free(self->cluster[i]);
        if (i > 0) {
            plb_hypergraph_free(&self->hg[i]);
        }
    }
    self->n = 0;
}

/* The labels of clusters replace those of vertices.  This needs a copy, because a cluster's number
 * may be above or below those of its vertices. */
static int coarsen_labels(const int32_t *cluster, int32_t n, int32_t *label, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *fine = NULL;
    PLB_NEW(fine, n);
    memcpy(fine, label, (size_t)n * sizeof *fine);
    for (int32_t v = 0; v < n; v++) {
        label[cluster[v]] = fine[v];
    }
out:
    plb_free(fine);
    return ret;
}

/* Coarsen level by level to about `coarsest` vertices.  Only vertices with the same label are
 * merged, and label[] gets the labels of the coarsest level; label NULL: no labels. */
static int coarsen(levels_t *self, const plb_hypergraph_t *hg, int64_t coarsest, int32_t *label,
                   plb_rng_t *rng, plb_err_t *err)
{
    int ret = PLB_OK;
    self->hg[0] = *hg;
    self->cluster[0] = NULL;
    self->n = 1;
    const int64_t most = 1 + total_weight(hg) * 3 / 2 / coarsest;
    while (self->n < MAX_LEVELS && self->hg[self->n - 1].n_vertices > coarsest) {
        const int at = self->n - 1;
        const plb_hypergraph_t *fine = &self->hg[at];
        int32_t n;
        PLB_NEW(self->cluster[at], fine->n_vertices);
        ret = plb_hypergraph_cluster(fine, label, most, rng, self->cluster[at], &n, err);
        if (ret != PLB_OK || n > fine->n_vertices - fine->n_vertices / 20) {
            break; /* fewer than one vertex in twenty was merged: not worth more levels */
        }
        PLB_TRY(plb_interrupted(PLB_INTERRUPT_NOW));
        PLB_TRY(plb_hypergraph_contract(fine, self->cluster[at], n, &self->hg[at + 1], err));
        self->cluster[at + 1] = NULL;
        self->n++;
        if (label != NULL) {
            PLB_TRY(coarsen_labels(self->cluster[at], fine->n_vertices, label, err));
        }
    }
out:
    return ret;
}

/* Except on the finest level, the limits are larger by the weight of the heaviest vertex, so that
 * heavy vertices can move. */
static void loosen(const plb_hypergraph_t *hg, const plb_limits_t *limits, bool finest,
                   int64_t *out)
{
    int32_t heaviest = 0;
    for (int32_t v = 0; !finest && v < hg->n_vertices; v++) {
        heaviest = hg->weight[v] > heaviest ? hg->weight[v] : heaviest;
    }
    for (int32_t p = 0; p < limits->n_parts; p++) {
        out[p] = limits->limit[p] + heaviest;
    }
}

/* From the partition coarse[] of the coarsest level, make part[] of the finest level, and refine
 * on each level. */
static int uncoarsen(const levels_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                     int32_t *coarse, int32_t *part, int64_t *after, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *loose = NULL;
    int32_t *from = coarse, *to = part;
    PLB_NEW(loose, limits->n_parts);
    const plb_limits_t here = {.n_parts = limits->n_parts, .limit = loose};
    for (int i = self->n - 1; ret == PLB_OK && i >= 0; i--) {
        loosen(&self->hg[i], limits, i == 0, loose);
        ret = plb_hypergraph_refine(&self->hg[i], &here, rng, from, after, err);
        if (i > 0) {
            for (int32_t v = 0; v < self->hg[i - 1].n_vertices; v++) {
                to[v] = from[self->cluster[i - 1][v]];
            }
            int32_t *t = from;
            from = to;
            to = t;
        }
    }
    if (from != part) {
        memcpy(part, from, (size_t)self->hg[0].n_vertices * sizeof *part);
    }
out:
    plb_free(loose);
    return ret;
}

static int64_t coarsest_for(int32_t n_parts)
{
    const int64_t n = (int64_t)PER_PART * n_parts;
    return n > COARSEST ? n : COARSEST;
}

static int keeps_limits(const plb_hypergraph_t *self, const plb_limits_t *limits,
                        const int32_t *part, bool *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *load = NULL;
    PLB_NEW0(load, limits->n_parts);
    for (int32_t v = 0; v < self->n_vertices; v++) {
        load[part[v]] += self->weight[v];
    }
    *out = true;
    for (int32_t p = 0; p < limits->n_parts; p++) {
        *out = *out && load[p] <= limits->limit[p];
    }
out:
    plb_free(load);
    return ret;
}

static int cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                 const int32_t *part, int32_t *next, int64_t *after, plb_err_t *err)
{
    int ret = PLB_OK;
    levels_t levels = {.n = 0};
    int32_t *label = NULL, *coarse = NULL;
    PLB_NEW_EACH(self->n_vertices, label, coarse);
    memcpy(label, part, (size_t)self->n_vertices * sizeof *label);
    PLB_TRY(coarsen(&levels, self, coarsest_for(limits->n_parts), label, rng, err));
    memcpy(coarse, label, (size_t)levels.hg[levels.n - 1].n_vertices * sizeof *coarse);
    ret = uncoarsen(&levels, limits, rng, coarse, next, after, err);
out:
    levels_free(&levels);
    PLB_FREE(label, coarse);
    return ret;
}

int plb_hypergraph_cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                         int32_t *part, int64_t *after, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *next = NULL;
    int64_t cost;
    bool kept, keeps;
    PLB_NEW(next, self->n_vertices);
    PLB_TRY(plb_hypergraph_connectivity(self, part, limits->n_parts, after, err));
    PLB_TRY(keeps_limits(self, limits, part, &kept, err));
    PLB_TRY(cycle(self, limits, rng, part, next, &cost, err));
    PLB_TRY(keeps_limits(self, limits, next, &keeps, err));
    if (keeps > kept || (keeps == kept && cost <= *after)) {
        memcpy(part, next, (size_t)self->n_vertices * sizeof *part);
        *after = cost;
    }
out:
    plb_free(next);
    return ret;
}

/* ---- from scratch: recursive multilevel bisection ------------------------------------------- */

/* Take the best of several bisections; part 0 has about the weight `target`. */
static int bisect_coarsest(const plb_hypergraph_t *hg, const plb_limits_t *limits, int64_t target,
                           plb_rng_t *rng, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *trial = NULL;
    int64_t best = INT64_MAX, after, loose[2];
    const plb_limits_t here = {.n_parts = 2, .limit = loose};
    loosen(hg, limits, false, loose);
    PLB_NEW(trial, hg->n_vertices);
    for (int i = 0; i < TRIES; i++) {
        const int32_t start = (int32_t)plb_rng_below(rng, (uint64_t)hg->n_vertices);
        ret = plb_hypergraph_grow(hg, start, target, trial, err);
        PLB_THEN(plb_hypergraph_refine(hg, &here, rng, trial, &after, err));
        if (ret != PLB_OK) {
            break;
        }
        if (after < best) {
            best = after;
            memcpy(part, trial, (size_t)hg->n_vertices * sizeof *part);
        }
    }
out:
    plb_free(trial);
    return ret;
}

/* Part 0 gets about the weight `target`, and each part at most `slack` times its ideal weight. */
static int bisect(const plb_hypergraph_t *hg, int64_t target, double slack, plb_rng_t *rng,
                  int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    levels_t levels = {.n = 0};
    int32_t *coarse = NULL;
    int64_t after;
    const int64_t rest = total_weight(hg) - target;
    const int64_t limit[2] = {(int64_t)(slack * (double)target) + 1,
                              (int64_t)(slack * (double)rest) + 1};
    const plb_limits_t limits = {.n_parts = 2, .limit = limit};
    if (hg->n_vertices == 0) {
        return ret;
    }
    PLB_NEW(coarse, hg->n_vertices);
    PLB_TRY(coarsen(&levels, hg, COARSEST, NULL, rng, err));
    PLB_TRY(bisect_coarsest(&levels.hg[levels.n - 1], &limits, target, rng, coarse, err));
    PLB_TRY(uncoarsen(&levels, &limits, rng, coarse, part, &after, err));
out:
    levels_free(&levels);
    plb_free(coarse);
    return ret;
}

static int recurse(const plb_hypergraph_t *hg, const int64_t *limit, int32_t k, double slack,
                   plb_rng_t *rng, int32_t *part, plb_err_t *err);

static int recurse_side(const plb_hypergraph_t *hg, const int32_t *side, int32_t which,
                        const int64_t *limit, int32_t k, int32_t base, double slack,
                        plb_rng_t *rng, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_hypergraph_t sub = {0};
    int32_t *index = NULL, *answer = NULL, n = 0;
    PLB_NEW(index, hg->n_vertices);
    for (int32_t v = 0; v < hg->n_vertices; v++) {
        index[v] = side[v] == which ? n++ : -1;
    }
    PLB_NEW(answer, n);
    PLB_TRY(plb_hypergraph_contract(hg, index, n, &sub, err));
    for (int32_t v = 0; sub.fixed != NULL && v < n; v++) {
        sub.fixed[v] -= sub.fixed[v] < 0 ? 0 : base;
    }
    PLB_TRY(recurse(&sub, limit, k, slack, rng, answer, err));
    for (int32_t v = 0; v < hg->n_vertices; v++) {
        part[v] = index[v] < 0 ? part[v] : base + answer[index[v]];
    }
out:
    plb_hypergraph_free(&sub);
    PLB_FREE(index, answer);
    return ret;
}

static int recurse(const plb_hypergraph_t *hg, const int64_t *limit, int32_t k, double slack,
                   plb_rng_t *rng, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *side = NULL, *fixed = NULL;
    const int32_t left = k / 2;
    double here = 0.0, all = 0.0;
    if (k == 1) {
        memset(part, 0, (size_t)hg->n_vertices * sizeof *part);
        return ret;
    }
    for (int32_t p = 0; p < k; p++) {
        all += (double)limit[p];
        here += p < left ? (double)limit[p] : 0.0;
    }
    PLB_NEW(side, hg->n_vertices);
    plb_hypergraph_t two = *hg;
    if (hg->fixed != NULL) {
        PLB_NEW(fixed, hg->n_vertices);
        for (int32_t v = 0; v < hg->n_vertices; v++) {
            fixed[v] = hg->fixed[v] < 0 ? -1 : hg->fixed[v] >= left;
        }
        two.fixed = fixed;
    }
    const int64_t target = (int64_t)((double)total_weight(hg) * (all > 0.0 ? here / all : 0.5));
    PLB_TRY(bisect(&two, target, slack, rng, side, err));
    PLB_TRY(recurse_side(hg, side, 0, limit, left, 0, slack, rng, part, err));
    PLB_TRY(recurse_side(hg, side, 1, limit + left, k - left, left, slack, rng, part, err));
out:
    PLB_FREE(side, fixed);
    return ret;
}

/* Partition by recursive multilevel bisection, then refine.  *after: connectivity - 1. */
static int from_scratch(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                        int32_t *part, int64_t *after, plb_err_t *err)
{
    int64_t room = 0;
    for (int32_t p = 0; p < limits->n_parts; p++) {
        room += limits->limit[p];
    }
    /* each part results from log2(n_parts) bisections; they share the allowed imbalance equally */
    const double depth = ceil(log2(limits->n_parts > 2 ? limits->n_parts : 2));
    const double slack = pow((double)room / (double)(1 + total_weight(self)), 1.0 / depth);
    int ret = recurse(self, limits->limit, limits->n_parts, slack, rng, part, err);
    return ret == PLB_OK ? plb_hypergraph_refine(self, limits, rng, part, after, err) : ret;
}

/* ---- builtin ----------------------------------------------------------------------------- */

/* pylb's own partitioner: unlike METIS and Scotch, it takes hypergraphs and refines partitions. */

static int cycles_on(const plb_question_t *in, bool fresh, int32_t cycles, int32_t *part,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = in->n_vertices;
    plb_hypergraph_t hg = {0};
    int64_t *limit = NULL, after;
    int32_t *all = NULL; /* [hg.n_vertices] parts, also of the vertices added for old parts */
    plb_rng_t rng;
    plb_rng_init(&rng, (uint64_t)in->seed);
    PLB_NEW(limit, in->n_parts);
    PLB_TRY(plb_hypergraph_init(&hg, in, err));
    PLB_NEW(all, hg.n_vertices);
    memcpy(all, part, (size_t)n * sizeof *part);
    for (int32_t v = n; v < hg.n_vertices; v++) {
        all[v] = v - n;
    }
    const plb_limits_t limits = {.n_parts = in->n_parts, .limit = limit};
    PLB_TRY(plb_partition_limits(in, limit, err));
    PLB_TRY(fresh ? from_scratch(&hg, &limits, &rng, all, &after, err)
                  : plb_hypergraph_refine(&hg, &limits, &rng, all, &after, err));
    for (int32_t i = 0; i < cycles; i++) {
        PLB_TRY(plb_interrupted(PLB_INTERRUPT_NOW));
        PLB_TRY(plb_hypergraph_cycle(&hg, &limits, &rng, all, &after, err));
    }
    memcpy(part, all, (size_t)n * sizeof *part);
out:
    plb_hypergraph_free(&hg);
    PLB_FREE(limit, all);
    return ret;
}

int plb_partition_improve(const plb_question_t *in, int32_t cycles, int32_t *part, plb_err_t *err)
{
    return in->n_parts == 1 || in->n_vertices == 0 ? PLB_OK
                                                   : cycles_on(in, false, cycles, part, err);
}

static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    PLB_FAIL_IF(in->n_options > 0, err, PLB_ERR_VALUE,
                "pylb's own partitioner has no option %s: expected no options", in->option[0]);
    for (int32_t v = 0; v < in->n_vertices; v++) {
        const bool fixed = in->fixed != NULL && in->fixed[v] >= 0;
        part[v] = fixed                                ? in->fixed[v]
                  : in->old != NULL && in->old[v] >= 0 ? in->old[v]
                                                       : v % in->n_parts;
    }
    return cycles_on(in, in->old == NULL, 0, part, err);
}

const plb_partitioner_t plb_builtin = {
    .name = "pylb",
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = run,
};
