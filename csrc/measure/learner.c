#include "measure/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Weight of an interval relative to the next one.
 * tuned: ratio; with 0.8, rank 3 of 8 that becomes three times slower is known to within 19 %
 * after 3 intervals instead of 10 % (tests/measure/test_speeds.py) */
static const double AGEING = 0.7;
/* Weight of the user's own estimate of an object's work.
 * tuned: observations; if estimates are off by 30 %, speeds of 24 random programs (like.py,
 * unlike) end 3.9 % off (mean); with 0.06 and 1, 4.3 and 6.2 % */
static const double PRIOR = 0.25;

/* Observations that are further than this from the fit, in sigma, have less weight (Huber 1964).
 * MAD: sigma of a normal distribution / median of the absolute values. */
static const double HUBER = 1.345, MAD = 1.4826;
/* Weight of the assumption that a rank has kept its speed; before speeds are known: that it has
 * the mean speed.  Without it, the matrix may be singular.
 * If the speeds miss the changes in a new interval by more than three sigma on average (the usual
 * rule), a rank has changed its speed: then the older intervals hardly count (OUTDATED).  That
 * sigma grows at most by PLB_ABRUPT after a surprise.
 * KEPT: tuned: observations; with a tenth or ten times as much, speeds of 50 random programs
 * (benchmarks/like.py, unlike) are off by 3.4 or 4.0 % (mean), not 3.2 % */
static const double KEPT = 1e-3, OUTDATED = 10.0 * KEPT, SIGMAS = 3.0;

/* Speeds are used if the evidence for them is at least PROVEN: they explain one interval nearly
 * exactly, or predicted half of several.
 * tuned: fraction of the changes; on 1,200 random programs of equal ranks, this happens in none
 * (benchmarks/like.py) */
static const double PROVEN = 0.75;
/* and if one speed differs by more than this from the mean */
static const double UNLIKE = PLB_NOTABLE;
/* An interval counts less if few objects moved, or if their times changed by a few per cent; it
 * explains nothing if not more than FEW_MOVES objects share the changes.
 */
static const double FEW_MOVES = PLB_FEW + 1.0, SMALL_CHANGE = 2.0 * PLB_NOISE;

enum {
    /* of weights and speeds in turn.
     * tuned: rounds; with 2, 3 or 10, speeds of 50 random programs are off by 3.8, 3.6 or 3.8 %
     * (mean), not 3.2 % */
    ROUNDS = 5,
    MOST_STEPS = 200, /* of the conjugate gradients: a guard */
    DOUBTS = 2, /* after so many fits in a row without a difference, ranks count as equal; 1 or 4
                   change the error by less than 0.1 % */
};

/* ---- the objects under a placement ---------------------------------------------------------- */

typedef struct named {
    int64_t key, at;
} named_t;

static int by_key(const void *a, const void *b)
{
    const int64_t x = ((const named_t *)a)->key, y = ((const named_t *)b)->key;
    return (x > y) - (x < y);
}

static void timings_free(plb_timings_t *self)
{
    PLB_FREE(self->key, self->rank, self->y, self->work, self->weight);
    *self = (plb_timings_t){0};
}

/* Check the input, and find the order of the objects that are used. */
static int timings_order(int32_t p, int64_t n, const int64_t *key, const int32_t *rank,
                         const double *seconds, const double *work, double fraction,
                         named_t *order, int64_t *m, plb_err_t *err)
{
    int64_t timed = 0;
    uint64_t parts = 1;
    bool sorted = true;
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(rank[i] < 0 || rank[i] >= p, err, PLB_ERR_RANGE,
                    "rank[%lld] is %d: expected 0 ... %d, one of the ranks", (long long)i, rank[i],
                    p - 1);
        PLB_FAIL_IF(isinf(seconds[i]), err, PLB_ERR_VALUE,
                    "seconds[%lld] is %g: expected a finite time", (long long)i, seconds[i]);
        PLB_FAIL_IF(work != NULL && isinf(work[i]), err, PLB_ERR_VALUE,
                    "work[%lld] is %g: expected a finite estimate", (long long)i, work[i]);
        order[i] = (named_t){key[i], i};
        sorted = sorted && (i == 0 || key[i - 1] < key[i]);
        timed += seconds[i] > 0.0 && plb_is_sampled(key[i], fraction);
    }
    if (!sorted) {
        qsort(order, (size_t)n, sizeof *order, by_key);
    }
    while (timed > 2LL * PLB_LEARNER_SAMPLE * p * (int64_t)parts) {
        parts *= 2;
    }
    *m = 0;
    for (int64_t j = 0; j < n; j++) {
        PLB_FAIL_IF(j > 0 && order[j].key == order[j - 1].key, err, PLB_ERR_VALUE,
                    "key %lld is given twice: expected each object once", (long long)order[j].key);
    }
    for (int64_t j = 0; j < n; j++) {
        /* Fibonacci hashing gives the same sample each time, 1 / `parts` of all objects. */
        const uint64_t mixed = (uint64_t)order[j].key * UINT64_C(0x9E3779B97F4A7C15);
        if (seconds[order[j].at] > 0.0 && plb_is_sampled(order[j].key, fraction) &&
            (mixed >> 32) % parts == 0) {
            order[(*m)++] = order[j];
        }
    }
    return PLB_OK;
}

/* Take the times of the present placement into self->now. */
static int timings_take(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, double fraction, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_timings_t *now = &self->now;
    named_t *order = NULL;
    double sum = 0.0;
    int64_t m;
    PLB_NEW(order, n);
    PLB_TRY(timings_order(self->p, n, key, rank, seconds, work, fraction, order, &m, err));
    if (m > now->room || now->key == NULL) {
        timings_free(now);
        PLB_NEW_EACH(m, now->key, now->rank, now->y, now->work, now->weight);
        now->room = m;
    }
    now->n = m;
    for (int64_t j = 0; j < m; j++) {
        const int64_t i = order[j].at;
        now->key[j] = key[i];
        now->rank[j] = rank[i];
        now->y[j] = log(seconds[i]);
        now->work[j] = work != NULL && work[i] > 0.0 ? log(work[i]) : NAN;
        sum += seconds[i];
    }
    for (int64_t j = 0; j < m; j++) {
        now->weight[j] = fmax(sqrt(seconds[order[j].at] / (sum / (double)m)), 1e-6);
    }
out:
    plb_free(order);
    return ret;
}

/* ---- the objects that have moved ------------------------------------------------------------ */

static int moved_grow(plb_moved_t *self, int64_t n, plb_err_t *err)
{
    if (n > self->room || self->from == NULL) {
        PLB_PASS_RENEW(self->from, n);
        PLB_PASS_RENEW(self->to, n);
        PLB_PASS_RENEW(self->change, n);
        PLB_PASS_RENEW(self->weight, n);
        self->room = n;
    }
    return PLB_OK;
}

static void moved_add(plb_moved_t *self, int64_t at, int32_t from, int32_t to, double change,
                      double weight)
{
    self->from[at] = from;
    self->to[at] = to;
    self->change[at] = change;
    self->weight[at] = weight;
}

/* Test how well the previous fit predicts the n new moves, which follow the remembered ones.
 * Returns the weight of the older intervals relative to the new one. */
static double test_guess(plb_learner_t *self, int64_t n)
{
    const plb_moved_t *m = &self->moved;
    double was = 0.0, left = 0.0, known = 0.0;
    for (int64_t k = m->n; k < m->n + n; k++) {
        const int32_t a = m->from[k], b = m->to[k];
        if (isfinite(self->error[a]) && isfinite(self->error[b])) {
            was += fabs(m->change[k]);
            left += fabs(m->change[k] - (self->guess[a] - self->guess[b]));
            known += 1.0;
        }
    }
    if (known == 0.0) {
        return AGEING;
    }
    const double part = (was - left) / (was + SMALL_CHANGE * known) * known / (known + FEW_MOVES);
    self->evidence = AGEING * self->evidence + fmax(part, -1.0);
    /* a change within the last interval can have made sigma too large */
    self->noise = self->surprised ? fmin(self->sigma, PLB_ABRUPT * self->noise) : self->sigma;
    self->surprised = left > SIGMAS * self->noise * fmax(known, FEW_MOVES);
    return self->surprised ? OUTDATED : AGEING;
}

/* End an interval in which n objects have moved: the weights of older intervals are multiplied by
 * `ageing`, and the oldest of too many is forgotten. */
static void end_interval(plb_learner_t *self, int64_t n, double ageing)
{
    plb_moved_t *m = &self->moved;
    for (int64_t k = 0; k < m->n; k++) {
        m->weight[k] *= ageing;
    }
    self->begin[self->n_intervals++] = m->n;
    m->n += n;
    if (self->n_intervals > PLB_LEARNER_INTERVALS) {
        const int64_t gone = self->begin[1];
        m->n -= gone;
        memmove(m->from, m->from + gone, (size_t)m->n * sizeof *m->from);
        memmove(m->to, m->to + gone, (size_t)m->n * sizeof *m->to);
        memmove(m->change, m->change + gone, (size_t)m->n * sizeof *m->change);
        memmove(m->weight, m->weight + gone, (size_t)m->n * sizeof *m->weight);
        for (int32_t i = 1; i < self->n_intervals; i++) {
            self->begin[i - 1] = self->begin[i] - gone;
        }
        self->n_intervals--;
    }
}

/* Compare the present placement with the previous one. */
static int compare(plb_learner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_timings_t *last = &self->last, *now = &self->now;
    plb_moved_t *moved = &self->moved;
    double *stayed = NULL;
    int64_t i = 0, n_stayed = 0, n_moved = 0;
    PLB_NEW(stayed, now->n);
    PLB_TRY(moved_grow(moved, moved->n + now->n, err));
    for (int64_t j = 0; j < now->n; j++) {
        while (i < last->n && last->key[i] < now->key[j]) {
            i++;
        }
        if (i == last->n || last->key[i] != now->key[j]) {
            continue;
        }
        const double change = now->y[j] - last->y[i];
        if (last->rank[i] == now->rank[j]) {
            stayed[n_stayed++] = change;
        } else {
            moved_add(moved, moved->n + n_moved++, last->rank[i], now->rank[j], change,
                      fmin(last->weight[i], now->weight[j]));
        }
    }
    if (n_moved > 0) {
        const double usual = n_stayed > 0 ? plb_median(stayed, n_stayed) : 0.0;
        for (int64_t k = moved->n; k < moved->n + n_moved; k++) {
            moved->change[k] -= usual;
        }
        end_interval(self, n_moved, test_guess(self, n_moved));
        self->unmoved = 0.0;
        for (int64_t k = 0; k < n_stayed; k++) {
            self->unmoved += (stayed[k] - usual) * (stayed[k] - usual);
        }
    }
out:
    plb_free(stayed);
    return ret;
}

/* ---- the fit -------------------------------------------------------------------------------- */

typedef struct fit {
    const plb_moved_t *in;
    int64_t m; /* number of moves, including those between a rank and the user's estimates */
    int32_t q; /* number of unknowns: the ranks, and one for the user's estimates */
    double *weight, *miss; /* [m] Huber's weights; residuals */
    double *s;             /* [q] the unknowns: logarithms of the speeds */
    double *prior;         /* [q] values of `s` before the fit */
    double *r, *z, *d, *a; /* [q] vectors of the conjugate gradients */
    double *diagonal;      /* [q] of the matrix */
} fit_t;

static int fit_init(fit_t *self, const plb_learner_t *of, int64_t m, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_moved_t *in = &of->moved;
    const int32_t q = of->p + 1;
    *self = (fit_t){.in = in, .m = m, .q = q};
    PLB_NEW_EACH(m, self->weight, self->miss);
    PLB_NEW0(self->prior, q);
    PLB_NEW(self->s, q);
    if (of->unlike) {
        memcpy(self->prior, of->log_speed, (size_t)of->p * sizeof *self->prior);
    }
    memcpy(self->s, self->prior, (size_t)q * sizeof *self->s);
    PLB_NEW_EACH(q, self->r, self->z, self->d, self->a, self->diagonal);
    memcpy(self->weight, in->weight, (size_t)m * sizeof *self->weight);
out:
    return ret;
}

/* Set a = S v; S is the matrix of the normal equations.  Each move is a spring between ranks. */
static void apply(const fit_t *self, const double *v, double *a)
{
    const int32_t *from = self->in->from, *to = self->in->to;
    for (int32_t i = 0; i < self->q; i++) {
        a[i] = KEPT * v[i];
    }
    for (int64_t k = 0; k < self->m; k++) {
        const double pull = self->weight[k] * (v[from[k]] - v[to[k]]);
        a[from[k]] += pull;
        a[to[k]] -= pull;
    }
}

static double precondition(fit_t *self)
{
    double rz = 0.0;
    for (int32_t i = 0; i < self->q; i++) {
        self->z[i] = self->r[i] / self->diagonal[i];
        rz += self->r[i] * self->z[i];
    }
    return rz;
}

/* Improve s by conjugate gradients, for the present weights. */
static void solve(fit_t *self)
{
    const plb_moved_t *in = self->in;
    for (int32_t i = 0; i < self->q; i++) {
        self->r[i] = KEPT * (self->prior[i] - self->s[i]);
        self->diagonal[i] = KEPT;
    }
    for (int64_t k = 0; k < self->m; k++) {
        const int32_t a = in->from[k], b = in->to[k];
        const double w = self->weight[k], pull = w * (in->change[k] - (self->s[a] - self->s[b]));
        self->r[a] += pull;
        self->r[b] -= pull;
        self->diagonal[a] += w;
        self->diagonal[b] += w;
    }
    double rz = precondition(self);
    const double first = rz;
    memcpy(self->d, self->z, (size_t)self->q * sizeof *self->d);
    for (int step = 0; step < MOST_STEPS && rz > PLB_ROUNDING * first; step++) {
        double da = 0.0;
        apply(self, self->d, self->a);
        for (int32_t i = 0; i < self->q; i++) {
            da += self->d[i] * self->a[i];
        }
        const double length = rz / da, before = rz;
        for (int32_t i = 0; i < self->q; i++) {
            self->s[i] += length * self->d[i];
            self->r[i] -= length * self->a[i];
        }
        rz = precondition(self);
        for (int32_t i = 0; i < self->q; i++) {
            self->d[i] = self->z[i] + rz / before * self->d[i];
        }
    }
}

/* Compute weights by Huber's rule from the residuals.  Returns sigma, from
 * the median of the absolute residuals. */
static double weigh(fit_t *self)
{
    const plb_moved_t *in = self->in;
    for (int64_t k = 0; k < self->m; k++) {
        self->weight[k] = fabs(in->change[k] - (self->s[in->from[k]] - self->s[in->to[k]]));
        self->miss[k] = self->weight[k];
    }
    const double sigma = fmax(MAD * plb_median(self->miss, self->m), PLB_NOISE);
    const double most = HUBER * sigma;
    for (int64_t k = 0; k < self->m; k++) {
        self->weight[k] = in->weight[k] * most / fmax(self->weight[k], most);
    }
    return sigma;
}

/* Take over the result; ranks that have exchanged no objects keep their speed.  The mean of the
 * logarithms stays 0. */
static void hand_over(const fit_t *self, plb_learner_t *out)
{
    double shift = 0.0, linked = 0.0;
    for (int32_t r = 0; r < self->q; r++) {
        const bool known = self->diagonal[r] > 2.0 * KEPT;
        out->error[r] = known ? out->sigma / sqrt(self->diagonal[r]) : INFINITY;
        shift += known && r < out->p ? self->s[r] - self->prior[r] : 0.0;
        linked += known && r < out->p;
    }
    for (int32_t r = 0; r < self->q; r++) {
        const bool known = isfinite(out->error[r]);
        out->guess[r] = known ? self->s[r] - shift / linked : self->prior[r];
    }
}

/* Append the user's estimates, as if each object had moved from one more rank to its own. */
static int64_t add_estimates(plb_learner_t *self)
{
    const plb_timings_t *last = &self->last;
    int64_t n = 0;
    for (int64_t i = 0; i < last->n; i++) {
        if (!isnan(last->work[i])) {
            moved_add(&self->moved, self->moved.n + n++, self->p, last->rank[i],
                      last->y[i] - last->work[i], PRIOR * last->weight[i]);
        }
    }
    return n;
}

/* Return the fraction of the squared changes in the last interval that the speeds explain.  Each
 * object is judged by the others: as if it had the share 1 / m in the speed of a rank with m
 * moves.  Changes of objects that have not moved count as unexplained.  count[p + 1]: scratch
 * memory. */
static double explained(const plb_learner_t *self, double *count)
{
    const plb_moved_t *in = &self->moved;
    const int64_t first = self->n_intervals > 0 ? self->begin[self->n_intervals - 1] : in->n;
    double was = 0.0, squares = 0.0, left = self->unmoved;
    memset(count, 0, (size_t)(self->p + 1) * sizeof *count);
    for (int64_t k = first; k < in->n; k++) {
        count[in->from[k]] += 1.0;
        count[in->to[k]] += 1.0;
    }
    for (int64_t k = first; k < in->n; k++) {
        const int32_t a = in->from[k], b = in->to[k];
        const double change = in->change[k], own = 1.0 / count[a] + 1.0 / count[b];
        const double miss =
            own < 1.0 ? (change - (self->guess[a] - self->guess[b])) / (1.0 - own) : change;
        was += change * change;
        squares += change * change * change * change;
        left += miss * miss;
    }
    /* was^2 / squares is the effective number of objects that share the changes */
    return was * was > FEW_MOVES * squares ? fmax(0.0, 1.0 - left / was) : 0.0;
}

/* Decide whether the speeds are used.  Speeds that are in use, or that rest on the user's own
 * estimates of the work, need no proof, but must not be disproved. */
static void conclude(plb_learner_t *self, bool estimated, double *room)
{
    double most = 0.0;
    for (int32_t r = 0; r < self->p; r++) {
        most = fmax(most, fabs(self->guess[r]));
    }
    const bool proven = self->unlike || estimated
                            ? self->evidence >= 0.0
                            : self->evidence + explained(self, room) >= PROVEN;
    const bool unlike = proven && most > UNLIKE;
    self->doubts = unlike ? 0 : self->doubts + 1;
    if (unlike) {
        memcpy(self->log_speed, self->guess, (size_t)self->p * sizeof *self->guess);
        self->unlike = true;
    } else if (self->doubts >= DOUBTS) {
        self->unlike = false;
    }
}

static int fit(plb_learner_t *self, plb_err_t *err)
{
    fit_t fit = {0};
    int ret = PLB_OK;
    PLB_TRY(moved_grow(&self->moved, self->moved.n + self->last.n, err));
    const int64_t estimated = add_estimates(self), m = self->moved.n + estimated;
    if (m == 0 || (double)m < SMALL_CHANGE * (double)self->last.n) {
        return ret; /* too few objects have moved: keep what was known */
    }
    PLB_TRY(fit_init(&fit, self, m, err));
    for (int round = 0; round < ROUNDS; round++) {
        solve(&fit);
        self->sigma = weigh(&fit);
    }
    hand_over(&fit, self);
    conclude(self, estimated > 0, fit.r);
out:
    PLB_FREE(fit.weight, fit.miss, fit.s, fit.prior, fit.r, fit.z, fit.d, fit.a, fit.diagonal);
    return ret;
}

/* ---- the learner ---------------------------------------------------------------------------- */

int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_learner_t){.p = p};
    PLB_FAIL_IF(p < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", p);
    PLB_NEW0(self->log_speed, p);
    PLB_NEW0(self->guess, p + 1);
    PLB_NEW(self->error, p + 1);
    for (int32_t r = 0; r <= p; r++) {
        self->error[r] = INFINITY;
    }
out:
    if (ret != PLB_OK) {
        plb_learner_free(self);
    }
    return ret;
}

void plb_learner_free(plb_learner_t *self)
{
    plb_moved_t *moved = &self->moved;
    timings_free(&self->last);
    timings_free(&self->now);
    PLB_FREE(self->log_speed, self->guess, self->error, moved->from, moved->to, moved->change,
             moved->weight);
    *self = (plb_learner_t){0};
}

int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, double fraction, plb_err_t *err)
{
    PLB_PASS(timings_take(self, n, key, rank, seconds, work, fraction, err));
    PLB_PASS(compare(self, err));
    const plb_timings_t free_memory = self->last;
    self->last = self->now;
    self->now = free_memory;
    return fit(self, err);
}

bool plb_learner_speeds(const plb_learner_t *self, double *speed)
{
    for (int32_t r = 0; r < self->p; r++) {
        speed[r] = self->unlike ? fmin(fmax(exp(self->log_speed[r]), 1e-30), 1e30) : 1.0;
    }
    return self->unlike;
}
