#include "measure/measure.h"

#include <math.h>
#include <string.h>

void plb_stats_init(plb_stats_t *self)
{
    memset(self, 0, sizeof *self);
    self->load_min = INFINITY;
    self->load_max_rank = INT64_MAX;
    self->utilization_min = INFINITY;
    self->failed_rank = INT64_MAX;
}

static void sum_exact(plb_exact_t *a, const plb_exact_t *b)
{
    plb_exact_merge(a, b);
}

static void sum_int(int64_t *a, const int64_t *b)
{
    *a += *b;
}

#define SUM_OF(p) _Generic((p), plb_exact_t * : sum_exact, int64_t * : sum_int)
#define MERGE_SUM(f) SUM_OF (&self->f)(&self->f, &other->f)
#define MERGE_MAX(f) self->f = other->f > self->f ? other->f : self->f
#define MERGE_MIN(f) self->f = other->f < self->f ? other->f : self->f
#define MERGE_AT_MAX(f) ((void)0) /* nothing: plb_stats_merge has set load_max_rank already */
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

double plb_utilization(double load, double idle)
{
    const double total = load + idle;
    return total > 0.0 ? load / total : 1.0;
}
