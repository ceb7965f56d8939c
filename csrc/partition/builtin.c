/* pylb's own partitioner: unlike METIS and Scotch, it takes hypergraphs and refines partitions. */
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "partition/partition.h"

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
    PLB_TRY(plb_partition_limits(in, &hg, limit, err));
    PLB_TRY(fresh ? plb_hypergraph_partition(&hg, &limits, &rng, all, &after, err)
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
