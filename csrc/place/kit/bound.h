/* Lower bounds of the slowest rank's time, in seconds, for any placement. */
#pragma once

#include "place/kit/problem.h"

/** Compute a bound by counting pieces; 0 if there is none, or if plb_problem_all_alike is false.
 * Each object is cut into equal pieces, about as heavy as the median object.  If the pieces of an
 * object may lie on different ranks, the smallest possible maximum can only fall, so a bound for
 * the pieces also holds for the objects.  If p ranks have c p + e pieces, then for some m <= e, m
 * of the ranks have c m + e pieces or more in any placement, and one of these ranks has at least
 * their mean load.  The result is the smallest such mean over all m, for the lightest pieces. */
int plb_bound_pieces(const plb_problem_t *problem, double *out, plb_err_t *err);

/** If plb_bound_pieces shows that no placement meets *limit, raise *limit to just above the bound,
 * where a search can usually meet it.  *raised: whether this was done.  With more than 40 objects
 * per rank, neither *limit nor *raised is changed: so many objects hardly limit the balance. */
int plb_bound_raise(const plb_problem_t *problem, double *limit, bool *raised, plb_err_t *err);
