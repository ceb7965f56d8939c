/* Finds the phases with the same objects as the previous phase: these objects need not be checked
 * and listed again.  Most phases of an iterative program are of this kind. */
#pragma once

#include <stdbool.h>

#include "replay/trace.h"

/** Whether phase i has the same objects as the previous phase, in the same order. */
bool plb_trace_alike(const plb_trace_t *trace, int64_t i);

/** Whether the objects of phase i were recorded on the same ranks as in the previous phase.  Both
 * phases must have the same objects (plb_trace_alike), and i > 0. */
bool plb_trace_same_ranks(const plb_trace_t *trace, int64_t i);

/** Compute out[n_phases]: what each phase has in common with the previous one, as bits. */
int plb_trace_repeats(const plb_trace_t *trace, uint8_t *out, plb_err_t *err);
