#include "measure/evidence.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static const double MOST = 3.0;    /* largest gain of one observation, or of one interval */
static const double FREEDOM = 3.0; /* degrees of freedom of Student's t */
static const double FLOOR = 0.02;  /* smaller changes of a log time count as none */
/* More objects than this do not make a mean more exact, because they change together. */
static const double ENOUGH = 4.0;
/* Each rank's control group also contains the average over all ranks, with the weight of this many
 * objects. */
static const double PRIOR = 4.0;
static const double FEW = 4.0; /* more objects than this must share the change of moved objects */

/* The rivals, in the order of evidence.h. */
enum { STAY, STILL, AGAIN, UNDONE, TREND };
enum { SPEEDS, RIVALS = PLB_EVIDENCE_RIVALS, PREDICTIONS = 1 + RIVALS };

/* Sums over the objects that have left a rank, or over those that have come to it. */
struct plb_evidence_side {
    double n, noise;          /* number of objects; sum of their noise (mean squares of changes) */
    double miss[PREDICTIONS]; /* sum of the errors of each prediction */
    double square[PREDICTIONS]; /* sum of the squared errors of each prediction */
};

int plb_evidence_init(plb_evidence_t *self, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_evidence_t){.p = p};
    PLB_NEW(self->spread, p);
    PLB_NEW(self->stayed, p);
    PLB_NEW(self->side, 2 * (int64_t)p);
out:
    if (ret != PLB_OK) {
        plb_evidence_free(self);
    }
    return ret;
}

void plb_evidence_free(plb_evidence_t *self)
{
    plb_free(self->spread);
    plb_free(self->stayed);
    plb_free(self->side);
    *self = (plb_evidence_t){0};
}

/* The control group: how much the changes of the objects that stayed on their rank differ from the
 * growth shift[] that is expected on this rank. */
static void add_stayed(plb_evidence_t *self, const plb_interval_t *in)
{
    double all = 0.0;
    int64_t n = 0, i = 0;
    for (int32_t r = 0; r < self->p; r++) {
        self->spread[r] = 0.0;
        self->stayed[r] = 0;
    }
    for (int64_t j = 0; j < in->now->n; j++) {
        i = plb_timings_find(in->last, i, in->now->key[j]);
        const int32_t r = in->now->rank[j];
        if (i < in->last->n && in->last->key[i] == in->now->key[j] && in->last->rank[i] == r) {
            const double off = (double)in->now->y[j] - in->last->y[i] - in->shift[r];
            self->spread[r] += off * off;
            self->stayed[r]++;
        }
    }
    for (int32_t r = 0; r < self->p; r++) {
        all += self->spread[r];
        n += self->stayed[r];
    }
    all /= n > 0 ? (double)n : 1.0;
    for (int32_t r = 0; r < self->p; r++) {
        self->spread[r] = (self->spread[r] + PRIOR * all) / ((double)self->stayed[r] + PRIOR);
    }
}

static void add(plb_evidence_side_t *self, const double *miss, double noise)
{
    self->n += 1.0;
    self->noise += noise;
    for (int k = 0; k < PREDICTIONS; k++) {
        self->miss[k] += miss[k];
        self->square[k] += miss[k] * miss[k];
    }
}

/* Change of an object's log time from the placement `then` to y, its log time in `last`; 0 if the
 * object is not in `then`, or if `then` is NULL. */
static double change_since(const plb_timings_t *then, int64_t *at, int64_t key, double y)
{
    if (then == NULL) {
        return 0.0;
    }
    *at = plb_timings_find(then, *at, key);
    return *at < then->n && then->key[*at] == key ? y - (double)then->y[*at] : 0.0;
}

static void add_moved(plb_evidence_t *self, const plb_interval_t *in)
{
    const plb_timings_t *last = in->last, *now = in->now;
    int64_t i = 0, at_before = 0, at_oldest = 0;
    memset(self->side, 0, 2 * (size_t)self->p * sizeof *self->side);
    for (int64_t j = 0; j < now->n; j++) {
        i = plb_timings_find(last, i, now->key[j]);
        if (i == last->n || last->key[i] != now->key[j] || last->rank[i] == now->rank[j]) {
            continue;
        }
        const int32_t a = last->rank[i], b = now->rank[j];
        if (!isfinite(in->error[a]) || !isfinite(in->error[b])) {
            continue;
        }
        const int64_t key = now->key[j];
        const double y = (double)last->y[i], change = (double)now->y[j] - y - in->shift[b];
        const double whole = change + in->now->usual;
        const double again = change_since(in->before, &at_before, key, y);
        const double trend = change_since(in->oldest, &at_oldest, key, y) / in->intervals;
        const double miss[PREDICTIONS] = {change - (in->log_speed[a] - in->log_speed[b]),
                                          change,
                                          whole,
                                          whole - again,
                                          whole + again,
                                          whole - trend};
        const double noise = fmax(self->spread[a], self->spread[b]);
        add(&self->side[a], miss, noise);
        add(&self->side[self->p + b], miss, noise);
    }
}

static double clip(double x)
{
    return fmax(-MOST, fmin(x, MOST));
}

/* Add to gain[RIVALS] how much better the speeds predict than each rival (evidence.h). */
static void gains_of(const plb_evidence_side_t *side, int32_t p, double *gain)
{
    for (int32_t r = 0; r < p; r++) {
        const plb_evidence_side_t *of = &side[r];
        if (of->n == 0.0) {
            continue;
        }
        const double mean = of->miss[SPEEDS] / of->n, square = of->square[SPEEDS] / of->n;
        const double own = fmax(square - mean * mean, 0.0);
        const double noise =
            FREEDOM * (fmax(of->noise / of->n, own) / fmin(of->n, ENOUGH) + FLOOR * FLOOR);
        for (int k = 0; k < RIVALS; k++) {
            const double off = of->miss[1 + k] / of->n, by_mean = off * off;
            const double by_object = fmax(mean * mean + of->square[1 + k] / of->n - square, 0.0);
            const double other = k == UNDONE               ? by_object
                                 : k == STAY || k == STILL ? fmin(by_mean, by_object)
                                                           : by_mean;
            gain[k] += clip(0.5 * FREEDOM * log((noise + other) / (noise + mean * mean)));
        }
    }
}

void plb_evidence_test(plb_evidence_t *self, const plb_interval_t *in)
{
    double left[RIVALS] = {0}, came[RIVALS] = {0};
    bool any = false;
    add_stayed(self, in);
    add_moved(self, in);
    for (int32_t r = 0; r < self->p; r++) {
        any = any || self->side[r].n > 0.0;
    }
    if (!any) {
        return;
    }
    gains_of(self->side, self->p, left);
    gains_of(self->side + self->p, self->p, came);
    double *gain = self->gain[self->n++ % PLB_EVIDENCE_INTERVALS];
    for (int k = 0; k < RIVALS; k++) {
        gain[k] = clip(fmin(left[k], came[k]));
    }
}

/* An object that is in two successive placements. */
typedef struct step {
    int64_t at;    /* index of the object in `last` */
    int32_t a, b;  /* its ranks in the two placements */
    double change; /* change of the logarithm of its time, minus the usual change */
} step_t;

/* Find the next object in both placements, from index *j of `now` on; false: there is none. */
static bool next_step(const plb_interval_t *in, int64_t *j, step_t *out)
{
    const plb_timings_t *last = in->last, *now = in->now;
    for (; *j < now->n; ++*j) {
        out->at = plb_timings_find(last, out->at, now->key[*j]);
        if (out->at < last->n && last->key[out->at] == now->key[*j]) {
            out->a = last->rank[out->at];
            out->b = now->rank[*j];
            out->change = (double)now->y[*j] - last->y[out->at] - now->usual;
            ++*j;
            return true;
        }
    }
    return false;
}

/* The part of a change that speeds fitted without this object would leave unexplained.  Assumes
 * that each of m objects that left a rank or came to it has the share 1 / m in that rank's fit. */
static double left_out(const plb_evidence_t *self, const plb_interval_t *in, const step_t *step)
{
    const double owed = 1.0 / (double)self->stayed[step->a] + 1.0 / (double)self->stayed[step->b];
    const double left = step->change - (in->log_speed[step->a] - in->log_speed[step->b]);
    return owed < 1.0 ? left / (1.0 - owed) : step->change;
}

/* Whether the object has moved between ranks that have not changed (their numbers are below p). */
static bool has_moved(const plb_evidence_t *self, const step_t *step)
{
    return step->a != step->b && step->a < self->p && step->b < self->p;
}

double plb_evidence_explained(plb_evidence_t *self, const plb_interval_t *in)
{
    double was = 0.0, squares = 0.0, left = 0.0;
    step_t step = {0};
    /* here stayed[r] counts the objects that have left rank r or come to it */
    memset(self->stayed, 0, (size_t)self->p * sizeof *self->stayed);
    for (int64_t j = 0; next_step(in, &j, &step);) {
        if (has_moved(self, &step)) {
            self->stayed[step.a]++;
            self->stayed[step.b]++;
        }
    }
    step = (step_t){0};
    for (int64_t j = 0; next_step(in, &j, &step);) {
        const bool moved = has_moved(self, &step);
        const double e = moved ? left_out(self, in, &step) : step.change;
        const double size = moved ? step.change * step.change : 0.0;
        left += e * e;
        was += size;
        squares += size * size;
    }
    /* was^2 / squares is the effective number of objects that share the change. */
    return was * was > FEW * squares ? 1.0 - left / was : 0.0;
}

double plb_evidence_total(const plb_evidence_t *self)
{
    double least = INFINITY;
    for (int k = 0; k < RIVALS; k++) {
        double sum = 0.0;
        for (int64_t j = 0; j < self->n && j < PLB_EVIDENCE_INTERVALS; j++) {
            sum += self->gain[j][k];
        }
        least = fmin(least, sum);
    }
    return least;
}

void plb_evidence_forgive(plb_evidence_t *self)
{
    if (plb_evidence_total(self) < 0.0) {
        self->n = 0;
    }
}
