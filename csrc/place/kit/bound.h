/* Lower bounds: under any placement, the slowest rank takes at least this many seconds. */
#ifndef PLB_PLACE_KIT_BOUND_H
#define PLB_PLACE_KIT_BOUND_H

#include "place/kit/ranks.h"

/** Return the largest of three times: the average (if all ranks are equal and all loads are
 * multiples of `grain` > 0, it is rounded up to a multiple); the time of the most loaded rank
 * with only its fixed objects; the time of the heaviest object on its best rank. */
double plb_bound(const plb_ranks_t *ranks, double grain);

/** Compute a bound by the pigeonhole principle; 0 if the ranks are not equal.  Of the k p + 1
 * heaviest objects, one of the p ranks has at least k + 1, and so at least the load of the k + 1
 * lightest of them.  The result is the largest such bound of all k. */
int plb_bound_crowd(const plb_problem_t *problem, double *out, plb_err_t *err);

#endif
