/* Replaces a placement by one that is nearly as balanced and needs less than half of the
 * migrations. */
#pragma once

#include "place/kit/problem.h"

/** If RefineLB (refine.h) gets from the present placement to nearly *max seconds with less than
 * half of the migrations of rank[n_objects], replace rank[] and *max by its result.  *max: the
 * seconds of the slowest rank under rank[]. */
int plb_fewer(const plb_problem_t *problem, int32_t *rank, double *max, plb_err_t *err);
