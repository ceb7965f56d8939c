/* Tests whether numbers are finite, or all the same. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Whether all x[n] are finite: none is infinite or NaN.  Raises no floating-point exceptions. */
bool plb_all_finite(const double *x, int64_t n);

/** Whether all x[n] are equal; true if x is NULL. */
static inline bool plb_all_equal(const double *x, int64_t n)
{
    for (int64_t i = 1; x != NULL && i < n; i++) {
        if (x[i] != x[0]) {
            return false;
        }
    }
    return true;
}
