/* One instruction each, unlike fmin and fmax.  The numbers must not be NaN. */
#pragma once

static inline double plb_lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double plb_greater(double a, double b)
{
    return a > b ? a : b;
}
