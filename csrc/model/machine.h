/* The machine: its tree of places, ranks that share cores, and speeds that depend on the size of
 * the work. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Machines with distances (trees and tori): hop-bytes (the sum of bytes times hops), and a mapping
 * of parts to places with few hop-bytes.  A place is a leaf of the tree or a point of the torus.
 * Places are numbered from left to right in a tree, and in row-major order in a torus. */

typedef enum plb_topology_kind { PLB_TREE, PLB_TORUS } plb_topology_kind_t;

enum { PLB_TOPOLOGY_LEVELS = 16 };

typedef struct plb_topology {
    plb_topology_kind_t kind;
    int n_levels;
    /* tree: number of children of each vertex, by level, root first; torus: length by dimension */
    int32_t size[PLB_TOPOLOGY_LEVELS];
    int32_t n_places; /* the product of the sizes */
} plb_topology_t;

/** Check size[n_levels], and fill in `self`. */
int plb_topology_init(plb_topology_t *self, plb_topology_kind_t kind, const int64_t *size,
                      int n_levels, plb_err_t *err);

/* Bytes that parts send to each other, like a sparse matrix (CSR); as many parts as places. */
typedef struct plb_flows {
    /* [n_places + 1] part a sends the entries start[a] ... start[a + 1] - 1 */
    const int64_t *start;
    const int32_t *to;
    const double *bytes;
} plb_flows_t;

/** Return the hop-bytes with part a at place[a]. */
double plb_hop_bytes(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place);

/** Compute *most, the bytes over the most loaded link; a cable is two links, one per direction.
 * In a torus, messages go the shorter way (ties: positive direction), first dimension first. */
int plb_topology_link(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place,
                      double *most, plb_err_t *err);

/** Reorder place[n_places] to lower the hop-bytes.  Part a only gets a place that a part with the
 * same group[] has at first.  The same input always gives the same result. */
int plb_topology_map(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *group,
                     int32_t *place, plb_err_t *err);

/* The time of an iteration on ranks that share cores.
 *
 * A core never idles while a rank waits for one, so n ranks with loads x(i) (seconds of a core)
 * that share c cores need at least max(x(1), ..., x(n), (x(1) + ... + x(n)) / c) seconds (R.
 * McNaughton, Scheduling with deadlines and loss functions, Management Science 6, 1959), and an
 * operating system comes near to that: a rank with much to do keeps its core, and the others share
 * the rest.  (Equal shares of the cores at all times would give 44 ms for loads of 36, 8, 8 and 8
 * ms on two cores; 36 ms is the bound, and 37 to 40 ms were measured.)  The iteration lasts until
 * the last rank of all groups has finished. */

typedef struct plb_sharing {
    int32_t n_ranks;
    int32_t *group;     /* [n_ranks] */
    double *cores;      /* [n_ranks] number of cores of each group */
    int32_t *size;      /* [n_ranks] number of ranks of each group */
    double *sum, *most; /* [n_ranks] scratch memory */
} plb_sharing_t;

/** group[p]: a number 0 ... p - 1; ranks with the same number share cores[r] cores, more than
 * 0.  `self` owns its arrays. */
int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err);
void plb_sharing_free(plb_sharing_t *self);

/** Return the seconds of an iteration whose ranks need load[n_ranks] seconds of a core. */
double plb_sharing_time(const plb_sharing_t *self, const double *load);

/** Compute load[n_ranks], the seconds of a core, of ranks that computed and waited for a core for
 * end[n_ranks] seconds in all.  If these are more than there is in the time of the longest, all
 * ranks of the group waited for the same fraction of theirs. */
void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load);

/* Functional performance models (FPM): a processor's speed as a function of its number of rows.
 *
 * A model is a piecewise linear function through measured points (Clarke 2010).  n rows are
 * divided into parts d_1 + ... + d_p = n that take equally long: d_1/s_1(d_1) = ... =
 * d_p/s_p(d_p) (eq. 3).  In a plot of speed over rows, these are the points where one line
 * through the origin meets the functions.  A model with one point has a constant speed (CPM).
 *
 * Each line through the origin must meet a function exactly once (Lastovetsky and Reddy, "Data
 * partitioning with a functional performance model of heterogeneous processors", IJHPCA 21, 2007).
 * In other words, the time d/s(d) must rise with d.  If the time rises from point to point, it
 * also rises between them.  Before the first and after the last point the speed is constant. */

/* Largest number of points of a model; a further point replaces the least useful one. */
enum { PLB_FPM_MOST = 64 };

/* Largest number of rows: the rounding errors of sums of parts stay far below one row. */
#define PLB_FPM_MOST_ROWS 1000000000000LL

/* Models of p processors; the arrays are borrowed. */
typedef struct plb_fpm {
    int32_t p;
    const int64_t *start; /* [p + 1] where the points of each processor begin */
    const double *rows;   /* [start[p]] rows of each point, above 0, ascending in each model */
    const double *speed;  /* [start[p]] rows per second */
} plb_fpm_t;

/** Check that each model has points with rows and speeds in 1e-30 ... 1e30, whose rows and times
 * rise. */
int plb_fpm_check(const plb_fpm_t *self, plb_err_t *err);

/** Compute seconds[p], the times of rows[p] by the models, which must have been checked. */
void plb_fpm_times(const plb_fpm_t *self, const double *rows, double *seconds);

/** Add a measurement of each processor, rows[i] in seconds[i], to its model, which may have no
 * points yet.  The model of a processor without rows is copied.  A time below 1 ns counts as 1 ns,
 * and a time above 1e29 s as 1e29 s.  Output: start[p + 1] and up to self->start[p] + p points; no
 * array may be one of `self`.
 *
 * Older points that contradict the new one are removed (more rows that took no longer, or fewer
 * rows that took as long or longer): they were noise, or the processor has changed.  If the same
 * number of rows was measured before, and the speed has since changed by a factor of more than
 * 1.25, all speeds of the model are multiplied by this factor, unless the processor paged (the old
 * speed was below half of the model's best speed). */
void plb_fpm_update(const plb_fpm_t *self, const int64_t *rows, const double *seconds,
                    int64_t *start, double *out_rows, double *out_speed);

/** Divide n rows, 0 <= n <= PLB_FPM_MOST_ROWS, into part[p] such that the longest time, by the
 * models, is as short as possible.  Ties: the lowest processor gets the row.  *seconds: the time
 * that each processor takes before the parts are rounded.  The models must have been checked. */
int plb_fpm_split(const plb_fpm_t *self, int64_t n, int64_t *part, double *seconds,
                  plb_err_t *err);
