/* The granularity of the loads, which bounds how well any placement can balance. */
#ifndef PLB_PLACE_KIT_GRAIN_H
#define PLB_PLACE_KIT_GRAIN_H

#include "place/kit/problem.h"

/** The largest load of which the loads of all objects that may migrate are whole multiples, but
 *  for rounding; 0 where there is none of at least 2^-16 of the largest: loads of one or few
 *  sizes, or counts. */
double plb_grain_common(const plb_problem_t *problem);

/** About the load of the p-th lightest object that has one: what GreedyLB's last round is to even
 *  out.  `sample` of all objects are asked, scratch[]. */
double plb_grain_light(const plb_problem_t *problem, double *scratch, int64_t sample);

#endif
