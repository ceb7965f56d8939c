/* The granularity of the loads: it limits how well any placement can balance. */
#pragma once

#include "place/kit/problem.h"

/** Return the greatest common divisor (up to rounding) of the loads of all objects that may
 * migrate, e.g. 5 for the loads 10, 15, 25; 0 if it is below 2^-16 of the largest load. */
double plb_grain_common(const plb_problem_t *problem);

/** Estimate the load of the p-th lightest object, for p ranks, among the objects with a load above
 * 0, from a sample of `sample` objects.  When GreedyLB has only the last p objects left to place,
 * the ranks' loads differ by about this load.  scratch[sample] is scratch memory. */
double plb_grain_light(const plb_problem_t *problem, double *scratch, int64_t sample);
