/* Reduces the migrations of a placement that was made without regard to the present one. */
#pragma once

#include "place/kit/problem.h"

/** Move objects in rank[n_objects] back to their ranks in the snapshot, the lightest first, as far
 * as these ranks then take at most `max` seconds and keep their memory limits. */
int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err);

/** Renumber the ranks in rank[n_objects] such that more objects keep their present rank
 * (relabel.h).  Does nothing unless all ranks are alike (plb_problem_all_alike). */
int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** Set rank[n_objects] to the present placement (plb_pack_present), unless the slowest rank's
 * time falls by more than a millionth, from `before` to `after` seconds. */
int plb_home_unless_gained(const plb_problem_t *problem, double before, double after,
                           int32_t *rank, plb_err_t *err);
