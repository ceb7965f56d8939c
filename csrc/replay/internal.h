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

/** Compute sum[n_ranks], the loads of the ranks, exact and rounded once, like those that the ranks
 * of a running program reduce (base/exact.h).  The rounding errors are summed, too (Knuth's
 * TwoSum); if this does not determine the last bit, the sum is computed again in exact arithmetic.
 * load[n]: seconds or work; rank[n]: the rank of each task.  room[2 * n_ranks]: scratch memory. */
void plb_load_sums(const double *load, int64_t n, const int32_t *rank, int32_t n_ranks,
                   double *sum, double *room);
