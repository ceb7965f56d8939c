#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ints.h"
#include "base/mem.h"
#include "base/point.h"
#include "partition/libraries/zoltan.h"

/* ---- zoltan query ------------------------------------------------------------------------ */

/* Zoltan's callbacks.  Their argument `data` is the plb_zoltan_t whose arrays they read. */

#define IDS                                                                                       \
    (void)n_gid;                                                                                  \
    (void)n_lid

static int count_objects(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n;
}

static void list_objects(void *data, int n_gid, int n_lid, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                         int n_weights, float *weight, int *ierr)
{
    IDS;
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
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        part[i] = in->old == NULL ? in->home : in->old[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void sizes(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                  int *bytes, int *ierr)
{
    IDS, (void)gid;
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
    (void)n_fixed, (void)n_gid;
    const plb_zoltan_t *in = data;
    for (int32_t v = 0, i = 0; v < in->n; v++) {
        if (in->fixed[v] >= 0) {
            gid[i] = (ZOLTAN_ID_TYPE)(in->first + v);
            part[i++] = in->fixed[v];
        }
    }
    *ierr = ZOLTAN_OK;
}

/* ---- hypergraphs ---------------------------------------------------------------------------- */

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
    (void)n_gid, (void)format;
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
    IDS, (void)dim;
    const plb_zoltan_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        gid[e] = (ZOLTAN_ID_TYPE)(in->first_net + e);
        lid[e] = (ZOLTAN_ID_TYPE)e;
        weight[e] = (float)in->net_weight[e];
    }
    *ierr = ZOLTAN_OK;
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void count_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int *count, int *ierr)
{
    IDS, (void)gid;
    const plb_zoltan_t *in = data;
    for (int i = 0; i < n; i++) {
        count[i] = (int)(plb_int_at(in->start, lid[i] + 1) - plb_int_at(in->start, lid[i]));
    }
    *ierr = ZOLTAN_OK;
}

/* Return the rank that has the object.  guess: the rank to try first. */
static int owner(const plb_zoltan_t *in, int64_t object, int guess)
{
    if (in->dist[guess] <= object && object < in->dist[guess + 1]) {
        return guess;
    }
    int low = 0;
    while (in->dist[low + 1] <= object) {
        low++;
    }
    return low;
}

static void list_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                       ZOLTAN_ID_PTR lid, int *count, ZOLTAN_ID_PTR to, int *owners, int dim,
                       float *weight, int *ierr)
{
    IDS, (void)gid, (void)count;
    const plb_zoltan_t *in = data;
    int64_t at = 0;
    int guess = 0;
    for (int i = 0; i < n; i++) {
        const int64_t end = plb_int_at(in->start, lid[i] + 1);
        for (int64_t j = plb_int_at(in->start, lid[i]); j < end; j++, at++) {
            const int64_t object = plb_int_at(in->to, j);
            to[at] = (ZOLTAN_ID_TYPE)object;
            owners[at] = guess = owner(in, object, guess);
            if (dim > 0) {
                weight[at] = (float)in->edge_weight[j];
            }
        }
    }
    *ierr = ZOLTAN_OK;
}

/* ---- points --------------------------------------------------------------------------------- */

static int count_dims(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_zoltan_t *)data)->n_dims;
}

static void list_coords(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int dims, double *out, int *ierr)
{
    IDS, (void)gid;
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
    PLB_PASS(set_text(zz, "RETURN_LISTS", "EXPORT", err)); /* only the objects that leave */
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

/* This rank's error; if it has none, an error that names the rank that has failed. */
static int failed_on(int rank, int ret, plb_err_t *err)
{
    return ret != PLB_OK ? ret : PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan failed on rank %d", rank);
}

/* Wait until all ranks agree.  If this rank has failed, the others may wait for it inside Zoltan,
 * where no message reaches them: after PYLB_ABORT_AFTER seconds (as in pylb/comm/program_end.py),
 * abort the job. */
static int wait_or_abort(MPI_Comm comm, MPI_Request *request, int rank, const char *why)
{
    const char *text = getenv("PYLB_ABORT_AFTER");
    const double limit = text == NULL || *text == '\0' ? 10.0 : plb_point_read(text, NULL);
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
    if (code != MPI_SUCCESS) {
        return ret != PLB_OK ? ret : PLB_FAIL(err, PLB_ERR_MPI, "MPI_Iallreduce failed");
    }
    return first != INT_MAX ? failed_on(first, ret, err) : PLB_OK;
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

int plb_zoltan_has_mpi(plb_err_t *err)
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
    PLB_PASS(plb_zoltan_has_mpi(err));
    return agree(comm, PLB_FAIL(err, PLB_ERR_NOMEM, "this rank cannot call Zoltan"), err);
}

void plb_zoltan_leave(struct Zoltan_Struct *zz)
{
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended) { /* Zoltan_Destroy frees a communicator: in Open MPI, without the other ranks */
        Zoltan_Destroy(&zz);
    }
}

static int run(const plb_zoltan_t *in, int32_t *part, struct Zoltan_Struct **keep, plb_err_t *err)
{
    float version;
    struct Zoltan_Struct *zz = NULL;
    PLB_FAIL_IF(Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK, err, PLB_ERR_LIBRARY,
                "Zoltan_Initialize failed");
    /* agree before some ranks wait in Zoltan for others; a rank that fails here has come once, in
     * plb_zoltan_refuse */
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
    PLB_PASS(plb_zoltan_has_mpi(err));
    pthread_mutex_lock(&lock);
    const int ret = run(in, part, keep, err);
    pthread_mutex_unlock(&lock);
    return ret;
}
