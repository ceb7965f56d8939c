#include "measure/speeds.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static const double HUBER = 1.345;

/* The conjugate gradients end when r . z (solve) is below this fraction of its first value:
 * ROUGHLY while the weights still change, TOLERANCE in the last round. */
static const double ROUGHLY = 1e-6, TOLERANCE = 1e-9;

static const double SAME = 0.01;        /* converged: sigma changes by less than this fraction */
static const double LEAST_SIGMA = 0.01; /* a smaller sigma counts as this */
/* Weight, in observations, of the assumption that a rank has the mean speed. */
static const double ALIKE = 1e-3;

enum { LARGE = 4096 }; /* a fit of fewer observations starts from zero, which is cheap */

enum { ROUNDS = 4, ALONE = 2, MOST_STEPS = 200, DIGITS = 7, BINS = 1 << (8 + DIGITS) };

int plb_moved_init(plb_moved_t *self, int64_t n, int64_t m, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_moved_t){0};
    PLB_NEW(self->start, n + 1);
    PLB_NEW_EACH(m, self->rank, self->y, self->weight);
    self->start[0] = 0;
out:
    if (ret != PLB_OK) {
        plb_moved_free(self);
    }
    return ret;
}

void plb_moved_free(plb_moved_t *self)
{
    PLB_FREE(self->start, self->rank, self->y, self->weight);
    *self = (plb_moved_t){0};
}

void plb_speeds_start_free(plb_speeds_start_t *self)
{
    plb_free(self->log_speed);
    *self = (plb_speeds_start_t){0};
}

typedef struct fit {
    const plb_moved_t *in;
    int32_t p;
    float *weight;   /* [m] weights by Huber's rule */
    float *miss;     /* [m] y + s of each observation, minus the mean over its object */
    uint32_t *count; /* [BINS] number of observations for each bin of |miss| */
    double *share;   /* [n] 1 / (sum of an object's weights); with two observations: strength of
                        the spring between their ranks (apply) */
    double *s;       /* [p] the unknowns: logarithms of the speeds */
    double *r, *z, *d, *q; /* [p] vectors of the conjugate gradients */
    double *total;         /* [p] sum of the weights of a rank's observations */
    double *diagonal;      /* [p] diagonal of the matrix after elimination of the objects' work */
} fit_t;

static void fit_free(fit_t *self)
{
    PLB_FREE(self->weight, self->miss, self->count, self->share, self->s, self->r, self->z,
             self->d, self->q, self->total, self->diagonal);
}

static int fit_init(fit_t *self, const plb_moved_t *in, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (fit_t){.in = in, .p = p};
    PLB_NEW_EACH(in->m, self->weight, self->miss);
    PLB_NEW(self->count, BINS);
    PLB_NEW(self->share, in->n);
    PLB_NEW0(self->s, p);
    PLB_NEW_EACH(p, self->r, self->z, self->d, self->q, self->total);
    PLB_NEW0(self->diagonal, p);
out:
    return ret;
}

/* Set q = S v, where S is the matrix after elimination of the objects' work.  An object with two
 * observations acts as a spring between their ranks. */
static void apply(const fit_t *self, const double *v, double *q)
{
    const int64_t *start = self->in->start;
    const int32_t *rank = self->in->rank;
    for (int32_t r = 0; r < self->p; r++) {
        q[r] = (ALIKE + self->total[r]) * v[r];
    }
    for (int64_t o = 0; o < self->in->n; o++) {
        const int64_t begin = start[o], end = start[o + 1];
        if (end - begin == 2) {
            const int32_t a = rank[begin], b = rank[begin + 1];
            const double pull = self->share[o] * (v[a] - v[b]);
            q[a] += pull;
            q[b] -= pull;
            continue;
        }
        double mean = 0.0;
        for (int64_t k = begin; k < end; k++) {
            mean += (double)self->weight[k] * v[rank[k]];
        }
        mean *= self->share[o];
        for (int64_t k = begin; k < end; k++) {
            q[rank[k]] -= (double)self->weight[k] * mean;
        }
    }
}

/* A weight by Huber's rule, without an unpredictable branch. */
static inline float huber(float given, float miss, float most)
{
    const float size = fabsf(miss);
    return given * (most / (size > most ? size : most));
}

/* Like set_up_object, for an object with the two observations k and k + 1.  Returns the strength
 * of its spring, which is not part of the totals. */
static inline double set_up_pair(fit_t *self, int64_t k)
{
    const plb_moved_t *in = self->in;
    const int32_t a = in->rank[k], b = in->rank[k + 1];
    const double v = self->weight[k], w = self->weight[k + 1], spring = v * w / (v + w);
    const double off = (double)in->y[k] - in->y[k + 1] + self->s[a] - self->s[b];
    self->r[a] -= spring * off;
    self->r[b] += spring * off;
    self->diagonal[a] += spring;
    self->diagonal[b] += spring;
    return spring;
}

/* Add an object to the residual, the totals and the diagonal; return 1 / (sum of its weights). */
static inline double set_up_object(fit_t *self, int64_t begin, int64_t end)
{
    const plb_moved_t *in = self->in;
    double sum = 0.0, mean = 0.0;
    for (int64_t k = begin; k < end; k++) {
        sum += self->weight[k];
        mean += (double)self->weight[k] * (in->y[k] + self->s[in->rank[k]]);
    }
    const double share = 1.0 / sum;
    mean *= share;
    for (int64_t k = begin; k < end; k++) {
        const int32_t i = in->rank[k];
        const double w = self->weight[k];
        self->r[i] -= w * (in->y[k] + self->s[i] - mean);
        self->total[i] += w;
        self->diagonal[i] += w * (1.0 - w * share);
    }
    return share;
}

/* Compute weights (by Huber's rule, if sigma > 0), their sums, the diagonal of the matrix, and
 * the residual for the present s. */
static void set_up(fit_t *self, double sigma)
{
    const plb_moved_t *in = self->in;
    const float most = (float)(HUBER * fmax(sigma, LEAST_SIGMA));
    for (int32_t i = 0; i < self->p; i++) {
        self->r[i] = -ALIKE * self->s[i];
        self->total[i] = 0.0;
        self->diagonal[i] = ALIKE;
    }
    for (int64_t k = 0; k < in->m && sigma > 0.0; k++) {
        self->weight[k] = huber(in->weight[k], self->miss[k], most);
    }
    if (!(sigma > 0.0)) {
        memcpy(self->weight, in->weight, (size_t)in->m * sizeof *self->weight);
    }
    for (int64_t o = 0; o < in->n; o++) {
        const int64_t begin = in->start[o], end = in->start[o + 1];
        self->share[o] =
            end - begin == 2 ? set_up_pair(self, begin) : set_up_object(self, begin, end);
    }
}

/* Set z = r / diagonal; return r . z. */
static double precondition(fit_t *self)
{
    double rz = 0.0;
    for (int32_t i = 0; i < self->p; i++) {
        self->z[i] = self->r[i] / self->diagonal[i];
        rz += self->r[i] * self->z[i];
    }
    return rz;
}

/* Improve s by conjugate gradients, until r . z is at most `tolerance` times `first`.  If `first`
 * is 0, r . z at the start is used in its place.  Returns the value that was used. */
static double solve(fit_t *self, double tolerance, double first)
{
    double rz = precondition(self);
    const double whole = first > 0.0 ? first : rz;
    memcpy(self->d, self->z, (size_t)self->p * sizeof *self->d);
    for (int step = 0; step < MOST_STEPS && rz > tolerance * whole; step++) {
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
    return whole;
}

/* The bin of |x|: its exponent and leading digits. */
static inline uint32_t bin_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits & UINT32_C(0x7FFFFFFF)) >> (23 - DIGITS);
}

/* The factor by which residuals of n observations are too small because their mean was fitted. */
static inline double freedom_of(int64_t n)
{
    static const double few[] = {0.0, 0.0, 1.4142135623730951, 1.224744871391589,
                                 1.1547005383792515};
    return n < 5 ? few[n] : sqrt((double)n / (double)(n - 1));
}

static double middle_of(uint32_t bin)
{
    const uint32_t bits = (bin << (23 - DIGITS)) | UINT32_C(1) << (22 - DIGITS);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Return sigma: 1.4826 times the median of |miss|, as for normally distributed residuals.  The
 * bins cause an error below 1 %. */
static double median_miss(const fit_t *self)
{
    uint32_t bin = 0;
    for (int64_t seen = self->count[0]; 2 * seen < self->in->m; seen += self->count[bin]) {
        bin++;
    }
    return 1.4826 * middle_of(bin);
}

/* Compute `miss`, the residuals of an object's observations, enlarged by freedom_of. */
static inline void find_misses(fit_t *self, const float *weight, int64_t begin, int64_t end)
{
    const plb_moved_t *in = self->in;
    double mean = 0.0, sum = 0.0;
    for (int64_t k = begin; k < end; k++) {
        const double z = in->y[k] + self->s[in->rank[k]];
        self->miss[k] = (float)z;
        mean += (double)weight[k] * z;
        sum += weight[k];
    }
    const float middle = (float)(mean / sum), freedom = (float)freedom_of(end - begin);
    for (int64_t k = begin; k < end; k++) {
        self->miss[k] = (self->miss[k] - middle) * freedom;
    }
}

static double find_sigma(fit_t *self)
{
    const plb_moved_t *in = self->in;
    memset(self->count, 0, BINS * sizeof *self->count);
    for (int64_t o = 0; o < in->n; o++) {
        find_misses(self, self->weight, in->start[o], in->start[o + 1]);
    }
    for (int64_t k = 0; k < in->m; k++) {
        self->count[bin_of(self->miss[k])]++;
    }
    return median_miss(self);
}

/* Begin with the speeds and the sigma of an earlier fit: for each object alone, compute residuals
 * and weights (Huber's rule) in turn, for a few rounds. */
static void begin_from(fit_t *self, double sigma)
{
    const plb_moved_t *in = self->in;
    const float most = (float)(HUBER * fmax(sigma, LEAST_SIGMA));
    for (int64_t o = 0; o < in->n; o++) {
        const int64_t begin = in->start[o], end = in->start[o + 1];
        find_misses(self, in->weight, begin, end);
        for (int round = 0; round < ALONE; round++) {
            for (int64_t k = begin; k < end; k++) {
                self->weight[k] = huber(in->weight[k], self->miss[k], most);
            }
            find_misses(self, self->weight, begin, end);
        }
    }
}

static bool is_linked(const fit_t *self, int32_t r)
{
    return self->diagonal[r] > 2.0 * ALIKE;
}

/* Compute the fraction of the variance within objects that the speeds explain, adjusted for the
 * number of speeds (which can fit a few observations exactly), and the error of an observation.
 * Both use the caller's weights, so that outliers count as unexplained. */
static void judge(const fit_t *self, plb_speeds_t *out)
{
    const plb_moved_t *in = self->in;
    double whole = 0.0, left = 0.0;
    for (int64_t o = 0; o < in->n; o++) {
        double sum = 0.0, y = 0.0, z = 0.0, yy = 0.0, zz = 0.0;
        /* differences from the first observation are small, so their squares lose few digits */
        const double origin = in->y[in->start[o]];
        for (int64_t k = in->start[o]; k < in->start[o + 1]; k++) {
            const double w = in->weight[k], a = in->y[k] - origin, b = a + self->s[in->rank[k]];
            sum += w;
            y += w * a;
            z += w * b;
            yy += w * a * a;
            zz += w * b * b;
        }
        sum = 1.0 / sum;
        whole += fmax(yy - y * y * sum, 0.0);
        left += fmax(zz - z * z * sum, 0.0);
    }
    int64_t free = in->m - in->n, fitted = -1;
    for (int32_t r = 0; r < self->p; r++) {
        fitted += is_linked(self, r);
    }
    out->error = INFINITY;
    if (whole > 0.0 && free > fitted) {
        out->explained = fmax(0.0, 1.0 - left / whole * (double)free / (double)(free - fitted));
        out->error = sqrt(left / (double)(free - fitted));
    }
}

static void hand_over(const fit_t *self, double sigma, double *log_speed, double *error)
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
        log_speed[r] = is_known ? self->s[r] - mean : 0.0;
        error[r] = is_known ? sigma / sqrt(self->diagonal[r]) : INFINITY;
    }
}

/* Fit weights and speeds in turn, until sigma converges.  Starts from s and sigma of an earlier
 * fit, whose first r . z was `first`; if sigma is 0, from s = 0.  Returns the first r . z. */
static double iterate(fit_t *self, double first, plb_speeds_t *out)
{
    double before;
    int round = 0;
    if (out->sigma > 0.0) {
        begin_from(self, out->sigma);
    }
    do {
        before = out->sigma;
        set_up(self, before);
        first = solve(self, ROUGHLY, first);
        out->sigma = find_sigma(self);
    } while (++round < ROUNDS && fabs(out->sigma - before) > SAME * out->sigma);
    solve(self, TOLERANCE, first);
    return first;
}

static int keep(const fit_t *self, double first, double sigma, plb_speeds_start_t *start,
                plb_err_t *err)
{
    int ret = PLB_OK;
    if (start->p != self->p) {
        plb_speeds_start_free(start);
        PLB_NEW(start->log_speed, self->p);
        start->p = self->p;
    }
    memcpy(start->log_speed, self->s, (size_t)self->p * sizeof *self->s);
    start->first = first;
    start->sigma = sigma;
out:
    return ret;
}

int plb_speeds_of_moved(const plb_moved_t *moved, int32_t p, plb_speeds_start_t *start,
                        double *log_speed, double *error, plb_speeds_t *out, plb_err_t *err)
{
    fit_t self = {0};
    double first = 0.0;
    int ret = fit_init(&self, moved, p, err);
    if (ret == PLB_OK) {
        *out = (plb_speeds_t){.moved = moved->n};
        if (start != NULL && start->first > 0.0 && moved->m >= LARGE) {
            const int32_t known = start->p < p ? start->p : p;
            memcpy(self.s, start->log_speed, (size_t)known * sizeof *self.s);
            first = start->first;
            out->sigma = start->sigma;
        }
        if (moved->n > 0) {
            first = iterate(&self, first, out);
        }
        judge(&self, out);
        hand_over(&self, fmax(out->sigma, out->error), log_speed, error);
        ret = start != NULL ? keep(&self, first, out->sigma, start, err) : PLB_OK;
    }
    fit_free(&self);
    return ret;
}

/* ---- a fit of all objects' observations ----------------------------------------------------- */

static bool has_moved(const int64_t *start, const int32_t *rank, int64_t o)
{
    for (int64_t k = start[o] + 1; k < start[o + 1]; k++) {
        if (rank[k] != rank[k - 1]) {
            return true;
        }
    }
    return false;
}

static void take_moved(plb_moved_t *out, int64_t n, const int64_t *start, const int32_t *rank,
                       const double *seconds, const double *weight)
{
    for (int64_t o = 0; o < n; o++) {
        if (!has_moved(start, rank, o)) {
            continue;
        }
        for (int64_t k = start[o]; k < start[o + 1]; k++, out->m++) {
            out->rank[out->m] = rank[k];
            out->y[out->m] = (float)log(seconds[k]);
            out->weight[out->m] = weight == NULL ? 1.0F : (float)weight[k];
        }
        out->start[++out->n] = out->m;
    }
}

static int check(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                 const double *weight, int32_t p, plb_err_t *err)
{
    for (int64_t k = 0; k < start[n]; k++) {
        PLB_FAIL_IF(rank[k] < 0 || rank[k] >= p, err, PLB_ERR_RANGE,
                    "rank[%lld] is %d: expected 0 ... %d", (long long)k, rank[k], p - 1);
        PLB_FAIL_IF(!(seconds[k] > 0.0 && isfinite(seconds[k])), err, PLB_ERR_VALUE,
                    "seconds[%lld] is %g: expected a finite number above 0", (long long)k,
                    seconds[k]);
        PLB_FAIL_IF(weight != NULL && !((float)weight[k] > 0.0F && weight[k] <= 1e9), err,
                    PLB_ERR_VALUE,
                    "weight[%lld] is %g: expected a number above 0 in single precision, and at "
                    "most 1e9",
                    (long long)k, weight[k]);
    }
    return PLB_OK;
}

double plb_speed_of(double log_speed)
{
    return fmin(fmax(exp(log_speed), 1e-30), 1e30);
}

int plb_speeds_fit(int64_t n, const int64_t *start, const int32_t *rank, const double *seconds,
                   const double *weight, int32_t p, double *speed, double *error,
                   plb_speeds_t *out, plb_err_t *err)
{
    plb_moved_t moved = {0};
    int ret = check(n, start, rank, seconds, weight, p, err);
    PLB_THEN(plb_moved_init(&moved, n, start[n], err));
    if (ret == PLB_OK) {
        take_moved(&moved, n, start, rank, seconds, weight);
        ret = plb_speeds_of_moved(&moved, p, NULL, speed, error, out, err);
    }
    for (int32_t r = 0; r < p && ret == PLB_OK; r++) {
        speed[r] = plb_speed_of(speed[r]);
    }
    plb_moved_free(&moved);
    return ret;
}
