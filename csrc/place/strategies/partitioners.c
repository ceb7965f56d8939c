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
#include "base/base.h"
#include "place/internal.h"

/* ---- the hypergraph of a snapshot ----------------------------------------------------------- */

/* Add an object as pin `at`, if it is a vertex and the net does not have it yet.  Return the index
 * of the next pin. */
static int32_t add_pin(plb_parts_t *self, int32_t object, int32_t stamp, int32_t *seen, int32_t at)
{
    const int32_t v = self->vertex[object];
    if (v >= 0 && seen[v] != stamp) {
        seen[v] = stamp;
        self->pin[at++] = v;
    }
    return at;
}

/* Make a net of the pins since the previous net, up to index `at`, if there are at least two. */
static void end_net(plb_parts_t *self, int32_t *n_nets, int32_t at, double bytes, double *weight)
{
    if (at - self->net_start[*n_nets] > 1) {
        weight[(*n_nets)++] = bytes;
        self->net_start[*n_nets] = at;
    }
}

static int32_t fill_nets(plb_parts_t *self, int32_t *seen, double *weight)
{
    const plb_snapshot_t *in = self->problem.in;
    int32_t n = 0, stamp = 0;
    self->net_start[0] = 0;
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        int32_t at = add_pin(self, in->multicast_src[e], ++stamp, seen, self->net_start[n]);
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            at = add_pin(self, in->multicast_dst[i], stamp, seen, at);
        }
        end_net(self, &n, at, in->multicast_bytes[e], weight);
    }
    for (int64_t e = 0; e < in->n_edges; e++) {
        int32_t at = add_pin(self, in->edge_src[e], ++stamp, seen, self->net_start[n]);
        at = add_pin(self, in->edge_dst[e], stamp, seen, at);
        end_net(self, &n, at, in->edge_bytes[e], weight);
    }
    return n;
}

/* Add a net for each multicast (sender and receivers) and for each edge.  The weight of a net is
 * the number of bytes that are sent in an iteration. */
static int make_nets(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *seen = NULL;
    double *weight = NULL;
    const plb_snapshot_t *in = self->problem.in;
    const int64_t nets = in->n_multicasts + in->n_edges;
    const int64_t pins = in->n_multicasts + in->n_pins + 2 * in->n_edges;
    PLB_FAIL_IF(pins > INT32_MAX - 1, err, PLB_ERR_VALUE,
                "the edges and multicasts have %lld pins: expected fewer than 2^31 - 1",
                (long long)pins);
    PLB_NEW(self->net_start, nets + 1);
    PLB_NEW(self->pin, pins);
    PLB_NEW_EACH(nets, self->net_weight, weight);
    PLB_NEW0(seen, self->question.n_vertices);
    const int32_t n = fill_nets(self, seen, weight);
    self->per_byte = plb_scale_of(weight, n);
    for (int32_t e = 0; e < n; e++) {
        self->net_weight[e] = plb_scaled(weight[e], self->per_byte, 1);
    }
    self->question.n_nets = n;
    self->question.net_start = self->net_start;
    self->question.pin = self->pin;
    self->question.net_weight = self->net_weight;
out:
    PLB_FREE(seen, weight);
    return ret;
}

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
    PLB_TRY(takes & PLB_TAKES_HYPERGRAPH ? make_nets(&parts, err) : plb_parts_graph(&parts, err));
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
