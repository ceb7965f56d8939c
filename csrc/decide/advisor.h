/* The advisor: drives a decider for a code that owns its data and moves them itself.
 *
 * After each step the ranks merge a record (measure/stats.h), and every rank feeds it to
 * plb_advisor_observe.  Where the answer is PLB_ASK_BALANCE, an LB step is due:
 *   - when only: the code redistributes in its own way;
 *   - when and where: the rank that has the loads calls plb_decider_place, and all ranks
 *     plb_advisor_placed; the code moves its data as the plan says.
 * The next record says what that cost and whether any rank did it, so that nothing is reduced but
 * one record a step.
 *
 * What an LB step has saved is estimated by max/mean: without the LB step an iteration would have
 * taken the ratio before it times the mean, and most of what the imbalance has grown since would
 * have come on top.
 *
 * A state machine without input or output.
 */
#ifndef PLB_DECIDE_ADVISOR_H
#define PLB_DECIDE_ADVISOR_H

#include "decide/decider.h"
#include "measure/stats.h"

enum { PLB_ADVISOR_SPAN = 4 }; /* most iterations whose max/mean is averaged: noise evens out */

typedef struct plb_advisor {
    plb_decider_t *decider; /* borrowed */
    bool places;            /* when and where; false: when only */
    bool due;               /* an LB step was advised; the next record says what came of it */
    bool placed;            /* its plan was made */
    int64_t at;             /* the step after which it was advised */
    int64_t migrations, bytes;
    double before;    /* max/mean when it was advised */
    double usual;     /* the same, of the last PLB_ADVISOR_SPAN iterations until then */
    double ratio;     /* `usual` of the last LB step that was carried out */
    double left;      /* max/mean of the first PLB_ADVISOR_SPAN iterations after it */
    int64_t n;        /* iterations since */
    double max, mean; /* seconds: sums over these */
    double grown;     /* seconds: what the imbalance has grown since, likewise */
    double recent[PLB_ADVISOR_SPAN][2]; /* max and mean of the last iterations, at n % SPAN */
    int64_t n_ignored; /* LB steps that were advised and that no rank carried out */
} plb_advisor_t;

/** The decider of a code that redistributes in its own way has plb_own_strategy as its only
 *  strategy. */
void plb_advisor_init(plb_advisor_t *self, plb_decider_t *decider, bool places);

/** The strategy of when only: the code's own.  It is not in the table and cannot be run. */
extern const plb_strategy_t plb_own_strategy;

/** The load of a rank's cells in seconds.  PLB_ERR_VALUE: one is negative, NaN or infinite. */
int plb_advisor_load(const double *load, int64_t n, double *sum, plb_err_t *err);

/* What a rank says of a step. */
typedef struct plb_advisor_sample {
    int64_t iteration;
    int64_t n_cells;
    double seconds;  /* load of the rank */
    double time;     /* seconds from the step before to this one, without LB steps; 0: not timed */
    double cost;     /* seconds that this rank took for the LB step before */
    bool rebalanced; /* this rank has carried it out */
} plb_advisor_sample_t;

/** The record of a rank.  PLB_ERR_VALUE: a time is negative, NaN or infinite. */
int plb_advisor_record(const plb_advisor_sample_t *sample, int32_t rank, plb_stats_t *out,
                       plb_err_t *err);

/** The statistics of a merged record, for the decider.  Where no rank was timed, the step took as
 *  long as its largest load. */
void plb_advisor_iteration(const plb_stats_t *all, plb_iteration_t *out);

/* What all ranks said of the LB step before. */
typedef struct plb_advisor_outcome {
    double cost;          /* seconds of the slowest rank */
    int64_t n_rebalanced; /* ranks that carried it out */
} plb_advisor_outcome_t;

/** A step is over, on every rank.  `now`: the step at whose end the answer is given, after
 *  `it->iteration` where records lag.  PLB_ASK_LOOK: plb_decider_look where the loads are, its
 *  answer to all by plb_advisor_looked.  PLB_ASK_BALANCE: an LB step is due, of the strategy
 *  decider->chosen. */
int plb_advisor_observe(plb_advisor_t *self, const plb_iteration_t *it,
                        const plb_advisor_outcome_t *outcome, int64_t now, bool may_look,
                        plb_ask_t *ask, plb_err_t *err);

int plb_advisor_looked(plb_advisor_t *self, double gain, int64_t now, plb_ask_t *ask,
                       plb_err_t *err);

/** The plan of the LB step that is due, on every rank: `placing` and `speed` as plb_decider_place
 *  gave them, objects and bytes that migrate.  Without migrations the LB step is over. */
int plb_advisor_placed(plb_advisor_t *self, const plb_placing_t *placing, const double *speed,
                       int64_t migrations, int64_t bytes, plb_err_t *err);

/** The LB step that is due has failed, or there will be no more steps. */
void plb_advisor_abandon(plb_advisor_t *self);

/** Update the seconds saved by the last LB step, in its receipt. */
int plb_advisor_weigh(plb_advisor_t *self, plb_err_t *err);

#endif
