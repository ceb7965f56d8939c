/* The best schedule of LB steps for a recorded run: a search forward over its phases.
 *
 * A state is a placement of all objects and the least time in which a schedule arrives at it.  At
 * the end of each phase states take an LB step, one call of the strategy each, from where their
 * objects are; of states with the same placement the one with the least time stays.  All schedules
 * that end in a state go on alike, so that nothing is lost (label-setting search, as in Dijkstra,
 * Numerische Mathematik 1, 1959).  A strategy that looks at loads alone gives one new state per
 * phase, whichever state asks: the search is then the dynamic programme of optimum_generated.h.
 *
 * Without pruning the states would double with each phase.  These are dropped:
 *   - a state that cannot become shorter than the best complete run known (branch and bound).  It
 *     goes on as it is for some phases and then pays for an LB step, and no phase is shorter than
 *     its bound: perfect balance, the largest object, the objects that may not migrate;
 *   - of more states than `width` the slower ones do not take an LB step: after it they would be
 *     about where the faster ones are.  Then the result is not exact.
 *
 * The run is laid out first (optimum_layout.h), states are run ahead of the search
 * (optimum_lookahead.h); loads of the ranks are added up for LANES phases at once. */
#ifndef PLB_REPLAY_OPTIMUM_RECORDED_H
#define PLB_REPLAY_OPTIMUM_RECORDED_H

#include "decide/decider.h"
#include "replay/optimum.h"
#include "replay/trace.h"

/** The best schedule, each LB step with one of strategy[n].  The same as in a replay of the
 *  schedule: an LB step at the end of phase i places the objects that phase i + 1 has, from where
 *  they are, by their load estimates at that time; none takes place at the end of the last phase.
 *
 *  time is INFINITY where the search found nothing shorter than `upper`; where it is exact too, no
 *  schedule is. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

#endif
