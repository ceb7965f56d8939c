/* The best schedule of LB steps for a recorded run: a search forward over its phases.
 *
 * A state is a placement of all objects, with the time of the fastest schedule that leads to it.
 * At the end of each phase, states take an LB step with each strategy.  Of all states with the
 * same placement, only the fastest one is kept (label-setting search, as in Dijkstra, Numerische
 * Mathematik 1, 1959).  This loses nothing if these states have the same load estimates; if not,
 * the result is not exact.  A strategy that uses loads alone leads from all states to the same new
 * state: then the search is the dynamic programming of optimum_generated.h.
 *
 * Without pruning the number of states would double with each phase.  Three rules limit it:
 *   - A state is dropped if its lower bound is not below the time of the best complete run so far
 *     (branch and bound).  The bound assumes some phases without an LB step, then one LB step,
 *     then phases as short as any placement allows (layout_t.least).  It is the minimum over the
 *     possible times of this LB step.
 *   - Only the fastest states take an LB step, with at most `width` calls of strategies: after an
 *     LB step, slower states would be similar to them.
 *   - If states need more than 256 MiB, those with the lowest bounds are kept, `width` or more.
 * If one of the last two rules leaves out a state, the result is not exact. */
#pragma once

#include "decide/decider.h"
#include "replay/optimum.h"
#include "replay/trace.h"

/** Find the best schedule, each LB step with one of strategy[n].  As in a replay, an LB step at
 * the end of phase i places the objects of phase i + 1, by their load estimates at that time.
 *
 * self->time is INFINITY if the search found no schedule shorter than `upper`; if self->exact is
 * also true, there is no such schedule. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);
