/* auto: rebalance when the imbalance of an iteration costs more than the average cost per
 * iteration at the best period.
 *
 * u is the imbalance of an iteration (max - mean, seconds), U its sum since the last LB step,
 * theta the cost of an LB step in seconds, and tau the number of iterations since the last LB
 * step.  A cycle is the time from one LB step to the next.  The rate is the lowest average cost
 * per iteration that can be reached.  By renewal reward theory an LB step is best when u exceeds
 * the rate (optimal for a rising u).
 *
 * auto estimates the rate as the lowest of
 *   - (theta + U) / tau: the average of this cycle if it ended now, as in the example; this alone
 *     is the trigger boulmier;
 *   - the average of past cycles (older ones count less), times `past`: after a sudden rise of the
 *     imbalance the average of this cycle alone may stay above u forever;
 *   - (cut * theta + U') / tau, where U' is the U of this cycle if one more LB step had cut the
 *     cycle in two 1, 2, 4, ... iterations ago: if the imbalance rises suddenly soon after an LB
 *     step, boulmier waits forever, and auto no longer than in the ski rental problem.  (If u
 *     grows by m per iteration, a cut at half of the cycle gives cut * theta + m tau^2 / 4: then
 *     there is no LB step before tau = sqrt(2 theta / m) if cut >= 1.5.)
 *
 * The rate is compared with the imbalance that is expected to persist: the share of earlier
 * imbalances that has persisted, times the lower of
 *   - the lowest u of the last three iterations, extrapolated along their trend to the next
 *     iteration: this removes spikes;
 *   - the mean u of the last patience * theta / u iterations, also extrapolated: an LB step needs
 *     theta / u iterations to repay theta, and the imbalance must have existed for part of them.
 *
 * That share comes from LB steps that auto imagines.  u has two parts: e, which an LB step can
 * remove, and what it leaves (update_residual).  An LB step at moment t of a cycle would have
 * gained e(t + j) - |e(t + j) - e(t)| in iteration t + j: this is e(t) if the imbalance stayed or
 * rose, and less if it went back by itself (noise, periodic programs).  The share is the ratio of
 * this gain to e(t), averaged for horizons of 4, 8, ... iterations; older cycles count less.
 *
 * Finally, the gain over the remaining iterations must exceed theta; before the first LB step it
 * must exceed `doubt` * theta.  If the end of the run is not known, as many iterations are
 * expected to follow as have been observed, and at least `ahead`.
 *
 * The first LB step is a trial: only it shows which part of an imbalance an LB step removes (the
 * rest is then known to be a residual), and what it costs.  docs/triggers.md says when it comes.
 *
 * While theta is unknown, the other rules assume `guess` balanced iterations, or fewer in a short
 * run (plb_trigger_guess), and patience, doubt and trial are multiplied by `unsure`.
 *
 * If loads move so fast that the next iteration alone would repay an LB step, auto rebalances in
 * the second iteration of a cycle.  (LB steps in each iteration could not be judged.)
 *
 * A run may begin with what earlier runs of the program have learned (plb_experience_t).  Then it
 * needs no trial, as if an LB step had taken place.
 *
 * A rule is only here if without it the mean regret of a case of benchmarks/triggers.py rises by
 * 0.2 points or more, or the loss in a single cycle has no bound. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "decide/trigger.h"

enum { PATIENCE, PAST, CUT, TRUST, DOUBT, TRIAL, GUESS, UNSURE, AHEAD, N_PARAMS };
enum { FIRST = PLB_FEW, BLOCK = PLB_WINDOW, SHORTEST = BLOCK / 2, HORIZONS = 8 };
enum { RING = SHORTEST << HORIZONS };        /* twice the longest horizon */
static const double FADE = 1.0 - PLB_NEWEST; /* weight of a cycle relative to the next one */
/* For a trial, u counts at most PLB_ABRUPT times the lowest u of three iterations; block means of
 * a steady imbalance differ by at most half of their mean (by 0.3 of it, if noise is 5 % on 4
 * ranks); an imbalance below NOISE (max/mean - 1) may be noise: four standard deviations, the
 * largest of 10^4 ranks.  One above CLEAR is not.
 * RELEVANT: tuned: ratio; with 0.5, the worst mean regret of tests/decide is 11 %, not below 8 %
 */
static const double RELEVANT = 0.6, NOISE = 4.0 * PLB_NOISE, CLEAR = 2.0 * NOISE;

typedef struct state {
    double sum[RING];   /* U from the start of the cycle to its n-th iteration, at n % RING */
    double level[RING]; /* the lowest u of iterations n - 2 ... n, without spikes, at n % RING */
    double u[FIRST];    /* the last three u, at n % FIRST */
    double residual;    /* max/mean that the last LB step left; 1 before the first one */
    double mean;        /* mean load in the last iteration */
    double rate;        /* the last result of best_rate */
    /* Since the last LB step, without spikes, in seconds: the sum of u; the sum of u in the
     * present block of BLOCK iterations, and in its first half; the smallest and the largest mean
     * u of a block. */
    double lost, block, half, least, most;
    /* seconds, sums over imagined LB steps: hoped: what they would have saved if the imbalance had
     * stayed the same; gained: what they would have saved */
    double hoped[HORIZONS], gained[HORIZONS];
    double paid, iterations; /* sums of theta + U and of tau over past cycles (fading) */
    int64_t lb_steps, seen;  /* numbers of LB steps and iterations since the start */
    int64_t brief; /* number of cycles since the last that told what LB steps leave; SHORTEST
                      or more if there was none */
    bool knows;    /* whether it is known what LB steps leave: from an LB step or an earlier run */
} state_t;

/* The remainder of an unsigned number is one instruction. */
static inline uint64_t place(int64_t n)
{
    return (uint64_t)n % RING;
}

static void init(plb_trigger_t *self)
{
    ((state_t *)self->state)->residual = 1.0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The parameter, times `unsure` while the cost of an LB step is not known. */
static double times(const plb_trigger_t *self, int param)
{
    return self->params[param] * (isnan(self->cost) ? self->params[UNSURE] : 1.0);
}

/* e, the part of an imbalance u that an LB step can remove. */
static double excess(const state_t *s, double u)
{
    return plb_greater(u - (s->residual - 1.0) * s->mean, 0.0);
}

static void add_to_block(state_t *s, int64_t n, double u)
{
    s->lost = (n == 1 ? 0.0 : s->lost) + u;
    s->block = (n % BLOCK == 1 ? 0.0 : s->block) + u;
    s->half = n % BLOCK == BLOCK / 2 ? s->block : s->half;
    const double mean = s->block / (double)least(n, BLOCK);
    if (n <= BLOCK) {
        s->least = s->most = mean;
    } else if (n % BLOCK == 0) {
        s->least = plb_lesser(s->least, mean);
        s->most = plb_greater(s->most, mean);
    }
}

/* Estimate what the last LB step has left.  In a few brief cycles it is not above the last
 * estimate; else it comes from three iterations, from before them if they rise; then from the
 * lower half of the first block, because noise may have made these three low; it falls to the mean
 * of a later block that is lower. */
static void update_residual(state_t *s, int64_t n, double low)
{
    const double base = s->mean * BLOCK, *u = s->u, before = s->residual;
    if (n < FIRST) {
        s->residual = plb_lesser(1.0 + low / s->mean, s->brief < SHORTEST ? before : INFINITY);
    } else if (n == FIRST) {
        const double step = plb_lesser(u[2] - u[1], u[0] - u[2]);
        s->residual =
            1.0 + (step > 0.0 ? plb_greater(u[1] - step, 0.0) : plb_median3(u)) / s->mean;
    } else if (n == BLOCK) {
        const double half = plb_lesser(s->half, s->block - s->half);
        s->residual = plb_greater(s->residual, 1.0 + 2.0 * half / base);
    } else if (n % BLOCK == 0) {
        s->residual = plb_lesser(s->residual, 1.0 + s->block / base);
    }
}

static void record(const plb_trigger_t *self, const plb_observation_t *o)
{
    state_t *s = self->state;
    const plb_cycle_t *c = &self->cycle;
    const int64_t n = c->n;
    s->seen++;
    s->mean = o->mean;
    s->u[n % FIRST] = c->u;
    double low = c->u;
    for (int64_t k = 1; k < least(n, FIRST); k++) {
        low = plb_lesser(low, s->u[(n - k) % FIRST]);
    }
    s->sum[place(n)] = c->U;
    s->level[place(n)] = low;
    add_to_block(s, n, plb_lesser(c->u, PLB_ABRUPT * low));
    if (s->lb_steps > 0 && o->mean > 0.0 && !self->misled) {
        update_residual(s, n, low);
    }
}

/* Imagine an LB step at the start of each horizon of SHORTEST << i iterations, and add its savings
 * to `gained` and `hoped` (see state_t).  Imbalances far below the rate do not count, because
 * they would not have led to an LB step. */
static void replay(state_t *s, int64_t n)
{
    for (int i = 0; i < HORIZONS; i++) {
        const int64_t span = (int64_t)SHORTEST << i;
        const int64_t stride = span > BLOCK ? span / BLOCK : 1;
        if (n <= span ||
            ((uint64_t)n & (uint64_t)(stride - 1)) != 0) { /* `stride` is a power of 2 */
            continue;
        }
        const double e0 = excess(s, s->level[place(n - span)]);
        if (!(e0 > 0.0 && e0 >= RELEVANT * excess(s, s->rate))) {
            continue;
        }
        double gain = 0.0;
        for (int64_t k = 1; k <= span; k += stride) {
            const double e = excess(s, s->level[place(n - span + k)]);
            gain += e - fabs(e - e0);
        }
        s->gained[i] += gain * (double)(stride * stride);
        s->hoped[i] += e0 * (double)(span * stride);
    }
}

/* Return by how much `level` has risen in the last k < n iterations. */
static double rise(const state_t *s, int64_t n, int64_t k)
{
    return plb_greater(s->level[place(n)] - s->level[place(n - k)], 0.0);
}

/* The imbalance of the last three iterations without spikes, extrapolated along its trend; after
 * the first LB step, to the next iteration, the first one that an LB step can help. */
static double settled(const state_t *s, int64_t n)
{
    /* `level`, the lowest u of FIRST iterations, lags behind a growing u, except at the start of
     * the cycle */
    const int64_t span = least(n - 1, BLOCK), lag = n - span < FIRST ? FIRST - (n - span) : 0;
    const double slope = span > lag ? rise(s, n, span) / (double)(span - lag) : 0.0;
    double out = s->u[n % FIRST];
    for (int64_t k = 1; k < FIRST; k++) {
        out = plb_lesser(out, s->u[(n - k) % FIRST] + (double)k * slope);
    }
    return s->knows ? out + slope : out;
}

/* The excess (seconds per iteration) that is expected to persist until its removal has repaid
 * theta. */
static double expected(const plb_trigger_t *self, int64_t n, double theta, double left)
{
    const state_t *s = self->state;
    const double now = settled(s, n), e = excess(s, now);
    if (!(e > 0.0)) {
        return 0.0;
    }
    const double horizon = plb_lesser(theta / e, left);
    int i = 0;
    while (i + 1 < HORIZONS && (double)((int64_t)SHORTEST << i) < horizon) {
        i++;
    }
    while (i > 0 && s->hoped[i] <= 0.0) {
        i--;
    }
    const double before = self->params[TRUST] * theta;
    const bool known = before + s->hoped[i] > 0.0;
    const double share =
        known ? plb_greater((before + s->gained[i]) / (before + s->hoped[i]), 0.0) : 1.0;
    const int64_t most = least(n, RING - 1);
    const int64_t k = (int64_t)plb_lesser(times(self, PATIENCE) * theta / e, (double)most);
    const double since = s->sum[place(n)] - (k < n ? s->sum[place(n - k)] : 0.0);
    const double trend = 0 < k && k < n ? 0.5 * rise(s, n, k) : 0.0;
    return share * excess(s, k > 0 ? plb_lesser(now, since / (double)k + trend) : now);
}

/* The rate, by the three estimates at the top of this file. */
static double best_rate(const plb_trigger_t *self, int64_t n, double theta)
{
    const state_t *s = self->state;
    const double U = self->cycle.U, base = (s->residual - 1.0) * s->mean;
    double out = theta + U;
    for (int64_t k = 1; k < least(n, RING); k *= 2) {
        const double since = U - s->sum[place(n - k)], e = excess(s, s->level[place(n - k)]);
        const double loss = plb_greater(since - (double)k * e, (double)k * base);
        out = plb_lesser(out, self->params[CUT] * theta + U - since + loss);
    }
    out /= (double)n;
    return s->iterations > 0.0 ? plb_lesser(out, self->params[PAST] * s->paid / s->iterations)
                               : out;
}

/* Whether to try a first LB step: only a trial can tell which part of a steady imbalance an LB
 * step removes.  The imbalance must have cost as much as the trial may cost (ski rental problem).
 * Less of it counts if the means of blocks differ by more than noise explains, or if it is so
 * small that it may be noise. */
static bool tries(const plb_trigger_t *self, int64_t n, double theta, double left, double expected)
{
    const state_t *s = self->state;
    const double level = isnan(self->cost) ? settled(s, n) : s->level[place(n)];
    if (s->knows || !(level > 0.0)) {
        return false;
    }
    if (n <= FIRST && level * left >= times(self, TRIAL) * theta) {
        return true;
    }
    /* Any imbalance that has cost as much as an LB step is assumed to cost, and goes on.  Without
     * an end, nobody knows how long it goes on. */
    const double guess = plb_trigger_guess(self, self->params[GUESS]) * s->mean;
    if (isnan(self->cost) && self->end != INT64_MAX &&
        s->lost - NOISE * s->mean * (double)n >= guess &&
        expected * left >= self->params[DOUBT] * guess) {
        return true;
    }
    const double mean = s->lost / (double)n;
    const double steady = mean - plb_greater(s->most - s->least - 0.5 * mean, 0.0);
    const double weight = (steady / s->mean - NOISE) / (CLEAR - NOISE);
    const double u = steady * plb_lesser(plb_greater(weight, 0.0), 1.0);
    const double price = isnan(self->cost) ? plb_trigger_price(self) * s->mean : theta;
    return (double)n * u >= price && u * left >= self->params[DOUBT] * price;
}

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    state_t *s = self->state;
    const int64_t n = self->cycle.n;
    record(self, o);
    const double theta =
        isnan(self->cost) ? plb_trigger_guess(self, self->params[GUESS]) * s->mean : self->cost;
    replay(s, n);
    v->excess = self->cycle.U;
    v->residual = s->residual;
    const double left = self->end == INT64_MAX
                            ? plb_greater((double)s->seen, self->params[AHEAD])
                            : plb_greater((double)(self->end - o->iteration - 1), 0.0);
    if (n < (s->knows || isnan(self->cost) ? FIRST : FIRST - 1)) {
        const double e = excess(s, self->cycle.u), clear = plb_greater(theta, NOISE * s->mean);
        const bool at_once = n > 1 && s->knows && !isnan(self->cost) && e > clear && left >= 1.0;
        v->reason = at_once ? PLB_REASON_RATE : PLB_REASON_FEW;
        if (at_once) {
            v->level = e;
            v->rate = s->rate;
            v->gain = e * left;
        }
        return;
    }
    const int64_t k = least(n - 1, (int64_t)plb_greater(plb_lesser(left, RING - 1), 1.0));
    v->level = expected(self, n, theta, left);
    v->rate = s->rate = best_rate(self, n, theta);
    v->gain = v->level * left + 0.5 * rise(s, n, k) / (double)k * left * left;
    if (tries(self, n, theta, left, v->level)) {
        v->reason = PLB_REASON_FIRST;
    } else if (v->level < excess(s, v->rate)) {
        v->reason = PLB_REASON_CHEAP;
    } else {
        const double need = (s->knows ? 1.0 : times(self, DOUBT)) * theta;
        v->reason = v->level > 0.0 && v->gain >= need ? PLB_REASON_RATE : PLB_REASON_GAIN;
    }
}

static void balanced(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)cost, (void)max_over_mean;
    state_t *s = self->state;
    s->brief = s->lb_steps++ == 0 ? SHORTEST : self->cycle.n < FIRST ? s->brief + 1 : 0;
    s->knows = true;
    s->paid = FADE * s->paid + self->cost + self->cycle.U;
    s->iterations = FADE * s->iterations + (double)self->cycle.n;
    for (int i = 0; i < HORIZONS; i++) {
        s->hoped[i] *= FADE;
        s->gained[i] *= FADE;
    }
}

static void begin(plb_trigger_t *self, const plb_experience_t *e)
{
    state_t *s = self->state;
    s->knows = !isnan(*e->residual);
    s->residual = s->knows ? *e->residual : 1.0;
    s->iterations = isnan(*e->rate) ? 0.0 : plb_greater(*e->iterations, PLB_LONG);
    /* no margin: the earlier runs' rate also has what they lost before their first LB steps */
    s->paid = isnan(*e->rate) ? 0.0 : s->iterations * *e->rate / self->params[PAST];
    for (int i = 0; i < HORIZONS; i++) {
        s->hoped[i] = isnan(e->hoped[i]) ? 0.0 : e->hoped[i];
        s->gained[i] = isnan(e->gained[i]) ? 0.0 : e->gained[i];
    }
}

static void learned(const plb_trigger_t *self, plb_experience_t *out)
{
    const state_t *s = self->state;
    if (!s->knows || self->n == 0) {
        return;
    }
    *out->residual = s->residual;
    if (s->lb_steps > 0) { /* else the rate of cycles that end with an LB step is not known */
        const double rate = (self->spent + self->cycle.U) / (double)self->n;
        *out->rate = isnan(*out->rate) ? rate : 0.5 * (*out->rate + rate);
    }
    memcpy(out->hoped, s->hoped, sizeof out->hoped);
    memcpy(out->gained, s->gained, sizeof out->gained);
}

static const plb_param_t params[N_PARAMS] = {
    [PATIENCE] = {"patience", "",
                  "an imbalance must have existed for this fraction of the iterations in which "
                  "its removal would repay an LB step",
                  0.4, 0, 1e6},
    [PAST] = {"past", "", "factor on the cost per iteration of past cycles", 1.2, 1e-6, 1e6},
    [CUT] = {"cut", "",
             "assumed cost of cutting a cycle in two, as a multiple of the cost of an LB step", 2,
             1, 1e6},
    [TRUST] = {"trust", "", "weight of the assumption that an imbalance persists, in LB steps", 3,
               0, 1e6},
    [DOUBT] = {"doubt", "",
               "expected gain that the first LB step needs, as a multiple of its cost", 2, 0, 1e6},
    [TRIAL] = {"trial", "",
               "expected gain that an LB step needs to replace the initial placement, "
               "divided by its cost",
               2.5, 0, 1e6},
    [GUESS] = {"guess", "iterations",
               "assumed cost of an LB step while it is unknown, in balanced iterations; less in a "
               "short run",
               20, 0, 1e9},
    [UNSURE] = {"unsure", "", "factor on patience, doubt and trial until the cost is known", 4, 0,
                1e6},
    [AHEAD] =
        {"ahead", "iterations",
         "if the end of the run is not known, at least this many further iterations are expected",
         400, 0, 1e9},
};

const plb_trigger_kind_t plb_trigger_auto = {
    .name = "auto",
    .help = "when the imbalance that is expected to persist costs more per iteration than "
            "the best average seen so far, and removing it repays an LB step",
    .source = "pylb: renewal reward as in Boulmier 2021 (arXiv 2104.01688), ski rental",
    .params = params,
    .n_params = N_PARAMS,
    .state_size = sizeof(state_t),
    .init = init,
    .observe = observe,
    .balanced = balanced,
    .begin = begin,
    .learned = learned,
};
