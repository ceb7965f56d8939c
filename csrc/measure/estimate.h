/* Estimates an object's load (seconds) in the next iteration from its earlier loads on all ranks.
 *
 * This is exponential smoothing.  Its gain is the tracking signal |smoothed error| / smoothed
 * |error| (Trigg and Leach, Operational Research Quarterly 18, 1967) of the previous iteration
 * (Shone, in the same volume).  Noise gives a small gain.  A drift or a sudden change, whose
 * errors have one sign, gives a large gain.  A single spike has little effect, because the gain
 * that it causes is applied to the next load, which is normal.  (The mean since the last LB step
 * would follow a sudden change slowly, and would rest on few loads if LB steps are frequent.)
 *
 * A second estimator of the same kind uses only the iterations since the object came to its
 * present rank; from its estimates the speeds of the ranks are learned (measure/speeds.h).  It
 * starts again if the sum of the rank's loads changes abruptly, e.g. because of a power cap, and
 * stays changed in the next iteration.  Otherwise the loads were a spike, and are dropped. */
#pragma once

#include <stdint.h>

/* Rows of the table, [PLB_ESTIMATE_ROWS][n] float64; all zero for a new object.  If no speeds are
 * learned, the first PLB_ESTIMATE_HERE rows are enough. */
enum {
    PLB_ESTIMATE_MEAN,   /* the smoothed load: the estimate */
    PLB_ESTIMATE_COUNT,  /* number of iterations */
    PLB_ESTIMATE_ERROR,  /* smoothed error */
    PLB_ESTIMATE_SPREAD, /* smoothed |error| */
    PLB_ESTIMATE_HERE,   /* four rows: the same values, but only from iterations on the present
                            rank; 0 if the object has just arrived */
    PLB_ESTIMATE_ASIDE = 2 * PLB_ESTIMATE_HERE, /* a load that may be a spike; 0: none */
    PLB_ESTIMATE_ROWS
};

/** Add the loads of an iteration.  An object's first load is a warm-up: the next replaces it. */
void plb_estimate_update(const double *load, int64_t n, double *table);

/** Add the loads of an iteration only to the first four rows. */
void plb_estimate_mean(const double *load, int64_t n, double *table);

/** Estimate out[n], the seconds by which each load changes per iteration: the smoothed error times
 * the tracking signal, which is small if the errors are only noise. */
void plb_estimate_drift(const double *table, int64_t n, double *out);

/** Add the load of object i only; the table has `rows` rows.  Unlike plb_estimate_update, this
 * function does not test whether the rank has changed. */
void plb_estimate_one(double load, int64_t i, int64_t n, int64_t rows, double *table);
