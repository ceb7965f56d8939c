#include "measure/estimate.h"

#include <math.h>

static const double SMOOTHING = 0.2, LEAST_GAIN = 0.1;

void plb_estimate_one(double load, int64_t i, int64_t n, double *table)
{
    double *mean = table + PLB_ESTIMATE_MEAN * n, *passes = table + PLB_ESTIMATE_PASSES * n;
    double *error = table + PLB_ESTIMATE_ERROR * n, *spread = table + PLB_ESTIMATE_SPREAD * n;
    passes[i] += 1.0;
    if (passes[i] <= 2.0) {
        mean[i] = load;
        return;
    }
    const double e = load - mean[i], plain = 1.0 / (passes[i] - 1.0);
    const double signal = spread[i] > 0.0 ? fabs(error[i]) / spread[i] : 0.0;
    mean[i] += fmax(fmax(signal, LEAST_GAIN), plain) * e; /* at first the plain mean */
    if (passes[i] == 3.0) {
        spread[i] = fabs(e);
    }
    error[i] += SMOOTHING * (e - error[i]);
    spread[i] += SMOOTHING * (fabs(e) - spread[i]);
}

void plb_estimate_update(const double *load, int64_t n, double *table)
{
    for (int64_t i = 0; i < n; i++) {
        plb_estimate_one(load[i], i, n, table);
    }
}
