/* auto: rebalance when the imbalance of an iteration costs more than the average cost per
 * iteration at the best period.
 *
 * u is the imbalance of an iteration (max - mean, seconds), U its sum since the last LB step,
 * theta the cost of an LB step in seconds, and tau the number of iterations since the last LB
 * step.  A cycle is the time from one LB step to the next.  The rate is the lowest average cost
 * per iteration that can be reached.  By renewal reward theory an LB step is best when u exceeds
 * the rate (optimal for a rising u).
 *
 * Example: theta = 100 ms, and u = 2, 4, 6, ... ms.  After 10 iterations U = 110 ms, and the
 * average cost is (100 + 110) / 10 = 21 ms; u = 20 ms is less.  After 11 iterations the average is
 * (100 + 132) / 11 = 21.1 ms, and u = 22 ms is more: auto rebalances.
 *
 * auto estimates the rate as the lowest of:
 *   - (theta + U) / tau: the average of this cycle if it ended now, as in the example; this alone
 *     is the trigger boulmier;
 *   - the average of past cycles (older ones count less), times `past`: after a sudden rise of the
 *     imbalance the average of this cycle alone may stay above u forever;
 *   - (cut * theta + U') / tau, where U' is the U of this cycle if one more LB step had cut the
 *     cycle in two at the best moment: if the imbalance rises suddenly soon after an LB step,
 *     boulmier waits forever, and auto no longer than in the ski rental problem.  (If u grows by
 *     m per iteration, a cut at half of the cycle gives cut * theta + m tau^2 / 4: then there is
 *     no LB step before tau = sqrt(2 theta / m) if cut >= 1.5.)
 *
 * The rate is compared with the imbalance that is expected to persist: the lower of
 *   - the lowest u of the last three iterations, extrapolated along their trend: this removes
 *     spikes;
 *   - the mean u of the last patience * theta / u iterations, also extrapolated: an LB step needs
 *     theta / u iterations to repay theta, and the imbalance must have existed for a part of this
 *     time;
 * times the share of earlier imbalances that has persisted.
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
 * The first LB step is a trial: only it shows which part of an imbalance an LB step removes, and
 * what it costs.  It takes place
 *   - at once, if the imbalance exists from the first iterations on (it comes from the initial
 *     placement), and its removal would save trial * theta;
 *   - when a steady imbalance has cost as much as the trial may cost: theta, or, if theta is not
 *     known, plb_trigger_price.
 * What is left after a trial is then known to be a residual.
 *
 * While theta is unknown, the other rules assume `guess` balanced iterations, or fewer in a short
 * run (plb_trigger_guess).  Then patience, doubt and trial are multiplied by `unsure`, and the
 * lowest imbalance so far (without spikes) counts as one that no LB step can remove.
 *
 * A run may begin with what earlier runs of the program have learned (plb_experience_t).  Then it
 * needs no trial, as if an LB step had taken place.
 *
 * The default of `guess`: if the imbalance grows from zero, a first LB step at U instead of theta
 * wastes (sqrt(theta) - sqrt(U))^2.  The mean waste is lowest if sqrt(U) is the mean of
 * sqrt(theta).  If theta is 0.1, 1, 10 or 100 iterations with equal probability, this U is 13
 * iterations; if it is 1, 10 or 100 iterations, U is 22. */
#include <math.h>
#include <string.h>

#include "base/lesser.h"
#include "base/quantile.h"
#include "decide/trigger.h"

enum { PATIENCE, PAST, CUT, TRUST, DOUBT, TRIAL, GUESS, UNSURE, AHEAD, N_PARAMS };
enum { FIRST = 3, TREND = 8, RING = 1024, HORIZONS = 8, SHORTEST = 4, SAMPLES = 8, BLOCK = 8 };
static const double FADE = 0.8; /* weight of a cycle relative to the next one */
/* auto rebalances at once if the next iteration alone would repay this many LB steps. */
static const double AT_ONCE = 2.0;
/* If the mean load changes by this factor in one iteration, the program is still starting up. */
static const double JUMP = 3.0;
/* For a trial, u counts at most SPIKE times the lowest u of three iterations; block means of a
 * steady imbalance differ by at most VARIES times their mean (noise of 5 % on 4 ranks: 0.3); an
 * imbalance below NOISE (max/mean - 1) may be noise of 1 %, one above CLEAR is not. */
static const double SPIKE = 2.0, VARIES = 0.4, NOISE = 0.04, CLEAR = 0.08;
/* sqrt(2) - 1: growth of the imbalance from the first iteration to the second, relative to the
 * first, if loads change at random. */
static const double DRIFT = 0.41;

typedef struct state {
    double sum[RING];    /* U from the start of the cycle to its n-th iteration, at n % RING */
    double level[RING];  /* the lowest u of iterations n - 2 ... n, without spikes, at n % RING */
    double u[FIRST];     /* the last three u, at n % FIRST */
    double first[FIRST]; /* the first three u of the cycle */
    double residual;     /* max/mean that the last LB step left */
    double left;         /* the lowest `residual` after BLOCK iterations or more; 0: none */
    double promised;     /* max/mean that the last LB step predicted */
    double mean;         /* mean load in the last iteration */
    double before;       /* mean load in the iteration before the last one */
    double rate;         /* the last result of best_rate */
    double lowest;       /* the smallest `level` since the last LB step */
    /* Since the last LB step, without spikes, in seconds: the sum of u; the sum of u in the
     * present block of BLOCK iterations, and in its first half; the smallest and the largest mean
     * u of a block. */
    double lost, block, half, least, most;
    /* seconds, sums over imagined LB steps: hoped: what they would have saved if the imbalance had
     * stayed the same; gained: what they would have saved */
    double hoped[HORIZONS], gained[HORIZONS];
    double young[2]; /* weighted sums of u in the first and second iteration after LB steps */
    double ages[2];  /* sums of the weights in `young`; an LB step weighs half of the next one */
    double paid, iterations; /* sums of theta + U and of tau over past cycles (fading) */
    int64_t lb_steps, seen;  /* numbers of LB steps and iterations since the start */
    int at_once;             /* LB steps in a row, each after a cycle of one iteration */
    bool knows; /* whether it is known what LB steps leave: from an LB step or an earlier run */
    bool told;  /* from an earlier run */
} state_t;

/* The remainder of an unsigned number is one instruction. */
static inline uint64_t place(int64_t n)
{
    return (uint64_t)n % RING;
}

static void init(plb_trigger_t *self)
{
    state_t *s = self->state;
    s->residual = 1.0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double cost_of(const plb_trigger_t *self)
{
    const state_t *s = self->state;
    return isnan(self->cost) ? plb_trigger_guess(self, self->params[GUESS]) * s->mean : self->cost;
}

/* If an earlier run tells what LB steps achieve: factors on patience, on trust and on past - 1. */
static const double TOLD_PATIENCE = 0.25, TOLD_TRUST = 2.0, TOLD_PAST = 0.5;
/* Its rate counts like this many iterations of the past, or like its own if these were more. */
static const double LEAST_WEIGHT = 100.0;

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

/* Before a first LB step of unknown cost, the steady part of the imbalance counts as residual for
 * all rules but `tries`. */
static void doubt_steady(const plb_trigger_t *self, int64_t n)
{
    state_t *s = self->state;
    if (!s->knows) {
        const bool doubts = isnan(self->cost) && n >= FIRST && s->mean > 0.0;
        s->residual = doubts ? 1.0 + s->lowest / s->mean : 1.0;
    }
}

static double sum_of(const state_t *s, int64_t n, int64_t k)
{
    return s->sum[place(n)] - (k < n ? s->sum[place(n - k)] : 0.0);
}

/* By how much `level` has risen in the last k < n iterations. */
static double rise(const state_t *s, int64_t n, int64_t k)
{
    return plb_greater(s->level[place(n)] - s->level[place(n - k)], 0.0);
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

/* Estimate what the last LB step has left: at first from three iterations, then from the lower
 * half of the first block, because noise may have made these three low; it falls to the mean of a
 * later block that is lower. */
static void update_residual(state_t *s, int64_t n, double low)
{
    const double base = s->mean * BLOCK;
    if (n <= FIRST) {
        s->residual = 1.0 + (n < FIRST ? low : plb_median3(s->first)) / s->mean;
    } else if (n == BLOCK) {
        const double half = plb_lesser(s->half, s->block - s->half);
        s->residual = plb_greater(s->residual, 1.0 + 2.0 * half / base);
    } else if (n % BLOCK == 0) {
        s->residual = plb_lesser(s->residual, 1.0 + s->block / base);
    }
    if (n % BLOCK == 0) { /* loads may change just after an LB step: the lowest tells most */
        s->left = s->left > 0.0 ? plb_lesser(s->left, s->residual) : s->residual;
    }
}

static void record(const plb_trigger_t *self, const plb_observation_t *o)
{
    state_t *s = self->state;
    const plb_cycle_t *c = &self->cycle;
    const int64_t n = c->n;
    s->before = s->seen++ == 0 ? o->mean : s->mean;
    s->mean = o->mean;
    s->u[n % FIRST] = c->u;
    if (n <= FIRST) {
        s->first[n - 1] = c->u;
    }
    if (s->lb_steps > 0 && n <= 2) {
        s->young[n - 1] = 0.5 * s->young[n - 1] + c->u;
        s->ages[n - 1] = 0.5 * s->ages[n - 1] + 1.0;
    }
    double low = c->u;
    for (int64_t k = 1; k < least(n, FIRST); k++) {
        low = plb_lesser(low, s->u[(n - k) % FIRST]);
    }
    s->sum[place(n)] = c->U;
    s->level[place(n)] = low;
    s->lowest = n == 1 ? low : plb_lesser(s->lowest, low);
    add_to_block(s, n, plb_lesser(c->u, SPIKE * low));
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
        const int64_t stride = span > SAMPLES ? span / SAMPLES : 1;
        if (n <= span ||
            ((uint64_t)n & (uint64_t)(stride - 1)) != 0) { /* `stride` is a power of 2 */
            continue;
        }
        const double e0 = excess(s, s->level[place(n - span)]);
        if (!(e0 > 0.0 && e0 >= 0.6 * excess(s, s->rate))) {
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

/* The share of an excess e that is expected to persist until its removal has repaid theta. */
static double share(const state_t *s, double e, double theta, double left, double trust)
{
    const double horizon = plb_lesser(theta / e, left);
    int i = 0;
    while (i + 1 < HORIZONS && (double)((int64_t)SHORTEST << i) < horizon) {
        i++;
    }
    while (i > 0 && s->hoped[i] <= 0.0) {
        i--;
    }
    const double before = trust * theta;
    return before + s->hoped[i] > 0.0
               ? plb_greater((before + s->gained[i]) / (before + s->hoped[i]), 0.0)
               : 1.0;
}

/* The imbalance of the last three iterations without spikes, extrapolated along its trend; of
 * fewer iterations if waiting for three would cost more than an LB step. */
static double settled(const state_t *s, int64_t n, double theta)
{
    /* `level`, the lowest u of FIRST iterations, lags behind a growing u, except at the start of
     * the cycle */
    const int64_t span = least(n - 1, TREND), lag = n - span < FIRST ? FIRST - (n - span) : 0;
    const double slope = span > lag ? rise(s, n, span) / (double)(span - lag) : 0.0;
    double out = s->u[n % FIRST];
    for (int64_t k = 1; k < least(n, FIRST) && (double)k * excess(s, out) < theta; k++) {
        out = plb_lesser(out, s->u[(n - k) % FIRST] + (double)k * slope);
    }
    return out;
}

/* The excess (seconds per iteration) that is expected to persist. */
static double expected(const plb_trigger_t *self, int64_t n, double left)
{
    const state_t *s = self->state;
    const double theta = cost_of(self), now = settled(s, n, theta), e = excess(s, now);
    if (!(e > 0.0)) {
        return 0.0;
    }
    const double patience = times(self, PATIENCE) * (s->told ? TOLD_PATIENCE : 1.0);
    const double trust = self->params[TRUST] * (s->told ? TOLD_TRUST : 1.0);
    const double span = patience * theta / e;
    const int64_t k = span < (double)least(n, RING - 1) ? (int64_t)span : least(n, RING - 1);
    double stays = now;
    if (k > 0) {
        const double trend = k < n ? 0.5 * rise(s, n, k) : 0.0;
        stays = plb_lesser(now, sum_of(s, n, k) / (double)k + trend);
    }
    return excess(s, stays) * share(s, e, theta, left, trust);
}

/* best_rate tries to cut the cycle this many iterations ago */
static const int16_t CUTS[] = {1,   2,   3,   4,   5,   6,   7,   8,   10,  12,
                               15,  18,  22,  27,  33,  41,  51,  63,  78,  97,
                               121, 151, 188, 235, 293, 366, 457, 571, 713, 891};

/* A cut may pay only if the iterations since the earliest possible cut have lost as much as the
 * cut costs in addition.  The factor 0.999 allows for rounding. */
static bool may_cut(const plb_trigger_t *self, int64_t n, double theta)
{
    const state_t *s = self->state;
    const double all = sum_of(s, n, least(n, RING - 1));
    return all > 0.999 * (self->params[CUT] - 1.0) * theta;
}

/* The rate, by the three estimates at the top of this file. */
static double best_rate(const plb_trigger_t *self, int64_t n)
{
    const state_t *s = self->state;
    const double theta = cost_of(self), U = self->cycle.U, base = (s->residual - 1.0) * s->mean;
    double out = theta + U;
    const int64_t end = may_cut(self, n, theta) ? least(n, RING) : 0;
    for (size_t i = 0; i < sizeof CUTS / sizeof *CUTS && CUTS[i] < end; i++) {
        const double k = CUTS[i], since = U - s->sum[place(n - CUTS[i])];
        const double e = excess(s, s->level[place(n - CUTS[i])]);
        const double loss = plb_greater(since - k * e, k * base);
        const double rate = self->params[CUT] * theta + U - since + loss;
        out = plb_lesser(out, rate);
    }
    out /= (double)n;
    const double past = 1.0 + (self->params[PAST] - 1.0) * (s->told ? TOLD_PAST : 1.0);
    return s->iterations > 0.0 ? plb_lesser(out, past * s->paid / s->iterations) : out;
}

/* Seconds per iteration that a steady imbalance has cost.  Less counts if the means of blocks
 * differ by more than noise explains, or if the imbalance is so small that it may be noise. */
static double steady_loss(const state_t *s, int64_t n)
{
    const double mean = s->lost / (double)n, range = s->most - s->least;
    const double u = mean - plb_greater(range - VARIES * mean, 0.0);
    const double weight = (u / s->mean - NOISE) / (CLEAR - NOISE);
    return u * plb_lesser(plb_greater(weight, 0.0), 1.0);
}

/* Whether to try a first LB step: only a trial can tell which part of a steady imbalance an LB
 * step removes.  The imbalance must have cost as much as the trial may cost (ski rental problem).
 */
static bool tries(const plb_trigger_t *self, int64_t n, double left)
{
    const state_t *s = self->state;
    const bool unknown = isnan(self->cost);
    const double theta = cost_of(self);
    const double level = unknown ? settled(s, n, theta) : s->level[place(n)];
    if (s->knows || !(level > 0.0)) {
        return false;
    }
    if (n <= FIRST && level * left >= times(self, TRIAL) * theta) {
        return true;
    }
    const double u = steady_loss(s, n),
                 price = unknown ? plb_trigger_price(self) * s->mean : theta;
    return (double)n * u >= price && u * left >= self->params[DOUBT] * price;
}

/* Estimate the seconds that an LB step now would save in the next iteration: the expected
 * imbalance u of that iteration without an LB step, minus the expected u with one.
 *   - With an LB step: the mean u of past iterations that came first after an LB step.
 *   - Without one: in the second iteration of a cycle, its u; in the first one, the mean u of past
 *     second iterations.
 * After k cycles of one iteration in a row, the difference is divided by 2^k, because there was no
 * new second iteration.  If no cycle ever had a second iteration, the estimate is DRIFT times the
 * part of u that the last LB step did not predict; this may lead to one LB step only.  Return
 * -INFINITY if nothing is known, or if the cycle has n > 2 iterations: other criteria decide. */
static double saved_at_once(const plb_trigger_t *self, int64_t n)
{
    const state_t *s = self->state;
    if (s->lb_steps == 0 || n > 2) {
        return -INFINITY;
    }
    if (n == 1 && !(s->ages[1] > 0.0)) {
        const double unforeseen = self->cycle.u - (s->promised - 1.0) * s->mean;
        return s->at_once == 0 ? DRIFT * unforeseen : -INFINITY;
    }
    const double next = n == 1 ? s->young[1] / s->ages[1] : self->cycle.u;
    return ldexp(next - s->young[0] / s->ages[0], -s->at_once);
}

/* Whether the program is still starting up; then auto does not rebalance (PLB_REASON_FEW). */
static bool starts_up(const state_t *s)
{
    return s->lb_steps == 0 &&
           (s->seen == 1 || s->mean > JUMP * s->before || s->before > JUMP * s->mean);
}

static void observe(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    state_t *s = self->state;
    const int64_t n = self->cycle.n;
    record(self, o);
    doubt_steady(self, n);
    const double theta = cost_of(self);
    replay(s, n);
    v->excess = self->cycle.U;
    v->residual = s->knows ? s->residual : 1.0;
    const double left = self->end == INT64_MAX
                            ? plb_greater((double)s->seen, self->params[AHEAD])
                            : plb_greater((double)(self->end - o->iteration - 1), 0.0);
    const double saved = saved_at_once(self, n);
    if (left > 0.0 && saved > AT_ONCE * theta) {
        v->level = v->gain = saved;
        v->reason = PLB_REASON_AT_ONCE;
        return;
    }
    if (starts_up(s) || (n < FIRST && !((double)n * excess(s, s->level[n]) >= theta))) {
        v->reason = PLB_REASON_FEW;
        return;
    }
    const int64_t k = least(least(n - 1, RING - 1), (int64_t)plb_lesser(left, RING));
    const double growth = k > 0 ? rise(s, n, k) / (double)k : 0.0;
    v->level = expected(self, n, left);
    v->rate = s->rate = best_rate(self, n);
    v->gain = v->level * left + 0.5 * growth * left * left;
    if (tries(self, n, left)) {
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
    (void)cost;
    state_t *s = self->state;
    s->promised = max_over_mean;
    s->lb_steps++;
    s->knows = true;
    s->at_once = self->cycle.n == 1 ? s->at_once + 1 : 0;
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
    s->knows = s->told = !isnan(*e->residual);
    s->residual = s->knows ? *e->residual : 1.0;
    s->iterations = isnan(*e->rate) ? 0.0 : plb_greater(*e->iterations, LEAST_WEIGHT);
    s->paid = isnan(*e->rate) ? 0.0 : s->iterations * *e->rate;
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
    *out->residual = s->left > 0.0 ? s->left : s->residual;
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
    [PAST] = {"past", "", "factor on the cost per iteration of past cycles", 1.2, 0, 1e6},
    [CUT] = {"cut", "",
             "assumed cost of cutting a cycle in two, as a multiple of the cost of an LB step", 2,
             1, 1e6},
    [TRUST] = {"trust", "", "weight of the assumption that an imbalance persists, in LB steps", 3,
               0, 1e6},
    [DOUBT] = {"doubt", "",
               "expected gain that the first LB step needs, as a multiple of its cost", 2, 0, 1e6},
    [TRIAL] = {"trial", "",
               "expected gain that an LB step needs to replace the initial placement at once, as "
               "a multiple of its cost",
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
