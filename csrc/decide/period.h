/* The ideal period between two balancings: Menon 3.5.1, 3.5.3, eq. 3.3-3.5.
 *
 * x counts iterations since the last balancing.  Two lines are fitted, the maximum and the average
 * load of the ranks.  The average is shifted up by the imbalance that the strategy cannot even out
 * (`residual`, its max/mean after a balancing); the maximum relative to that grows by m per
 * iteration, and with a balancing that costs theta
 *     tau = sqrt(2 theta / m)                                                           (3.5)
 *   here: cost, growth, mean_slope, mean_at_zero     there: theta, m, a, c_a
 * Eq. 3.5 holds for an imbalance that grows linearly from zero after each balancing.  Where it
 * does not grow (m <= 0) the period is infinite.
 */
#ifndef PLB_DECIDE_PERIOD_H
#define PLB_DECIDE_PERIOD_H

#include "decide/fit.h"

typedef struct plb_period {
    plb_fit_t max, mean;
} plb_period_t;

/** `memory` as in plb_fit_init. */
void plb_period_init(plb_period_t *self, double memory);

/** A balancing has taken place: x starts at zero again. */
void plb_period_restart(plb_period_t *self);

/** Maximum and average load of the iteration x after the last balancing. */
void plb_period_add(plb_period_t *self, double x, double max, double mean);

/** m: growth per iteration of the maximum over `residual` times the average. */
double plb_period_growth(const plb_period_t *self, double residual);

/** tau in iterations for a balancing that costs `cost` seconds; INFINITY where m <= 0. */
double plb_period_tau(double cost, double growth);

#endif
