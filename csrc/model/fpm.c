#include "model/machine.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/heap.h"
#include "base/ints.h"
#include "base/mem.h"

static const double SAME_TIME = 1e-9; /* smaller relative differences of times count as zero */
/* seconds; a shorter or longer time counts as this long */
static const double SHORTEST = 1e-9, LONGEST = 1e29;
static const double CHANGED = 1.25; /* noise rarely changes a speed by a larger factor than this */
static const double PAGING = 0.5;   /* at a lower fraction of its best speed, a processor pages */

/* Largest number of steps of find_line.  Newton's method needs about ten; bisection alone halves
 * the interval until no double is left inside it. */
enum { MOST_STEPS = 4000 };

/* Whether a number of rows or a speed is in its domain.  Beyond it, products of times and speeds
 * would overflow. */
static bool in_domain(double x)
{
    return x >= 1e-30 && x <= 1e30;
}

static int check_model(const plb_fpm_t *self, int32_t i, plb_err_t *err)
{
    double before = 0.0, rows = 0.0;
    PLB_FAIL_IF(self->start[i + 1] <= self->start[i], err, PLB_ERR_VALUE,
                "model of rank %d has no points: expected 1 or more", i);
    for (int64_t k = self->start[i]; k < self->start[i + 1]; k++) {
        const double d = self->rows[k], s = self->speed[k];
        PLB_FAIL_IF(!(d > rows && in_domain(d) && in_domain(s)), err, PLB_ERR_VALUE,
                    "model of rank %d, point %lld: %g rows at speed %g, expected 1e-30 ... 1e30 "
                    "for both, and more rows than the point before (%g)",
                    i, (long long)(k - self->start[i]), d, s, rows);
        PLB_FAIL_IF(!(d / s > before * (1.0 + SAME_TIME)), err, PLB_ERR_VALUE,
                    "model of rank %d, point %lld: %g rows take %g s, but fewer rows "
                    "take %g s, expected times that rise with the rows",
                    i, (long long)(k - self->start[i]), d, d / s, before);
        before = d / s;
        rows = d;
    }
    return PLB_OK;
}

int plb_fpm_check(const plb_fpm_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int32_t i = 0; i < self->p && ret == PLB_OK; i++) {
        ret = check_model(self, i, err);
    }
    return ret;
}

/* Return the first i in begin ... end - 1 with x[i] >= value, or `end`; x ascends. */
static int64_t lower_bound(const double *x, int64_t begin, int64_t end, double value)
{
    PLB_BISECT(begin, end, k, !(x[k] < value))
    return begin;
}

static double seconds_of(const plb_fpm_t *self, int32_t i, double rows)
{
    const double *x = self->rows, *s = self->speed;
    const int64_t begin = self->start[i], end = self->start[i + 1];
    const int64_t k = lower_bound(x, begin, end, rows);
    double speed = k == begin ? s[begin] : s[end - 1];
    if (k > begin && k < end) {
        speed = s[k - 1] + (rows - x[k - 1]) / (x[k] - x[k - 1]) * (s[k] - s[k - 1]);
    }
    return rows / speed;
}

void plb_fpm_times(const plb_fpm_t *self, const double *rows, double *seconds)
{
    for (int32_t i = 0; i < self->p; i++) {
        seconds[i] = seconds_of(self, i, rows[i]);
    }
}

/* ---- models built online -------------------------------------------------------------------- */

/* Drop the inner point whose speed is closest (by the relative difference) to the line between its
 * neighbours, but never the point `keep`.  Return the new number of points. */
static int64_t drop_least_telling(double *x, double *s, int64_t n, int64_t keep)
{
    int64_t least = -1;
    double smallest = INFINITY;
    for (int64_t k = 1; k + 1 < n; k++) {
        const double at = (x[k] - x[k - 1]) / (x[k + 1] - x[k - 1]);
        const double miss = fabs(s[k - 1] + at * (s[k + 1] - s[k - 1]) - s[k]) / s[k];
        if (k != keep && miss < smallest) {
            smallest = miss;
            least = k;
        }
    }
    memmove(x + least, x + least + 1, (size_t)(n - least - 1) * sizeof *x);
    memmove(s + least, s + least + 1, (size_t)(n - least - 1) * sizeof *s);
    return n - 1;
}

/* Return the factor by which the processor's speed has changed (e.g. by a power cap or another
 * program) since the same number of rows was measured; 1 if it was never measured, if noise can
 * explain the change, or if the processor paged (then its times vary). */
static double change_of(const double *x, const double *s, int64_t n, double d, double seconds)
{
    const int64_t k = lower_bound(x, 0, n, d);
    double ratio = 1.0;
    if (k < n && x[k] == d) {
        double best = 0.0;
        for (int64_t i = 0; i < n; i++) {
            best = fmax(best, s[i]);
        }
        ratio = s[k] >= PAGING * best ? d / seconds / s[k] : 1.0;
    }
    return ratio > CHANGED || ratio < 1.0 / CHANGED ? ratio : 1.0;
}

/* Merge n points (x, s) and a measurement of d rows in `seconds`; return the number of points. */
static int64_t add_point(const double *x, const double *s, int64_t n, double d, double seconds,
                         double *out_x, double *out_s)
{
    int64_t m = 0, at = -1;
    const double change = change_of(x, s, n, d, seconds);
    for (int64_t k = 0; k <= n; k++) {
        if (at < 0 && (k == n || x[k] >= d)) {
            at = m;
            out_x[m] = d;
            out_s[m++] = d / seconds;
        }
        if (k == n) {
            break;
        }
        const double speed = s[k] * change, t = x[k] / speed;
        if (in_domain(speed) && (x[k] < d ? t * (1.0 + 2.0 * SAME_TIME) < seconds
                                          : x[k] > d && t > seconds * (1.0 + 2.0 * SAME_TIME))) {
            out_x[m] = x[k];
            out_s[m++] = speed;
        }
    }
    return m > PLB_FPM_MOST ? drop_least_telling(out_x, out_s, m, at) : m;
}

void plb_fpm_update(const plb_fpm_t *self, const int64_t *rows, const double *seconds,
                    int64_t *start, double *out_rows, double *out_speed)
{
    start[0] = 0;
    for (int32_t i = 0; i < self->p; i++) {
        const double *x = self->rows + self->start[i], *s = self->speed + self->start[i];
        const int64_t n = self->start[i + 1] - self->start[i], at = start[i];
        int64_t m = n;
        if (rows[i] > 0) {
            const double time = fmin(fmax(seconds[i], SHORTEST), LONGEST);
            m = add_point(x, s, n, (double)rows[i], time, out_rows + at, out_speed + at);
        } else {
            memcpy(out_rows + at, x, (size_t)n * sizeof *x);
            memcpy(out_speed + at, s, (size_t)n * sizeof *s);
        }
        start[i + 1] = at + m;
    }
}

/* ---- lines through the origin: points of equal time ----------------------------------------- */

typedef struct lines {
    const plb_fpm_t *in;
    double *time; /* seconds at each point */
    int64_t *at;  /* [p] what reach() last returned for each model; its next search starts there */
} lines_t;

static int lines_init(lines_t *self, const plb_fpm_t *in, plb_err_t *err)
{
    const int64_t points = in->start[in->p];
    *self = (lines_t){.in = in};
    PLB_PASS_NEW(self->time, points);
    PLB_PASS_NEW(self->at, in->p);
    for (int64_t k = 0; k < points; k++) {
        self->time[k] = in->rows[k] / in->speed[k];
    }
    memcpy(self->at, in->start, (size_t)in->p * sizeof *self->at);
    return PLB_OK;
}

static void lines_free(lines_t *self)
{
    PLB_FREE(self->time, self->at);
}

/* Return the first point of model i that takes `seconds` or more, or the end of the model. */
static int64_t reach(lines_t *self, int32_t i, double seconds)
{
    const int64_t begin = self->in->start[i], end = self->in->start[i + 1], k = self->at[i];
    if ((k == begin || self->time[k - 1] < seconds) && (k == end || self->time[k] >= seconds)) {
        return k;
    }
    const bool behind = k < end && self->time[k] < seconds;
    self->at[i] = lower_bound(self->time, behind ? k : begin, behind ? end : k, seconds);
    return self->at[i];
}

/* Return the rows at which the line of `seconds` (with slope 1/seconds) meets model i; *rate:
 * derivative of these rows with respect to `seconds`. */
static double meet(lines_t *self, int32_t i, double seconds, double *rate)
{
    const double *x = self->in->rows, *s = self->in->speed;
    const int64_t begin = self->in->start[i], end = self->in->start[i + 1];
    const int64_t k = reach(self, i, seconds);
    if (k == begin || k == end) {
        *rate = s[k == begin ? begin : end - 1];
        return *rate * seconds;
    }
    /* On this piece x = x1 + q dx and s = s1 + q ds; x = s * seconds gives q.  fmin and fmax keep
     * the result on the piece despite rounding errors. */
    const double x1 = x[k - 1], dx = x[k] - x1, s1 = s[k - 1], ds = s[k] - s1;
    const double below = dx - seconds * ds; /* > 0, because the time rises along the piece */
    *rate = dx * (s1 * dx - x1 * ds) / (below * below);
    return fmin(fmax(x1 + (seconds * s1 - x1) / below * dx, x1), x[k]);
}

static double meet_all(lines_t *self, double seconds, double *rate)
{
    double rows = 0.0;
    *rate = 0.0;
    for (int32_t i = 0; i < self->in->p; i++) {
        double mine;
        rows += meet(self, i, seconds, &mine);
        *rate += mine;
    }
    return rows;
}

/* Return the seconds of the line at which the rows of all models add up to n, to within a quarter
 * of a row; *upper is the same.  If no double is close enough (times hardly rise with the rows),
 * return the last line with fewer rows, and set *upper to the next line.  Uses Newton's method; if
 * a step leaves the interval or hardly shortens it, Lastovetsky and Reddy's bisection. */
static double find_line(lines_t *self, double n, double *upper)
{
    double low = 0.0, high = INFINITY, rate;
    meet_all(self, 0.0, &rate);
    double seconds = n / rate;
    for (int step = 0; step < MOST_STEPS; step++) {
        const double miss = meet_all(self, seconds, &rate) - n, width = high - low;
        if (fabs(miss) <= 0.25) {
            *upper = seconds;
            return seconds;
        }
        if (miss > 0.0) {
            high = seconds;
        } else {
            low = seconds;
        }
        const double next = seconds - miss / rate;
        if (isinf(high)) {
            seconds = fmax(next, 2.0 * seconds);
        } else if (next > low && next < high && high - low < 0.75 * width) {
            seconds = next;
        } else {
            const double middle = 0.5 * (low + high);
            if (!(middle > low && middle < high)) {
                break;
            }
            seconds = middle;
        }
    }
    *upper = high;
    return low;
}

/* Divide n rows: each part lies between the model's rows at the lower line and at the upper line,
 * all at the same fraction of the way, and is rounded down.  Return how many rows remain. */
static int64_t parts_between(lines_t *self, double lower, double upper, int64_t n, int64_t *part)
{
    double rate, at = 0.0;
    int64_t left = n;
    if (lower < upper) {
        const double low = meet_all(self, lower, &rate), high = meet_all(self, upper, &rate);
        at = ((double)n - low) / (high - low);
    }
    for (int32_t i = 0; i < self->in->p; i++) {
        const double low = meet(self, i, lower, &rate);
        const double high = lower < upper ? meet(self, i, upper, &rate) : low;
        part[i] = (int64_t)(low + at * (high - low));
        left -= part[i];
    }
    for (int32_t i = 0; left < 0; i++) { /* rounding errors: the parts have too many rows */
        const int64_t back = part[i] < -left ? part[i] : -left;
        part[i] -= back;
        left += back;
    }
    return left;
}

/* Give each remaining row to the processor that would finish it first. */
static int hand_out(const plb_fpm_t *self, int64_t left, int64_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_heap_t heap = {0};
    if (left <= 0) {
        return ret;
    }
    PLB_NEW(heap.item, self->p);
    for (int32_t i = 0; i < self->p; i++) {
        heap.item[heap.n++] = (plb_item_t){seconds_of(self, i, (double)(part[i] + 1)), i};
    }
    plb_heap_build(&heap);
    for (; left > 0; left--) {
        const int32_t i = heap.item[0].id;
        part[i]++;
        plb_heap_rekey(&heap, seconds_of(self, i, (double)(part[i] + 1)));
    }
out:
    plb_free(heap.item);
    return ret;
}

int plb_fpm_split(const plb_fpm_t *self, int64_t n, int64_t *part, double *seconds, plb_err_t *err)
{
    double upper = 0.0;
    lines_t lines;
    PLB_FAIL_IF(n < 0 || n > PLB_FPM_MOST_ROWS, err, PLB_ERR_VALUE,
                "n is %lld: expected 0 ... %lld rows", (long long)n, PLB_FPM_MOST_ROWS);
    int ret = lines_init(&lines, self, err);
    if (ret == PLB_OK) {
        *seconds = n > 0 ? find_line(&lines, (double)n, &upper) : 0.0;
        ret = hand_out(self, parts_between(&lines, *seconds, upper, n, part), part, err);
    }
    lines_free(&lines);
    return ret;
}
