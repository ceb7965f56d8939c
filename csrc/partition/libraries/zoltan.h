/* Zoltan over a communicator: each rank passes its own objects, in arrays that are not copied.
 *
 * Objects are numbered over all ranks: rank r has dist[r] ... dist[r + 1] - 1, in the order of
 * its arrays.  Neighbours and pins are such numbers.  Zoltan's own header, <zoltan.h>,
 * includes mpi.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <zoltan.h>

#include "base/err.h"
#include "base/ints.h"

typedef struct plb_zoltan {
    MPI_Comm comm;
    int rank;
    const int64_t *dist; /* [ranks + 1] global number of each rank's first object */
    int32_t n, n_parts;  /* number of this rank's objects; number of parts on all ranks */
    int64_t first;       /* number of this rank's first object, dist[rank] */

    int32_t n_weights;    /* number of weights of each object; 0: all objects have weight 1 */
    const double *weight; /* [n * n_weights] weights, object by object */
    /* Zoltan gets weight * scale, rounded to integers; 0: Zoltan gets the weights unchanged */
    double scale;
    const double *share; /* [n_parts] shares, in any unit; NULL: equal shares */
    int32_t n_dims;
    const double *coords;

    plb_ints_t start, to; /* this rank's rows of a symmetric graph */
    const double *edge_weight;

    int32_t n_nets; /* Number of this rank's nets, each with all of its pins.  Nets are numbered
                       over all ranks; this rank's first net has the number first_net. */
    int64_t first_net;
    plb_ints_t net_start, pin;
    const double *net_weight;

    const int32_t *old;   /* [n] present part of each object; NULL: all are in `home` */
    int32_t home;         /* present part of all objects of this rank, if `old` is NULL */
    const int32_t *fixed; /* [n] part that an object must get, or -1; NULL: all -1 */
    const int32_t *size;  /* [n] cost of an object's migration; NULL: all are 1 */

    bool imports; /* true: Zoltan's method finds the objects that arrive on a rank, and pylb tells
                     their owners where they go (this is cheaper than letting Zoltan do it);
                     false: Zoltan's method finds the objects that leave a rank */

    int n_options; /* Zoltan's parameters: name, value, ... */
    const char *const *option;
    /* with several ranks: those bits of plb_zoltan_spare that are set on all ranks */
    int64_t spare;
} plb_zoltan_t;

/** A Zoltan structure, with the cuts of its most recent call. */
typedef struct plb_zoltan_kept plb_zoltan_kept_t;

/** Return PLB_ERR_STATE if MPI is not initialised or already finalised. */
int plb_zoltan_has_mpi(plb_err_t *err);

/** Partition: part[n] is the new part of each object of this rank.  *code: Zoltan's return value.
 * If Zoltan fails on one rank, the call fails on all ranks.  *keep: the Zoltan structure with the
 * cuts, which the caller must give back by plb_zoltan_leave; keep may be NULL.  Collective over
 * comm, blocks. */
int plb_zoltan_run(const plb_zoltan_t *in, int32_t *part, int *code, plb_zoltan_kept_t **keep,
                   plb_err_t *err);

/** Call plb_zoltan_run, and capture what Zoltan writes to `stderr` in *said, which the caller
 * frees with plb_free.  If this process is alone in comm, a large call runs in a thread of its own
 * (base/aside.h). */
int plb_zoltan_call(const plb_zoltan_t *in, int32_t *part, int *code, plb_zoltan_kept_t **keep,
                    char **said, plb_err_t *err);

/* Number of running calls of Zoltan and PT-Scotch whose callers were interrupted by a signal. */
extern atomic_int plb_zoltan_left;

/** Return which of a communicator's Zoltan structures are unused on this rank: bit i is set for
 * structure i.  A call can only take a structure that is unused on all ranks.  Local. */
int64_t plb_zoltan_spare(MPI_Comm comm);
void plb_zoltan_leave(plb_zoltan_kept_t *kept); /* Give a structure back.  Local. */

/** Capture the text that C code writes to `stderr` between plb_zoltan_listen_begin and _end.  The
 * caller frees *text with plb_free; NULL: nothing was written.  Only one thread at a time can
 * capture; other threads wait. */
int plb_zoltan_listen_begin(plb_err_t *err);
int plb_zoltan_listen_end(char **text, plb_err_t *err);

/** Find part[n], the part in whose region each of the n points lies; points[n * n_dims].  Local.
 */
int plb_zoltan_points(const plb_zoltan_kept_t *kept, int32_t n_dims, int64_t n,
                      const double *points, int32_t *part, plb_err_t *err);

/** Find the parts whose regions meet each box, ascending: part[start[i]] ... part[start[i + 1] -
 * 1]. start[n + 1] belongs to the caller, who also frees *part with plb_free.  name[n_parts]: the
 * part of each region; NULL: region i is part i.  lo, hi: [n * n_dims], finite, lo <= hi.  Local.
 */
int plb_zoltan_boxes(const plb_zoltan_kept_t *kept, int32_t n_dims, int32_t n_parts,
                     const int32_t *name, int64_t n, const double *lo, const double *hi,
                     int64_t *start, int32_t **part, plb_err_t *err);

/** Find the region of each part after a partition by RCB: lo, hi [n_parts * n_dims].  Where a
 * region is unbounded, lo is -DBL_MAX or hi is DBL_MAX.  Local. */
int plb_zoltan_regions(const plb_zoltan_kept_t *kept, int32_t n_dims, int32_t n_parts, double *lo,
                       double *hi, plb_err_t *err);
