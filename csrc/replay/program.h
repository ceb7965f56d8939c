/* A generated program: how long an iteration takes under the placement that was made before it.
 *
 * With the last balancing just before iteration s, iteration i >= s takes
 *     mean * (1 + max(0, residual + growth[i - s] + |drift[i] - drift[s - 1]| + noise[i]))
 * growth: what comes back after each balancing, as in the model of Boulmier 2021
 * (arXiv 2104.01688); drift: a state of the program to which a placement fits less and less, which
 * a balancing knows as it was in the iteration before; noise and residual: what no balancing
 * removes.  The first placement costs nothing and fits the state `start`.
 */
#ifndef PLB_REPLAY_PROGRAM_H
#define PLB_REPLAY_PROGRAM_H

#include <stdint.h>

#include "base/err.h"
#include "decide/trigger.h"

typedef struct plb_program { /* arrays [n] or NULL: zero; in units of the mean */
    int64_t n;
    double mean; /* seconds of a balanced iteration */
    double residual, start;
    const double *growth, *drift, *noise;
} plb_program_t;

/** Seconds of iteration i with the last balancing just before iteration s <= i. */
double plb_program_time(const plb_program_t *self, int64_t s, int64_t i);

/** Run under a trigger (that was told what it shall expect), with balancings that cost `cost`;
 * none at the end of the last iteration. Into time[n] the seconds of the iterations, into
 * when[*n_balancings] the iterations at whose end it balanced. */
int plb_program_run(const plb_program_t *self, plb_trigger_t *trigger, double cost, double *time,
                    int64_t *when, int64_t *n_balancings, plb_err_t *err);

#endif
