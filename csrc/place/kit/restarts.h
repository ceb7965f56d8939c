/* Local search from several placements: for few or very unequal objects, with which the limit is
 * hard to meet. */
#ifndef PLB_PLACE_KIT_RESTARTS_H
#define PLB_PLACE_KIT_RESTARTS_H

#include "place/kit/problem.h"

/** Bring rank[n_objects], which takes *max seconds, to `limit` seconds or as near as can be found;
 * *max never grows.  Pairs of ranks exchange objects (pairs.h), beginning with rank[] itself, then
 * with GreedyLB's placement and, if there are few objects, with random changes of the best one.
 * Ends as soon as the limit is met, or the bound of plb_bound_crowd. */
int plb_restarts(const plb_problem_t *problem, double limit, int32_t *rank, double *max,
                 const plb_opts_t *opts, plb_err_t *err);

#endif
