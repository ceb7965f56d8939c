/* The loads of a phase: times of the ranks, statistics, and the update of load estimates. */
#pragma once

#include "replay/phases.h"

/** Compute self->time and self->metrics from the loads of the phase. */
void plb_phases_run(plb_phases_t *self);

/** Return the statistics of the phase, equal to those that the ranks of a run would reduce. */
plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration);

/** Return the seconds of a phase: the measured time if every object is on its recorded rank, else
 * the measured time plus the difference between `span`, the seconds until the last rank has
 * computed, and `recorded_span`, the same in the recorded placement.  If no time was measured
 * (NULL), or far less than the largest load (loads are then no seconds): `span`.
 * measured[PLB_N_TRACE_FIGURES]: the figures of the phase. */
double plb_phase_seconds(const double *measured, bool as_recorded, double span,
                         double recorded_span);

/** Return the seconds of the phase, see plb_phase_seconds. */
double plb_phases_time(const plb_phases_t *self);

/** End the phase: add its loads to the estimates, and to the sums since the last LB step. */
void plb_phases_leave(plb_phases_t *self);
