/* The best schedule of LB steps for a generated program.
 *
 * The time t(s, i) of iteration i depends only on i and on s, where the last LB step took place
 * just before iteration s.  best(s) is the shortest total time of iterations 0 ... s - 1 and all
 * LB steps up to and including one just before s:
 *
 *     best(s) = min over r < s of best(r) + t(r, r) + ... + t(r, s - 1) + cost,   best(0) = 0
 *
 * This is dynamic programming over all 2^(n-1) schedules, in O(n^2) steps and O(n) memory. */
#pragma once

#include "replay/generated_program.h"
#include "replay/optimum.h"

/** Find the best schedule.  Ties: the latest last LB step, then the latest one before it, etc. */
int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err);
