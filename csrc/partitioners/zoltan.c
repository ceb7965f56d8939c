/* Zoltan, on the vertices of this process alone: hypergraphs, graphs, points.
 *
 * zoltan.h includes mpi.h, and Zoltan needs MPI initialised even here; whoever imports the Python
 * module has done that through mpi4py.  Nothing is sent: the communicator is MPI_COMM_SELF.
 */
#include <pthread.h>
#include <string.h>

#include <zoltan.h>

#include "base/mem.h"
#include "partitioners/partitioners.h"

/* Zoltan has one stream of random numbers a process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the question, as Zoltan asks for it: `data` is the plb_partition_t -----------------------
 */

static int count_vertices(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_partition_t *)data)->n_vertices;
}

static void list_vertices(void *data, int n_gid, int n_lid, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                          int n_weights, float *weight, int *ierr)
{
    (void)n_gid, (void)n_lid;
    const plb_partition_t *in = data;
    for (int32_t v = 0; v < in->n_vertices; v++) {
        gid[v] = lid[v] = (ZOLTAN_ID_TYPE)v;
    }
    for (int64_t i = 0; i < (int64_t)in->n_vertices * n_weights; i++) {
        weight[i] = (float)in->weight[i];
    }
    *ierr = ZOLTAN_OK;
}

static void present_parts(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                          ZOLTAN_ID_PTR lid, int *part, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)gid;
    const plb_partition_t *in = data;
    for (int i = 0; i < n; i++) {
        part[i] = in->old == NULL || in->old[lid[i]] < 0 ? 0 : in->old[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void leaving_costs(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                          ZOLTAN_ID_PTR lid, int *bytes, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)gid;
    const plb_partition_t *in = data;
    for (int i = 0; i < n; i++) {
        bytes[i] = in->old_cost == NULL ? 1 : in->old_cost[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static int count_fixed(void *data, int *ierr)
{
    const plb_partition_t *in = data;
    int n = 0;
    for (int32_t v = 0; v < in->n_vertices; v++) {
        n += in->fixed[v] >= 0;
    }
    *ierr = ZOLTAN_OK;
    return n;
}

static void list_fixed(void *data, int n_fixed, int n_gid, ZOLTAN_ID_PTR gid, int *part, int *ierr)
{
    (void)n_fixed, (void)n_gid;
    const plb_partition_t *in = data;
    for (int32_t v = 0, i = 0; v < in->n_vertices; v++) {
        if (in->fixed[v] >= 0) {
            gid[i] = (ZOLTAN_ID_TYPE)v;
            part[i++] = in->fixed[v];
        }
    }
    *ierr = ZOLTAN_OK;
}

static void hypergraph_size(void *data, int *n_nets, int *n_pins, int *format, int *ierr)
{
    const plb_partition_t *in = data;
    *n_nets = in->n_nets;
    *n_pins = in->net_start[in->n_nets];
    *format = ZOLTAN_COMPRESSED_EDGE;
    *ierr = ZOLTAN_OK;
}

static void hypergraph(void *data, int n_gid, int n_nets, int n_pins, int format,
                       ZOLTAN_ID_PTR net, int *start, ZOLTAN_ID_PTR pin, int *ierr)
{
    (void)n_gid, (void)format;
    const plb_partition_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        net[e] = (ZOLTAN_ID_TYPE)e;
        start[e] = in->net_start[e];
    }
    for (int i = 0; i < n_pins; i++) {
        pin[i] = (ZOLTAN_ID_TYPE)in->pin[i];
    }
    *ierr = ZOLTAN_OK;
}

static void count_net_weights(void *data, int *n_nets, int *ierr)
{
    *n_nets = ((const plb_partition_t *)data)->n_nets;
    *ierr = ZOLTAN_OK;
}

static void net_weights(void *data, int n_gid, int n_lid, int n_nets, int dim, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, float *weight, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)dim, (void)lid;
    const plb_partition_t *in = data;
    for (int e = 0; e < n_nets; e++) {
        gid[e] = (ZOLTAN_ID_TYPE)e;
        weight[e] = (float)in->net_weight[e];
    }
    *ierr = ZOLTAN_OK;
}

static void count_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int *count, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)gid;
    const plb_partition_t *in = data;
    for (int i = 0; i < n; i++) {
        count[i] = in->start[lid[i] + 1] - in->start[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void list_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                       ZOLTAN_ID_PTR lid, int *count, ZOLTAN_ID_PTR to, int *owner, int dim,
                       float *weight, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)gid, (void)count;
    const plb_partition_t *in = data;
    int at = 0;
    for (int i = 0; i < n; i++) {
        for (int32_t j = in->start[lid[i]]; j < in->start[lid[i] + 1]; j++, at++) {
            to[at] = (ZOLTAN_ID_TYPE)in->to[j];
            owner[at] = 0;
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
    return ((const plb_partition_t *)data)->n_dims;
}

static void list_coords(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int dims, double *out, int *ierr)
{
    (void)n_gid, (void)n_lid, (void)gid;
    const plb_partition_t *in = data;
    for (int i = 0; i < n; i++) {
        memcpy(out + (int64_t)i * dims, in->coords + (int64_t)lid[i] * dims,
               (size_t)dims * sizeof *out);
    }
    *ierr = ZOLTAN_OK;
}

static void set_callbacks(struct Zoltan_Struct *zz, const plb_partition_t *in)
{
    void *data = (void *)in;
    Zoltan_Set_Num_Obj_Fn(zz, count_vertices, data);
    Zoltan_Set_Obj_List_Fn(zz, list_vertices, data);
    Zoltan_Set_Part_Multi_Fn(zz, present_parts, data);
    Zoltan_Set_Obj_Size_Multi_Fn(zz, leaving_costs, data);
    if (in->fixed != NULL) {
        Zoltan_Set_Num_Fixed_Obj_Fn(zz, count_fixed, data);
        Zoltan_Set_Fixed_Obj_List_Fn(zz, list_fixed, data);
    }
    if (in->net_start != NULL) {
        Zoltan_Set_HG_Size_CS_Fn(zz, hypergraph_size, data);
        Zoltan_Set_HG_CS_Fn(zz, hypergraph, data);
    }
    if (in->net_start != NULL && in->net_weight != NULL) {
        Zoltan_Set_HG_Size_Edge_Wts_Fn(zz, count_net_weights, data);
        Zoltan_Set_HG_Edge_Wts_Fn(zz, net_weights, data);
    }
    if (in->start != NULL) {
        Zoltan_Set_Num_Edges_Multi_Fn(zz, count_edges, data);
        Zoltan_Set_Edge_List_Multi_Fn(zz, list_edges, data);
    }
    if (in->n_dims > 0) {
        Zoltan_Set_Num_Geom_Fn(zz, count_dims, data);
        Zoltan_Set_Geom_Multi_Fn(zz, list_coords, data);
    }
}

/* ---- parameters ----------------------------------------------------------------------------- */

static int set_text(struct Zoltan_Struct *zz, const char *name, const char *value, plb_err_t *err)
{
    if (Zoltan_Set_Param(zz, name, value) != ZOLTAN_OK) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "Zoltan refuses its parameter %s = '%s'", name, value);
    }
    return PLB_OK;
}

static int set_number(struct Zoltan_Struct *zz, const char *name, double value, plb_err_t *err)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", value);
    return set_text(zz, name, text, err);
}

/* What follows from the question; then the caller's own, which may overrule it. */
static int set_params(struct Zoltan_Struct *zz, const plb_partition_t *in, plb_err_t *err)
{
    const bool nets = in->net_start != NULL, edges = in->start != NULL;
    const bool weighted = (nets && in->net_weight != NULL) || (edges && in->edge_weight != NULL);
    const struct {
        const char *name;
        double value;
    } number[] = {
        {"NUM_GID_ENTRIES", 1},
        {"NUM_LID_ENTRIES", 1},
        {"REMAP", 0}, /* part labels are ours to map */
        {"NUM_GLOBAL_PARTS", in->n_parts},
        {"OBJ_WEIGHT_DIM", in->weight == NULL ? 0 : in->n_weights},
        {"EDGE_WEIGHT_DIM", weighted},
        {"IMBALANCE_TOL", in->imbalance},
        {"SEED", in->seed},
    };
    int ret = set_text(zz, "DEBUG_LEVEL", "0", err); /* before what would be reported */
    if (ret == PLB_OK) {
        ret = set_text(zz, "LB_METHOD", nets ? "HYPERGRAPH" : edges ? "GRAPH" : "RCB", err);
    }
    if (ret == PLB_OK && (nets || edges)) {
        ret = set_text(zz, nets ? "HYPERGRAPH_PACKAGE" : "GRAPH_PACKAGE", "PHG", err);
    }
    if (ret == PLB_OK) {
        ret = set_text(zz, "LB_APPROACH", in->old == NULL ? "PARTITION" : "REPARTITION", err);
    }
    if (ret == PLB_OK) {
        ret = set_text(zz, "RETURN_LISTS", "PARTITION_ASSIGNMENTS", err);
    }
    for (size_t i = 0; ret == PLB_OK && i < sizeof number / sizeof *number; i++) {
        ret = set_number(zz, number[i].name, number[i].value, err);
    }
    for (int i = 0; ret == PLB_OK && i < in->n_options; i++) {
        ret = set_text(zz, in->option[2 * i], in->option[2 * i + 1], err);
    }
    return ret;
}

static int set_shares(struct Zoltan_Struct *zz, const plb_partition_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    int *id = NULL, *index = NULL;
    float *share = NULL;
    const int dim = in->n_weights > 1 ? in->n_weights : 1, n = in->n_parts * dim;
    PLB_NEW(id, n);
    PLB_NEW(index, n);
    PLB_NEW(share, n);
    for (int i = 0; i < n; i++) {
        id[i] = i / dim;
        index[i] = i % dim;
        share[i] = (float)in->share[i / dim];
    }
    if (Zoltan_LB_Set_Part_Sizes(zz, 1, n, id, index, share) != ZOLTAN_OK) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan refuses the sizes of the parts");
    }
out:
    plb_free(id);
    plb_free(index);
    plb_free(share);
    return ret;
}

/* ---- the call ------------------------------------------------------------------------------- */

static int partition(struct Zoltan_Struct *zz, const plb_partition_t *in, int32_t *part,
                     plb_err_t *err)
{
    int changes, n_gid, n_lid, n_import, n_export, ret = PLB_OK;
    int *import_procs = NULL, *import_part = NULL, *export_procs = NULL, *export_part = NULL;
    ZOLTAN_ID_PTR import_gid = NULL, import_lid = NULL, export_gid = NULL, export_lid = NULL;
    const int code = Zoltan_LB_Partition(zz, &changes, &n_gid, &n_lid, &n_import, &import_gid,
                                         &import_lid, &import_procs, &import_part, &n_export,
                                         &export_gid, &export_lid, &export_procs, &export_part);
    if (code == ZOLTAN_MEMERR) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "Zoltan ran out of memory");
    } else if (code != ZOLTAN_OK && code != ZOLTAN_WARN) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan failed (code %d)", code);
    } else if (n_export != in->n_vertices) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan answers for %d of %d vertices", n_export,
                       in->n_vertices);
    }
    for (int i = 0; ret == PLB_OK && i < n_export; i++) {
        part[export_lid[i]] = export_part[i];
    }
    Zoltan_LB_Free_Part(&import_gid, &import_lid, &import_procs, &import_part);
    Zoltan_LB_Free_Part(&export_gid, &export_lid, &export_procs, &export_part);
    return ret;
}

static int run_locked(const plb_partition_t *in, int32_t *part, plb_err_t *err)
{
    float version;
    if (Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK) {
        return PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan_Initialize failed");
    }
    struct Zoltan_Struct *zz = Zoltan_Create(MPI_COMM_SELF);
    if (zz == NULL) {
        return PLB_FAIL(err, PLB_ERR_NOMEM, "Zoltan_Create failed");
    }
    set_callbacks(zz, in);
    int ret = set_params(zz, in, err);
    if (ret == PLB_OK && in->share != NULL) {
        ret = set_shares(zz, in, err);
    }
    if (ret == PLB_OK) {
        ret = partition(zz, in, part, err);
    }
    Zoltan_Destroy(&zz);
    return ret;
}

static int run(const plb_partition_t *in, int32_t *part, plb_err_t *err)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended) {
        return PLB_FAIL(err, PLB_ERR_STATE, "Zoltan needs MPI, which %s",
                        ended ? "has been finalized" : "is not initialized");
    }
    pthread_mutex_lock(&lock);
    const int ret = run_locked(in, part, err);
    pthread_mutex_unlock(&lock);
    return ret;
}

#define TEXT(x) #x
#define VERSION(x) TEXT(x)

const plb_partitioner_t plb_zoltan = {
    .name = "Zoltan",
    .version = VERSION(ZOLTAN_VERSION_NUMBER),
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_COORDS | PLB_TAKES_WEIGHTS |
             PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = run,
};
