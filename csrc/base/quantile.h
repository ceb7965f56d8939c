/* Medians and quantiles, in a time that is linear on average (quadratic at worst). */
#pragma once

#include <math.h>
#include <stdint.h>

/** The k-th smallest of x[n]; k = 0: the smallest.  Reorders x: x[k] is then this value, no entry
 *  before it is greater, and no entry after it is smaller. */
double plb_nth(double *x, int64_t n, int64_t k);

/** The median of x[n], n > 0; for even n the mean of the two middle values.  Reorders x. */
double plb_median(double *x, int64_t n);

static inline double plb_median3(const double *x)
{
    return fmax(fmin(x[0], x[1]), fmin(fmax(x[0], x[1]), x[2]));
}
