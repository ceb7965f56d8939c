/* metabalancer: the fitted period of Menon 3.5.1-3.5.3 and the dynamic trigger of 3.5.5.
 *
 * One line is fitted to the maximum of the ranks' loads, another to the mean; x counts iterations
 * since the last LB step.  m is the growth per iteration of maximum - residual * mean, where
 * `residual` is the max/mean that an LB step leaves.  If an LB step costs theta, the best period
 * is
 *     tau = sqrt(2 theta / m)                                                           (3.5)
 *   here: cost, growth     in the thesis: theta, m
 *
 * It is computed again at each iteration; if the imbalance does not grow, it is infinite.
 *
 * If the imbalance grows linearly, it has cost m tau^2 / 2 = theta when the period is over.  (With
 * quadratic growth it has cost 2 theta / 3.)  If it has cost less than half of theta, the slope
 * was noise, and the period continues.
 *
 * The dynamic trigger fires when max/mean is above `threshold`.  Noise, or an imbalance that
 * cannot be removed, could make it fire again and again.  So, unlike in the thesis, it is
 *   - relative to the lowest maximum that an LB step can reach, residual * mean (3.5.3):
 *     max > threshold * residual * mean;
 *   - confirmed by `patience` iterations in a row (1: the thesis), because one iteration may have
 *     been disturbed; unconfirmed iterations are not fitted;
 *   - limited, once the cost of an LB step is known: the imbalance must have cost as much as an LB
 *     step already; or the maximum load must have jumped: it exceeds the line fitted to the maxima
 *     of PLB_WINDOW or more iterations by the factor `threshold` and by PLB_SPREADS spreads.
 *     (After PLB_WINDOW iterations, a parabola stays within that of the line.)
 * While the cost is unknown, the first LB step comes when the imbalance has cost what
 * plb_trigger_trial allows; the thesis rebalances at once above the threshold.
 *
 * The residual is the larger of the one that the strategy predicted and the one measured in the
 * first three iterations after the LB step. */
#include <math.h>

#include "base/base.h"
#include "decide/trigger.h"

enum { THRESHOLD, PATIENCE, LEAST, MEMORY, N_PARAMS };

/* A least-squares line in O(1) memory and time per observation.  The weighted sums are taken
 * around the running means (Welford 1962, West 1979), so that no digits cancel. */
typedef struct line {
    double weight, mean_x, mean_y, sxx, sxy, syy;
    int64_t n;
} line_t;

typedef struct metabalancer {
    line_t max, mean;         /* seconds, by iterations since the last LB step */
    double promised;          /* predicted max/mean of the last LB step */
    double ratio[PLB_FEW];    /* max/mean of the first iterations after the last LB step */
    double sum_max, sum_mean; /* seconds: sums since the last LB step */
    int64_t n;                /* observations since the last LB step */
    int64_t beyond; /* number of last iterations in a row in which dynamic() wants an LB step */
    bool tried;     /* there was an LB step */
} metabalancer_t;

/* keep: factor on the weights of the earlier observations */
static void line_add(line_t *self, double keep, double x, double y)
{
    self->weight = keep * self->weight + 1.0;
    const double dx = x - self->mean_x, dy = y - self->mean_y;
    self->mean_x += dx / self->weight;
    self->mean_y += dy / self->weight;
    self->sxx = keep * self->sxx + dx * (x - self->mean_x);
    self->sxy = keep * self->sxy + dx * (y - self->mean_y);
    self->syy = keep * self->syy + dy * (y - self->mean_y);
    self->n++;
}

static double line_slope(const line_t *self)
{
    return self->sxx > 0.0 ? self->sxy / self->sxx : 0.0;
}

static double line_at(const line_t *self, double x)
{
    return self->mean_y + line_slope(self) * (x - self->mean_x);
}

static void restart(metabalancer_t *s, double promised)
{
    s->max = s->mean = (line_t){0};
    s->promised = promised;
    s->sum_max = s->sum_mean = 0.0;
    s->n = s->beyond = 0;
}

static void init(plb_trigger_t *self)
{
    restart(self->state, 1.0);
}

/* The residual: 1 before the first LB step; then the predicted one, or, as soon as it can be
 * measured, the larger of the predicted and the measured one.  The latter is the lower of two: the
 * median of three max/mean, which one disturbed iteration does not change, and their fitted line
 * at the LB step, which growth does not change. */
static double residual(const metabalancer_t *s)
{
    const double *r = s->ratio;
    const double at_zero = (r[0] + r[1] + r[2]) / 3.0 - (r[2] - r[0]);
    return !s->tried || s->n < PLB_FEW ? s->promised
                                       : fmax(s->promised, fmin(plb_median3(r), at_zero));
}

/* The dynamic trigger.  Called before the iteration is added to the fitted lines, which give the
 * expected loads. */
static plb_reason_t dynamic(const plb_trigger_t *self, const metabalancer_t *s, double x,
                            const plb_observation_t *o, const plb_verdict_t *v)
{
    const double threshold = self->params[THRESHOLD];
    if (!(o->max > threshold * v->residual * o->mean)) {
        return PLB_REASON_EARLY;
    }
    if (isnan(self->cost)) {
        return plb_trigger_trial(self, v->excess, o->mean) ? PLB_REASON_FIRST : PLB_REASON_EARLY;
    }
    const double expected = line_at(&s->max, x), n = (double)s->max.n;
    const double left = fmax(s->max.syy - line_slope(&s->max) * s->max.sxy, 0.0);
    if (s->max.n >= PLB_WINDOW && o->max > threshold * expected &&
        /* the standard deviation from the line, with n - 2 degrees of freedom */
        o->max > expected + PLB_SPREADS * sqrt(left / s->max.weight * (n / (n - 2.0)))) {
        return PLB_REASON_SUDDEN;
    }
    return v->excess >= self->cost ? PLB_REASON_PAYS : PLB_REASON_EARLY;
}

static void describe(const plb_trigger_t *self, plb_verdict_t *v)
{
    const metabalancer_t *s = self->state;
    if (s->max.n < 2) {
        return;
    }
    v->max_slope = line_slope(&s->max);
    v->max_offset = line_at(&s->max, 0.0);
    v->mean_slope = line_slope(&s->mean);
    v->mean_offset = line_at(&s->mean, 0.0);
    v->growth = v->max_slope - v->residual * v->mean_slope;
    if (!isnan(self->cost)) {
        v->tau = v->growth > 0.0 ? sqrt(2.0 * self->cost / v->growth) : INFINITY;
        v->next = (double)self->last + fmax(1.0, floor(v->tau + 0.5));
    }
}

static plb_reason_t by_period(const plb_trigger_t *self, const plb_observation_t *o,
                              const plb_verdict_t *v)
{
    if (isnan(self->cost)) {
        return v->growth > 0.0 && plb_trigger_trial(self, v->excess, o->mean) ? PLB_REASON_FIRST
                                                                              : PLB_REASON_UNTOLD;
    }
    if (!(v->growth > 0.0)) {
        return PLB_REASON_FLAT;
    }
    const bool due = (double)o->iteration >= v->next && v->excess * PLB_ABRUPT >= self->cost;
    return due ? PLB_REASON_PERIOD : PLB_REASON_EARLY;
}

/* sudden: the answer of dynamic() */
static plb_reason_t reason_of(const plb_trigger_t *self, const plb_observation_t *o,
                              plb_reason_t sudden, const plb_verdict_t *v)
{
    const metabalancer_t *s = self->state;
    if (s->beyond > 0 && (double)s->beyond >= self->params[PATIENCE]) {
        return sudden;
    }
    const plb_reason_t period = by_period(self, o, v);
    return s->beyond == 0 || period >= PLB_REASON_EVERY ? period : PLB_REASON_SUSPECT;
}

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    metabalancer_t *s = self->state;
    const double x = (double)(o->iteration - self->last);
    if (s->n < PLB_FEW) {
        s->ratio[s->n] = o->mean > 0.0 ? o->max / o->mean : 1.0;
    }
    s->n++;
    s->sum_max += o->max;
    s->sum_mean += o->mean;
    v->residual = residual(s);
    v->excess = s->sum_max - v->residual * s->sum_mean;
    const plb_reason_t sudden = dynamic(self, s, x, o, v);
    s->beyond = sudden == PLB_REASON_EARLY ? 0 : s->beyond + 1;
    if (s->beyond == 0 || (double)s->beyond >= self->params[PATIENCE]) {
        const double keep = 1.0 - 1.0 / self->params[MEMORY];
        line_add(&s->max, keep, x, o->max);
        line_add(&s->mean, keep, x, o->mean);
    }
    describe(self, v);
    v->reason =
        (double)s->n < self->params[LEAST] ? PLB_REASON_FEW : reason_of(self, o, sudden, v);
}

static void balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    metabalancer_t *s = self->state;
    (void)cost;
    s->tried = true;
    restart(s, max_over_mean);
}

static const plb_param_t params[N_PARAMS] = {
    [THRESHOLD] = {"threshold", "", "max/mean above which the dynamic trigger fires (3.5.5)", 1.1,
                   1, 1e6},
    [PATIENCE] = {"patience", "iterations",
                  "number of iterations in a row above the threshold before the dynamic trigger "
                  "fires; 1: as in the thesis",
                  2, 1, 1e6},
    [LEAST] = {"least", "iterations",
               "number of iterations observed after an LB step before the next decision", 3, 2,
               1e6},
    [MEMORY] = {"memory", "iterations", "about how many iterations the fitted lines cover", 100, 2,
                1e9},
};

const plb_trigger_kind_t plb_trigger_metabalancer = {
    .name = "metabalancer",
    .help = "when the ideal period fitted to the growing imbalance is over, or at once for a "
            "sudden imbalance",
    .source = "Menon 2012, 3.5.1-3.5.3, 3.5.5, eq. 3.3-3.5",
    .params = params,
    .n_params = N_PARAMS,
    .state_size = sizeof(metabalancer_t),
    .init = init,
    .observe = observe,
    .balanced = balanced,
};
