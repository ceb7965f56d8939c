/* The lesser and the greater of two numbers, neither of which is NaN.  Each is one
 * instruction, while fmin and fmax are calls. */
#pragma once

static inline double plb_lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double plb_greater(double a, double b)
{
    return a > b ? a : b;
}
