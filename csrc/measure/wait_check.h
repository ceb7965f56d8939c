/* Finds out whether the seconds that the ranks report as work contain waiting for other ranks.
 *
 * Elapsed time around a call that itself communicates (a solver, `lammps run 10`) is as long on
 * all ranks as on the slowest one: max/mean is 1.00, whatever the imbalance.  Such seconds have
 * three marks, in each of many steps:
 *   - they are as long as the whole step: everything that waits is in them;
 *   - they differ little between ranks;
 *   - they differ much less between ranks than from step to step.  Times of work itself vary on
 *     each rank independently, so the variation of their mean from step to step is smaller than
 *     the difference between ranks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "measure/stats.h"

enum {
    PLB_WAIT_CHECK_FIRST = 2, /* the first steps do not count: the program starts up */
    PLB_WAIT_CHECK_STEPS = 20 /* number of steps that are looked at together */
};

typedef struct plb_wait_check {
    bool noticed; /* whether the marks were found; later steps are not looked at */
    int64_t n;    /* number of steps so far */
    double mean[PLB_WAIT_CHECK_STEPS]; /* mean load of each step, seconds */
    double spread, step; /* sums over these steps: max - min of the loads, length of the step */
} plb_wait_check_t;

/** Observe the merged record of a step.  seconds: the length of the step; 0: not known.  Sets
 * self->noticed. */
void plb_wait_check_observe(plb_wait_check_t *self, const plb_stats_t *all, double seconds);

/** What this means and what to do, for the user. */
extern const char *const plb_wait_check_words;
