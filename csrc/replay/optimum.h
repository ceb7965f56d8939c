/* The best schedule of LB steps: when to rebalance, known only when the run is over.
 *
 * Of a generated program the time t(s, i) of iteration i depends on nothing but i and the
 * iteration s before which the last LB step took place.  The least time of iterations 0 ... s - 1
 * and an LB step just before s is best(s) = min over r < s of best(r) + t(r, r) + ... + t(r, s -
 * 1) + cost,   best(0) = 0, exact dynamic programming over all 2^(n-1) schedules, in O(n^2) steps
 * and O(n) memory.
 *
 * In a recorded run a placement may depend on the one before it.  There a search goes forward over
 * the phases (trace_optimum.c).
 */
#ifndef PLB_REPLAY_OPTIMUM_H
#define PLB_REPLAY_OPTIMUM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/decider.h"
#include "replay/program.h"
#include "replay/trace.h"

/* Rows are asked for so many at a time. */
enum { PLB_OPTIMUM_BLOCK = 64 };

/** Write t(s, i), the seconds of iteration i with the last LB step just before s, into
 *  t[(s - first) * n + i] for s = first ... first + count - 1 and i = s ... n - 1.  s = 0: no
 *  LB step yet. */
typedef int (*plb_rows_fn)(void *user, int64_t first, int64_t count, double *t, plb_err_t *err);

typedef struct plb_optimum {
    double time;    /* seconds of all iterations and LB steps */
    double bound;   /* seconds: no schedule is shorter, whatever the strategy */
    bool exact;     /* no schedule with these strategies is shorter than `time` */
    int64_t *when;  /* owned; iterations at whose end to rebalance, rising */
    int32_t *which; /* owned; the strategy of each, an index; NULL where there is none */
    int64_t n;      /* of them */
} plb_optimum_t;

typedef struct plb_optimum_opts {
    double cost; /* seconds of an LB step, zero or more */
    /* of a recorded run: */
    int64_t width; /* LB steps tried at the end of a phase, at most; 1 or more */
    double upper;  /* seconds of a run that is known, or INFINITY */
    uint64_t seed; /* for strategies that draw random numbers */
    plb_tick_fn tick;
    void *tick_arg;
} plb_optimum_opts_t;

/** Of schedules alike in time one whose last LB steps are late. */
int plb_optimum_find(plb_optimum_t *self, int64_t n, const plb_optimum_opts_t *opts,
                     plb_rows_fn rows, void *user, plb_err_t *err);

/** Of a generated program. */
int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err);

/** Of a recorded run, each LB step with one of strategy[n].  The same as in a replay of the
 *  schedule: an LB step at the end of phase i places the objects that phase i + 1 has, from where
 *  they are, by what is known of their loads then; none takes place at the end of the last phase.
 *
 *  time is INFINITY where the search found nothing shorter than `upper`; where it is exact too, no
 *  schedule is. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

void plb_optimum_free(plb_optimum_t *self);

#endif
