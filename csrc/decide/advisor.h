/* The advisor: drives a decider (decider.h) for a code that owns its data and moves them itself.
 * A step is an iteration of that code.
 *
 * After each step the ranks merge their records (measure/measure.h), and every rank gives the
 * result to plb_advisor_observe.  If the answer is PLB_ASK_BALANCE, an LB step is due:
 *   - If `places` is false, the code redistributes its data in its own way.
 *   - Otherwise the rank that has the loads calls plb_decider_place, all ranks call
 *     plb_advisor_placed, and the code moves its data as the plan says.
 * The next record has the cost of this LB step, and the number of ranks that carried it out.  So
 * one reduction per step is enough.
 *
 * The saving of an LB step is estimated from max/mean.  Without the LB step, an iteration would
 * have taken the present mean load times the max/mean of the old placement.  The latter is the
 * max/mean from before the LB step, plus its expected growth since then; the growth per iteration
 * is fitted to all intervals between LB steps.
 *
 * If loads include waits for a core, and p ranks share c < p cores, a balanced iteration makes all
 * loads longer.  An iteration of `max` seconds cannot have more work than c * max, so the mean
 * load counts at most max * c / p: otherwise the saving of an LB step would be overestimated. */
#pragma once

#include "base/base.h"
#include "comm/transport.h"
#include "decide/decider.h"
#include "measure/measure.h"

enum { PLB_ADVISOR_SPAN = PLB_FEW }; /* max/mean is averaged over at most this many iterations */

typedef struct plb_advisor {
    plb_decider_t *decider; /* borrowed */
    bool places; /* true: the advisor says where data go; false: only when to rebalance */
    bool due;    /* whether an advised LB step is not over; the next record tells its outcome */
    bool placed; /* whether the decider has the placement of the advised LB step */
    /* Whether the program may redistribute its data without a report (if `places` is false).
     * Then, if no rank reports, the iteration after the advice is assumed to contain the
     * redistribution: the cost is the time by which it is longer than the next one. */
    bool untold;
    /* Whether an LB step of the program removes only a part of the imbalance, because data go only
     * to neighbours.  Then LB steps follow each other while the next one is expected to repay its
     * cost, and all count as one (plb_step_done_t.goes_on). */
    bool partial;
    int n_partial;           /* number of LB steps that have followed each other */
    double earlier[PLB_FEW]; /* max/mean before the last of them, newest first */
    double with_move; /* seconds of the iteration after the last advice; NAN: it is not over */
    int64_t at;       /* iteration after which the last LB step was advised; -1: none yet */
    int64_t migrations, bytes; /* number and bytes of objects that the plan moves; 0: no plan */
    double share; /* cores per rank, at most 1, if loads include waits for a core; else 1 */
    /* In a replay: seconds that each LB step costs; NAN: as its parts.  stays: nothing moves. */
    double price;
    bool stays;
    double before; /* max/mean of the last iteration before the advised LB step */
    double usual;  /* max/mean of up to PLB_ADVISOR_SPAN iterations before the advised LB step */
    double ratio;  /* `usual` of the last LB step that was carried out, of its first slice */
    int64_t n;     /* number of iterations since the LB step that was carried out */
    bool balanced; /* whether an LB step was carried out */
    bool moved;    /* whether data have moved in an LB step */
    double max;    /* seconds: sum of `max` over these n iterations */
    double kept;   /* seconds: the same sum, estimated for the placement before this LB step */
    double young;  /* max/mean of the first iteration after the LB step */
    double growth[2]; /* sums whose ratio is the growth of max/mean; older intervals count less */
    double recent[PLB_ADVISOR_SPAN]
                 [2];  /* ring buffer: largest and mean load of the last iterations, seconds */
    int64_t n_ignored; /* advised LB steps that no rank carried out */
    plb_wait_check_t waiting; /* finds whether loads contain waiting; observed steps go to it */
    int said;                 /* bits: the texts that plb_advisor_word has already returned */
    char word[600];           /* memory for a returned text that has numbers */
} plb_advisor_t;

/** If `places` is false, the only strategy of `decider` must be plb_own_strategy. */
void plb_advisor_init(plb_advisor_t *self, plb_decider_t *decider, bool places);

/** The code's own redistribution.  It is not in the table of strategies and cannot be run. */
extern const plb_strategy_t plb_own_strategy;

/** Sum the loads of a rank's cells exactly, as a replay does.  PLB_ERR_VALUE: a load or *sum is
 * not 0 ... 1e30 seconds. */
int plb_advisor_load(const double *load, int64_t n, double *sum, plb_err_t *err);

typedef struct plb_advisor_sample {
    int64_t iteration;
    int64_t n_cells;
    double seconds;  /* load of the rank */
    double time;     /* seconds since the previous step, without LB steps; 0: not measured */
    double cost;     /* seconds that this rank spent in the LB step before this iteration */
    bool rebalanced; /* whether this rank has carried out that LB step */
    double hidden; /* seconds for which this rank computed while the data of that LB step moved */
    double delay;  /* seconds for which this rank waited for a core, if `seconds` excludes them */
} plb_advisor_sample_t;

/** Make the record of a rank.  PLB_ERR_VALUE: a time of the sample is not in 0 ... 1e30. */
int plb_advisor_record(const plb_advisor_sample_t *sample, int32_t rank, plb_stats_t *out,
                       plb_err_t *err);

/** Convert a merged record.  If no rank has measured its time, the largest load is the time. */
void plb_advisor_iteration(const plb_stats_t *all, plb_iteration_t *out);

/* The merged report of the ranks about the last advised LB step. */
typedef struct plb_advisor_outcome {
    double cost;          /* seconds of the LB step on the slowest rank */
    int64_t n_rebalanced; /* ranks that carried out the LB step */
} plb_advisor_outcome_t;

/** Observe a step, on every rank.  now: the last step before the LB step, if one is advised now.
 * It is the step that ends with this answer (with a lag, later than `it->iteration`) or, if data
 * move while the next step runs, this next step.  may_preview: see plb_decider_next.  If *ask is
 * PLB_ASK_PREVIEW, call plb_decider_preview on the rank that has the loads, and
 * plb_advisor_previewed with the gain on all ranks.  If it is PLB_ASK_BALANCE, an LB step with the
 * strategy decider->chosen is due. */
int plb_advisor_observe(plb_advisor_t *self, const plb_iteration_t *it,
                        const plb_advisor_outcome_t *outcome, int64_t now, bool may_preview,
                        plb_ask_t *ask, plb_err_t *err);

/** Take a preview's gain.  *ask is PLB_ASK_BALANCE if an LB step is due, else PLB_ASK_NOTHING. */
int plb_advisor_previewed(plb_advisor_t *self, double gain, int64_t now, plb_ask_t *ask,
                          plb_err_t *err);

/** Take the plan of the LB step that is due, on every rank.  `placing` and `speed` come from
 * plb_decider_place.  migrations: number of objects that migrate; 0: the LB step is over. */
int plb_advisor_placed(plb_advisor_t *self, const plb_placing_t *placing, const double *speed,
                       int64_t migrations, int64_t bytes, plb_err_t *err);

/** Return what the user should know after a step, each text once; NULL: nothing.  It says that
 * loads contain waiting, that the advice is not carried out, that nothing is measured, or why,
 * after many steps, no LB step has moved data although ranks wait for the slowest one. */
const char *plb_advisor_word(plb_advisor_t *self);

/** Cancel the LB step that is due: it has failed, or no more steps follow. */
void plb_advisor_abandon(plb_advisor_t *self);

/** Write the seconds that the last LB step has saved so far into its receipt. */
int plb_advisor_judge(plb_advisor_t *self, plb_err_t *err);

/* The steps of an advisor with a lag: one nonblocking reduction of statistics
 * (measure/measure.h) per step; several may be under way.
 *
 * In each step a rank contributes its record, and gets the merged record of the step `lag` steps
 * before.  So it waits only for ranks that are more than `lag` steps behind, and all ranks get the
 * same record at the same step.  A rank that leaves contributes a final record, which says so
 * (n_ended).  If only some ranks leave, the others learn this from the merged record.  Every rank
 * then completes the reductions that have begun, so that no rank waits forever.
 *
 * A rank that has failed contributes a record that says so (failed_rank).  Without a lag all ranks
 * learn it in the same step, and can go on; with a lag, it ends the steps. */

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

/** Take the merged record that is due, or (`due` false) the oldest one under way; wait for at most
 * `timeout_ns` nanoseconds (negative: no limit).  *have becomes true if the record is now in
 * self->all; false if there is none, or if it did not come in time (then plb_steps_is_due is
 * true).  A record that ends the steps is taken like any other. */
int plb_steps_take(plb_steps_t *self, bool due, int64_t timeout_ns, plb_tick_fn tick, void *arg,
                   bool *have, plb_err_t *err);

static inline int64_t plb_steps_under_way(const plb_steps_t *self)
{
    return self->begun - self->taken;
}

/** Whether a record must be taken before the next contribution. */
static inline bool plb_steps_is_due(const plb_steps_t *self)
{
    return self->begun > self->taken + self->lag;
}

/** Whether a record has ended the steps: ranks are in different steps, a rank has failed (with a
 * lag), or some ranks (not all) have left. */
static inline bool plb_steps_broken(const plb_steps_t *self)
{
    return self->last != INT64_MAX;
}

/** Leave, after the final record, or if the steps are broken: complete the reductions under way,
 * within `timeout_ns` (negative: no limit).  *done: true: self->all is the record that ended the
 * steps; false: call again. */
int plb_steps_leave(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *done,
                    plb_err_t *err);
