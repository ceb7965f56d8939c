/* Checks of a recorded run's arrays, phase by phase. */
#ifndef PLB_REPLAY_TRACE_CHECK_H
#define PLB_REPLAY_TRACE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/trace.h"

/** What is not of one phase: bounds of the arrays, speeds, background. */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** The tasks of phase i; `alike`: the entities are those of the phase before, which has been
 * checked. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/** What only an LB step reads: bytes and memory. */
int plb_trace_check_sizes(const plb_trace_t *trace, int64_t i, plb_err_t *err);

/** Where traffic counts, or a strategy looks at it. */
int plb_trace_check_edges(const plb_trace_t *trace, int64_t i, plb_err_t *err);

#endif
