/* Have the speeds predicted times that they were not fitted to?
 *
 * The balancer does not move objects by chance: it moves those whose loads were just high, or
 * grow. Such a change of work, which comes together with a change of place, looks like a speed.
 * But only real speeds also predict the next placement: an object that moves from rank a to rank b
 * then takes s_a - s_b longer, in logarithms.  Each new placement is such a test of the speeds
 * fitted before. They must predict better than each of five rivals: objects
 *
 *   change as the program as a whole does; do not change; change as they did in the interval
 * before; take that change back; change as on average over all placements that are remembered.
 *
 * What happens to the objects of a rank is not independent (a hot region covers neighbours), so
 * all objects that leave a rank are one observation, as are all that come to a rank, and the sum
 * over whichever says less counts.  Its noise is what the objects that stayed on these ranks have
 * changed by, the control group, and what the moved ones differ by.  The gain is a log likelihood
 * ratio by Student's t distribution; no observation and no interval counts for more than MOST, so
 * that only several intervals together are enough.
 */
#ifndef PLB_MEASURE_EVIDENCE_H
#define PLB_MEASURE_EVIDENCE_H

#include <stdint.h>

#include "base/err.h"
#include "measure/timings.h"

enum { PLB_EVIDENCE_INTERVALS = 7, PLB_EVIDENCE_RIVALS = 5 };

typedef struct plb_evidence_side plb_evidence_side_t;

typedef struct plb_evidence {
    int32_t p;
    int64_t n;                                                /* intervals that were ever tested */
    double gain[PLB_EVIDENCE_INTERVALS][PLB_EVIDENCE_RIVALS]; /* of the last ones, a ring */
    double *spread;            /* [p] mean square of the changes of what stayed on a rank */
    int64_t *stayed;           /* [p] objects that did */
    plb_evidence_side_t *side; /* [2 p] what left each rank, then what came to each */
} plb_evidence_t;

/* Objects go from one placement to the next; ranks below p in both. */
typedef struct plb_interval {
    const plb_timings_t *last, *now;
    const plb_timings_t *before;     /* last; NULL: none */
    const plb_timings_t *oldest;     /* `intervals` before last; NULL: none */
    int32_t intervals;               /* from oldest to last */
    const double *shift;             /* [p] by how much longer what stayed on a rank takes */
    const double *log_speed, *error; /* [p] fitted to what was seen up to `last` */
} plb_interval_t;

/** For p >= 1 ranks. */
int plb_evidence_init(plb_evidence_t *self, int32_t p, plb_err_t *err);
void plb_evidence_free(plb_evidence_t *self);

/** How good the speeds predict that interval; nothing where no object has moved. */
void plb_evidence_test(plb_evidence_t *self, const plb_interval_t *in);

/** What part of all changes in an interval the speeds explain, also of objects that stayed; at
 * most 1, and 0 where only a few objects have changed as they moved.  On a rank that has changed
 * too, nothing is explained.  The speeds may be fitted to that interval: each object counts as if
 * it had been left out. */
double plb_evidence_explained(plb_evidence_t *self, const plb_interval_t *in);

/** A rank has changed: what speaks against speeds so far does not speak against its new one. */
void plb_evidence_forgive(plb_evidence_t *self);

/** The gain over the best rival in the last intervals, in natural logarithms. */
double plb_evidence_total(const plb_evidence_t *self);

#endif
