/* ZoltanLB and HypergraphLB: multicasts and edges are nets; the objective is the number of ranks
 * that each net reaches.
 *
 * See Menon 2.3.2.  ZoltanLB starts from Zoltan's answer, HypergraphLB from that of pylb's own
 * partitioner.  V-cycles then lower the sum over the nets of (number of ranks that the net reaches
 * - 1).  If `iterations` is above 0, migrations have a cost, and the present placement is
 * repartitioned (Catalyurek et al. 2007). */
#include "base/mem.h"
#include "place/internal.h"

enum { IMBALANCE, CYCLES, ITERATIONS, N_PARAMS };

static int hypergraph_run(const plb_strategy_t *self, const plb_snapshot_t *in,
                          const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    plb_parts_t parts;
    int32_t *part = NULL;
    const double imbalance = opts->params[IMBALANCE], iterations = opts->params[ITERATIONS];
    const char *library = self->library == NULL ? plb_builtin.name : self->library;
    int ret = plb_parts_init(&parts, in, true, imbalance, opts->seed, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(part, parts.question.n_vertices);
    PLB_TRY(plb_parts_nets(&parts, err));
    if (iterations > 0.0) {
        PLB_TRY(plb_parts_keep(&parts, iterations, err));
    }
    PLB_TRY(plb_parts_ask(&parts, library, part, err));
    PLB_TRY(plb_partition_improve(&parts.question, (int32_t)opts->params[CYCLES], part, err));
    if (iterations == 0.0) {
        PLB_TRY(plb_parts_relabel(&parts, part, err));
    }
    ret = plb_parts_place(&parts, part, imbalance, out, err);
out:
    plb_free(part);
    plb_parts_free(&parts);
    return ret;
}

static const plb_param_t params[N_PARAMS] = {
    PLB_PARAM_IMBALANCE,
    PLB_PARAM_CYCLES,
    PLB_PARAM_ITERATIONS,
};

const plb_strategy_t plb_strategy_zoltan = {
    .name = "ZoltanLB",
    .help = "Zoltan's hypergraph partitioner: each multicast reaches few ranks",
    .source = "Menon 2012, 2.3.2; refined by V-cycles",
    .family = PLB_COMPREHENSIVE,
    .looks_at =
        PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = N_PARAMS,
    .run = hypergraph_run,
    .library = "Zoltan",
};

const plb_strategy_t plb_strategy_hypergraph = {
    .name = "HypergraphLB",
    .help = "pylb's own hypergraph partitioner: each multicast reaches few ranks; needs no "
            "library",
    .source = "Karypis and Kumar 1999; Fiduccia and Mattheyses 1982",
    .family = PLB_COMPREHENSIVE,
    .looks_at =
        PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = N_PARAMS,
    .run = hypergraph_run,
};
