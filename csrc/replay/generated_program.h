/* A generated program: a model of the time of an iteration, which depends on the iteration of the
 * last LB step.
 *
 * If the last LB step was just before iteration s, iteration i >= s takes
 *     mean * (1 + max(0, residual + growth[i - s] + |drift[i] - drift[s - 1]| + noise[i]))
 *   growth   the imbalance that returns after each LB step (the model of Boulmier 2021,
 *            arXiv 2104.01688)
 *   drift    a state of the program; an LB step places for the state of the iteration before
 *            it, and the distance from that state adds to the imbalance
 *   noise    imbalance that no LB step removes, like `residual`
 *
 * The initial placement costs nothing and is made for the state `start`. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "decide/trigger.h"

typedef struct plb_program { /* All but n and mean are in units of `mean`; arrays: [n], NULL: 0. */
    int64_t n;
    double mean; /* seconds of a balanced iteration */
    double residual, start;
    const double *growth, *drift, *noise;
} plb_program_t;

/** Return the seconds of iteration i if the last LB step was just before iteration s <= i. */
double plb_program_time(const plb_program_t *self, int64_t s, int64_t i);

/** Run the program under a trigger; each LB step takes `cost` seconds.  The caller has set
 * by plb_trigger_expect what the trigger knows in advance.  There is no LB step at the end of the
 * last iteration.  Writes time[n], the seconds of the iterations, and when[*n_steps], the
 * iterations at whose end an LB step took place; both arrays need space for n values. */
int plb_program_run(const plb_program_t *self, plb_trigger_t *trigger, double cost, double *time,
                    int64_t *when, int64_t *n_steps, plb_err_t *err);
