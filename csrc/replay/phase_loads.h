/* The loads of a phase: times of the ranks, statistics, and the load estimates afterwards. */
#ifndef PLB_REPLAY_PHASE_LOADS_H
#define PLB_REPLAY_PHASE_LOADS_H

#include "replay/phases.h"

/** Compute self->time and self->metrics from the loads of the phase. */
void plb_phases_run(plb_phases_t *self);

/** The statistics of the phase, as the runtime would have reduced them. */
plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration);

/** Seconds that the phase took: as measured, and what its slowest rank takes more or less here. */
double plb_phases_time(const plb_phases_t *self);

/** Its loads enter the estimates and the sums since the last move. */
void plb_phases_leave(plb_phases_t *self);

#endif
