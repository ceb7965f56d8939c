/* The load database for an LB step, and what an LB step does to the objects of a phase. */
#pragma once

#include "replay/phases.h"

/** Get the load database of the present objects; it is valid until the next call with `self`. */
int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err);

/** Move the present objects to rank[n].  speed[n_ranks]: speeds of the ranks, by which load
 * estimates are converted.  If `speed` is NULL or speed[0] is 0, all speeds count as 1. */
void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed);

/** Compute the seconds that the last move has saved: the largest sum of a rank's loads and other
 * work since the move, under the previous placement, minus the same under the present one. */
int plb_phases_gain(plb_phases_t *self, double *gain, plb_err_t *err);
