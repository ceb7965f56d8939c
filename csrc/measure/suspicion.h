/* Suspects a rank to be slower, if all its objects suddenly take longer by the same factor.
 *
 * Either the rank has become slower, or the work of its objects has grown, and only moves can
 * tell. The two mistakes do not cost the same.  If the work has grown, and pylb places as if the
 * rank were slow, the other ranks get a little too much.  If the rank is slow, and pylb places as
 * if the work had grown, the rank keeps too much, and all others wait for it.  So the rank is
 * suspected until objects that move show that it is as fast as before.
 */
#ifndef PLB_MEASURE_SUSPICION_H
#define PLB_MEASURE_SUSPICION_H

#include "measure/timings.h"

/** Return the log speed of a rank that is suspected, relative to its old one; 0: no suspicion.
 * n objects have stayed; `slower` is the median log of their speeds now, relative to before; width
 * is the distance of the outer deciles of these logarithms, without noise. */
double plb_suspicion(int64_t n, double slower, double width);

/** Drop each suspicion, suspected[p], of which the objects that left the rank or came to it
 * between two placements show less than half. */
int plb_suspicions_test(double *suspected, int32_t p, const plb_timings_t *last,
                        const plb_timings_t *now, plb_err_t *err);

/** The rank that is most suspected; -1: none. */
int32_t plb_suspicions_most(const double *suspected, int32_t p);

#endif
