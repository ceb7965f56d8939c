/* pylb's own partitioner.  It partitions hypergraphs and refines any partition, which METIS and
 * Scotch cannot do. */
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "partition/multilevel.h"

enum { MOST_CYCLES = 1000, CYCLES = 3 };

/* ---- repartitioning: a net connects each vertex with its present part ----------------------- */

/* The question with additional vertices and nets (Catalyurek et al. 2007): for each part a vertex
 * without weight that is fixed there; and for each vertex a net of weight old_cost that connects
 * it with its present part. */
typedef struct anchored {
    plb_question_t in;
    int32_t *weight, *fixed, *net_start, *pin, *net_weight;
} anchored_t;

static void anchored_free(anchored_t *self)
{
    PLB_FREE(self->weight, self->fixed, self->net_start, self->pin, self->net_weight);
}

/* Count the edges that anchor() will add: those from the lower vertex to the higher one.  In a
 * graph that is not symmetric these may be more than half of the entries. */
static int64_t count_edges(const plb_question_t *in)
{
    int64_t out = 0;
    for (int32_t v = 0; in->start != NULL && v < in->n_vertices; v++) {
        for (int32_t j = in->start[v]; j < in->start[v + 1]; j++) {
            out += in->to[j] > v;
        }
    }
    return out;
}

/* Add the additional vertices and nets to self->in, which already has the nets or the graph of the
 * question. */
static int anchor(anchored_t *self, const plb_question_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = in->n_vertices, k = in->n_parts, nets = in->n_nets;
    const int32_t pins = nets > 0 ? in->net_start[nets] : 0;
    const int64_t edges = count_edges(in);
    const int64_t most = nets + edges + n;
    *self = (anchored_t){.in = *in};
    PLB_FAIL_IF(most + k > INT32_MAX / 4 || pins + 2 * (edges + n) > INT32_MAX, err, PLB_ERR_VALUE,
                "%lld nets: expected fewer than 2^29", (long long)most);
    PLB_NEW_EACH(n + k, self->weight, self->fixed);
    PLB_NEW(self->net_start, most + 1);
    PLB_NEW(self->net_weight, most);
    PLB_NEW(self->pin, pins + 2 * (edges + n));
    int32_t e = 0, at = 0;
    for (int32_t v = 0; v < n + k; v++) {
        const bool own = v < n;
        self->weight[v] = !own ? 0 : in->weight == NULL ? 1 : in->weight[v];
        self->fixed[v] = !own ? v - n : in->fixed == NULL ? -1 : in->fixed[v];
    }
    self->net_start[0] = 0;
    for (; e < nets; e++) {
        self->net_weight[e] = in->net_weight == NULL ? 1 : in->net_weight[e];
        self->net_start[e + 1] = in->net_start[e + 1];
    }
    if (pins > 0) {
        memcpy(self->pin, in->pin, (size_t)pins * sizeof *self->pin);
    }
    at = pins;
    for (int32_t v = 0; in->start != NULL && v < n; v++) {
        for (int32_t j = in->start[v]; j < in->start[v + 1]; j++) {
            if (in->to[j] > v) {
                self->pin[at++] = v;
                self->pin[at++] = in->to[j];
                self->net_weight[e++] = in->edge_weight == NULL ? 1 : in->edge_weight[j];
                self->net_start[e] = at;
            }
        }
    }
    for (int32_t v = 0; v < n; v++) {
        if (in->old[v] >= 0) {
            self->pin[at++] = v;
            self->pin[at++] = n + in->old[v];
            self->net_weight[e++] = in->old_cost == NULL ? 1 : in->old_cost[v];
            self->net_start[e] = at;
        }
    }
    self->in = (plb_question_t){.n_vertices = n + k,
                                .n_parts = k,
                                .n_weights = 1,
                                .weight = self->weight,
                                .share = in->share,
                                .n_nets = e,
                                .net_start = self->net_start,
                                .pin = self->pin,
                                .net_weight = self->net_weight,
                                .fixed = self->fixed,
                                .imbalance = in->imbalance,
                                .seed = in->seed};
out:
    return ret;
}

/* ---- shared by both calls ------------------------------------------------------------------- */

static int cycles_on(const plb_question_t *in, bool fresh, int32_t cycles, int32_t *part,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    plb_hypergraph_t hg = {0};
    int64_t *limit = NULL, after;
    plb_rng_t rng;
    plb_rng_init(&rng, (uint64_t)in->seed);
    PLB_NEW(limit, in->n_parts);
    PLB_TRY(plb_hypergraph_init(&hg, in, err));
    const plb_limits_t limits = {in->n_parts, limit};
    ret = plb_partition_limits(in, &hg, limit, err);
    PLB_THEN(fresh ? plb_hypergraph_partition(&hg, &limits, &rng, part, &after, err)
                   : plb_hypergraph_refine(&hg, &limits, &rng, part, &after, err));
    for (int32_t i = 0; ret == PLB_OK && i < cycles; i++) {
        ret = plb_interrupted(PLB_INTERRUPT_NOW);
        PLB_THEN(plb_hypergraph_cycle(&hg, &limits, &rng, part, &after, err));
    }
out:
    plb_hypergraph_free(&hg);
    plb_free(limit);
    return ret;
}

int plb_partition_improve(const plb_question_t *in, int32_t cycles, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    anchored_t anchored = {0};
    int32_t *all = NULL;
    if (in->n_parts == 1 || in->n_vertices == 0) {
        return ret;
    }
    if (in->old == NULL) {
        return cycles_on(in, false, cycles, part, err);
    }
    PLB_TRY(anchor(&anchored, in, err));
    PLB_NEW(all, anchored.in.n_vertices);
    memcpy(all, part, (size_t)in->n_vertices * sizeof *part);
    for (int32_t p = 0; p < in->n_parts; p++) {
        all[in->n_vertices + p] = p;
    }
    ret = cycles_on(&anchored.in, false, cycles, all, err);
    memcpy(part, all, (size_t)in->n_vertices * sizeof *part);
out:
    plb_free(all);
    anchored_free(&anchored);
    return ret;
}

/* ---- as a partitioner ----------------------------------------------------------------------- */

static int read_cycles(const plb_question_t *in, int32_t *cycles, plb_err_t *err)
{
    for (int i = 0; i < in->n_options; i++) {
        char *end;
        const char *name = in->option[2 * i], *value = in->option[2 * i + 1];
        const long n = strtol(value, &end, 10);
        PLB_FAIL_IF(strcmp(name, "CYCLES") != 0 || end == value || *end != '\0' || n < 0 ||
                        n > MOST_CYCLES,
                    err, PLB_ERR_VALUE, "pylb has no option %s = '%s': expected CYCLES = 0 ... %d",
                    name, value, MOST_CYCLES);
        *cycles = (int32_t)n;
    }
    return PLB_OK;
}

/* Partition from scratch; if there is an old partition, improve that instead. */
static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    int32_t cycles = CYCLES;
    int ret = read_cycles(in, &cycles, err);
    if (ret != PLB_OK || in->old == NULL) {
        return ret != PLB_OK ? ret : cycles_on(in, true, cycles, part, err);
    }
    for (int32_t v = 0; v < in->n_vertices; v++) {
        const bool fixed = in->fixed != NULL && in->fixed[v] >= 0;
        part[v] = fixed ? in->fixed[v] : in->old[v] >= 0 ? in->old[v] : v % in->n_parts;
    }
    return plb_partition_improve(in, cycles, part, err);
}

const plb_partitioner_t plb_builtin = {
    .name = "pylb",
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = run,
};
