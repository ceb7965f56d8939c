/* The best schedule of LB steps for a run that is completely known.  For a generated program
 * see optimum_generated.h, for a recorded run optimum_recorded.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

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

/** Call this also after a failure of the search. */
static inline void plb_optimum_free(plb_optimum_t *self)
{
    PLB_FREE(self->when, self->which);
    *self = (plb_optimum_t){0};
}
