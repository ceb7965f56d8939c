/* The best schedule of LB steps for a run that is completely known.
 *
 * In a generated program, t(s, i) is the time of iteration i if the last LB step was just before
 * iteration s, and best(s) the shortest time of the iterations 0 ... s - 1 and all LB steps up to
 * and including one just before s:
 *
 *     best(s) = min over r < s of best(r) + t(r, r) + ... + t(r, s - 1) + cost,   best(0) = 0
 *
 * This dynamic programme covers all 2^(n-1) schedules in O(n^2) steps.
 *
 * In a recorded run, a search forward over the phases.  A state is a placement of all objects,
 * with the time of the fastest schedule that leads to it.  At the end of each phase the fastest
 * states take an LB step with each strategy; of states with the same placement, the fastest one
 * remains.  States whose lower bound is not below the time of a known schedule are dropped.  With
 * GreedyLB alone, unless loads depend on the rank or objects come back to their last rank, all LB
 * steps of a phase lead to one placement: this is the dynamic programme again, and exact.  Else it
 * is a beam search: if there are too many states, those remain that are the fastest of all states
 * with the same last LB step, because an LB step pays only later.  Then the result is exact if no
 * state was left out. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "decide/decider.h"
#include "replay/generated_program.h"
#include "replay/trace.h"

typedef struct plb_optimum {
    double time;    /* seconds of all iterations and LB steps */
    double bound;   /* seconds: lower bound for all schedules with any strategies */
    bool exact;     /* false: the search skipped schedules, so a shorter one is possible */
    int64_t *when;  /* owned; [n] iterations at whose end to rebalance, ascending */
    int32_t *which; /* owned; [n] index of each LB step's strategy; NULL: generated program */
    int64_t n;      /* number of LB steps */
} plb_optimum_t;

typedef struct plb_optimum_opts {
    double cost; /* seconds of an LB step, zero or more */
    /* Only for a recorded run. */
    int64_t width; /* 1 or more: largest number of strategy calls at the end of a phase; each
                      strategy may be called once in any case */
    double upper;  /* seconds of a known schedule; INFINITY: none is known */
    uint64_t seed; /* seed of strategies that draw random numbers */
} plb_optimum_opts_t;

/** Find the best schedule.  Ties: the latest last LB step, then the latest one before it, etc. */
int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err);

/** Find the best schedule, each LB step with one of strategy[n].  As in a replay, an LB step at
 * the end of phase i places the objects of phase i + 1, by their load estimates at that time.
 *
 * self->time is INFINITY if the search found no schedule shorter than `upper`; if self->exact is
 * also true, there is no such schedule. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

/** Call this also after a failure of the search. */
static inline void plb_optimum_free(plb_optimum_t *self)
{
    PLB_FREE(self->when, self->which);
    *self = (plb_optimum_t){0};
}
