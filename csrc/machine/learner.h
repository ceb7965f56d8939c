/* The speeds of ranks in a running program, learned from one placement after another.
 *
 * Old placements count less and less, and a rank whose objects all change alike while they stay is
 * another rank from then on: what was seen of it before is no longer held against it.  Two models
 * stand against each other, work that stays as it is and work that changes from each placement to
 * the next one, for which only neighbouring placements are compared; the better one counts.
 *
 * A state machine without input or output; `speeds.h` has the fit.
 */
#ifndef PLB_MACHINE_LEARNER_H
#define PLB_MACHINE_LEARNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "machine/placement.h"
#include "machine/speeds.h"

enum { PLB_LEARNER_PLACEMENTS = 8 }; /* that are remembered */

typedef struct plb_learner {
    int32_t p;
    bool unlike;       /* there are signs of it: then speeds are known */
    double *log_speed; /* [p] mean 0 */
    double *error;     /* [p] standard errors; infinite where nothing is known */
    plb_speeds_t fit;  /* the last one that had anything to go by */
    plb_placement_t seen[PLB_LEARNER_PLACEMENTS]; /* the oldest first */
    int32_t n_seen;
    int32_t n_past;   /* ranks that have changed are p ... p + n_past - 1 as they were */
    double *shift;    /* [PLB_LEARNER_PLACEMENTS * p] what ranks have changed by, a ring */
    int64_t n_shifts; /* ever */
    int32_t doubts;   /* fits in a row without a sign, while speeds are known */
} plb_learner_t;

/** For p >= 1 ranks. */
int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err);
void plb_learner_free(plb_learner_t *self);

/** The times of n objects under another placement, each the mean of several iterations; an object
 *  without a time, 0, negative or NAN, says nothing.  work[n] (NULL: none): the user's own
 *  estimates, in any unit; none where not above 0.
 *
 *  PLB_ERR_RANGE: a rank that is none; PLB_ERR_VALUE: an infinite time or work, an object
 *  twice. */
int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err);

#endif
