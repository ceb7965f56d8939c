/* The speeds of ranks in a running program, learned from one placement after another.
 *
 * Old placements count less and less.  If all objects that stayed on a rank change by the same
 * factor, the rank counts as a new one, and older observations of it are not used.  Two models
 * are compared: constant work, and work that changes from each placement to the next, for which
 * only neighbouring placements are used.  The better one is taken.
 *
 * Speeds are used only after they have predicted placements that they were not fitted to
 * (evidence.h): otherwise a program whose work changes together with its placement could look
 * like one on slow and fast ranks.  If the user gives estimates of the work, they are used at
 * once.
 *
 * A state machine without input or output; `speeds.h` has the fit.
 */
#ifndef PLB_MEASURE_LEARNER_H
#define PLB_MEASURE_LEARNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "measure/evidence.h"
#include "measure/speeds.h"
#include "measure/timings.h"

enum { PLB_LEARNER_PLACEMENTS = 8 }; /* number of remembered placements */

typedef struct plb_learner {
    int32_t p;
    bool unlike; /* true: the ranks' speeds differ, and log_speed is valid; false: all count as
                    equally fast */
    double *log_speed; /* [p] mean 0 */
    double *guess;     /* [p] the last fit, used or not */
    double *error;     /* [p] standard errors; infinite where nothing is known */
    plb_speeds_t fit;  /* the last fit that had any data */
    plb_evidence_t evidence;
    plb_timings_t seen[PLB_LEARNER_PLACEMENTS]; /* the oldest first */
    int32_t n_seen;
    int32_t n_past;    /* former selves of changed ranks have the numbers p ... p + n_past - 1 */
    uint8_t *is_there; /* [PLB_LEARNER_PLACEMENTS * p] whether a placement has objects on a rank */
    double *shift;     /* [PLB_LEARNER_PLACEMENTS * p] changes of the ranks, a ring buffer */
    int64_t n_shifts;  /* shifts so far */
    int64_t n_remembered; /* placements so far */
    bool has_changed;     /* true: a rank has changed since the previous placement */
    int32_t doubts;       /* fits in a row that show no difference, while speeds are in use */

    /* Kept from call to call, so that nothing is allocated twice. */
    plb_timings_t now, user;
    double *room; /* [n_room] */
    int64_t n_room;
    plb_speeds_start_t steady, drifting; /* where the fits of the two models begin */
} plb_learner_t;

/** Begin for p >= 1 ranks. */
int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err);
void plb_learner_free(plb_learner_t *self);

/** Observe the times of n objects under a new placement, each the mean of several iterations;
 * objects without a time (0, negative or NAN) are left out.  work[n] (NULL: none): the user's
 * own estimates, in any unit; 0: none.  Fastest if keys are sorted and the same in each call.
 *
 *  PLB_ERR_RANGE: a rank not in 0 ... p-1; PLB_ERR_VALUE: an infinite time or work, a duplicate
 * key. */
int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err);

#endif
