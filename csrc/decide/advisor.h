/* The advisor: drives a decider (decider.h) for a code that owns its data and moves them itself.
 * A step is an iteration of that code.
 *
 * After each step the ranks merge their records (measure/stats.h), and every rank gives the result
 * to plb_advisor_observe.  If the answer is PLB_ASK_BALANCE, an LB step is due:
 *   - If `places` is false, the advisor says only when to rebalance; the code redistributes its
 *     data in its own way.
 *   - Otherwise the rank that has the loads calls plb_decider_place, all ranks call
 *     plb_advisor_placed, and the code moves its data as the plan says.
 * The next record has the cost of this LB step, and the number of ranks that carried it out.  So
 * one reduction per step is enough.
 *
 * The saving of an LB step is estimated from max/mean.  The time that an iteration would have
 * taken without the LB step is the present mean load times the max/mean from before the LB step,
 * plus most of the growth of the imbalance since the LB step. */
#pragma once

#include "decide/decider.h"
#include "measure/stats.h"

enum { PLB_ADVISOR_SPAN = 4 }; /* max/mean is averaged over up to this many iterations */

typedef struct plb_advisor {
    plb_decider_t *decider; /* borrowed */
    bool places; /* true: the advisor says when to rebalance and where data go; false: only when */
    bool due;    /* whether an advised LB step is not over yet; the next record tells its cost, and
                    how many ranks carried it out */
    bool placed; /* whether the decider has the placement of the advised LB step */
    int64_t at;  /* the step after which the last LB step was advised; -1: none yet */
    int64_t migrations, bytes; /* of the advised LB step: number of objects that its plan moves,
                                  and their bytes; 0: there is no plan */
    double before;             /* max/mean of the last iteration before the LB step was advised */
    /* max/mean of up to PLB_ADVISOR_SPAN iterations before the LB step was advised */
    double usual;
    double ratio; /* `usual` of the last LB step that was carried out */
    double left;  /* max/mean of the first two iterations after the LB step that was carried out */
    int64_t n;    /* number of iterations since the LB step that was carried out */
    double max, mean; /* seconds: sums of the maximum and of the mean load over these n
                         iterations */
    double grown;     /* seconds: sum of max - left * mean over the iterations, from the third one
                         after the LB step on */
    double recent[PLB_ADVISOR_SPAN][2]; /* ring buffer: maximum and mean load of the most recent
                                           iterations; iteration n is at n % PLB_ADVISOR_SPAN */
    int64_t n_ignored;                  /* number of advised LB steps that no rank carried out */
} plb_advisor_t;

/** Begin.  If `places` is false, the only strategy of `decider` must be plb_own_strategy. */
void plb_advisor_init(plb_advisor_t *self, plb_decider_t *decider, bool places);

/** The strategy that represents the code's own redistribution.  It is not in the table of
 *  strategies and cannot be run. */
extern const plb_strategy_t plb_own_strategy;

/** Sum the loads of a rank's cells, in seconds.  PLB_ERR_VALUE: a load, or the sum, is not in 0
 * ... 1e30. */
int plb_advisor_load(const double *load, int64_t n, double *sum, plb_err_t *err);

/* What a rank contributes to the record of a step. */
typedef struct plb_advisor_sample {
    int64_t iteration; /* number of the step */
    int64_t n_cells;
    double seconds;  /* load of the rank */
    double time;     /* seconds from the end of the previous step to the end of this one, without
                        LB steps; 0: not measured */
    double cost;     /* seconds that this rank took for the LB step before this step */
    bool rebalanced; /* whether this rank has carried out the LB step before this step */
} plb_advisor_sample_t;

/** Make the record of a rank.  PLB_ERR_VALUE: a time of the sample is not in 0 ... 1e30. */
int plb_advisor_record(const plb_advisor_sample_t *sample, int32_t rank, plb_stats_t *out,
                       plb_err_t *err);

/** Convert a merged record to the statistics that a decider takes.  If no rank has measured its
 *  time, the largest load counts as the time of the step. */
void plb_advisor_iteration(const plb_stats_t *all, plb_iteration_t *out);

/* The merged report of the ranks about the last advised LB step. */
typedef struct plb_advisor_outcome {
    double cost;          /* seconds that the LB step took on the slowest rank */
    int64_t n_rebalanced; /* number of ranks that carried out the LB step */
} plb_advisor_outcome_t;

/** Observe a step; call it on every rank.  now: the step at whose end the answer is given; with a
 * lag, `now` is later than `it->iteration`.  may_preview: see plb_decider_next.  If *ask is
 * PLB_ASK_PREVIEW, call plb_decider_preview on the rank that has the loads, and
 * plb_advisor_previewed with its gain on all ranks.  If *ask is PLB_ASK_BALANCE, an LB step is
 * due, with the strategy decider->chosen. */
int plb_advisor_observe(plb_advisor_t *self, const plb_iteration_t *it,
                        const plb_advisor_outcome_t *outcome, int64_t now, bool may_preview,
                        plb_ask_t *ask, plb_err_t *err);

/** Take `gain`, the answer of plb_decider_preview.  *ask is PLB_ASK_BALANCE if an LB step is due,
 * else PLB_ASK_NOTHING. */
int plb_advisor_previewed(plb_advisor_t *self, double gain, int64_t now, plb_ask_t *ask,
                          plb_err_t *err);

/** Take the plan of the LB step that is due; call it on every rank.  `placing` and `speed` come
 *  from plb_decider_place; `migrations` objects with `bytes` bytes migrate.  If nothing migrates,
 *  the LB step is over. */
int plb_advisor_placed(plb_advisor_t *self, const plb_placing_t *placing, const double *speed,
                       int64_t migrations, int64_t bytes, plb_err_t *err);

/** Cancel the LB step that is due: it has failed, or there will be no more steps. */
void plb_advisor_abandon(plb_advisor_t *self);

/** Write the seconds that the last LB step has saved so far into its receipt. */
int plb_advisor_judge(plb_advisor_t *self, plb_err_t *err);
