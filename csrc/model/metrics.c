#include "model/snapshot.h"

#include <math.h>

void plb_metrics_of(const double *time, int32_t n, plb_metrics_t *out)
{
    double sum = 0.0, max = time[0], min = time[0], squares = 0.0;
    for (int32_t r = 0; r < n; r++) {
        sum += time[r];
        max = time[r] > max ? time[r] : max;
        min = time[r] < min ? time[r] : min;
    }
    const double mean = sum / n;
    for (int32_t r = 0; r < n; r++) {
        squares += (time[r] - mean) * (time[r] - mean);
    }
    out->max = max;
    out->mean = mean;
    out->min = min;
    out->std = sqrt(squares / n);
    out->max_over_mean = mean > 0.0 ? max / mean : 1.0;
    out->percent = 100.0 * (out->max_over_mean - 1.0);
    out->efficiency = max > 0.0 ? mean / max : 1.0;
    out->idle_mean = max - mean;
    out->idle_max = max - min;
}
