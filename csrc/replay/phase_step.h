/* The load database for an LB step, and what an LB step does to the objects of a phase. */
#pragma once

#include "replay/phases.h"

/** Get the load database of the present objects.  It is valid until any other function is called
 * with `self`. */
int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err);

/** Move the present objects to rank[n].  speed[n_ranks]: speeds of the ranks, e.g. from
 * plb_decider_place.  If `speed` is NULL or speed[0] is 0, the speeds are unknown and count as 1.
 */
void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed);

/** Compute the seconds saved since the last move: for each rank its loads and other work are
 * summed; the result is the maximum of these sums under the previous placement, minus the maximum
 * under the present one. */
int plb_phases_gain(plb_phases_t *self, double *gain, plb_err_t *err);
