/* Learns the speeds of ranks in a running program.  In: after each LB step, the mean time of each
 * object on its rank.  Out: log_speed[p].
 *
 * Old placements count less and less.  If all objects that stayed on a rank change by the same
 * factor, the rank itself has changed: it counts as a new rank, and older observations as those of
 * another rank.  Two models are fitted (speeds.h), and the better one is taken.  In one the work
 * of an object is constant.  In the other it changes from placement to placement, so only
 * successive placements are compared.
 *
 * Speeds are used only after they have predicted placements to which they were not fitted
 * (evidence.h).  Without this test, a program whose work changes together with its placement could
 * look like a program on slow and fast ranks.  Speeds are used without this test
 *   - if the user gives estimates of the work,
 *   - if they explain most of the changes of moved objects in the most recent interval, and
 *     unmoved objects changed little,
 *   - for a rank that seems to have become much slower (suspicion.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "measure/evidence.h"
#include "measure/speeds.h"
#include "measure/timings.h"

enum { PLB_LEARNER_PLACEMENTS = 8 }; /* number of remembered placements */

typedef struct plb_learner {
    int32_t p;
    bool unlike; /* true: log_speed is valid and in use; false: all ranks count as equally fast */
    double *log_speed; /* [p] logarithms of the speeds; the mean of the known ones is 0 */
    double *suspected; /* [p] logarithm of the assumed speed of a suspected rank (suspicion.h); 0:
                          not suspected.  A fit that proves different speeds drops all suspicions;
                          suspicions are used only while `unlike` is false */
    double *guess;     /* [p] like log_speed, from the most recent fit, even if it is not in use */
    double *error;     /* [p] standard errors of `guess`; infinite: unknown */
    plb_speeds_t fit;  /* result of the most recent fit that had enough data */
    plb_evidence_t evidence;
    plb_timings_t seen[PLB_LEARNER_PLACEMENTS]; /* the remembered placements, the oldest first */
    int32_t n_seen;
    int32_t n_past; /* old observations of changed ranks have a rank number p ... p + n_past - 1 */
    uint8_t *is_there; /* [PLB_LEARNER_PLACEMENTS * p] whether a placement has objects on a rank */
    double *shift;     /* [PLB_LEARNER_PLACEMENTS * p] |log changes| of the ranks, a ring buffer */
    int64_t n_shifts;  /* number of entries written to `shift` so far */
    int64_t n_remembered;    /* number of placements observed so far */
    bool has_changed;        /* whether a rank has changed since the previous placement */
    int32_t doubts;          /* number of fits since the last one that proved a difference */
    plb_timings_t now, user; /* memory that is kept from call to call */
    double *room;            /* [n_room] scratch memory */
    int64_t n_room;
    /* where the next fits start: for constant work, and for changing work */
    plb_speeds_start_t steady, drifting;
} plb_learner_t;

/** Begin without observations, for p >= 1 ranks. */
int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err);
void plb_learner_free(plb_learner_t *self);

/** Observe the times of n objects under a new placement, each the mean of several iterations;
 * objects without a time (0, negative or NAN) are left out.  work[n] (NULL: none): the user's
 * own estimates of the work, in any unit; 0: no estimate for this object.  Fastest with sorted
 * keys that are the same in each call.  PLB_ERR_RANGE: a rank not in 0 ... p-1; PLB_ERR_VALUE: an
 * infinite time or work, or a duplicate key. */
int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err);

/** Compute speed[p].  If no learned speeds are in use and `suspects` is true, suspected ranks
 * count as slower.  Returns false if all ranks count as equally fast: then all speeds are 1. */
bool plb_learner_speeds(const plb_learner_t *self, bool suspects, double *speed);
