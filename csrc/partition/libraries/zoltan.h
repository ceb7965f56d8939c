/* Zoltan over a communicator: each rank passes its own objects, in arrays that are not copied.
 *
 * Objects are numbered over all ranks: rank r has dist[r] ... dist[r + 1] - 1, in the order of its
 * arrays.  Neighbours and pins are such numbers.  <zoltan.h> includes mpi.h. */
#pragma once

#include <stdbool.h>
#include <zoltan.h>

#include "base/base.h"

typedef struct plb_zoltan {
    MPI_Comm comm;
    int rank;
    const int64_t *dist; /* [ranks + 1] */
    int32_t n, n_parts;  /* number of objects on this rank, and of parts on all ranks */
    int64_t first;       /* dist[rank] */

    int32_t n_weights;    /* number of weights of each object; 0: all weights are 1 */
    const double *weight; /* [n * n_weights] object by object */
    double scale;         /* Zoltan gets weight * scale, rounded; 0: the weights unchanged */
    const double *share;  /* [n_parts] shares, in any unit; NULL: equal shares */
    int32_t n_dims;
    const double *coords;

    plb_ints_t start, to; /* rows of a symmetric graph */
    const double *edge_weight;

    int32_t n_nets; /* this rank's nets, each with all of its pins; the first is net `first_net` */
    int64_t first_net;
    plb_ints_t net_start, pin;
    const double *net_weight;

    const int32_t *old; /* [n] present parts; NULL: all are `home` */
    int32_t home;
    const int32_t *fixed; /* [n] part that an object must get, or -1; NULL: all -1 */
    const int32_t *size;  /* [n] cost of each object's migration; NULL: all are 1 */

    int n_options; /* options of Zoltan: name, value, ... */
    const char *const *option;
} plb_zoltan_t;

/** Partition: part[n] is the new part of each object.  If Zoltan fails on one rank, the call
 * fails on all ranks, or, if the others wait inside Zoltan, aborts the job.  *keep: the Zoltan
 * structure with the cuts, to be freed by plb_zoltan_leave; keep may be NULL.  One thread at a
 * time: others wait.  Collective over comm, blocks.  PLB_ERR_STATE: MPI cannot be used. */
int plb_zoltan_run(const plb_zoltan_t *in, int32_t *part, struct Zoltan_Struct **keep,
                   plb_err_t *err);

/** Take part in the call of the other ranks after an error of this rank: it fails on all ranks. */
int plb_zoltan_refuse(MPI_Comm comm, plb_err_t *err);

void plb_zoltan_leave(struct Zoltan_Struct *zz); /* Free a structure.  Local. */

/** Find part[n], the part in whose region each of points[n * n_dims] lies.  Local. */
int plb_zoltan_points(struct Zoltan_Struct *zz, int32_t n_dims, int64_t n, const double *points,
                      int32_t *part, plb_err_t *err);

/** Find the parts whose regions meet each box, ascending: part[start[i]] ... part[start[i + 1] -
 * 1].  start: [n + 1].  The caller frees *part with plb_free.  name[n_parts]: the part of each
 * region; NULL: region i is part i.  lo, hi: [n * n_dims], finite, lo <= hi.  Local. */
int plb_zoltan_boxes(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts,
                     const int32_t *name, int64_t n, const double *lo, const double *hi,
                     int64_t *start, int32_t **part, plb_err_t *err);

/** Find the region of each part after RCB: lo, hi [n_parts * n_dims]; -DBL_MAX or DBL_MAX where
 * the region is unbounded.  Local. */
int plb_zoltan_regions(struct Zoltan_Struct *zz, int32_t n_dims, int32_t n_parts, double *lo,
                       double *hi, plb_err_t *err);
