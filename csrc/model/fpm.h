/* Functional performance models: the speed of a processor as a function of its number of rows.
 *
 * Clarke 2010: piecewise linear speed functions, built from measured points.  The parts d_i
 * with d_1/s_1(d_1) = ... = d_p/s_p(d_p) (eq. 3) and d_1 + ... + d_p = n lie where one line
 * through the origin meets all functions.  A model with one point is the constant model (CPM).
 *
 * Shape (Lastovetsky and Reddy, "Data partitioning with a functional performance model of
 * heterogeneous processors", IJHPCA 21, 2007): each line through the origin must meet the
 * function exactly once; equivalently, the time d/s(d) must rise with d.  This is so for
 * straight pieces if the times at their ends rise.  Before the first and after the last point
 * the speed is constant.
 */
#ifndef PLB_MODEL_FPM_H
#define PLB_MODEL_FPM_H

#include <stdint.h>

#include "base/err.h"

enum { PLB_FPM_MOST = 64 }; /* points of a model; a new one replaces the least useful one */

#define PLB_FPM_MOST_ROWS                                                                         \
    1000000000000LL /* then sums of parts are exact to far less than a row                        \
                     */

/* Models of p processors: processor i has the points start[i] ... start[i+1]-1, by ascending
 * rows.  Borrowed. */
typedef struct plb_fpm {
    int32_t p;
    const int64_t *start; /* [p+1] */
    const double *rows;   /* [start[p]] above 0 */
    const double *speed;  /* [start[p]] rows per second */
} plb_fpm_t;

/** Check that every model has a point, values are positive and finite, and rows and times
 * increase. */
int plb_fpm_check(const plb_fpm_t *self, plb_err_t *err);

/** Compute the seconds that rows[p] take by the models, which must have been checked. */
void plb_fpm_times(const plb_fpm_t *self, const double *rows, double *seconds);

/** Enter a measurement of each processor, rows[i] in seconds[i], into the models; processors
 * without rows are skipped, and a time of zero counts as a nanosecond.  Points that contradict
 * it (more rows that took no longer, or fewer rows that took as long) are removed: they were
 * noise, or the processor has changed.  If the same number of rows has a speed that
 * differs by more than a quarter from the one before, all points of the processor are scaled,
 * unless the speed was below half of the best.  Models may be empty here.  Writes start[p+1] and
 * up to self->start[p] + p points, to arrays that are not those of `self`. */
void plb_fpm_update(const plb_fpm_t *self, const int64_t *rows, const double *seconds,
                    int64_t *start, double *out_rows, double *out_speed);

/** Divide n rows into integer parts whose longest time, by the models, is as short as possible;
 * of processors that would finish another row at the same time, the lowest gets it.  *seconds:
 * the common time before rounding.  0 <= n <= PLB_FPM_MOST_ROWS; models have been checked.
 */
int plb_fpm_split(const plb_fpm_t *self, int64_t n, int64_t *part, double *seconds,
                  plb_err_t *err);

#endif
