/* What an LB step reads and does. */
#ifndef PLB_REPLAY_PHASE_STEP_H
#define PLB_REPLAY_PHASE_STEP_H

#include "replay/phases.h"

/** The load database of the present objects; it stays until the next call of any kind. */
int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err);

/** The present objects move to rank[n]; `speed` as plb_decider_place gives it, or NULL. */
void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed);

/** Seconds saved since the last move: the maximum over ranks of the summed loads under the
 * placement before it, less the maximum under the present one. */
int plb_phases_gain(plb_phases_t *self, double *gain, plb_err_t *err);

#endif
