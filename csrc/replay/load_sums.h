/* Loads of the ranks in several phases at once, for phases with the same tasks at the same places:
 * additions of one phase depend on each other, those of different phases do not.
 *
 * The sums are exact, like those that the ranks of a running program reduce (base/exact.h): what
 * each addition rounds off is summed too (Knuth's TwoSum), and where both together leave the last
 * bit in doubt, the sum is computed again in exact arithmetic.
 */
#ifndef PLB_REPLAY_LOAD_SUMS_H
#define PLB_REPLAY_LOAD_SUMS_H

#include <stdint.h>

enum { PLB_SUM_PHASES = 4 }; /* phases at once */

/** sum[r * PLB_SUM_PHASES + j]: the loads of rank r in phase j < n_phases, rounded once;
 *  total[j]: of all ranks.  load[n_phases, n] seconds, rank[n] of all these phases;
 *  room[2 * n_ranks * PLB_SUM_PHASES]. */
void plb_load_sums(const double *load, int64_t n, int n_phases, const int32_t *rank,
                   int32_t n_ranks, double *sum, double *total, double *room);

#endif
