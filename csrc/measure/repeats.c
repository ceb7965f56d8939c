#include "measure/measure.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/quantile.h"

/* log 1.25: noise is rarely larger; model/fpm.c has the same limit */
static const double CHANGED = 0.22314355131420976;
/* A deviation above CHANGED and above SURE times the noise can mean a change of the processor. */
static const double SURE = 3.0;
/* By chance, the slowest rank's mean can be this many standard deviations too large. */
static const double DEVIATIONS = 3.0;
static const double SHORTEST = 1e-9; /* seconds; a shorter time counts as this long */
/* PLB_DIVIDE_BOLD is a risk if paging can make the slowest rank this many times slower. */
static const double STEEP = 2.0;
enum { MEMORY = 8 }; /* the noise is computed from the 8 p most recent deviations of p ranks */

int plb_repeats_init(plb_repeats_t *self, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_repeats_t){.p = p};
    PLB_FAIL_IF(p < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", (int)p);
    PLB_NEW0_EACH(p, self->mean, self->n, self->doubt);
    PLB_NEW(self->off, 2 * MEMORY * (int64_t)p);
out:
    if (ret != PLB_OK) {
        plb_repeats_free(self);
    }
    return ret;
}

void plb_repeats_free(plb_repeats_t *self)
{
    PLB_FREE(self->mean, self->n, self->doubt, self->off);
    *self = (plb_repeats_t){0};
}

void plb_repeats_begin(plb_repeats_t *self)
{
    memset(self->n, 0, (size_t)self->p * sizeof *self->n);
    memset(self->doubt, 0, (size_t)self->p * sizeof *self->doubt);
}

/* The relative standard deviation of a measurement, from the median deviation; 0 if unknown. */
static double noise_of(plb_repeats_t *self)
{
    const int64_t all = MEMORY * (int64_t)self->p, n = self->n_off < all ? self->n_off : all;
    if (n == 0) {
        return 0.0;
    }
    memcpy(self->off + all, self->off, (size_t)n * sizeof *self->off);
    return fmin(1.4826 * plb_median(self->off + all, n), CHANGED);
}

/* Return the fraction by which noise may have lengthened the longest time. */
static double by_chance(plb_repeats_t *self)
{
    int64_t most = 1;
    for (int32_t r = 0; r < self->p; r++) {
        most = self->n[r] > most ? self->n[r] : most;
    }
    return DEVIATIONS * noise_of(self) / sqrt((double)most);
}

static void remember(plb_repeats_t *self, double off)
{
    self->off[self->n_off++ % (MEMORY * (int64_t)self->p)] = off;
}

static void begin_rank(plb_repeats_t *self, int32_t r, double time)
{
    self->mean[r] = time;
    self->n[r] = 1;
    self->doubt[r] = 0.0;
}

bool plb_repeats_observe(plb_repeats_t *self, const double *seconds, const bool *busy)
{
    const double limit = fmax(CHANGED, SURE * noise_of(self));
    bool sure = true;
    for (int32_t r = 0; r < self->p; r++) {
        const double time = fmax(seconds[r], SHORTEST);
        if (!busy[r]) {
            self->doubt[r] = 0.0;
            continue;
        }
        if (self->n[r] == 0) {
            begin_rank(self, r, time);
            continue;
        }
        const double shift = log(time / self->mean[r]), way = shift > 0.0 ? 1.0 : -1.0;
        if (fabs(shift) <= limit) {
            const double n = (double)self->n[r];
            remember(self, fabs(shift) * sqrt(n / (n + 1.0)));
            self->mean[r] += (time - self->mean[r]) / (n + 1.0);
            self->n[r]++;
            self->doubt[r] = 0.0;
        } else if (self->doubt[r] == way) {
            begin_rank(self, r, time);
        } else {
            self->doubt[r] = way;
            sure = false;
        }
    }
    return sure;
}

void plb_repeats_predicted(plb_repeats_t *self, const double *seconds, const double *expected,
                           const bool *which)
{
    for (int32_t r = 0; r < self->p; r++) {
        const double off =
            which[r] ? fabs(log(fmax(seconds[r], SHORTEST) / expected[r])) : INFINITY;
        if (off < CHANGED) {
            remember(self, off / sqrt(2.0));
        }
    }
}

plb_division_t plb_repeats_choose(plb_repeats_t *self, const plb_prospects_t *p)
{
    double most = 1.0 - fmin(by_chance(self), p->tolerance);
    if (p->bold_paging > STEEP * p->now) {
        if (p->safe <= (1.0 + p->tolerance) * p->bold && p->safe < most * p->now) {
            return PLB_DIVIDE_SAFE;
        }
        most = 1.0 - p->tolerance;
    }
    return p->bold < most * p->now ? PLB_DIVIDE_BOLD : PLB_DIVIDE_STAY;
}
