/* Placements that keep the memory limits, whatever the loads. */
#pragma once

#include "place/kit/problem.h"

/** Place by memory alone; there must be memory limits.  Writes to rank[n_objects] the rank of each
 * object that may migrate.  Each object goes to the first rank where it fits, largest objects
 * first, with backtracking for a bounded number of steps.  If this fails, take the present
 * placement.  PLB_ERR_INFEASIBLE: the present placement exceeds a limit, too. */
int plb_pack(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** Repair a placement that exceeds memory limits.  Ranks above their limits give the
 * objects with the least load for their memory to the ranks with the most free memory.  If the
 * objects do not fit there, take the present placement; if it exceeds a limit, too, call plb_pack.
 */
int plb_pack_repair(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);

/** Set rank[n_objects] to the present placement, repaired if it exceeds memory limits. */
int plb_pack_present(const plb_problem_t *problem, int32_t *rank, plb_err_t *err);
