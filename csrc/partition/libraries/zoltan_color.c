/* Zoltan's distributed colouring (Bozdag, Catalyurek, Gebremedhin, Manne, Boman and Ozguner). */

#include <zoltan.h>

#include "partition/libraries/dgraph.h"

static int count_vertices(void *data, int *ierr)
{
    *ierr = ZOLTAN_OK;
    return ((const plb_dgraph_t *)data)->n;
}

static void list_vertices(void *data, int n_gid, int n_lid, ZOLTAN_ID_PTR gid, ZOLTAN_ID_PTR lid,
                          int n_weights, float *weight, int *ierr)
{
    const plb_dgraph_t *in = data;
    for (int32_t v = 0; v < in->n; v++) {
        gid[v] = (ZOLTAN_ID_TYPE)in->number[v];
        lid[v] = (ZOLTAN_ID_TYPE)v;
    }
    *ierr = ZOLTAN_OK;
}

static void count_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                        ZOLTAN_ID_PTR lid, int *count, int *ierr)
{
    const plb_dgraph_t *in = data;
    for (int i = 0; i < n; i++) {
        count[i] = in->start[lid[i] + 1] - in->start[lid[i]];
    }
    *ierr = ZOLTAN_OK;
}

static void list_edges(void *data, int n_gid, int n_lid, int n, ZOLTAN_ID_PTR gid,
                       ZOLTAN_ID_PTR lid, int *count, ZOLTAN_ID_PTR to, int *owner, int dim,
                       float *weight, int *ierr)
{
    const plb_dgraph_t *in = data;
    int at = 0;
    for (int i = 0; i < n; i++) {
        for (int32_t e = in->start[lid[i]]; e < in->start[lid[i] + 1]; e++, at++) {
            to[at] = (ZOLTAN_ID_TYPE)in->to[e];
            owner[at] = in->owner[e];
        }
    }
    *ierr = ZOLTAN_OK;
}

static int set_params(struct Zoltan_Struct *zz, int distance)
{
    return Zoltan_Set_Param(zz, "DEBUG_LEVEL", "0") == ZOLTAN_OK &&
           Zoltan_Set_Param(zz, "NUM_GID_ENTRIES", "1") == ZOLTAN_OK &&
           Zoltan_Set_Param(zz, "NUM_LID_ENTRIES", "1") == ZOLTAN_OK &&
           Zoltan_Set_Param(zz, "OBJ_WEIGHT_DIM", "0") == ZOLTAN_OK &&
           Zoltan_Set_Param(zz, "EDGE_WEIGHT_DIM", "0") == ZOLTAN_OK &&
           Zoltan_Set_Param(zz, "COLORING_PROBLEM", distance == 2 ? "DISTANCE-2" : "DISTANCE-1") ==
               ZOLTAN_OK;
}

_Static_assert(sizeof(ZOLTAN_ID_TYPE) == sizeof(int32_t),
               "Zoltan with ids of 32 bits is expected");

int plb_zoltan_color(MPI_Comm comm, const plb_dgraph_t *graph, int distance, int32_t *color,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    float version;
    struct Zoltan_Struct *zz = NULL;
    if (Zoltan_Initialize(0, NULL, &version) != ZOLTAN_OK || (zz = Zoltan_Create(comm)) == NULL) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan_Create failed");
        goto out;
    }
    void *data = (void *)graph;
    Zoltan_Set_Num_Obj_Fn(zz, count_vertices, data);
    Zoltan_Set_Obj_List_Fn(zz, list_vertices, data);
    Zoltan_Set_Num_Edges_Multi_Fn(zz, count_edges, data);
    Zoltan_Set_Edge_List_Multi_Fn(zz, list_edges, data);
    const int code = set_params(zz, distance)
                         ? Zoltan_Color(zz, 1, graph->n, (ZOLTAN_ID_PTR)graph->number, color)
                         : ZOLTAN_FATAL;
    if (code != ZOLTAN_OK && code != ZOLTAN_WARN) {
        ret = PLB_FAIL(err, PLB_ERR_LIBRARY, "Zoltan_Color failed (code %d)", code);
        goto out;
    }
    for (int32_t v = 0; v < graph->n; v++) {
        color[v]--; /* Zoltan's first colour is 1 */
    }
out:
    Zoltan_Destroy(&zz);
    return ret;
}
