/* The ideal period between two LB steps, in iterations (Menon 3.5.1, 3.5.3, eq. 3.3-3.5).  In:
 * the maximum and the mean load of the ranks in each iteration.
 *
 * x counts iterations since the last LB step.  One line is fitted to the maximum, another to the
 * mean.  m is the growth per iteration of maximum - residual * mean, where `residual` is the
 * max/mean that a strategy leaves after an LB step.  If an LB step costs theta, the best period
 * is
 *     tau = sqrt(2 theta / m)                                                           (3.5)
 *   here: cost, growth     in the thesis: theta, m
 * Example: m = 0.2 s per iteration, and an LB step costs 10 s.  Then tau = sqrt(2 * 10 / 0.2) =
 * 10 iterations.
 *
 * Eq. 3.5 holds for an imbalance that grows linearly from zero after each LB step.  If it does
 * not grow (m <= 0), the period is infinite. */
#pragma once

#include <stdint.h>

/* A least-squares line through all observations so far, in O(1) memory and time per observation.
 * The weighted sums are taken around the running means (Welford 1962, West 1979), and x counts
 * from the first x, so that no digits cancel for large x.  An observation with k later ones has
 * the weight (1 - 1/memory)^k. */
typedef struct plb_fit {
    double keep;   /* each new observation multiplies the older weights by this; 0 < keep <= 1 */
    double origin; /* the first x; mean_x is counted from it */
    double weight, mean_x, mean_y, sxx, sxy, syy;
    int64_t n;
} plb_fit_t;

/** memory > 1: about this number of recent observations count; INFINITY: all count equally. */
void plb_fit_init(plb_fit_t *self, double memory);

void plb_fit_restart(plb_fit_t *self);

void plb_fit_add(plb_fit_t *self, double x, double y);

/** The slope of the line; 0 until two different x were observed. */
double plb_fit_slope(const plb_fit_t *self);

double plb_fit_at(const plb_fit_t *self, double x);

/** Standard deviation from the line, with n - 2 degrees of freedom; infinite if n < 3. */
double plb_fit_spread(const plb_fit_t *self);

typedef struct plb_period {
    plb_fit_t max, mean;
} plb_period_t;

/** memory: as in plb_fit_init. */
void plb_period_init(plb_period_t *self, double memory);

/** After an LB step: x begins at zero again. */
void plb_period_restart(plb_period_t *self);

void plb_period_add(plb_period_t *self, double x, double max, double mean);

/** Return m, the growth per iteration of maximum - residual * mean. */
double plb_period_growth(const plb_period_t *self, double residual);

/** Return tau in iterations for an LB step that costs `cost` seconds; INFINITY if growth <= 0. */
double plb_period_tau(double cost, double growth);
