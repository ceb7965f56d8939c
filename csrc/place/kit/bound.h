/* Lower bounds: under any placement, the slowest rank takes at least this many seconds. */
#pragma once

#include "place/kit/ranks.h"

/** Return the longest of three times: the average; the time of the most loaded rank with only its
 * fixed objects; the time of the heaviest object on its best rank.  grain > 0: all ranks are
 * equal, and all loads are multiples of `grain`; then the average is rounded up to the next time
 * that a rank can have. */
double plb_bound(const plb_ranks_t *ranks, double grain);

/** Compute a bound by the pigeonhole principle; 0 unless all ranks are alike
 * (plb_problem_all_alike).  Of the k p + 1 heaviest objects, one of the p ranks has at least k +
 * 1, and so at least the load of the k + 1 lightest of them.  The result is the largest such bound
 * over all k. */
int plb_bound_crowd(const plb_problem_t *problem, double *out, plb_err_t *err);
