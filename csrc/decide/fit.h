/* A running least-squares line: O(1) per observation, in time and in memory.
 *
 * Weighted sums are kept around the running means (Welford 1962, West 1979) and x is counted from
 * the first one seen, so that nothing is lost to cancellation however far x is from zero.  Older
 * observations fade: the weight of one that is k observations old is (1 - 1/memory)^k.
 */
#ifndef PLB_DECIDE_FIT_H
#define PLB_DECIDE_FIT_H

#include <stdint.h>

typedef struct plb_fit {
    double keep;   /* factor on the weights at each new observation, 0 < keep <= 1 */
    double origin; /* the first x; mean_x counts from there */
    double weight, mean_x, mean_y, sxx, sxy, syy;
    int64_t n;
} plb_fit_t;

/** `memory`: about how many observations count, > 1; INFINITY counts all of them alike. */
void plb_fit_init(plb_fit_t *self, double memory);

/** Forget all observations. */
void plb_fit_restart(plb_fit_t *self);

void plb_fit_add(plb_fit_t *self, double x, double y);

/** Change of y per x; 0 while fewer than two different x were seen. */
double plb_fit_slope(const plb_fit_t *self);

/** The line at x. */
double plb_fit_at(const plb_fit_t *self, double x);

/** Standard deviation of the observations from the line, for n - 2 degrees of freedom; infinite
 *  where fewer than three were seen. */
double plb_fit_spread(const plb_fit_t *self);

#endif
