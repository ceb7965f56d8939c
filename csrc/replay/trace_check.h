/* Checks of a recorded run's arrays, phase by phase. */
#ifndef PLB_REPLAY_TRACE_CHECK_H
#define PLB_REPLAY_TRACE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/trace.h"

/** Check what does not belong to a single phase: bounds of the arrays, speeds, background. */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** Check the tasks of phase i.  alike: true if the entities are those of the previous phase, which
 * has been checked; false if they must be checked, too. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/** Check what only an LB step reads: bytes and memory. */
int plb_trace_check_sizes(const plb_trace_t *trace, int64_t i, plb_err_t *err);

/** Check the edges; needed if traffic counts or a strategy uses it. */
int plb_trace_check_edges(const plb_trace_t *trace, int64_t i, plb_err_t *err);

#endif
