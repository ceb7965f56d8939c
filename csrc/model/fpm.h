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
#pragma once

#include <stdint.h>

#include "base/err.h"

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
