/* Whether numbers are numbers. */
#ifndef PLB_BASE_FINITE_H
#define PLB_BASE_FINITE_H

#include <stdbool.h>
#include <stdint.h>

/** Neither infinite nor NaN, any of x[n]; no floating-point exceptions are raised. */
bool plb_all_finite(const double *x, int64_t n);

#endif
