/* Checks of a recorded run's arrays, phase by phase. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "replay/trace.h"

/** Check the data that do not belong to a single phase: where each phase begins in the arrays, and
 * the values of each rank (speeds, background, memory limits). */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** Check the tasks of phase i.  alike: true: the entities are those of the previous phase, which
 * has been checked; false: check them, too. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/** Check the bytes, memory, work and positions of the tasks of phase i.  Only an LB step reads
 * them. */
int plb_trace_check_sizes(const plb_trace_t *trace, int64_t i, plb_err_t *err);

/** Check the edges of phase i.  Call this if messages cost time or a strategy uses communication.
 */
int plb_trace_check_edges(const plb_trace_t *trace, int64_t i, plb_err_t *err);
