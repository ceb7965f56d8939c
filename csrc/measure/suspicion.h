/* Suspects a rank if all its objects suddenly take longer by the same factor.
 *
 * Either the rank has become slower, or the work of its objects has grown; only objects that move
 * can show which.  The two possible mistakes do not cost the same.  If the work has grown, and
 * pylb places as if the rank were slow, the other ranks get a little too much.  If the rank is
 * slow, and pylb places as if the work had grown, the rank keeps too much, and all others wait for
 * it.  So the rank is suspected until objects that move show that it is as fast as before. */
#pragma once

#include "measure/timings.h"

/** Return the logarithm of a suspected rank's speed relative to its old speed; 0: the rank is not
 * suspected.  n: number of objects that stayed on the rank; slower: median logarithm of their
 * present speeds relative to the old ones, minus the change of the program as a whole; width:
 * distance between the outer deciles of these logarithms, minus the part that noise explains. */
double plb_suspicion(int64_t n, double slower, double width);

/** Drop a suspicion if the objects that left the rank or came to it show less than half of it. */
int plb_suspicions_test(double *suspected, int32_t p, const plb_timings_t *last,
                        const plb_timings_t *now, plb_err_t *err);

/** Return the rank with the strongest suspicion; -1: no rank is suspected. */
int32_t plb_suspicions_most(const double *suspected, int32_t p);
