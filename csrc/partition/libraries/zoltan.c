/* Zoltan over a communicator, and as one of the partitioners: for the vertices of this process,
 * over MPI_COMM_SELF (mpi4py has initialised MPI at the import of the Python module). */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "partition/libraries/partitioners.h"
#include "partition/libraries/zoltan.h"

/* ---- callbacks ------------------------------------------------------------------------------ */

/* Zoltan's callbacks.  Their argument `data` is the plb_zoltan_t whose arrays they read. */

static int count_objects(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n;
}

static void list_objects(void *data, int n_gid, int n_lid, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                         int n_weights, float *weight, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int32_t v = 0; v < in->n; v++) {
        gid[v] = (ZOLTAN_ID_TYPE)(in->first + v);
        lid[v] = (ZOLTAN_ID_TYPE)v;
    }
    for (int64_t i = 0; i < (int64_t)in->n * n_weights; i++) {
        weight[i] = (float)(in->scale > 0.0 ? rint(in->weight[i] * in->scale) : in->weight[i]);
    }
    *ierr = ZOLTAN_OK;
}

static void present_parts(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                          ZOLTAN_ID_PTR lid, int *part, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        part[i] = in->old == NULL ? in->home : in->old[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void sizes(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                  int *bytes, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        bytes[i] = in->size == NULL ? 1 : in->size[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static int count_fixed(void *data, int *ierr)
{
    const plb_zoltan_t *in = data;
    int n = 0;
    for (int32_t v = 0; v < in->n; v++) {
        n += in->fixed[v] >= 0;
    }
    *ierr = ZOLTAN_OK;
    return n;
}

static void list_fixed(void *data, int n_fixed, int n_gid, ZOLTAN_ID_PTR gid, int *part, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int32_t v = 0, i = 0; v < in->n; v++) {
        if (in->fixed[v] >= 0) {
            gid[i] = (ZOLTAN_ID_TYPE)(in->first + v);
            part[i++] = in->fixed[v];
        }
    }
    *ierr = ZOLTAN_OK;
}

static void hypergraph_size(void *data, int *n_nets, int *n_pins, int *format, int *ierr)
{
    const plb_zoltan_t *in = data;
    *n_nets = in->n_nets;
    *n_pins = (int)plb_int_at(in->net_start, in->n_nets);
    *format = ZOLTAN_COMPRESSED_EDGE;
    *ierr = ZOLTAN_OK;
}

static void hypergraph(void *data, int n_gid, int n_nets, int n_pins, int format,
                       ZOLTAN_ID_PTR net, int *start, ZOLTAN_ID_PTR pin, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        net[e] = (ZOLTAN_ID_TYPE)(in->first_net + e);
        start[e] = (int)plb_int_at(in->net_start, e);
    }
    for (int i = 0; i < n_pins; i++) {
        pin[i] = (ZOLTAN_ID_TYPE)plb_int_at(in->pin, i);
    }
    *ierr = ZOLTAN_OK;
}

static void count_net_weights(void *data, int *n_nets, int *ierr)
{
    *n_nets = ((const plb_zoltan_t *)data)->n_nets;
    *ierr = ZOLTAN_OK;
}

static void net_weights(void *data, int n_gid, int n_lid, int n_nets, int dim, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, float *weight, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        gid[e] = (ZOLTAN_ID_TYPE)(in->first_net + e);
        lid[e] = (ZOLTAN_ID_TYPE)e;
        weight[e] = (float)in->net_weight[e];
    }
    *ierr = ZOLTAN_OK;
}

static void count_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int *count, int *ierr)
{
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        count[i] = (int)(plb_int_at(in->start, lid[i] + 1) - plb_int_at(in->start, lid[i]));
    }
    *ierr = ZOLTAN_OK;
}

static void list_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                       ZOLTAN_ID_PTR lid, int *count, ZOLTAN_ID_PTR to, int *owners, int dim,
                       float *weight, int *ierr)
{
    const plb_zoltan_t *in = data;
    int64_t at = 0;
    int guess = 0; /* the owner of the previous object */
    for (int i = 0; i < n; i++) {
        const int64_t end = plb_int_at(in->start, lid[i] + 1);
        for (int64_t j = plb_int_at(in->start, lid[i]); j < end; j++, at++) {
            const int64_t object = plb_int_at(in->to, j);
            to[at] = (ZOLTAN_ID_TYPE)object;
            if (object < in->dist[guess] || object >= in->dist[guess + 1]) {
                for (guess = 0; in->dist[guess + 1] <= object; guess++) {
                }
            }
            owners[at] = guess;
            if (dim > 0) {
                weight[at] = (float)in->edge_weight[j];
            }
        }
    }
    *ierr = ZOLTAN_OK;
}

static int count_dims(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n_dims;
}

static void list_coords(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int dims, double *out, int *ierr)
{
    const plb_zoltan_t *in = data;
    /* copy consecutive ids together; usually all are consecutive */
    for (int i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && lid[i + run] == lid[i] + (ZOLTAN_ID_TYPE)run; run++) {
        }
        memcpy(out + (int64_t)i * dims, in->coords + (int64_t)lid[i] * dims,
               (size_t)run * (size_t)dims * sizeof *out);
    }
    *ierr = ZOLTAN_OK;
}

static void set_queries(struct Zoltan_Struct *zz, const plb_zoltan_t *in)
{
    void *data = (void *)in;
    const bool fixed = in->fixed != NULL, weighs = in->net_weight != NULL;
    const bool nets = in->net_start.data != NULL, graph = in->start.data != NULL;
    Zoltan_Set_Num_Obj_Fn(zz, count_objects, data);
    Zoltan_Set_Obj_List_Fn(zz, list_objects, data);
    Zoltan_Set_Part_Multi_Fn(zz, present_parts, data);
    Zoltan_Set_Obj_Size_Multi_Fn(zz, sizes, data);
    Zoltan_Set_Num_Fixed_Obj_Fn(zz, fixed ? count_fixed : NULL, data);
    Zoltan_Set_Fixed_Obj_List_Fn(zz, fixed ? list_fixed : NULL, data);
    Zoltan_Set_HG_Size_CS_Fn(zz, nets ? hypergraph_size : NULL, data);
    Zoltan_Set_HG_CS_Fn(zz, nets ? hypergraph : NULL, data);
    Zoltan_Set_HG_Size_Edge_Wts_Fn(zz, weighs ? count_net_weights : NULL, data);
    Zoltan_Set_HG_Edge_Wts_Fn(zz, weighs ? net_weights : NULL, data);
    Zoltan_Set_Num_Edges_Multi_Fn(zz, graph ? count_edges : NULL, data);
    Zoltan_Set_Edge_List_Multi_Fn(zz, graph ? list_edges : NULL, data);
    Zoltan_Set_Num_Geom_Fn(zz, in->n_dims > 0 ? count_dims : NULL, data);
    Zoltan_Set_Geom_Multi_Fn(zz, in->n_dims > 0 ? list_coords : NULL, data);
}

/* One call at a time: Zoltan has one random stream. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- parameters ----------------------------------------------------------------------------- */

static int set_text(struct Zoltan_Struct *zz, const char *name, const char *value, plb_err_t *err)
{
    PLB_FAIL_IF(Zoltan_Set_Param(zz, name, value) != ZOLTAN_OK, err, PLB_ERR_VALUE,
                "Zoltan refuses its parameter %s = '%s'", name, value);
    return PLB_OK;
}

/* Set the parameters that follow from the arrays; then the caller's, which may override them. */
static int set_params(struct Zoltan_Struct *zz, const plb_zoltan_t *in, plb_err_t *err)
{
    const struct {
        const char *name;
        int value;
    } number[] = {
        {"DEBUG_LEVEL", 0}, /* set first, so that Zoltan does not print the other parameters */
        {"NUM_GID_ENTRIES", 1},
        {"NUM_LID_ENTRIES", 1},
        {"NUM_GLOBAL_PARTS", in->n_parts},
        {"OBJ_WEIGHT_DIM", in->n_weights},
        {"EDGE_WEIGHT_DIM", in->edge_weight != NULL || in->net_weight != NULL},
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        char text[32];
        snprintf(text, sizeof text, "%d", number[i].value);
        PLB_PASS(set_text(zz, number[i].name, text, err));
    }
    PLB_PASS(set_text(zz, "RETURN_LISTS", "EXPORT", err)); /* list only the objects that leave */
    for (int i = 0; i < in->n_options; i++) {
        PLB_PASS(set_text(zz, in->option[2 * i], in->option[2 * i + 1], err));
    }
    return PLB_OK;
}

/* Every rank sets the shares of all parts; if they differ for a part, Zoltan takes the largest. */
static int set_shares(struct Zoltan_Struct *zz, const plb_zoltan_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    int *id = NULL, *index = NULL;
    float *share = NULL;
    const int dim = in->n_weights > 1 ? in->n_weights : 1, n = in->n_parts * dim;
    if (in->share == NULL) {
        return PLB_OK;
    }
    PLB_NEW_EACH(n, id, index, share);
    for (int i = 0; i < n; i++) {
        id[i] = i / dim;
        index[i] = i % dim;
        share[i] = (float)in->share[i / dim];
    }
    if (Zoltan_LB_Set_Part_Sizes(zz, 1, n, id, index, share) != ZOLTAN_OK) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan refuses the sizes of the parts");
    }
out:
    PLB_FREE(id, index, share);
    return ret;
}

/* Resets PT-Scotch's random stream, which otherwise continues from call to call.  This function is
 * absent if Zoltan is built without Scotch. */
extern void SCOTCH_randomReset(void) __attribute__((weak));

/* ---- the call ------------------------------------------------------------------------------- */

typedef struct lists {
    int n, *rank, *part;
    ZOLTAN_ID_PTR gid, lid;
} lists_t;

/* Wait until all ranks agree.  If this rank has failed, the others may wait for it inside Zoltan,
 * where no message reaches them: after PYLB_ABORT_AFTER seconds (as in pylb/comm/program_end.py),
 * abort the job. */
static int wait_or_abort(MPI_Comm comm, MPI_Request *request, int rank, const char *why)
{
    const char *text = getenv("PYLB_ABORT_AFTER");
    const double limit = text == NULL || *text == '\0' ? 1e-9 * (double)PLB_WAIT_PATIENCE_NS
                                                       : plb_point_read(text, NULL);
    const double begin = MPI_Wtime();
    int done = 0, code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS && !done) {
        if (MPI_Wtime() - begin > limit) {
            fprintf(stderr,
                    "pylb: rank %d: %s; the other ranks did not come within %g s "
                    "(PYLB_ABORT_AFTER); aborting all ranks\n",
                    rank, why, limit);
            MPI_Abort(comm, 1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    return code;
}

/* All ranks fail if one has failed.  ret: the result of this rank. */
static int agree(MPI_Comm comm, int ret, plb_err_t *err)
{
    int rank, first = 0, mine;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    mine = ret == PLB_OK ? INT_MAX : rank;
    int code = MPI_Iallreduce(&mine, &first, 1, MPI_INT, MPI_MIN, comm, &request);
    if (code == MPI_SUCCESS) {
        code = ret == PLB_OK ? MPI_Wait(&request, MPI_STATUS_IGNORE)
                             : wait_or_abort(comm, &request, rank, err->text);
    }
    PLB_PASS(ret); /* this rank's own error comes first */
    PLB_FAIL_IF(code != MPI_SUCCESS, err, PLB_ERR_MPI, "MPI_Iallreduce failed");
    PLB_FAIL_IF(first != INT_MAX, err, PLB_ERR_LIBRARY, "Zoltan failed on rank %d", first);
    return PLB_OK;
}

static int partition(struct Zoltan_Struct *zz, const plb_zoltan_t *in, int32_t *part,
                     plb_err_t *err)
{
    int changes, n_gid, n_lid, ret = PLB_OK;
    lists_t come = {0}, go = {0};
    if (SCOTCH_randomReset != NULL && in->start.data != NULL) {
        setenv("SCOTCH_PTHREAD_NUMBER", "1", 0); /* with more threads, PT-Scotch's results vary */
        SCOTCH_randomReset();
    }
    const int code =
        Zoltan_LB_Partition(zz, &changes, &n_gid, &n_lid, &come.n, &come.gid, &come.lid,
                            &come.rank, &come.part, &go.n, &go.gid, &go.lid, &go.rank, &go.part);
    if (code == ZOLTAN_MEMERR) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "Zoltan ran out of memory");
    } else if (code != ZOLTAN_OK && code != ZOLTAN_WARN) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan failed (code %d)", code);
    }
    for (int32_t v = 0; ret == PLB_OK && v < in->n; v++) {
        part[v] = in->old == NULL ? in->home : in->old[v];
    }
    for (int i = 0; ret == PLB_OK && i < go.n; i++) {
        part[go.lid[i]] = go.part[i];
    }
    Zoltan_LB_Free_Part(&come.gid, &come.lid, &come.rank, &come.part);
    Zoltan_LB_Free_Part(&go.gid, &go.lid, &go.rank, &go.part);
    return agree(in->comm, ret, err);
}

static int has_mpi(plb_err_t *err)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    PLB_FAIL_IF(!begun || ended, err, PLB_ERR_STATE, "Zoltan needs MPI, which %s",
                ended ? "has been finalized" : "is not initialized");
    return PLB_OK;
}

int plb_zoltan_refuse(MPI_Comm comm, plb_err_t *err)
{
    PLB_PASS(has_mpi(err));
    return agree(comm, PLB_FAIL(err, PLB_ERR_NOMEM, "this rank cannot call Zoltan"), err);
}

void plb_zoltan_leave(struct Zoltan_Struct *zz)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended) { /* Zoltan_Destroy frees a communicator; in Open MPI, this is local */
        Zoltan_Destroy(&zz);
    }
}

static int run(const plb_zoltan_t *in, int32_t *part, struct Zoltan_Struct **keep, plb_err_t *err)
{
    float version;
    struct Zoltan_Struct *zz = NULL;
    PLB_FAIL_IF(Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK, err, PLB_ERR_LIBRARY,
                "Zoltan_Initialize failed");
    /* agree before some ranks wait in Zoltan for others; a rank that fails before this line calls
     * plb_zoltan_refuse, which agrees once, too */
    PLB_PASS(agree(in->comm, PLB_OK, err));
    int ret = PLB_OK;
    if ((zz = Zoltan_Create(in->comm)) == NULL) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "Zoltan_Create failed");
    } else {
        set_queries(zz, in);
        ret = set_params(zz, in, err);
    }
    PLB_THEN(set_shares(zz, in, err));
    ret = agree(in->comm, ret, err);
    PLB_THEN(partition(zz, in, part, err));
    if (ret == PLB_OK && keep != NULL) {
        *keep = zz;
    } else if (zz != NULL) {
        plb_zoltan_leave(zz);
    }
    return ret;
}

int plb_zoltan_run(const plb_zoltan_t *in, int32_t *part, struct Zoltan_Struct **keep,
                   plb_err_t *err)
{
    PLB_PASS(has_mpi(err));
    pthread_mutex_lock(&lock);
    const int ret = run(in, part, keep, err);
    pthread_mutex_unlock(&lock);
    return ret;
}

/* ---- one of the partitioners ---------------------------------------------------------------- */

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

static int run_alone(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    const int64_t dist[2] = {0, in->n_vertices};
    const int64_t edges = in->start != NULL ? in->start[in->n_vertices] : 0;
    double *weight = NULL, *edge_weight = NULL, *net_weight = NULL;
    int32_t *old = NULL;
    own_options_t own = {.option = NULL};
    int ret = PLB_OK;
    PLB_TRY(widen(in->weight, (int64_t)in->n_vertices * in->n_weights, &weight, err));
    PLB_TRY(widen(in->edge_weight, edges, &edge_weight, err));
    PLB_TRY(in->net_start == NULL ? PLB_OK : widen(in->net_weight, in->n_nets, &net_weight, err));
    PLB_TRY(options(&own, in, err));
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

const plb_partitioner_t plb_zoltan = {
    .name = "Zoltan",
    .version = PLB_TEXT(ZOLTAN_VERSION_NUMBER),
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_COORDS | PLB_TAKES_WEIGHTS |
             PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = run_alone,
};

/* ---- the parts of points and boxes, from the cuts of space that Zoltan keeps ---------------- */

int plb_zoltan_points(struct Zoltan_Struct *zz, int32_t n_dims, int64_t n, const double *points,
                      int32_t *part, plb_err_t *err)
{
    double x[3] = {0.0, 0.0, 0.0};
    int rank, where;
    for (int64_t i = 0; i < n; i++) {
        memcpy(x, points + i * n_dims, (size_t)n_dims * sizeof *x);
        PLB_FAIL_IF(Zoltan_LB_Point_PP_Assign(zz, x, &rank, &where) != ZOLTAN_OK, err,
                    PLB_ERR_LIBRARY, "Zoltan found no part for point %lld", (long long)i);
        part[i] = where;
    }
    return PLB_OK;
}

/* Sort by insertion, because a box meets few parts. */
static void sort_few(int *x, int n)
{
    for (int i = 1; i < n; i++) {
        const int value = x[i];
        int j = i;
        for (; j > 0 && x[j - 1] > value; j--) {
            x[j] = x[j - 1];
        }
        x[j] = value;
    }
}

static int check_box(int64_t i, int32_t n_dims, const double *lo, const double *hi, plb_err_t *err)
{
    for (int d = 0; d < n_dims; d++) {
        const double *const side[2] = {lo, hi};
        for (int k = 0; k < 2; k++) {
            PLB_FAIL_IF(!isfinite(side[k][d]), err, PLB_ERR_VALUE,
                        "%s[%lld, %d] is %g: expected a finite number", k == 0 ? "lo" : "hi",
                        (long long)i, d, side[k][d]);
        }
        PLB_FAIL_IF(lo[d] > hi[d], err, PLB_ERR_VALUE,
                    "box %lld is empty: lo[%lld, %d] is %g, hi[%lld, %d] is %g", (long long)i,
                    (long long)i, d, lo[d], (long long)i, d, hi[d]);
    }
    return PLB_OK;
}

/* Find met[*n], the parts that a box meets, ascending. */
static int one_box(struct Zoltan_Struct *zz, int32_t n_dims, const double *lo, const double *hi,
                   const int32_t *name, int *met, int *n)
{
    double a[3] = {0.0, 0.0, 0.0}, b[3] = {0.0, 0.0, 0.0};
    int n_ranks = 0;
    memcpy(a, lo, (size_t)n_dims * sizeof *a);
    memcpy(b, hi, (size_t)n_dims * sizeof *b);
    const int code =
        Zoltan_LB_Box_PP_Assign(zz, a[0], a[1], a[2], b[0], b[1], b[2], NULL, &n_ranks, met, n);
    for (int i = 0; code == ZOLTAN_OK && name != NULL && i < *n; i++) {
        met[i] = name[met[i]];
    }
    sort_few(met, code == ZOLTAN_OK ? *n : 0);
    return code;
}

int plb_zoltan_boxes(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts,
                     const int32_t *name, int64_t n, const double *lo, const double *hi,
                     int64_t *start, int32_t **part, plb_err_t *err)
{
    int ret = PLB_OK, met = 0;
    int64_t room = 2 * n + n_parts;
    *part = NULL;
    PLB_NEW(*part, room);
    start[0] = 0;
    for (int64_t i = 0; ret == PLB_OK && i < n; i++) {
        const double *low = lo + i * n_dims, *high = hi + i * n_dims;
        PLB_TRY(check_box(i, n_dims, low, high, err));
        PLB_GROW(*part, room, start[i] + n_parts);
        if (one_box(zz, n_dims, low, high, name, *part + start[i], &met) != ZOLTAN_OK) {
            ret =
                PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan found no parts for box %lld", (long long)i);
        }
        start[i + 1] = start[i] + met;
    }
out:
    if (ret != PLB_OK) {
        plb_free(*part);
        *part = NULL;
    }
    return ret;
}

int plb_zoltan_regions(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts, double *lo,
                       double *hi, plb_err_t *err)
{
    for (int32_t r = 0; r < n_parts; r++) {
        double a[3], b[3];
        int dims;
        PLB_FAIL_IF(Zoltan_RCB_Box(zz, r, &dims, &a[0], &a[1], &a[2], &b[0], &b[1], &b[2]) !=
                        ZOLTAN_OK,
                    err, PLB_ERR_LIBRARY, "Zoltan has no box for part %d", r);
        memcpy(lo + (int64_t)r * n_dims, a, (size_t)n_dims * sizeof *a);
        memcpy(hi + (int64_t)r * n_dims, b, (size_t)n_dims * sizeof *b);
    }
    return PLB_OK;
}
