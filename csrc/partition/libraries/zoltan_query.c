/* Zoltan's callbacks.  Their argument `data` is the plb_zoltan_t whose arrays they read. */
#include <math.h>
#include <string.h>

#include "partition/libraries/zoltan.h"

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

/* Also removes callbacks of an earlier call. */
void plb_zoltan_answer(struct Zoltan_Struct *zz, const plb_zoltan_t *in)
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
