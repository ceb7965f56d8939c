/* Functional performance models: the speed of a processor as a function of what it has.
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

enum { PLB_FPM_MOST = 64 }; /* points of a model; the least telling one goes for another */

#define PLB_FPM_MOST_ROWS 1000000000000LL /* sums of parts are then exact to well below a row */

/* Models of p processors: points start[i] ... start[i+1]-1 are those of processor i, by ascending
 * rows.  Borrowed. */
typedef struct plb_fpm {
    int32_t p;
    const int64_t *start; /* [p+1] */
    const double *rows;   /* [start[p]] above 0 */
    const double *speed;  /* [start[p]] rows in a second */
} plb_fpm_t;

/** Every model has a point, values are positive and finite, rows and times rise. */
int plb_fpm_check(const plb_fpm_t *self, plb_err_t *err);

/** Seconds that rows[p] take, by the models, which have been checked. */
void plb_fpm_times(const plb_fpm_t *self, const double *rows, double *seconds);

/** A measurement of each processor, `rows[i]` in `seconds[i]`, enters the models; without rows
 *  nothing does, and no time at all counts as a nanosecond.  What is known contradicts it where
 *  more rows took no longer or fewer rows no shorter: that was noise, or the processor has
 *  changed, and the newest measurement stands.  A point met again at a speed that differs by more
 *  than a quarter changes the speeds of all points of its processor by as much, unless its speed
 *  was below half of the best.  Here models may
 * be empty.  Writes start[p+1] and up to self->start[p] + p points, to arrays that are not those
 * of `self`. */
void plb_fpm_update(const plb_fpm_t *self, const int64_t *rows, const double *seconds,
                    int64_t *start, double *out_rows, double *out_speed);

/** Integer parts of n rows whose longest time is the least possible by the models; of processors
 *  that would end a further row at the same time the lowest gets it.  *seconds: where the line
 *  meets the functions, before rounding.  0 <= n <= PLB_FPM_MOST_ROWS; models have been checked.
 */
int plb_fpm_split(const plb_fpm_t *self, int64_t n, int64_t *part, double *seconds,
                  plb_err_t *err);

#endif
