/* Fewer migrations for a placement that was made without a look at where the objects are. */
#ifndef PLB_PLACE_KIT_HOME_H
#define PLB_PLACE_KIT_HOME_H

#include "place/kit/problem.h"

/** Objects that can be where they were without any rank ending after `max` seconds go back, the
 *  lightest first, changing rank[n_objects]; memory limits are kept. */
int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err);

/** Give the parts of rank[n_objects] other ranks, so that more objects stay (relabel.h).  Only
 *  where no rank differs from the others (in speed, background, fixed objects or memory limit);
 *  else it does nothing. */
int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** GreedyLB, except that an object stays where that does not let its rank end after `limit`
 *  seconds; *max is what it leads to.  Memory limits are not looked at. */
int plb_home_greedy(const plb_problem_t *problem, double limit, int32_t *rank, double *max,
                    plb_err_t *err);

#endif
