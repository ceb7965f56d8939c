/* Functional performance models: the speed of a processor as a function of its number of rows.
 *
 * Clarke 2010: piecewise linear speed functions, built from the points that were met; the parts
 * d_i with d_1/s_1(d_1) = ... = d_p/s_p(d_p) (eq. 3) and d_1 + ... + d_p = n lie where one line
 * through the origin meets all of them.  A model with one point is the constant model (CPM).
 *
 * Shape (Lastovetsky and Reddy, "Data partitioning with a functional performance model of
 * heterogeneous processors", IJHPCA 21, 2007): each line through the origin meets the function
 * once, which is the same as that time d/s(d) rises with d.  Straight pieces keep to it where the
 * times of their ends do; before the first point and behind the last one the speed is theirs.
 */
#ifndef PLB_MODEL_FPM_H
#define PLB_MODEL_FPM_H

#include <stdint.h>

#include "base/err.h"

enum { PLB_FPM_MOST = 64 }; /* points of a model; a new one replaces the least useful one */

#define PLB_FPM_MOST_ROWS 1000000000000LL /* sums of parts are then exact to well below a row */

/* Models of p processors: points start[i] ... start[i+1]-1 are those of processor i, by ascending
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

/** Seconds that rows[p] take by the models, which must have been checked. */
void plb_fpm_times(const plb_fpm_t *self, const double *rows, double *seconds);

/** Enter a measurement of each processor, `rows[i]` in `seconds[i]`, into the models; processors
 *  without rows have none, and a time of zero counts as a nanosecond.  Points that contradict it
 *  (more rows took no longer, or fewer rows no less time) are removed: they were noise, or the
 *  processor has changed.  If the same number of rows was measured before, and the speed differs
 * by more than a quarter, all points of the processor are scaled, unless its speed was below half
 * of the best.  Models may be empty here.  Writes start[p+1] and up to self->start[p] + p points,
 * to arrays that are not those of `self`. */
void plb_fpm_update(const plb_fpm_t *self, const int64_t *rows, const double *seconds,
                    int64_t *start, double *out_rows, double *out_speed);

/** Divide n rows into integer parts whose longest time is the least possible by the models; if
 *  processors would finish a further row at the same time, the lowest gets it.  *seconds: where
 * the line meets the functions, before rounding.  0 <= n <= PLB_FPM_MOST_ROWS; models have been
 * checked.
 */
int plb_fpm_split(const plb_fpm_t *self, int64_t n, int64_t *part, double *seconds,
                  plb_err_t *err);

#endif
