/* Estimates the time of an object's next pass (its work in one iteration) from all earlier passes,
 * on whatever rank.
 *
 * Exponential smoothing whose gain is the tracking signal: |smoothed error| / smoothed |error|
 * (Trigg and Leach, Operational Research Quarterly 18, 1967), that of the pass before (Shone, the
 * same journal, 1967).  Noise gives a small gain; a drift or a step, errors of one sign, a large
 * one; and a single spike passes, since the gain that it causes meets a normal load.  Means over
 * the passes since the last LB step were the alternative: they hide a sudden step behind the
 * passes before it, and rest on a pass or two where LB steps are close.
 *
 * A second estimator of the same kind knows only of the passes on the rank where the object is
 * now: what ranks that are not alike are told apart by (machine/speeds.h).  It starts again where
 * all loads change abruptly, e.g.  under another power cap (an object alone could not tell that
 * from noise for a while), and remain so for a second pass: a first one stands aside, and one
 * that was a spike does not count.  / */
#ifndef PLB_MEASURE_ESTIMATE_H
#define PLB_MEASURE_ESTIMATE_H

#include <stdint.h>

/* Rows of the table, [PLB_ESTIMATE_ROWS][n] float64; all zero for an object without a past. */
enum {
    PLB_ESTIMATE_MEAN,
    PLB_ESTIMATE_PASSES,
    PLB_ESTIMATE_ERROR,
    PLB_ESTIMATE_SPREAD,
    PLB_ESTIMATE_HERE, /* and three more in this order, zero for an object that has just arrived */
    PLB_ESTIMATE_ASIDE = 2 * PLB_ESTIMATE_HERE, /* loads of a pass that may be a spike, or zero */
    PLB_ESTIMATE_ROWS
};

/** Enter the loads of a pass into the table.  An object's first pass is warm-up: it counts only
 *  until there is a second one. */
void plb_estimate_update(const double *load, int64_t n, double *table);

/** Likewise for the first four rows alone, which do not depend on the rank. */
void plb_estimate_mean(const double *load, int64_t n, double *table);

/** The same for object i only. */
void plb_estimate_one(double load, int64_t i, int64_t n, double *table);

#endif
