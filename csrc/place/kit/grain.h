/* The granularity of the loads, which bounds how well any placement can balance. */
#ifndef PLB_PLACE_KIT_GRAIN_H
#define PLB_PLACE_KIT_GRAIN_H

#include "place/kit/problem.h"

/** The greatest common divisor of the loads of all objects that may migrate, up to rounding; 0
 * if it is below 2^-16 of the largest load.  Loads of a few sizes, or counts, have one. */
double plb_grain_common(const plb_problem_t *problem);

/** Estimate the load of the p-th lightest object that has a load, from `sample` objects: the
 * ranks' loads differ by about this before GreedyLB's last round.  scratch[sample]. */
double plb_grain_light(const plb_problem_t *problem, double *scratch, int64_t sample);

#endif
