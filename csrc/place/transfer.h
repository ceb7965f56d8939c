/* The steps of improve.c where a rank's time is its load, and nothing else: ranks above a limit
 * give load to ranks below it. */
#pragma once

#include "place/state.h"

/** Reduce the time of the slowest rank to `limit` seconds, or as far as the steps of `families`
 * (improve.h) allow.  The state has one component, and neither messages nor blocks; the memory
 * limits hold before and after.  *work: number of sets of objects that may still be examined. */
int plb_transfer(plb_state_t *state, double limit, unsigned families, double *work,
                 plb_err_t *err);
