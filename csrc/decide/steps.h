/* The steps of an advisor (advisor.h) with a lag: one nonblocking reduction of statistics
 * (measure/stats.h) per step; several may be under way.
 *
 * In each step a rank contributes its record, and gets the merged record of the step `lag` steps
 * before.  So it waits only for ranks that are more than `lag` steps behind, and all ranks get the
 * same record at the same step.  A rank that leaves contributes a final record, which says so
 * (n_ended).  If only some ranks leave, the others learn this from the merged record.  Every rank
 * then completes the reductions that have begun, so that no rank waits forever.
 *
 * A rank that has failed contributes a record that says so (failed_rank).  Without a lag all ranks
 * learn it in the same step, and can go on; with a lag, it ends the steps. */
#pragma once

#include "base/wait.h"
#include "measure/reduction.h"

typedef struct plb_steps {
    const plb_reduction_t *net; /* borrowed; its depth is lag + 2 or more */
    int32_t lag;
    int64_t begun, taken; /* numbers of reductions begun and of merged records taken */
    int64_t last;    /* index of the last reduction, or INT64_MAX: no record has ended the steps */
    plb_stats_t all; /* the last merged record; if the steps have ended, the one that ended them */
} plb_steps_t;

/** Begin.  PLB_ERR_VALUE: the lag is negative, or too large for the depth of `net`. */
int plb_steps_init(plb_steps_t *self, const plb_reduction_t *net, int32_t lag, plb_err_t *err);

/** Contribute to the next step; returns at once.  PLB_ERR_STATE: plb_steps_broken. */
int plb_steps_begin(plb_steps_t *self, const plb_stats_t *mine, plb_err_t *err);

/** Take the merged record that is due; wait for at most `timeout_ns` nanoseconds (negative: no
 * limit).  *have: true: it is now in self->all; false: none is due, or it did not come in time
 * (then plb_steps_is_due is true).  A record that ends the steps is taken like any other. */
int plb_steps_take(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *have,
                   plb_err_t *err);

/** Take the oldest merged record, even if it is not due.  *have: as in plb_steps_take. */
int plb_steps_next(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *have,
                   plb_err_t *err);

int64_t plb_steps_under_way(const plb_steps_t *self);

/** Whether a record must be taken before the next contribution. */
bool plb_steps_is_due(const plb_steps_t *self);

/** Whether a record has ended the steps: ranks are in different steps, a rank has failed (with a
 * lag), or some ranks (not all) have left. */
bool plb_steps_broken(const plb_steps_t *self);

/** Leave.  Contribute `mine` (NULL: nothing) as the final record, unless the steps are broken.
 * Then complete the reductions under way, within `timeout_ns` (negative: no limit).  *done: true:
 * self->all is the record that ended the steps; false: call again, with `mine` NULL. */
int plb_steps_leave(plb_steps_t *self, const plb_stats_t *mine, int64_t timeout_ns,
                    plb_tick_fn tick, void *arg, bool *done, plb_err_t *err);
