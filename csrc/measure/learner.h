/* Learns the speeds of ranks in a running program.  In: after each LB step, the mean time of each
 * object on its rank.  Out: log_speed[p].
 *
 * The time of an object is its work divided by the speed of its rank.  So an object that moves
 * from rank a to rank b takes exp(s_a - s_b) times as long there; s are the logarithms of the
 * speeds.  (Dasgupta 2013 assumes that all objects are equal; here, only objects that have moved
 * count, and each is compared with itself.)  s is fitted to the changes of all objects that moved
 * in the last intervals between placements, by least squares with Huber's weights: stragglers, and
 * objects whose work has changed, have little influence.  Older intervals count less, so speeds
 * that change are followed.  The user's own estimates of the work count as times on one more rank.
 *
 * LB steps move objects whose load has just changed.  If their work changes while they move, this
 * looks like a difference between ranks.  But only real speeds also predict the next interval, and
 * do not change the times of objects that stay.  So speeds are used only after they have predicted
 * the changes of objects that moved later, and better than the assumption that all ranks are alike
 * (`evidence`), or if they explain nearly all changes of the last interval. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum { PLB_LEARNER_INTERVALS = 7 }; /* number of remembered intervals between placements */

/* The objects under one placement, by ascending key. */
typedef struct plb_timings {
    int64_t n, room; /* number of objects; capacity of the arrays */
    int64_t *key;
    int32_t *rank;
    double *y;      /* log seconds */
    double *work;   /* log of the user's own estimate of the work, in any unit; NAN: none */
    double *weight; /* short times are noisier, so they have less weight */
} plb_timings_t;

/* Objects that have moved, those of the oldest interval first. */
typedef struct plb_moved {
    int64_t n, room;
    int32_t *from, *to;
    double *change; /* of log seconds, minus the change of the objects that have not moved */
    double *weight;
} plb_moved_t;

typedef struct plb_learner {
    int32_t p;
    bool unlike; /* true: log_speed is valid and in use; false: all ranks count as equally fast */
    double *log_speed; /* [p] logarithms of the speeds; the mean of the known ones is 0 */
    double *guess;     /* [p + 1] like log_speed, from the most recent fit, even if it is not in
                          use; the last entry is for the user's estimates */
    double *error;     /* [p + 1] standard errors of `guess`; infinite: unknown */
    double sigma;      /* noise of a change of log seconds, from the median residual of the fit */
    double noise;      /* the sigma by which the last interval was judged */
    bool surprised;    /* whether the speeds did not predict it */
    double evidence;   /* which part of the changes the speeds predicted that were fitted before,
                          summed over the intervals; older ones count less */
    double unmoved;    /* sum of the squared changes of the objects that did not move in the last
                          interval in which others did */
    int32_t doubts;    /* number of fits since the last one that showed different speeds */
    plb_timings_t last, now;
    plb_moved_t moved;
    int64_t begin[PLB_LEARNER_INTERVALS + 1]; /* first move of each remembered interval */
    int32_t n_intervals;
} plb_learner_t;

/** Begin without observations, for p >= 1 ranks. */
int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err);
void plb_learner_free(plb_learner_t *self);

/** Observe the times of n objects under a placement, each the mean of several iterations; objects
 * without a time (0, negative or NAN) are left out.  work[n] (NULL: none): the user's own
 * estimates of the work, in any unit; 0: no estimate for this object.  Of very many objects, only
 * a sample is used.  Fastest with sorted keys.  PLB_ERR_RANGE: a rank not in 0 ... p-1;
 * PLB_ERR_VALUE: an infinite time or work, or a duplicate key. */
int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err);

/** Compute speed[p], within 1e-30 ... 1e30, the domain of speeds.  Returns false if all ranks
 * count as equally fast: then all speeds are 1. */
bool plb_learner_speeds(const plb_learner_t *self, double *speed);
