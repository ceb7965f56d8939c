/* Local search from several placements.  This helps if objects are few or very unequal, so that a
 * limit is hard to meet. */
#pragma once

#include "place/kit/refine.h"

/** Improve rank[n_objects], the result of a refinement, until the slowest rank takes at most
 * `limit` seconds, or as little as the search can find; reached->after never grows.  Pairs of
 * ranks exchange objects (pairs.h).  The search starts from
 * - rank[] itself, unless the refinement has already exchanged sets of objects;
 * - GreedyLB's placement, if the limit is still far;
 * - with memory limits, a placement by memory alone (plb_pack), if the limit is still far;
 * - without memory limits, random changes of the best placement, if objects are few.
 * The search ends when the limit or the bound of plb_bound_crowd is met. */
int plb_restarts(const plb_problem_t *problem, double limit, int32_t *rank, plb_refined_t *reached,
                 const plb_opts_t *opts, plb_err_t *err);
