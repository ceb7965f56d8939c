/* Zoltan as one of the partitioners: for the vertices of this process, over MPI_COMM_SELF.  mpi4py
 * has initialised MPI at the import of the Python module. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "partition/libraries/partitioners.h"
#include "partition/libraries/zoltan.h"

static int widen(const int32_t *x, int64_t n, double **out, plb_err_t *err)
{
    if (x != NULL) {
        PLB_PASS_NEW(*out, n);
        for (int64_t i = 0; i < n; i++) {
            (*out)[i] = x[i];
        }
    }
    return PLB_OK;
}

enum { N_OWN = 7 }; /* parameters that follow from the question */

typedef struct own_options {
    char imbalance[32], seed[32];
    const char **option;
} own_options_t;

/* List the parameters that follow from the question, then the caller's. */
static int options(own_options_t *self, const plb_question_t *in, plb_err_t *err)
{
    const bool nets = in->net_start != NULL, edges = in->start != NULL;
    snprintf(self->imbalance, sizeof self->imbalance, "%.9g", in->imbalance);
    snprintf(self->seed, sizeof self->seed, "%d", in->seed);
    const char *own[2 * N_OWN] = {
        "LB_METHOD",
        nets    ? "HYPERGRAPH"
        : edges ? "GRAPH"
                : "RCB",
        "HYPERGRAPH_PACKAGE",
        "PHG",
        "GRAPH_PACKAGE",
        "PHG",
        "LB_APPROACH",
        in->old == NULL ? "PARTITION" : "REPARTITION",
        "REMAP",
        "0", /* pylb renumbers the parts itself */
        "IMBALANCE_TOL",
        self->imbalance,
        "SEED",
        self->seed,
    };
    PLB_PASS_NEW(self->option, 2 * (N_OWN + in->n_options));
    memcpy(self->option, own, sizeof own);
    if (in->n_options > 0) {
        memcpy(self->option + 2 * N_OWN, in->option,
               2 * (size_t)in->n_options * sizeof *in->option);
    }
    return PLB_OK;
}

static int run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    const int64_t dist[2] = {0, in->n_vertices};
    const int64_t edges = in->start != NULL ? in->start[in->n_vertices] : 0;
    double *weight = NULL, *edge_weight = NULL, *net_weight = NULL;
    int32_t *old = NULL;
    own_options_t own = {.option = NULL};
    int ret = plb_zoltan_has_mpi(err);
    PLB_THEN(widen(in->weight, (int64_t)in->n_vertices * in->n_weights, &weight, err));
    if (ret == PLB_OK && in->edge_weight != NULL) {
        ret = widen(in->edge_weight, edges, &edge_weight, err);
    }
    if (ret == PLB_OK && in->net_start != NULL) {
        ret = widen(in->net_weight, in->n_nets, &net_weight, err);
    }
    PLB_THEN(options(&own, in, err));
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(old, in->n_vertices);
    for (int32_t v = 0; v < in->n_vertices; v++) {
        old[v] = in->old == NULL || in->old[v] < 0 ? 0 : in->old[v];
    }
    const plb_zoltan_t question = {
        .comm = MPI_COMM_SELF,
        .dist = dist,
        .n = in->n_vertices,
        .n_parts = in->n_parts,
        .n_weights = weight == NULL ? 0 : in->n_weights,
        .weight = weight,
        .share = in->share,
        .n_dims = in->n_dims,
        .coords = in->coords,
        .start = {in->start, 0},
        .to = {in->to, 0},
        .edge_weight = edge_weight,
        .n_nets = in->n_nets,
        .net_start = {in->net_start, 0},
        .pin = {in->pin, 0},
        .net_weight = net_weight,
        .old = old,
        .fixed = in->fixed,
        .size = in->old_cost,
        .n_options = N_OWN + in->n_options,
        .option = own.option,
    };
    ret = plb_zoltan_run(&question, part, NULL, err);
out:
    PLB_FREE(weight, edge_weight, net_weight, own.option, old);
    return ret;
}

const plb_partitioner_t *plb_zoltan(void)
{
    static const plb_partitioner_t self = {
        .name = "Zoltan",
        .version = PLB_TEXT(ZOLTAN_VERSION_NUMBER),
        .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_COORDS | PLB_TAKES_WEIGHTS |
                 PLB_TAKES_FIXED | PLB_TAKES_OLD,
        .run = run,
    };
    return &self;
}
