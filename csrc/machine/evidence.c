#include "machine/evidence.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static const double MOST = 3.0;    /* that an observation, and an interval, counts for */
static const double FREEDOM = 3.0; /* of Student's t */
static const double FLOOR = 0.02;  /* a change below is not worth a gain */
static const double ENOUGH = 4.0; /* objects make a mean as good as it may be: shocks are common */
static const double PRIOR = 4.0; /* objects of the mean rank that each rank's control is made of */

enum { LEAST = 3 }; /* objects that moved, more than ranks are linked by them */

enum { SPEEDS, RIVALS = PLB_EVIDENCE_RIVALS, PREDICTIONS = 1 + RIVALS };

/* Sums over the objects that have left a rank, or come to one. */
struct plb_evidence_side {
    double n, noise, square;
    double miss[PREDICTIONS]; /* what each prediction was off by; `square` is that of the speeds */
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

/* The control group: what stayed, around what the rank as a whole has changed by. */
static void look_at_stayed(plb_evidence_t *self, const plb_interval_t *in)
{
    double all = 0.0;
    int64_t n = 0, i = 0;
    for (int32_t r = 0; r < self->p; r++) {
        self->spread[r] = 0.0;
        self->stayed[r] = 0;
    }
    for (int64_t j = 0; j < in->now->n; j++) {
        i = plb_placement_find(in->last, i, in->now->key[j]);
        const int32_t r = in->now->who[j];
        if (i < in->last->n && in->last->key[i] == in->now->key[j] && in->last->who[i] == r) {
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
    self->square += miss[SPEEDS] * miss[SPEEDS];
    for (int k = 0; k < PREDICTIONS; k++) {
        self->miss[k] += miss[k];
    }
}

/* By how much an object's time has changed up to `last` since then; 0 where it was not there. */
static double change_since(const plb_placement_t *then, int64_t *at, int64_t key, double y)
{
    if (then == NULL) {
        return 0.0;
    }
    *at = plb_placement_find(then, *at, key);
    return *at < then->n && then->key[*at] == key ? y - (double)then->y[*at] : 0.0;
}

static void look_at_moved(plb_evidence_t *self, const plb_interval_t *in)
{
    const plb_placement_t *last = in->last, *now = in->now;
    int64_t i = 0, at_before = 0, at_oldest = 0;
    memset(self->side, 0, 2 * (size_t)self->p * sizeof *self->side);
    for (int64_t j = 0; j < now->n; j++) {
        i = plb_placement_find(last, i, now->key[j]);
        if (i == last->n || last->key[i] != now->key[j] || last->who[i] == now->who[j]) {
            continue;
        }
        const int32_t a = last->who[i], b = now->who[j];
        if (!isfinite(in->error[a]) || !isfinite(in->error[b])) {
            continue;
        }
        const int64_t key = now->key[j];
        const double y = (double)last->y[i], change = (double)now->y[j] - y - in->shift[b];
        double again = change_since(in->before, &at_before, key, y);
        double trend = change_since(in->oldest, &at_oldest, key, y);
        again -= again != 0.0 ? in->usual_before : 0.0;
        trend = trend != 0.0 ? trend / in->intervals - in->usual_trend : 0.0;
        const double miss[PREDICTIONS] = {change - (in->log_speed[a] - in->log_speed[b]), change,
                                          change - again, change + again, change - trend};
        const double noise = fmax(self->spread[a], self->spread[b]);
        add(&self->side[a], miss, noise);
        add(&self->side[self->p + b], miss, noise);
    }
}

static double clip(double x)
{
    return fmax(-MOST, fmin(x, MOST));
}

/* Of p ranks' sums: what the speeds gain over each rival. */
static void gains_of(const plb_evidence_side_t *side, int32_t p, double *gain)
{
    for (int32_t r = 0; r < p; r++) {
        const plb_evidence_side_t *of = &side[r];
        if (of->n == 0.0) {
            continue;
        }
        const double mean = of->miss[SPEEDS] / of->n;
        const double own = fmax(of->square / of->n - mean * mean, 0.0);
        const double noise = fmax(of->noise / of->n, own) / fmin(of->n, ENOUGH) + FLOOR * FLOOR;
        const double left = 1.0 + mean * mean / (FREEDOM * noise);
        for (int k = 0; k < RIVALS; k++) {
            const double other = of->miss[1 + k] / of->n;
            gain[k] += clip(0.5 * FREEDOM * log((1.0 + other * other / (FREEDOM * noise)) / left));
        }
    }
}

void plb_evidence_test(plb_evidence_t *self, const plb_interval_t *in)
{
    double left[RIVALS] = {0}, came[RIVALS] = {0};
    bool any = false;
    look_at_stayed(self, in);
    look_at_moved(self, in);
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

/* Objects that moved between ranks of known speed, or stayed on one of any; their squares. */
typedef struct all_changes {
    int64_t moved, linked;
    double was, left, stayed;
} all_changes_t;

/* What an object has changed by, going from rank a to rank b. */
static void account_for(all_changes_t *all, const plb_interval_t *in, int32_t a, int32_t b,
                        double change)
{
    const double left = change - (in->log_speed[a] - in->log_speed[b]);
    if (a == b) {
        all->stayed += change * change;
    } else {
        all->moved++;
        all->was += change * change;
        all->left += left * left;
    }
}

double plb_evidence_explained(plb_evidence_t *self, const plb_interval_t *in)
{
    all_changes_t all = {0};
    int64_t i = 0;
    memset(self->stayed, 0,
           (size_t)self->p * sizeof *self->stayed); /* here: ranks that are linked */
    for (int64_t j = 0; j < in->now->n; j++) {
        i = plb_placement_find(in->last, i, in->now->key[j]);
        if (i == in->last->n || in->last->key[i] != in->now->key[j]) {
            continue;
        }
        const int32_t a = in->last->who[i], b = in->now->who[j];
        if (a >= self->p || b >= self->p) {
            return 0.0; /* a rank has changed too */
        }
        account_for(&all, in, a, b, (double)in->now->y[j] - in->last->y[i] - in->shift[b]);
        self->stayed[a] |= a != b;
        self->stayed[b] |= a != b;
    }
    for (int32_t r = 0; r < self->p; r++) {
        all.linked += self->stayed[r];
    }
    if (all.moved < all.linked + LEAST || all.was == 0.0) {
        return 0.0;
    }
    const double lost = (double)all.moved / (double)(all.moved - all.linked + 1);
    return 1.0 - (all.left * lost + all.stayed) / all.was;
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
