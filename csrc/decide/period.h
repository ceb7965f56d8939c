/* The ideal period between two LB steps (Menon 3.5.1, 3.5.3, eq. 3.3-3.5), from two lines that
 * are fitted to the loads as observations come in.
 *
 * x counts iterations since the last LB step.  Two lines are fitted, to the maximum and to the
 * mean load of the ranks.  The mean is multiplied by the imbalance that the strategy leaves
 * (`residual`: max/mean after an LB step).  Relative to that, the maximum grows by m per
 * iteration, and with an LB step that costs theta the best period is
 *     tau = sqrt(2 theta / m)                                                           (3.5)
 *   here: cost, growth     there: theta, m
 * Eq. 3.5 holds for an imbalance that grows linearly from zero after each LB step.  Where it
 * does not grow (m <= 0) the period is infinite.
 */
#ifndef PLB_DECIDE_PERIOD_H
#define PLB_DECIDE_PERIOD_H

#include <stdint.h>

/* A running least-squares line: O(1) per observation, in time and in memory.
 *
 * The weighted sums are taken around the running means (Welford 1962, West 1979), and x counts
 * from the first one seen: so there is no cancellation, however large x is.  Older observations
 * fade: one that is k observations old has the weight (1 - 1/memory)^k. */
typedef struct plb_fit {
    double keep;   /* factor on the weights at each new observation, 0 < keep <= 1 */
    double origin; /* the first x; mean_x counts from there */
    double weight, mean_x, mean_y, sxx, sxy, syy;
    int64_t n;
} plb_fit_t;

/** `memory`: about how many observations count, > 1; INFINITY: all of them, equally. */
void plb_fit_init(plb_fit_t *self, double memory);

/** Forget all observations. */
void plb_fit_restart(plb_fit_t *self);

void plb_fit_add(plb_fit_t *self, double x, double y);

/** The slope of the line; 0 while fewer than two different x were seen. */
double plb_fit_slope(const plb_fit_t *self);

/** The value of the line at x. */
double plb_fit_at(const plb_fit_t *self, double x);

/** Standard deviation of the observations from the line, with n - 2 degrees of freedom; infinite
 * for fewer than three observations. */
double plb_fit_spread(const plb_fit_t *self);

typedef struct plb_period {
    plb_fit_t max, mean;
} plb_period_t;

/** `memory` as in plb_fit_init. */
void plb_period_init(plb_period_t *self, double memory);

/** Restart after an LB step: x begins at zero again. */
void plb_period_restart(plb_period_t *self);

/** Add the maximum and mean load of iteration x after the last LB step. */
void plb_period_add(plb_period_t *self, double x, double max, double mean);

/** m: growth per iteration of (maximum - residual * mean). */
double plb_period_growth(const plb_period_t *self, double residual);

/** tau in iterations for an LB step that costs `cost` seconds; INFINITY if m <= 0. */
double plb_period_tau(double cost, double growth);

#endif
