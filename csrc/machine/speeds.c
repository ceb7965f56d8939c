#include "machine/speeds.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"

static const double HUBER = 1.345, TOLERANCE = 1e-10; /* of the residual's squares */

static const double LEAST_SIGMA = 0.01; /* below, differences are not worth a weight */

/* So many observations' weight says that a rank's speed is the mean one: what no object links to
 * the others stays there. */
static const double ALIKE = 1e-3;

enum { ROUNDS = 4, MOST_STEPS = 200, BINS = 1024 };

/* Objects that were on several ranks, one after the other; what stayed says nothing. */
typedef struct fit {
    int64_t n, m;
    int32_t p;
    int64_t *start;                           /* [n+1] */
    int32_t *rank;                            /* [m] */
    double *y;                                /* [m] log seconds */
    double *given;                            /* [m] weight of the caller's */
    double *weight;                           /* [m] the same by Huber's rule */
    double *miss;                             /* [m] y + s less its object's mean */
    double *s, *b, *r, *z, *d, *q, *diagonal; /* [p] of the gradients */
} fit_t;

static void fit_free(fit_t *self)
{
    void *all[] = {self->start, self->rank, self->y,       self->given, self->weight,
                   self->miss,  self->s,    self->b,       self->r,     self->z,
                   self->d,     self->q,    self->diagonal};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        plb_free(all[i]);
    }
}

static bool has_moved(const int64_t *start, const int32_t *rank, int64_t o)
{
    for (int64_t k = start[o] + 1; k < start[o + 1]; k++) {
        if (rank[k] != rank[k - 1]) {
            return true;
        }
    }
    return false;
}

static int fit_init(fit_t *self, int64_t n, const int64_t *start, const int32_t *rank,
                    const double *seconds, const double *weight, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t m = start[n];
    *self = (fit_t){.p = p};
    PLB_NEW(self->start, n + 1);
    PLB_NEW(self->rank, m);
    PLB_NEW(self->y, m);
    PLB_NEW(self->given, m);
    PLB_NEW(self->weight, m);
    PLB_NEW(self->miss, m);
    PLB_NEW0(self->s, p);
    PLB_NEW(self->b, p);
    PLB_NEW(self->r, p);
    PLB_NEW(self->z, p);
    PLB_NEW(self->d, p);
    PLB_NEW(self->q, p);
    PLB_NEW0(self->diagonal, p);
    self->start[0] = 0;
    for (int64_t o = 0; o < n; o++) {
        if (!has_moved(start, rank, o)) {
            continue;
        }
        for (int64_t k = start[o]; k < start[o + 1]; k++, self->m++) {
            self->rank[self->m] = rank[k];
            self->y[self->m] = log(seconds[k]);
            self->given[self->m] = weight == NULL ? 1.0 : weight[k];
        }
        self->start[++self->n] = self->m;
    }
    memcpy(self->weight, self->given, (size_t)self->m * sizeof *self->weight);
out:
    return ret;
}

/* q = S v, where S is what the elimination of the objects' work leaves. */
static void apply(const fit_t *self, const double *v, double *q)
{
    for (int32_t r = 0; r < self->p; r++) {
        q[r] = ALIKE * v[r];
    }
    for (int64_t o = 0; o < self->n; o++) {
        double sum = 0.0, mean = 0.0;
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            sum += self->weight[k];
            mean += self->weight[k] * v[self->rank[k]];
        }
        mean /= sum;
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            q[self->rank[k]] += self->weight[k] * (v[self->rank[k]] - mean);
        }
    }
}

/* Right-hand side and diagonal for the present weights. */
static void set_up(fit_t *self)
{
    for (int32_t r = 0; r < self->p; r++) {
        self->b[r] = 0.0;
        self->diagonal[r] = ALIKE;
    }
    for (int64_t o = 0; o < self->n; o++) {
        double sum = 0.0, mean = 0.0;
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            sum += self->weight[k];
            mean += self->weight[k] * self->y[k];
        }
        mean /= sum;
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            self->b[self->rank[k]] -= self->weight[k] * (self->y[k] - mean);
            self->diagonal[self->rank[k]] += self->weight[k] * (1.0 - self->weight[k] / sum);
        }
    }
}

/* r . r / diagonal, which is left in z. */
static double precondition(fit_t *self)
{
    double rz = 0.0;
    for (int32_t i = 0; i < self->p; i++) {
        self->z[i] = self->r[i] / self->diagonal[i];
        rz += self->r[i] * self->z[i];
    }
    return rz;
}

/* Conjugate gradients on S s = b, from the s that there is. */
static void solve(fit_t *self)
{
    double whole = 0.0;
    apply(self, self->s, self->q);
    for (int32_t i = 0; i < self->p; i++) {
        self->r[i] = self->b[i] - self->q[i];
        whole += self->b[i] * self->b[i] / self->diagonal[i];
    }
    double rz = precondition(self);
    memcpy(self->d, self->z, (size_t)self->p * sizeof *self->d);
    for (int step = 0; step < MOST_STEPS && rz > TOLERANCE * whole; step++) {
        double dq = 0.0;
        apply(self, self->d, self->q);
        for (int32_t i = 0; i < self->p; i++) {
            dq += self->d[i] * self->q[i];
        }
        const double length = rz / dq, before = rz;
        for (int32_t i = 0; i < self->p; i++) {
            self->s[i] += length * self->d[i];
            self->r[i] -= length * self->q[i];
        }
        rz = precondition(self);
        for (int32_t i = 0; i < self->p; i++) {
            self->d[i] = self->z[i] + rz / before * self->d[i];
        }
    }
}

/* What each observation misses, as that of one whose object's work is known; mean of |.|. */
static double find_misses(fit_t *self)
{
    double all = 0.0;
    for (int64_t o = 0; o < self->n; o++) {
        const int64_t begin = self->start[o], end = self->start[o + 1];
        double sum = 0.0, mean = 0.0;
        for (int64_t k = begin; k < end; k++) {
            sum += self->weight[k];
            mean += self->weight[k] * (self->y[k] + self->s[self->rank[k]]);
        }
        mean /= sum;
        const double freedom = sqrt((double)(end - begin) / (double)(end - begin - 1));
        for (int64_t k = begin; k < end; k++) {
            self->miss[k] = (self->y[k] + self->s[self->rank[k]] - mean) * freedom;
            all += fabs(self->miss[k]);
        }
    }
    return all / (double)self->m;
}

/* 1.4826 times the median of |miss|, that of a normal distribution, to a bin's width. */
static double find_sigma(fit_t *self)
{
    int64_t count[BINS] = {0}, seen = 0;
    const double scale = BINS / (4.0 * find_misses(self) + 1e-300);
    for (int64_t k = 0; k < self->m; k++) {
        const double at = fabs(self->miss[k]) * scale;
        count[at < BINS - 1 ? (int)at : BINS - 1]++;
    }
    int bin = 0;
    while (2 * (seen + count[bin]) < self->m) {
        seen += count[bin++];
    }
    return 1.4826 * (bin + 0.5) / scale;
}

static void weigh(fit_t *self, double sigma)
{
    for (int64_t k = 0; k < self->m; k++) {
        const double size = fabs(self->miss[k]), most = HUBER * fmax(sigma, LEAST_SIGMA);
        self->weight[k] = self->given[k] * (size > most ? most / size : 1.0);
    }
}

static bool is_linked(const fit_t *self, int32_t r)
{
    return self->diagonal[r] > 2.0 * ALIKE;
}

/* By the caller's weights, so that what Huber's rule has put aside counts as unexplained: how much
 * of the variance within the objects the speeds account for,
 * adjusted for their number (few observations fit anything), and what an observation is off by. */
static void judge(const fit_t *self, plb_speeds_t *out)
{
    double whole = 0.0, left = 0.0;
    for (int64_t o = 0; o < self->n; o++) {
        double sum = 0.0, y = 0.0, z = 0.0;
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            sum += self->given[k];
            y += self->given[k] * self->y[k];
            z += self->given[k] * (self->y[k] + self->s[self->rank[k]]);
        }
        for (int64_t k = self->start[o]; k < self->start[o + 1]; k++) {
            const double a = self->y[k] - y / sum;
            const double e = self->y[k] + self->s[self->rank[k]] - z / sum;
            whole += self->given[k] * a * a;
            left += self->given[k] * e * e;
        }
    }
    int64_t free = self->m - self->n, fitted = -1;
    for (int32_t r = 0; r < self->p; r++) {
        fitted += is_linked(self, r);
    }
    out->error = INFINITY;
    if (whole > 0.0 && free > fitted) {
        out->explained = fmax(0.0, 1.0 - left / whole * (double)free / (double)(free - fitted));
        out->error = sqrt(left / (double)(free - fitted));
    }
}

static void hand_over(const fit_t *self, double sigma, double *speed, double *error)
{
    double mean = 0.0;
    int32_t known = 0;
    for (int32_t r = 0; r < self->p; r++) {
        if (is_linked(self, r)) {
            mean += self->s[r];
            known++;
        }
    }
    mean /= known > 0 ? known : 1;
    for (int32_t r = 0; r < self->p; r++) {
        const bool is_known = is_linked(self, r);
        speed[r] = is_known ? exp(self->s[r] - mean) : 1.0;
        error[r] = is_known ? sigma / sqrt(self->diagonal[r]) : INFINITY;
    }
}

static int check(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                 const double *weight, int32_t p, plb_err_t *err)
{
    for (int64_t k = 0; k < start[n]; k++) {
        if (rank[k] < 0 || rank[k] >= p) {
            return PLB_FAIL(err, PLB_ERR_RANGE, "rank[%lld] is %d: expected 0 ... %d",
                            (long long)k, rank[k], p - 1);
        }
        if (!(seconds[k] > 0.0 && isfinite(seconds[k]))) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "seconds[%lld] is %g: expected more than 0",
                            (long long)k, seconds[k]);
        }
        if (weight != NULL && !(weight[k] > 0.0 && isfinite(weight[k]))) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "weight[%lld] is %g: expected more than 0",
                            (long long)k, weight[k]);
        }
    }
    return PLB_OK;
}

int plb_speeds_fit(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                   const double *weight, int32_t p, double *speed, double *error,
                   plb_speeds_t *out, plb_err_t *err)
{
    fit_t self = {0};
    int ret = check(n, start, rank, seconds, weight, p, err);
    if (ret == PLB_OK) {
        ret = fit_init(&self, n, start, rank, seconds, weight, p, err);
    }
    if (ret == PLB_OK) {
        *out = (plb_speeds_t){.moved = self.n};
        for (int round = 0; self.n > 0 && round < ROUNDS; round++) {
            set_up(&self);
            solve(&self);
            out->sigma = find_sigma(&self);
            if (round + 1 < ROUNDS) {
                weigh(&self, out->sigma);
            }
        }
        judge(&self, out);
        hand_over(&self, fmax(out->sigma, out->error), speed, error);
    }
    fit_free(&self);
    return ret;
}
