/* Medians and quantiles in linear time. */
#ifndef PLB_BASE_QUANTILE_H
#define PLB_BASE_QUANTILE_H

#include <math.h>
#include <stdint.h>

/** The k-th smallest of x[n], from 0; put in its place, with none greater before it and none
 *  smaller behind it. */
double plb_nth(double *x, int64_t n, int64_t k);

/** The median of x[n], n > 0, which comes in another order; of an even number the mean of both. */
double plb_median(double *x, int64_t n);

static inline double plb_median3(const double *x)
{
    return fmax(fmin(x[0], x[1]), fmin(fmax(x[0], x[1]), x[2]));
}

#endif
