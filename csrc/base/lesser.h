/* The smaller or larger of two numbers (no NaN); only one instruction, unlike fmin and fmax. */
#pragma once

static inline double plb_lesser(double a, double b)
{
    return a < b ? a : b;
}

static inline double plb_greater(double a, double b)
{
    return a > b ? a : b;
}
