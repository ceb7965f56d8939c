/* Tests whether fitted speeds of ranks predict times to which they were not fitted.
 *
 * The balancer moves objects whose loads are high or grow.  If their work changes when they move,
 * this looks like a difference between the ranks' speeds.  But only real speeds also predict the
 * next placement: an object that moves from rank a to rank b takes exp(s_a - s_b) times as long
 * there; s are the logarithms of the speeds.  So each new placement tests the speeds fitted before
 * it.  They must predict better than each of five rivals, which assume that an object's time
 *   - changes like the program as a whole,
 *   - does not change,
 *   - changes as in the previous interval,
 *   - changes by the opposite of that,
 *   - changes as on average over all remembered placements.
 *
 * The objects of a rank do not change independently, because a hot spot covers neighbours.  So all
 * objects that leave a rank are one observation, and all objects that come to it are another.  The
 * gain of the speeds over a rival is a log likelihood ratio by Student's t distribution.  The
 * gains are summed separately for leaving and for coming, and the smaller sum counts.  The noise
 * is measured by the changes of the objects that stayed on these ranks (the control group), and by
 * the differences between the moved objects.  An observation or an interval counts at most MOST
 * (evidence.c), so that several intervals are needed. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "measure/timings.h"

enum { PLB_EVIDENCE_INTERVALS = 7, PLB_EVIDENCE_RIVALS = 5 };

typedef struct plb_evidence_side plb_evidence_side_t;

typedef struct plb_evidence {
    int32_t p;
    int64_t n; /* number of intervals tested since the evidence was last forgotten */
    double gain[PLB_EVIDENCE_INTERVALS]
               [PLB_EVIDENCE_RIVALS]; /* gains in the most recent intervals, a ring buffer */
    double *spread;            /* [p] mean square change of the objects that stayed on each rank */
    int64_t *stayed;           /* [p] number of objects that stayed on each rank */
    plb_evidence_side_t *side; /* [2 p] objects that left each rank, then those that came */
} plb_evidence_t;

/* An interval: from one placement, `last`, to the next, `now`. */
typedef struct plb_interval {
    const plb_timings_t *last, *now;
    const plb_timings_t *before; /* the placement before `last`; NULL: none */
    const plb_timings_t *oldest; /* the placement `intervals` before `last`; NULL: none */
    int32_t intervals;           /* number of intervals from `oldest` to `last` */
    const double *shift; /* [p] log of the expected growth of times on each rank (find_changed) */
    /* [p] logarithms of the speeds, and their errors, fitted to the placements up to `last`
     * (for plb_evidence_explained, up to `now`) */
    const double *log_speed, *error;
} plb_interval_t;

/** Begin without evidence, for p >= 1 ranks. */
int plb_evidence_init(plb_evidence_t *self, int32_t p, plb_err_t *err);
void plb_evidence_free(plb_evidence_t *self);

/** Record how well the speeds predict an interval.  Without moved objects, nothing changes. */
void plb_evidence_test(plb_evidence_t *self, const plb_interval_t *in);

/** Return which fraction of the changes of moved objects the speeds explain: 1 - left / was, where
 * `left` is the sum of the squared unexplained changes of all objects, and `was` the sum of the
 * squared changes of the moved objects.  Changes of unmoved objects, and changes on a rank that
 * has changed, count as unexplained; so the result can be negative.  Returns 0 if only a few
 * objects changed when they moved.  Each object is judged as if the fit had left it out. */
double plb_evidence_explained(plb_evidence_t *self, const plb_interval_t *in);

/** Call this after a rank has changed: forget all evidence if it is against the old speeds. */
void plb_evidence_forgive(plb_evidence_t *self);

/** The gain over the best rival, summed over the most recent intervals. */
double plb_evidence_total(const plb_evidence_t *self);
