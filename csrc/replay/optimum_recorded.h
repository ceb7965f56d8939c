/* The best schedule of LB steps for a recorded run: a search forward over its phases.
 *
 * A state is a placement of all objects, with the least time of a schedule that leads to it.  At
 * the end of each phase states take an LB step, with one call of the strategy each.  Of states
 * with the same placement only the fastest one is kept.  Nothing is lost by this, because a state
 * alone determines its future (label-setting search, as in Dijkstra, Numerische Mathematik 1,
 * 1959).  A strategy that uses loads alone gives the same new state from all states: then the
 * search is the dynamic programming of optimum_generated.h.
 *
 * Without pruning the number of states would double with each phase.  Two rules limit it:
 *   - a state that cannot become faster than the best known complete run is dropped (branch and
 *     bound).  Its bound: some phases without an LB step, then one LB step, then phases as fast as
 *     perfect balance, the largest object, and the objects that may not migrate allow;
 *   - states beyond the `width` fastest ones take no LB step: after it they would be similar to
 *     the faster ones.  Then the result is not exact.
 *
 * optimum_layout.h prepares the loads; optimum_lookahead.h computes the times of the next phases
 * for all states, LANES phases at once. */
#ifndef PLB_REPLAY_OPTIMUM_RECORDED_H
#define PLB_REPLAY_OPTIMUM_RECORDED_H

#include "decide/decider.h"
#include "replay/optimum.h"
#include "replay/trace.h"

/** Find the best schedule, each LB step with one of strategy[n].  As in a replay, an LB step at
 * the end of phase i places the objects of phase i + 1, by their load estimates at that time. None
 * takes place at the end of the last phase.
 *
 *  time is INFINITY if the search found no schedule shorter than `upper`; if it is also exact,
 * there is none.
 */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

#endif
