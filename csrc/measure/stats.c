#include "measure/measure.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

void plb_stats_init(plb_stats_t *self)
{
    memset(self, 0, sizeof *self);
    self->load_min = INFINITY;
    self->load_max_rank = INT64_MAX;
    self->utilization_min = INFINITY;
    self->failed_rank = INT64_MAX;
}

static void sum_int(int64_t *a, const int64_t *b)
{
    *a += *b;
}

#define SUM_OF(p) _Generic((p), plb_exact_t * : plb_exact_merge, int64_t * : sum_int)
#define MERGE_SUM(f) SUM_OF (&self->f)(&self->f, &other->f)
#define MERGE_MAX(f) self->f = other->f > self->f ? other->f : self->f
#define MERGE_MIN(f) self->f = other->f < self->f ? other->f : self->f
#define MERGE_AT_MAX(f) ((void)0) /* plb_stats_merge has set load_max_rank already */
#define MERGE_SAME(f)                                                                             \
    do {                                                                                          \
        if (self->f != other->f) {                                                                \
            self->flags |= PLB_STATS_MIXED;                                                       \
            MERGE_MAX(f);                                                                         \
        }                                                                                         \
    } while (0)

void plb_stats_merge(plb_stats_t *self, const plb_stats_t *other)
{
    if (other->load_max > self->load_max ||
        (other->load_max == self->load_max && other->load_max_rank < self->load_max_rank)) {
        self->load_max_rank = other->load_max_rank;
    }
    self->flags |= other->flags;
#define X(name, type, rule, unit, help) MERGE_##rule(name);
    PLB_STATS(X)
#undef X
    for (int64_t k = 0; k < self->n_phases; k++) {
        MERGE_MAX(phase_max[k]);
        MERGE_SUM(phase_sum[k]);
    }
}

void plb_stats_set_phases(plb_stats_t *self, const double *seconds, int64_t d)
{
    self->n_phases = d;
    for (int64_t k = 0; k < d; k++) {
        self->phase_max[k] = seconds[k];
        plb_exact_add(&self->phase_sum[k], seconds[k]);
    }
}

double plb_stats_max(const plb_stats_t *self)
{
    double sum = 0.0;
    for (int64_t k = 0; k < self->n_phases; k++) {
        sum += self->phase_max[k];
    }
    return self->n_phases > 0 ? sum : self->load_max;
}

/* ---- waiting in loads ----------------------------------------------------------------------- */

/* The work is as long as the step if the rest of the step takes at most this fraction of it. */
static const double REST = 2.0 * PLB_NOISE;

/* The loads differ little if the mean difference of the ranks is at most PLB_NOISE of the mean
 * load, and at most LESS of the variation from step to step.  For times that vary independently on
 * 2 ... 1,000 ranks, this last ratio is 1.9 ... 250. */
static const double LESS = 1.0 / PLB_ABRUPT;

/* Seconds that vary less than this from step to step are not measured. */
static const double LEAST = PLB_NOISE / 100.0;

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
    self->noticed = fabs(self->step - work) <= REST * self->step &&
                    self->spread <= PLB_NOISE * work &&
                    self->spread <= LESS * PLB_WAIT_CHECK_STEPS * varies &&
                    LEAST * work <= PLB_WAIT_CHECK_STEPS * varies;
}

double plb_drum_benchmark(double seconds, double *cpu_seconds)
{
    enum { N = 1024, PASSES = 16 };
    double a[N], b[N];
    for (int i = 0; i < N; i++) {
        a[i] = 1.0 + i;
        b[i] = 1.0 / (1.0 + i);
    }
    const int64_t start = plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t cpu = plb_clock_real_ns(PLB_CLOCK_CPU);
    int64_t now = start;
    double steps = 0.0;
    while ((double)(now - start) < 1e9 * seconds) {
        for (int k = 0; k < PASSES; k++) {
            for (int i = 0; i < N; i++) {
                a[i] = 0.5 * a[i] + b[i];
            }
        }
        __asm__ volatile("" : : "r"(a) : "memory"); /* keeps the compiler from removing the loop */
        steps += (double)N * PASSES;
        now = plb_clock_real_ns(PLB_CLOCK_WALL);
    }
    *cpu_seconds = 1e-9 * (double)(plb_clock_real_ns(PLB_CLOCK_CPU) - cpu);
    return steps;
}
