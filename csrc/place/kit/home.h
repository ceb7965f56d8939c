/* Reduces the migrations of a placement that was made without regard to the present one. */
#pragma once

#include "place/kit/problem.h"

/** Move objects back to their present ranks, the lightest first, as long as no rank then takes
 * more than `max` seconds.  Changes rank[n_objects]; keeps the memory limits. */
int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err);

/** Renumber the ranks in rank[n_objects] such that more objects keep their present rank: all
 * objects of one rank remain together, but may go to another rank (relabel.h).  Does nothing
 * unless all ranks are alike (plb_problem_all_alike). */
int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** Undo all moves in rank[n_objects], unless they make the slowest rank faster, from `before` to
 * `after` seconds, by more than a millionth. */
int plb_home_unless_gained(const plb_problem_t *problem, double before, double after,
                           int32_t *rank, plb_err_t *err);
