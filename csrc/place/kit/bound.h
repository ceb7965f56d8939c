/* Lower bounds of the maximum of any placement, in seconds. */
#ifndef PLB_PLACE_KIT_BOUND_H
#define PLB_PLACE_KIT_BOUND_H

#include "place/kit/ranks.h"

/** The largest of: the average (if all loads are multiples of `grain` > 0 and the ranks are alike,
 * rounded up to a multiple); the most loaded rank with only its fixed objects; the heaviest object
 * on the rank where it ends first. */
double plb_bound(const plb_ranks_t *ranks, double grain);

/** The bound by the pigeonhole principle if all ranks are alike, else 0: of the k p + 1 heaviest
 * objects, k + 1 are on one rank, and weigh at least as much as the k + 1 lightest of them. */
int plb_bound_crowd(const plb_problem_t *problem, double *out, plb_err_t *err);

#endif
