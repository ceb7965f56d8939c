/* Metrics of imbalance, computed from the ranks' times of one iteration.  The literature defines
 * imbalance in several ways, so each metric has its own name. */
#pragma once

#include <stdint.h>

/* X(name, unit, help).  Python's Metrics has the same names. */
#define PLB_METRICS(X)                                                                            \
    X(max, "s", "time of the most loaded rank: the time of the iteration")                        \
    X(mean, "s", "mean time of the ranks: on equal ranks, no placement has a lower max")          \
    X(min, "s", "time of the least loaded rank")                                                  \
    X(std, "s", "standard deviation over the p ranks (sum of squares divided by p)")              \
    X(max_over_mean, "", "max/mean, 1 is perfect (Charm++'s ratio; lambda in the literature)")    \
    X(percent, "%", "100 (max/mean - 1); vt and LBAF call (max/mean - 1) the imbalance I")        \
    X(efficiency, "", "mean/max (load balance of POP and TALP)")                                  \
    X(idle_mean, "s", "mean over the ranks of max - time (I_av, Dasgupta eq. 1)")                 \
    X(idle_max, "s", "max - min (I_m, Dasgupta eq. 2)")

typedef struct plb_metrics {
#define X(name, unit, help) double name;
    PLB_METRICS(X)
#undef X
} plb_metrics_t;

/** Compute every metric of time[n], n >= 1.  If all times are 0, the ratios are 1: no rank waits.
 * (Dasgupta's eq. 1 sums over P and divides by C; both mean the number of cores, n here.) */
void plb_metrics_of(const double *time, int32_t n, plb_metrics_t *out);
