/* Finds placements with needless migrations, and replaces a placement by one that is nearly as
 * balanced and needs less than half of the migrations. */
#pragma once

#include "place/kit/problem.h"

/** If RefineLB (refine.h) gets from the present placement to nearly *max seconds with less than
 * half of the migrations of rank[n_objects], replace rank[] and *max by this result.  If not, try
 * the same with CommAwareRefineLB if most objects migrate and plb_has_needless is true.  *max:
 * seconds of the slowest rank under rank[]. */
int plb_fewer(const plb_problem_t *problem, int32_t *rank, double *max, plb_err_t *err);

/** Replace rank[n_objects] by other[n_objects] if the slowest rank then takes at most `longest`
 * seconds, and if other[] has fewer migrations than those of rank[] divided by `divisor`.  *taken:
 * whether rank[] was replaced; *max is then set to the seconds of the slowest rank. */
int plb_fewer_take(const plb_problem_t *problem, int32_t *other, double longest, int64_t divisor,
                   int32_t *rank, double *max, bool *taken, plb_err_t *err);

/** Compute whether rank[n_objects] moves more than twice as many objects as must move so that no
 * rank takes more than `max` seconds.  Each rank that takes longer at present must give objects
 * away, the fewest if it gives its heaviest ones. */
int plb_has_needless(const plb_problem_t *problem, const int32_t *rank, double max, bool *out,
                     plb_err_t *err);
