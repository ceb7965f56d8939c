/* Scales loads and bytes to the 32-bit integers that partitioning libraries take. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Largest sum of weights: half of 2^31, because libraries add both directions of each edge. */
enum { PLB_MOST_WEIGHT = 1 << 30 };

/** The factor that scales the sum of x[n] to PLB_MOST_WEIGHT; 1 if all values are integers and
 * their sum is not larger.  No value may be negative. */
static inline double plb_scale_of(const double *x, int64_t n)
{
    double total = 0.0;
    bool whole = true;
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
        whole = whole && x[i] <= PLB_MOST_WEIGHT && x[i] == (double)(int32_t)x[i];
    }
    return total == 0.0 || (whole && total <= PLB_MOST_WEIGHT)
               ? 1.0
               : fmin(PLB_MOST_WEIGHT / total, DBL_MAX);
}

/** Return x * scale, rounded to nearest, but in `least` ... PLB_MOST_WEIGHT.  With `least` 0,
 * values that are tiny compared with the sum become 0. */
static inline int32_t plb_scaled(double x, double scale, int32_t least)
{
    const double y = x * scale + 0.5;
    const int32_t whole = y < PLB_MOST_WEIGHT ? (int32_t)y : PLB_MOST_WEIGHT;
    return whole < least ? least : whole;
}
