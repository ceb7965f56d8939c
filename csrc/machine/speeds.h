/* How fast each rank is, learned from where objects have been.
 *
 * The time of object o on rank r is work_o / speed_r, in logarithms y = w_o - s_r + noise, so
 * objects that were measured on several ranks tell the ranks' speeds from their own work: a slow
 * rank slows whatever comes to it, a heavy object is heavy wherever it goes (Dasgupta 2013 takes
 * all objects to be equal; that is the limit which this lifts).  Least squares of w and s: instead
 * of alternating between the two, which may need hundreds of rounds where few objects have moved,
 * w is eliminated and s found by conjugate gradients, to the same answer.  Robust: observations
 * are weighed anew by Huber's rule (1.345 sigma; sigma from the median residual), so stragglers
 * and objects whose work has changed do not count by their squares.
 *
 * What only the user knows, a work estimate of each object, is an observation on one rank more.
 */
#ifndef PLB_MACHINE_SPEEDS_H
#define PLB_MACHINE_SPEEDS_H

#include <stdint.h>

#include "base/err.h"

typedef struct plb_speeds {
    double sigma;     /* of an observation, in logarithms: of most of them, by the median */
    double error;     /* the same by squares, of all; infinite where there are too few */
    double explained; /* part of the variance of what has moved that the speeds account for */
    int64_t moved;    /* objects that were seen on several ranks */
} plb_speeds_t;

/** Fit speed[p], geometric mean 1 of the ranks that objects have linked; 1 for others.
 *
 *  Observations start[o] ... start[o+1]-1 are those of object o: on rank[], in seconds[] > 0, with
 *  weight[] > 0 (NULL: 1).  error[p]: standard error of a speed's logarithm; infinite where it is
 *  unknown. */
int plb_speeds_fit(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                   const double *weight, int32_t p, double *speed, double *error,
                   plb_speeds_t *out, plb_err_t *err);

#endif
