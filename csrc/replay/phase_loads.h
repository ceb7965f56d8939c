/* The loads of a phase: times of the ranks, statistics, and the update of load estimates. */
#pragma once

#include "replay/phases.h"

/** Compute self->time and self->metrics from the loads of the phase. */
void plb_phases_run(plb_phases_t *self);

/** Return the statistics of the phase, equal to those that the ranks of a run would reduce. */
plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration);

/** Return the seconds of the phase.  If every object is on its recorded rank: the measured time.
 * Otherwise: the measured time, plus the time of the slowest rank in the replay, minus the time of
 * the slowest rank in the recorded run, but at least the time of the slowest rank in the replay.
 * If no time was measured: the time of the slowest rank in the replay. */
double plb_phases_time(const plb_phases_t *self);

/** End the phase: add its loads to the estimates, and to the sums since the last LB step. */
void plb_phases_leave(plb_phases_t *self);
