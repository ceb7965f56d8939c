#include "measure/measure.h"

#include <math.h>

#include "base/quantile.h"

/* The work is as long as the step if the rest of the step takes at most this fraction of it. */
static const double REST = 0.02;

/* The loads differ little if the mean difference of the ranks is at most this fraction of the mean
 * load, and at most LESS of the variation from step to step.  For times that vary independently
 * on 2 ... 1,000 ranks, this last ratio is 1.9 ... 250. */
static const double ALIKE = 0.01, LESS = 0.2;

/* Seconds that vary less than this from step to step are not measured. */
static const double LEAST = 1e-4;

const char *const plb_wait_check_words =
    "all ranks report nearly the same seconds of work in every step, and these are as long as the "
    "whole step.  If the timed part calls MPI, it contains the waiting for slower ranks, and pylb "
    "cannot see any imbalance: start the program by `pylb run`, whose clock leaves out the "
    "waiting within MPI, or time only the computation (docs/your_code.md, \"Waiting is not "
    "work\")";

/* Return the median distance of a step's mean load from that of the steps k before and after it.
 * Trends, and single steps that are longer than the others, do not count. */
static double variation(const double *mean, int k)
{
    double x[PLB_WAIT_CHECK_STEPS];
    int n = 0;
    for (int i = k; i + k < PLB_WAIT_CHECK_STEPS; i++) {
        x[n++] = fabs(mean[i] - 0.5 * (mean[i - k] + mean[i + k]));
    }
    return plb_median(x, n);
}

void plb_wait_check_observe(plb_wait_check_t *self, const plb_stats_t *all, double seconds)
{
    if (self->noticed || all->n_ranks < 2 || self->n++ < PLB_WAIT_CHECK_FIRST) {
        return;
    }
    const int64_t i = (self->n - 1 - PLB_WAIT_CHECK_FIRST) % PLB_WAIT_CHECK_STEPS;
    if (i == 0) {
        self->spread = self->step = 0.0;
    }
    self->mean[i] = plb_exact_value(&all->load_sum) / (double)all->n_ranks;
    self->spread += all->load_max - all->load_min;
    self->step += seconds;
    if (i < PLB_WAIT_CHECK_STEPS - 1) {
        return;
    }
    double work = 0.0;
    for (int k = 0; k < PLB_WAIT_CHECK_STEPS; k++) {
        work += self->mean[k];
    }
    /* the smaller variation: a program may alternate between a long and a short step */
    const double varies = fmin(variation(self->mean, 1), variation(self->mean, 2));
    self->noticed = fabs(self->step - work) <= REST * self->step && self->spread <= ALIKE * work &&
                    self->spread <= LESS * PLB_WAIT_CHECK_STEPS * varies &&
                    LEAST * work <= PLB_WAIT_CHECK_STEPS * varies;
}
