/* What only the files of this room use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "replay/replay.h"

/* Checks of a recorded run's arrays, phase by phase. */

/** Check where each phase begins in the arrays, and the values of each rank, e.g. speeds. */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** Check the tasks of phase i.  alike: entities as in phase i - 1, so they are not checked. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/* Sums the loads of the ranks in several phases together, which is faster: additions of different
 * phases do not depend on each other.  The phases must have the same tasks on the same ranks.
 *
 * The sums are exact, like those that the ranks of a running program reduce (base/exact.h): the
 * rounding errors are summed, too (Knuth's TwoSum).  If this does not determine the last bit, the
 * sum is computed again in exact arithmetic. */

enum { PLB_SUM_PHASES = 4 }; /* number of phases that are summed together */

/** Compute sum[r * PLB_SUM_PHASES + j], the load of rank r in phase j < n_phases, rounded once.
 * load[n_phases, n]: seconds or work; rank[n]: the rank of each task, the same in all phases.
 * room[2 * n_ranks * PLB_SUM_PHASES]: scratch memory. */
void plb_load_sums(const double *load, int64_t n, int n_phases, const int32_t *rank,
                   int32_t n_ranks, double *sum, double *room);
