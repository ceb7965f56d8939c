/* Reduces the migrations of a placement that was made without regard to the present one. */
#pragma once

#include "place/kit/problem.h"

/** Move objects in rank[n_objects] back to the ranks of the snapshot, the lightest first.  An
 * object does not move if its rank would then take more than `max` seconds or exceed its memory
 * limit. */
int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err);

/** Renumber the ranks in rank[n_objects] such that more objects keep their present rank: all
 * objects of one rank remain together, but may go to another rank (relabel.h).  Does nothing
 * unless all ranks are alike (plb_problem_all_alike). */
int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** Keep rank[n_objects] if the slowest rank takes `after` seconds instead of `before`, and this
 * gain is more than a millionth; else set rank[] to the present placement
 * (plb_problem_present). */
int plb_home_unless_gained(const plb_problem_t *problem, double before, double after,
                           int32_t *rank, plb_err_t *err);
