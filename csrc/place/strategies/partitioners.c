/* MetisLB, ScotchLB, MtKaHyParLB, ZoltanLB and HypergraphLB: the parts of a partitioner become
 * ranks.
 *
 * METIS (Karypis and Kumar 1998) and Scotch take the communication graph.  METIS takes no fixed
 * vertices: of objects that may not migrate it knows the load, not the edges.  The others take
 * multicasts and edges as nets; the objective is the number of ranks that each net reaches.
 * Mt-KaHyPar (Gottesbueren, Heuer, Maas, Sanders, Schlag 2024) runs with its deterministic preset.
 *
 * ZoltanLB (Menon 2.3.2) starts from Zoltan's answer, HypergraphLB from that of pylb's own
 * partitioner.  V-cycles then lower the sum over the nets of (number of ranks that the net reaches
 * - 1).  If `iterations` is above 0, migrations have a cost, and the present placement is
 * repartitioned (Catalyurek et al. 2007). */
#include "base/mem.h"
#include "place/internal.h"

enum { IMBALANCE, CYCLES, ITERATIONS, N_PARAMS };

static int partitioner_run(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    plb_parts_t parts;
    int32_t *part = NULL;
    const bool refines = self->n_params == N_PARAMS;
    const double imbalance = opts->params[IMBALANCE];
    const double iterations = refines ? opts->params[ITERATIONS] : 0.0;
    const char *library = self->library == NULL ? plb_builtin.name : self->library;
    const plb_partitioner_t *with = plb_partitioner_find(library);
    const unsigned takes = with == NULL ? 0 : with->takes;
    int ret = PLB_OK;
    PLB_TRY(plb_parts_init(&parts, in, takes & PLB_TAKES_FIXED, imbalance, opts->seed, err));
    PLB_NEW(part, parts.question.n_vertices);
    PLB_TRY(takes & PLB_TAKES_HYPERGRAPH ? plb_parts_nets(&parts, err)
                                         : plb_parts_graph(&parts, err));
    if (iterations > 0.0) {
        PLB_TRY(plb_parts_keep(&parts, iterations, err));
    }
    PLB_TRY(plb_parts_ask(&parts, library, part, err));
    if (refines) {
        const int32_t cycles = (int32_t)opts->params[CYCLES];
        PLB_TRY(plb_partition_improve(&parts.question, cycles, part, err));
    }
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
    {"cycles", "", "number of V-cycles that refine the partition", 3.0, 0.0, 1000.0},
    {"iterations", "iterations",
     "number of iterations between LB steps: communication counts this many times, a migration "
     "once; 0: migrations are free",
     0.0, 0.0, 1e9},
};

/* Define a strategy: the C name after plb_strategy_, its name, library and number of parameters,
 * help and source. */
#define STRATEGY(id, title, partitioner, n, words, paper)                                         \
    const plb_strategy_t plb_strategy_##id = {                                                    \
        .name = title,                                                                            \
        .help = words,                                                                            \
        .source = paper,                                                                          \
        .family = PLB_COMPREHENSIVE,                                                              \
        .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_BYTES | PLB_LOOKS_SPEED |         \
                    PLB_LOOKS_MEMORY,                                                             \
        .params = params,                                                                         \
        .n_params = n,                                                                            \
        .run = partitioner_run,                                                                   \
        .library = partitioner,                                                                   \
    }

STRATEGY(metis, "MetisLB", "METIS", 1,
         "METIS partitions the communication graph; a multicast is an edge to each receiver",
         "Menon 2012, 2.2");
STRATEGY(scotch, "ScotchLB", "Scotch", 1,
         "Scotch maps the communication graph; a multicast is an edge to each receiver",
         "Menon 2012, 2.2");
STRATEGY(mtkahypar, "MtKaHyParLB", "mtkahypar", 1,
         "Mt-KaHyPar's hypergraph partitioner: each multicast reaches few ranks",
         "Gottesbueren et al. 2024");
STRATEGY(zoltan, "ZoltanLB", "Zoltan", N_PARAMS,
         "Zoltan's hypergraph partitioner: each multicast reaches few ranks",
         "Menon 2012, 2.3.2; refined by V-cycles");
STRATEGY(hypergraph, "HypergraphLB", NULL, N_PARAMS,
         "pylb's own hypergraph partitioner: each multicast reaches few ranks; needs no library",
         "Karypis and Kumar 1999; Fiduccia and Mattheyses 1982");
