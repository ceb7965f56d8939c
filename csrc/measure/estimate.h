/* Estimates an object's load (its seconds) in the next iteration from its loads in all earlier
 * iterations, on all ranks.
 *
 * This is exponential smoothing.  Its gain is the tracking signal |smoothed error| / smoothed
 * |error| (Trigg and Leach, Operational Research Quarterly 18, 1967) of the previous iteration
 * (Shone, in the same volume).  Noise gives a small gain.  A drift or a sudden change, whose
 * errors have one sign, gives a large gain.  A single spike has little effect, because the gain
 * that it causes is applied to the next load, which is normal.  (The mean over the iterations
 * since the last LB step would follow a sudden change slowly, and would rest on one or two loads
 * if LB steps follow each other closely.)
 *
 * A second estimator of the same kind uses only the iterations since the object came to its
 * present rank; from its estimates the speeds of the ranks are learned (measure/speeds.h).  It
 * starts again if the sum of the rank's loads changes abruptly, e.g. because of a power cap, and
 * stays changed in the next iteration.  Until then, the loads of the first changed iteration are
 * set aside; if they were a spike, they are dropped. */
#pragma once

#include <stdint.h>

/* Rows of the table, [PLB_ESTIMATE_ROWS][n] float64; all zero for a new object.
 * If no speeds are learned, the first PLB_ESTIMATE_HERE rows are enough. */
enum {
    PLB_ESTIMATE_MEAN,   /* the smoothed load: the estimate */
    PLB_ESTIMATE_COUNT,  /* number of iterations */
    PLB_ESTIMATE_ERROR,  /* smoothed error */
    PLB_ESTIMATE_SPREAD, /* smoothed |error| */
    PLB_ESTIMATE_HERE,   /* this row and the next three: the same four values, but only from
                            iterations on the present rank; 0 if the object has just arrived */
    PLB_ESTIMATE_ASIDE = 2 * PLB_ESTIMATE_HERE, /* a load that may be a spike; 0: none */
    PLB_ESTIMATE_ROWS
};

/** Add the loads of an iteration to the table.  An object's first load is warm-up: the second load
 * replaces it. */
void plb_estimate_update(const double *load, int64_t n, double *table);

/** Update only the first four rows, whose values come from all ranks that the object has been on.
 */
void plb_estimate_mean(const double *load, int64_t n, double *table);

/** Estimate out[n], the seconds by which each load changes per iteration: the smoothed error times
 * the tracking signal, which is small if the errors are only noise. */
void plb_estimate_drift(const double *table, int64_t n, double *out);

/** Add the load of object i only; the table has `rows` rows.  Unlike plb_estimate_update, this
 * function does not test whether the rank has changed. */
void plb_estimate_one(double load, int64_t i, int64_t n, int64_t rows, double *table);
