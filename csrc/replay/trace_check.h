/* Checks of a recorded run's arrays, phase by phase. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "replay/trace.h"

/** Check where each phase begins in the arrays, and the values of each rank, e.g. speeds. */
int plb_trace_check(const plb_trace_t *trace, plb_err_t *err);

/** Check the tasks of phase i.  alike: entities as in phase i - 1, so they are not checked. */
int plb_trace_check_tasks(const plb_trace_t *trace, int64_t i, bool alike, plb_err_t *err);

/** Check the data of the tasks of phase i that only an LB step reads. */
int plb_trace_check_sizes(const plb_trace_t *trace, int64_t i, plb_err_t *err);

int plb_trace_check_edges(const plb_trace_t *trace, int64_t i, plb_err_t *err);
