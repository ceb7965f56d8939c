/* Lower bounds: under any placement, the slowest rank takes at least this many seconds. */
#ifndef PLB_PLACE_KIT_BOUND_H
#define PLB_PLACE_KIT_BOUND_H

#include "place/kit/ranks.h"

/** Return the longest of three times: the average; the time of the most loaded rank with only its
 * fixed objects; the time of the heaviest object on its best rank.  grain > 0: all ranks are
 * equal, and all loads are multiples of `grain`; then the average is rounded up to the next time
 * that a rank can have. */
double plb_bound(const plb_ranks_t *ranks, double grain);

/** Compute a bound by the pigeonhole principle; 0 unless all ranks are alike
 * (plb_problem_all_alike).  Of the k p + 1 heaviest objects, one of the p ranks has at least k +
 * 1, and so at least the load of the k + 1 lightest of them.  The result is the largest such bound
 * over all k. */
int plb_bound_crowd(const plb_problem_t *problem, double *out, plb_err_t *err);

/** Compute a bound by counting pieces; 0 if the ranks are not equal, or if there is no such bound.
 * Each object is cut into equal pieces, about as heavy as the median object; where each piece may
 * lie on another rank, the least maximum can only be less.  If p ranks have c p + e pieces, m <= e
 * of them have c m + e or more in any placement, and one of these at least their mean.  The result
 * is the smallest mean of all m, with the lightest pieces. */
int plb_bound_pieces(const plb_problem_t *problem, double *out, plb_err_t *err);

/** If plb_bound_pieces shows that no placement meets the limit, raise it to one just above the
 * bound, which a search can usually meet, and set *raised.  Where ranks have many objects, the
 * limit stays: their number hardly limits the balance. */
int plb_bound_raise(const plb_problem_t *problem, double *limit, bool *raised, plb_err_t *err);

#endif
