/* Which phases of a recorded run repeat the one before: an iterative program has the same objects
 * in most of its phases, and what was found out about the one before is true then. */
#ifndef PLB_REPLAY_TRACE_REPEATS_H
#define PLB_REPLAY_TRACE_REPEATS_H

#include <stdbool.h>

#include "replay/trace.h"

/** Whether phase i has the tasks of the one before, in the same order. */
bool plb_trace_alike(const plb_trace_t *trace, int64_t i);

/** The same of the ranks on which they were recorded, where phase i > 0 is alike. */
bool plb_trace_same_ranks(const plb_trace_t *trace, int64_t i);

/** out[n_phases]: what phases have in common with the one before (PLB_REPEATS_...), precomputed
 *  for repeated replays. */
int plb_trace_repeats(const plb_trace_t *trace, uint8_t *out, plb_err_t *err);

#endif
