/* The best schedule of balancings, over all 2^(n-1) of them.
 *
 * Where the time t(s, i) of iteration i depends on nothing but i and the iteration s before which
 * the last balancing took place, the least time of iterations 0 ... s - 1 and a balancing just
 * before s is
 *     best(s) = min over r < s of best(r) + t(r, r) + ... + t(r, s - 1) + cost,   best(0) = 0,
 * exact dynamic programming in O(n^2) steps and O(n) memory.
 */
#ifndef PLB_EXPLORE_OPTIMUM_H
#define PLB_EXPLORE_OPTIMUM_H

#include <stdint.h>

#include "base/err.h"
#include "explore/program.h"
#include "explore/trace.h"
#include "place/strategy.h"

/* Rows are asked for so many at a time: enough to share among threads. */
enum { PLB_OPTIMUM_BLOCK = 64 };

/** Write t(s, i), the seconds of iteration i with the last balancing just before s, into
 *  t[(s - first) * n + i] for s = first ... first + count - 1 and i = s ... n - 1.  s = 0: no
 *  balancing yet. */
typedef int (*plb_rows_fn)(void *user, int64_t first, int64_t count, double *t, plb_err_t *err);

typedef struct plb_optimum {
    double time;   /* seconds of all iterations and balancings */
    int64_t *when; /* owned; iterations at whose end to balance, rising */
    int64_t n;     /* of them */
} plb_optimum_t;

typedef struct plb_optimum_opts {
    double cost; /* seconds of a balancing, zero or more */
    plb_tick_fn tick;
    void *tick_arg;
} plb_optimum_opts_t;

/** Of schedules alike in time one whose last balancings are late. */
int plb_optimum_find(plb_optimum_t *self, int64_t n, const plb_optimum_opts_t *opts,
                     plb_rows_fn rows, void *user, plb_err_t *err);

/** Of a generated program. */
int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err);

/** Of a recorded run.  A balancing at the end of phase i gives the strategy the loads of phase i
 *  and the objects where they were recorded: what came before does not count, so that the
 *  placement is a function of i.  A replay of the schedule has the same times where the strategy
 *  does not look at the present placement and every object has a task in every phase. */
int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_strategy_t *strategy, const double *params, uint64_t seed,
                         const plb_optimum_opts_t *opts, plb_err_t *err);

void plb_optimum_free(plb_optimum_t *self);

#endif
