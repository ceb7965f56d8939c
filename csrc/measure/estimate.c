#include "measure/measure.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"

/* The gain is the tracking signal (Trigg and Leach 1967), but at least half of the weight of new
 * errors in the signal. */
static const double LEAST_GAIN = PLB_NEWEST / 2.0;

/* The rank itself has changed if the sum of the loads changes by more than this fraction, and by
 * more than PLB_SPREADS times its noise. */
static const double CHANGED = 2.0 * PLB_NOTABLE;

/* Add the loads of objects to an estimator, i.e. to four rows of the table: an estimate is at
 * first the mean of all loads but the first.  Without branches, so that the compiler vectorizes
 * the loop. */
PLB_MULTIVERSION
static void follow_all(const double *restrict load, int64_t n, double *restrict mean,
                       double *restrict count, double *restrict error, double *restrict spread)
{
    for (int64_t i = 0; i < n; i++) {
        const double k = count[i] + 1.0, e = load[i] - mean[i], off = fabs(e);
        const bool early = k <= 2.0, some = spread[i] > 0.0;
        const double signal = (some ? fabs(error[i]) : 0.0) / (some ? spread[i] : 1.0);
        const double plain = 1.0 / (early ? 1.0 : k - 1.0);
        const double least = signal > LEAST_GAIN ? signal : LEAST_GAIN;
        const double most = least > plain ? least : plain;
        const double gain = most < 1.0 ? most : 1.0;
        const double before = k == 3.0 ? off : spread[i];
        mean[i] = early ? load[i] : mean[i] + gain * e;
        error[i] = early ? error[i] : error[i] + PLB_NEWEST * (e - error[i]);
        spread[i] = early ? spread[i] : before + PLB_NEWEST * (off - before);
        count[i] = k;
    }
}

/* Return 1 if the rank as a whole is slower than before, -1 if it is faster, else 0.  Objects
 * whose noise on this rank is unknown are left out. */
static int change_of(const double *load, int64_t n, const double *here)
{
    const double *count = here + PLB_ESTIMATE_COUNT * n, *spread = here + PLB_ESTIMATE_SPREAD * n;
    double was = 0.0, is = 0.0, noise = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (count[i] > 2.0) {
            was += here[i];
            is += load[i];
            noise += spread[i] * spread[i];
        }
    }
    const double most = fmax(CHANGED * was, PLB_SPREADS * sqrt(noise));
    return is - was > most ? 1 : was - is > most ? -1 : 0;
}

/* Add the loads to the estimates for this rank.  A change of the rank counts only if the next
 * iteration confirms it. */
static void follow_here(const double *load, int64_t n, double *here)
{
    double *aside = here + PLB_ESTIMATE_HERE * n;
    const int change = change_of(load, n, here);
    bool any = false;
    for (int64_t i = 0; change != 0 && i < n; i++) {
        any = any || aside[i] != 0.0;
    }
    if (change != 0 && !(any && change == change_of(aside, n, here))) {
        memcpy(aside, load, (size_t)n * sizeof *aside);
        return;
    }
    if (change != 0) {
        memset(here, 0, (size_t)PLB_ESTIMATE_HERE * (size_t)n * sizeof *here);
        plb_estimate_mean(aside, n, here);
    }
    plb_estimate_mean(load, n, here);
    memset(aside, 0, (size_t)n * sizeof *aside);
}

void plb_estimate_mean(const double *load, int64_t n, double *table)
{
    follow_all(load, n, table + PLB_ESTIMATE_MEAN * n, table + PLB_ESTIMATE_COUNT * n,
               table + PLB_ESTIMATE_ERROR * n, table + PLB_ESTIMATE_SPREAD * n);
}

void plb_estimate_update(const double *load, int64_t n, double *table)
{
    plb_estimate_mean(load, n, table);
    follow_here(load, n, table + PLB_ESTIMATE_HERE * n);
}

void plb_estimate_drift(const double *table, int64_t n, double *out)
{
    const double *error = table + PLB_ESTIMATE_ERROR * n,
                 *spread = table + PLB_ESTIMATE_SPREAD * n;
    for (int64_t i = 0; i < n; i++) {
        out[i] = spread[i] > 0.0 ? error[i] * fmin(fabs(error[i]) / spread[i], 1.0) : 0.0;
    }
}

void plb_estimate_one(double load, int64_t i, int64_t n, int64_t rows, double *table)
{
    for (int64_t row = 0; row < rows && row <= PLB_ESTIMATE_HERE; row += PLB_ESTIMATE_HERE) {
        double *x = table + row * n + i;
        follow_all(&load, 1, x + PLB_ESTIMATE_MEAN * n, x + PLB_ESTIMATE_COUNT * n,
                   x + PLB_ESTIMATE_ERROR * n, x + PLB_ESTIMATE_SPREAD * n);
    }
}
