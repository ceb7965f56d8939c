/* Estimates the time of an object's next pass (its work in one iteration) from all earlier
 * passes, on whatever rank.
 *
 * This is exponential smoothing whose gain is the tracking signal |smoothed error| / smoothed
 * |error| (Trigg and Leach, Operational Research Quarterly 18, 1967) of the previous pass
 * (Shone, the same journal, 1967).  Noise gives a small gain; a drift or a step, whose errors
 * have one sign, gives a large one.  A single spike has little effect, because the gain that it
 * causes is applied to the next load, which is normal.  The alternative would be means over the
 * passes since the last LB step.  They would follow a sudden step slowly, and would rest on one or
 * two passes if LB steps are close.
 *
 * A second estimator of the same kind uses only the passes on the object's present rank; from
 * these the speeds of the ranks are learned (measure/speeds.h).  It starts again when all loads
 * of the rank change abruptly, e.g. under another power cap, and stay so for a second pass.
 * The loads of the first such pass are set aside; if it was a spike, they are dropped. */
#ifndef PLB_MEASURE_ESTIMATE_H
#define PLB_MEASURE_ESTIMATE_H

#include <stdint.h>

/* Rows of the table, [PLB_ESTIMATE_ROWS][n] float64; all zero for an object without a past.
 * If no speeds are learned, the first PLB_ESTIMATE_HERE rows are enough. */
enum {
    PLB_ESTIMATE_MEAN,
    PLB_ESTIMATE_PASSES,
    PLB_ESTIMATE_ERROR,
    PLB_ESTIMATE_SPREAD,
    PLB_ESTIMATE_HERE, /* this row and the next three: the same four figures, from passes on the
                          present rank only; 0 for an object that has just arrived */
    PLB_ESTIMATE_ASIDE = 2 * PLB_ESTIMATE_HERE, /* loads of a pass that may be a spike, else 0 */
    PLB_ESTIMATE_ROWS
};

/** Enter the loads of a pass into the table.  An object's first pass is warm-up: it counts only
 *  until there is a second one. */
void plb_estimate_update(const double *load, int64_t n, double *table);

/** Update only the first four rows, which do not depend on the rank. */
void plb_estimate_mean(const double *load, int64_t n, double *table);

/** Estimate by how much each load changes per pass, out[n]: the smoothed error times the tracking
 * signal, which is small if the errors are only noise. */
void plb_estimate_drift(const double *table, int64_t n, double *out);

/** Update the rows of object i only, of a table with `rows` rows. */
void plb_estimate_one(double load, int64_t i, int64_t n, int64_t rows, double *table);

#endif
