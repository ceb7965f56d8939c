#include "machine/learner.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/quantile.h"

static const double AGEING = 0.7; /* weight of a placement against that of the next one */
static const double PRIOR = 0.25; /* weight of the user's own work estimate, in observations */

/* When a rank is said to have changed: the median of its objects that stayed takes so much longer
 * or shorter, LEAST of them, by ERRORS of its own, and they do alike: but for the noise, four in
 * five within half of that.  Objects that have grown do so each by its own. */
static const double CHANGED = 0.09531017980432493; /* log 1.1 */
static const double CHANGED_ALIKE = 0.5;
static const double NOISE = 2.56 * 1.4142135623730951; /* deciles of a difference of two, in sigma
                                                        */
enum { LEAST = 4 };

/* When ranks are said to be unlike: the speeds account for a part of what changed as objects moved
 * (for it to remain so: a smaller one), one is off by more than a twentieth, and the squares of
 * all, in their errors, add up to more than chance allows, by ERRORS of that sum's deviations. */
static const double EXPLAINED = 0.08, STILL = 0.03, ERRORS = 4.0, UNLIKE = 0.05;

static const double WARY = 1.5; /* times what ranks were seen to be unsteady by, as that is of few
                                 */
static const double BETTER = 0.05; /* by how much work that changes must explain more */

enum {
    DOUBTS = 2, /* fits in a row that show no sign of it, until they are said to be alike again */
    FEW = 50,   /* one object in so many must have moved, or nothing new is learned */
    MOST = PLB_LEARNER_PLACEMENTS,
};

/* ---- ranks that change ---------------------------------------------------------------------- */

/* By what the objects that stayed on a rank have changed: m of them, quantiles. */
typedef struct change {
    int32_t rank;
    int64_t m;
    double low, middle, high;
} change_t;

/* What stayed where it was: log of how much longer it takes, by rank; begin[p+1]. */
static void find_shifts(const plb_learner_t *self, const plb_placement_t *last,
                        const plb_placement_t *now, int64_t *begin, double *shift)
{
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        for (int64_t i = 0, j = 0; i < last->n && j < now->n;) {
            if (last->key[i] != now->key[j]) {
                last->key[i] < now->key[j] ? i++ : j++;
                continue;
            }
            const int32_t r = now->who[j];
            if (last->who[i] == r) {
                const double by = (double)now->y[j] - last->y[i];
                if (pass == 0) {
                    begin[r + 1]++;
                } else {
                    shift[begin[r]++] = by;
                }
            }
            i++, j++;
        }
        if (pass == 0) {
            for (int32_t r = 0; r < self->p; r++) {
                begin[r + 1] += begin[r];
            }
        }
    }
    memmove(begin + 1, begin, (size_t)self->p * sizeof *begin);
    begin[0] = 0;
}

static int32_t quantiles(const plb_learner_t *self, const int64_t *begin, double *shift,
                         change_t *out)
{
    int32_t n = 0;
    for (int32_t r = 0; r < self->p; r++) {
        const int64_t m = begin[r + 1] - begin[r];
        double *mine = shift + begin[r];
        if (m > 0) {
            const double last = (double)(m - 1);
            out[n++] = (change_t){.rank = r,
                                  .m = m,
                                  .low = plb_nth(mine, m, (int64_t)rint(0.1 * last)),
                                  .middle = plb_nth(mine, m, (int64_t)rint(0.5 * last)),
                                  .high = plb_nth(mine, m, (int64_t)rint(0.9 * last))};
        }
    }
    return n;
}

static bool has_changed(const plb_learner_t *self, const change_t *of, double by)
{
    const double width = of->high - of->low;
    const bool alike = width < CHANGED_ALIKE * by + NOISE * self->fit.sigma;
    const bool sure = by > fmax(CHANGED, ERRORS * 0.5 * width / sqrt((double)of->m));
    return alike && sure && of->m >= LEAST;
}

/* What was seen of some ranks was seen of others, that they were then. */
static void begin_anew(plb_learner_t *self, const int32_t *past_of)
{
    for (int32_t j = 0; j < self->n_seen; j++) {
        int32_t *who = self->seen[j].who;
        for (int64_t i = 0; i < self->seen[j].n; i++) {
            if (who[i] < self->p && past_of[who[i]] >= 0) {
                who[i] = past_of[who[i]];
            }
        }
    }
}

/* Ranks whose objects stayed and changed alike are others from now on. */
static int follow_changes(plb_learner_t *self, const plb_placement_t *now, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *begin = NULL;
    double *shift = NULL, *middle = NULL;
    change_t *change = NULL;
    int32_t *past_of = NULL, before = self->n_past;
    const plb_placement_t *last = self->n_seen > 0 ? &self->seen[self->n_seen - 1] : NULL;
    if (last == NULL) {
        return ret;
    }
    PLB_NEW0(begin, self->p + 1);
    PLB_NEW(shift, now->n);
    PLB_NEW(middle, self->p);
    PLB_NEW(change, self->p);
    PLB_NEW(past_of, self->p);
    find_shifts(self, last, now, begin, shift);
    const int32_t n = quantiles(self, begin, shift, change);
    for (int32_t i = 0; i < n; i++) {
        middle[i] = change[i].middle;
    }
    const double all = n > 2 ? plb_median(middle, n) : 0.0; /* what the program as a whole does */
    memset(past_of, -1, (size_t)self->p * sizeof *past_of);
    for (int32_t i = 0; i < n; i++) {
        const double by = fabs(change[i].middle - all);
        self->shift[self->n_shifts++ % ((int64_t)MOST * self->p)] = by;
        if (has_changed(self, &change[i], by)) {
            past_of[change[i].rank] = self->p + self->n_past++;
        }
    }
    if (self->n_past > before) {
        begin_anew(self, past_of);
    }
out:
    plb_free(begin);
    plb_free(shift);
    plb_free(middle);
    plb_free(change);
    plb_free(past_of);
    return ret;
}

/* Ranks as they were that no placement knows any more are forgotten. */
static int forget_past(plb_learner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *number = NULL, n = 0;
    if (self->n_past == 0) {
        return ret;
    }
    PLB_NEW0(number, self->n_past);
    for (int pass = 0; pass < 2; pass++) { /* who is there, then their new numbers */
        for (int32_t j = 0; j < self->n_seen; j++) {
            int32_t *who = self->seen[j].who;
            for (int64_t i = 0; i < self->seen[j].n; i++) {
                if (who[i] >= self->p && pass == 0) {
                    number[who[i] - self->p] = 1;
                } else if (who[i] >= self->p) {
                    who[i] = self->p + number[who[i] - self->p];
                }
            }
        }
        for (int32_t i = 0; i < self->n_past && pass == 0; i++) {
            number[i] = number[i] ? n++ : -1;
        }
    }
    self->n_past = n;
out:
    plb_free(number);
    return ret;
}

static int remember(plb_learner_t *self, plb_placement_t *now, plb_err_t *err)
{
    int32_t n = self->n_seen;
    if (n > 0 && plb_placement_same(&self->seen[n - 1], now)) {
        plb_placement_free(
            &self->seen[--n]); /* no news of the speeds: what is older is not forgotten */
    }
    if (n == MOST) {
        plb_placement_free(&self->seen[0]);
        memmove(self->seen, self->seen + 1, (size_t)--n * sizeof *self->seen);
    }
    self->seen[n++] = *now;
    *now = (plb_placement_t){0};
    self->n_seen = n;
    return forget_past(self, err);
}

/* ---- the fit -------------------------------------------------------------------------------- */

/* What is known of one object: the placements that it was in, the oldest first. */
typedef struct history {
    int32_t n;
    int32_t placement[MOST + 1], who[MOST + 1];
    float y[MOST + 1], weight[MOST + 1];
} history_t;

static void add_group(plb_moved_t *out, const history_t *from, int32_t first, int32_t n)
{
    bool moved = false;
    for (int32_t i = first + 1; i < first + n; i++) {
        moved = moved || from->who[i] != from->who[i - 1];
    }
    if (!moved) {
        return;
    }
    memcpy(out->rank + out->m, from->who + first, (size_t)n * sizeof *out->rank);
    memcpy(out->y + out->m, from->y + first, (size_t)n * sizeof *out->y);
    memcpy(out->weight + out->m, from->weight + first, (size_t)n * sizeof *out->weight);
    out->m += n;
    out->start[++out->n] = out->m;
}

/* For work that drifts: an object under two placements, one behind the other. */
static void add_pairs(plb_moved_t *out, const history_t *from)
{
    for (int32_t i = 0; i + 1 < from->n; i++) {
        if (from->placement[i + 1] == from->placement[i] + 1) {
            add_group(out, from, i, 2);
        }
    }
}

/* Object after object: its history to both models. */
static void gather(const plb_learner_t *self, const plb_placement_t *user, plb_moved_t *steady,
                   plb_moved_t *drifting)
{
    const int32_t n = self->n_seen;
    const plb_placement_t *of[MOST + 1];
    int64_t at[MOST + 1] = {0};
    float age[MOST + 1];
    for (int32_t j = 0; j < n; j++) {
        of[j] = &self->seen[j];
        age[j] = (float)pow(AGEING, n - 1 - j);
    }
    of[n] = user;
    age[n] = (float)PRIOR;
    for (;;) {
        int64_t key = INT64_MAX;
        bool any = false;
        for (int32_t j = 0; j <= n; j++) {
            if (at[j] < of[j]->n) {
                key = of[j]->key[at[j]] < key ? of[j]->key[at[j]] : key;
                any = true;
            }
        }
        if (!any) {
            return;
        }
        history_t object;
        object.n = 0;
        for (int32_t j = 0; j <= n; j++) {
            if (at[j] < of[j]->n && of[j]->key[at[j]] == key) {
                const int64_t i = at[j]++;
                object.placement[object.n] = j;
                object.who[object.n] = j < n ? of[j]->who[i] : self->p + self->n_past;
                object.y[object.n] = of[j]->y[i];
                object.weight[object.n++] = of[j]->weight[i] * age[j];
            }
        }
        add_group(steady, &object, 0, object.n);
        object.n -= object.n > 0 && object.placement[object.n - 1] == n;
        add_pairs(drifting, &object);
    }
}

/* What each speed is off by as ranks as a whole are unsteady, by other programs or by a drift of
 * their objects: the median of what they have changed by from placement to placement, over as many
 * as the rank was seen in. */
static int add_unrest(const plb_learner_t *self, double *error, plb_err_t *err)
{
    int ret = PLB_OK;
    double *shift = NULL;
    int32_t *seen_in = NULL, *last = NULL;
    const int64_t all = (int64_t)MOST * self->p, n = self->n_shifts < all ? self->n_shifts : all;
    if (n == 0) {
        return ret;
    }
    PLB_NEW(shift, n);
    PLB_NEW0(seen_in, self->p);
    PLB_NEW0(last, self->p);
    memcpy(shift, self->shift, (size_t)n * sizeof *shift);
    const double deviation = WARY * 1.4826 * plb_median(shift, n) / sqrt(2.0);
    for (int32_t j = 0; j < self->n_seen; j++) {
        for (int64_t i = 0; i < self->seen[j].n; i++) {
            const int32_t who = self->seen[j].who[i];
            if (who < self->p && last[who] <= j) {
                last[who] = j + 1;
                seen_in[who]++;
            }
        }
    }
    for (int32_t r = 0; r < self->p; r++) {
        error[r] = hypot(error[r], deviation / sqrt(seen_in[r] > 1 ? seen_in[r] : 1.0));
    }
out:
    plb_free(shift);
    plb_free(seen_in);
    plb_free(last);
    return ret;
}

/* Speeds of the ranks as they are now: mean 0 of those that are known. */
static void centre(double *log_speed, const double *error, int32_t p)
{
    double mean = 0.0;
    int32_t known = 0;
    for (int32_t r = 0; r < p; r++) {
        if (isfinite(error[r])) {
            mean += log_speed[r];
            known++;
        }
    }
    for (int32_t r = 0; r < p && known > 0; r++) {
        log_speed[r] -= isfinite(error[r]) ? mean / known : 0.0;
    }
}

/* Whether the ranks are unlike, by speeds and their errors. */
static bool shows(const plb_learner_t *self, const double *log_speed)
{
    double most = 0.0, squares = 0.0;
    int32_t known = 0;
    for (int32_t r = 0; r < self->p; r++) {
        if (isfinite(self->error[r])) {
            const double off = fabs(log_speed[r]) / self->error[r];
            most = fmax(most, fabs(log_speed[r]));
            squares += off * off;
            known++;
        }
    }
    const double freedom = known > 2 ? known - 1 : 1;
    return self->fit.explained > (self->unlike ? STILL : EXPLAINED) && most > UNLIKE &&
           squares > freedom + ERRORS * sqrt(2.0 * freedom);
}

static void conclude(plb_learner_t *self, const double *log_speed)
{
    const bool unlike = shows(self, log_speed);
    self->doubts = unlike ? 0 : self->doubts + 1;
    if (unlike) {
        memcpy(self->log_speed, log_speed, (size_t)self->p * sizeof *log_speed);
        self->unlike = true;
    } else if (self->doubts >= DOUBTS) {
        self->unlike = false;
    }
}

static int fit(plb_learner_t *self, const plb_placement_t *user, plb_err_t *err)
{
    const int32_t q = self->p + self->n_past + 1; /* the last one is the user */
    int64_t n = user->n;
    for (int32_t j = 0; j < self->n_seen; j++) {
        n += self->seen[j].n;
    }
    plb_moved_t steady = {0}, drifting = {0};
    plb_speeds_t found = {0}, other = {0};
    double *log_speed = NULL, *error = NULL;
    int ret = plb_moved_init(&steady, n, n, err);
    if (ret == PLB_OK) {
        ret = plb_moved_init(&drifting, n, 2 * n, err);
    }
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(log_speed, 2 * (int64_t)q);
    PLB_NEW(error, 2 * (int64_t)q);
    gather(self, user, &steady, &drifting);
    ret = plb_speeds_of_moved(&steady, q, log_speed, error, &found, err);
    if (ret == PLB_OK && self->n_seen > 2 && found.explained < 1.0 - BETTER) {
        ret = plb_speeds_of_moved(&drifting, q, log_speed + q, error + q, &other, err);
        if (ret == PLB_OK && other.explained > found.explained + BETTER) {
            found = other;
            memcpy(log_speed, log_speed + q, (size_t)q * sizeof *log_speed);
            memcpy(error, error + q, (size_t)q * sizeof *error);
        }
    }
    if (ret != PLB_OK || found.moved * FEW < self->seen[self->n_seen - 1].n) {
        goto out; /* hardly an object has moved of late: what was known stands */
    }
    ret = add_unrest(self, error, err);
    if (ret == PLB_OK) {
        self->fit = found;
        centre(log_speed, error, self->p);
        memcpy(self->error, error, (size_t)self->p * sizeof *error);
        conclude(self, log_speed);
    }
out:
    plb_moved_free(&steady);
    plb_moved_free(&drifting);
    plb_free(log_speed);
    plb_free(error);
    return ret;
}

/* ---- the learner ---------------------------------------------------------------------------- */

int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_learner_t){.p = p};
    if (p < 1) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", p);
    }
    PLB_NEW0(self->log_speed, p);
    PLB_NEW(self->error, p);
    PLB_NEW(self->shift, (int64_t)MOST * p);
    for (int32_t r = 0; r < p; r++) {
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
    for (int32_t j = 0; j < self->n_seen; j++) {
        plb_placement_free(&self->seen[j]);
    }
    plb_free(self->log_speed);
    plb_free(self->error);
    plb_free(self->shift);
    *self = (plb_learner_t){0};
}

int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err)
{
    plb_placement_t now = {0}, user = {0};
    const plb_times_t times = {n, key, rank, seconds, work, self->p};
    int ret = plb_placement_take(&times, &now, &user, err);
    if (ret == PLB_OK) {
        ret = follow_changes(self, &now, err);
    }
    if (ret == PLB_OK) {
        ret = remember(self, &now, err);
    }
    if (ret == PLB_OK) {
        ret = fit(self, &user, err);
    }
    plb_placement_free(&now);
    plb_placement_free(&user);
    return ret;
}
