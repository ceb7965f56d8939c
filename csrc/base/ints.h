/* Arrays of 32-bit or 64-bit integers, both read without a copy; whole numbers. */
#pragma once

#include <math.h>
#include <stdint.h>

typedef struct plb_ints {
    const void *data; /* the array; NULL: there is none */
    int wide;         /* nonzero: 64-bit integers; zero: 32-bit */
} plb_ints_t;

static inline int64_t plb_int_at(plb_ints_t x, int64_t i)
{
    return x.wide ? ((const int64_t *)x.data)[i] : ((const int32_t *)x.data)[i];
}

/** Round a number of messages or bytes, zero or more.  Above 9e18, the result is 9e18. */
static inline int64_t plb_whole(double x)
{
    return llrint(fmin(x, 9e18));
}

/* Bisection: set the variable `low` to the first index in [low, high) for which the expression
 * `holds` is true, or to `high` if there is none.  If `holds` is true for an index, it must be
 * true for all later indices.  `middle` is the name of the index in this expression. */
#define PLB_BISECT(low, high, middle, holds)                                                      \
    for (int64_t end_ = (high); (low) < end_;) {                                                  \
        const int64_t middle = (low) + (end_ - (low)) / 2;                                        \
        if (holds) {                                                                              \
            end_ = middle;                                                                        \
        } else {                                                                                  \
            (low) = middle + 1;                                                                   \
        }                                                                                         \
    }

/** Return the smallest i with x[i] >= value, where x[n] is ascending; n if there is none. */
static inline int64_t plb_lower_bound(const int64_t *x, int64_t n, int64_t value)
{
    int64_t low = 0;
    PLB_BISECT(low, n, i, x[i] >= value)
    return low;
}
