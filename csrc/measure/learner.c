#include "measure/learner.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/quantile.h"
#include "measure/suspicion.h"

static const double AGEING = 0.7; /* weight of a placement relative to the placement after it */
static const double PRIOR = 0.25; /* weight of the user's own work estimate, in observations */

/* A rank has changed, and counts as a new one, if at least LEAST of its objects have changed by
 * the same factor.  (Objects whose work grows change by different factors.)  The test is on the
 * changes of these objects, as logarithms.  Their median, relative to the median over all ranks,
 * must be above CHANGED, and above ERRORS times its own standard error.  Their outer deciles must
 * differ by less than half of this median, plus noise: the median of this difference over all
 * ranks, but at most NOISE times the noise of the fit. */
static const double CHANGED = 0.09531017980432493; /* log 1.1 */
static const double CHANGED_ALIKE = 0.5;
/* 1.5 times the distance, in sigma of an observation, between the outer deciles of the difference
 * of two normally distributed observations */
static const double NOISE = 1.5 * 2.56 * 1.4142135623730951;
enum { LEAST = 4 };
/* Ranks count as different if three conditions hold.  The speeds explain the fraction EXPLAINED of
 * the changes of moved objects (STILL if speeds are in use already).  One speed differs by more
 * than UNLIKE.  And the sum of all squared differences, in units of their errors, is larger than
 * expected by chance, by ERRORS standard deviations. */
static const double EXPLAINED = 0.25, STILL = 0.05, ERRORS = 4.0, UNLIKE = 0.05;

/* Speeds are proven if gain / PROVEN + fraction / CLEAR is above 1.  gain: how much better than
 * their rivals they have predicted (evidence.h); a gain of PROVEN takes at least three intervals.
 * fraction: how much of the changes in the most recent interval they explain (explained()). */
static const double PROVEN = 8.5, CLEAR = 0.75;

/* Safety factor on the standard deviation in add_unrest, which is estimated from few changes. */
static const double WARY = 1.5;
/* The model of changing work is chosen only if it explains more of the variance than the model of
 * constant work, by more than this fraction of the variance. */
static const double BETTER = 0.05;

enum {
    DOUBTS = 2, /* after this many fits in a row without a difference, ranks count as equal */
    FEW = 50,   /* speeds are learned only if at least one object in this many has moved */
    MOST = PLB_LEARNER_PLACEMENTS,
};

/* ---- ranks that change ---------------------------------------------------------------------- */

/* Quantiles of the changes of a rank's m objects. */
typedef struct change {
    int32_t rank;
    int64_t m;
    double low, middle, high;
} change_t;

/* Whether an object that was on rank a and is now on rank b shows by how much rank b has changed.
 * If it has moved, the speeds must be in use, so that the effect of the move is known. */
static bool tells_shift(const plb_learner_t *self, int32_t a, int32_t b)
{
    return a == b ||
           (self->unlike && a < self->p && isfinite(self->error[a]) && isfinite(self->error[b]));
}

/* Compute shift[]: how much longer each object takes than expected, as a logarithm.  The objects
 * of rank r are begin[r] ... end[r] - 1; begin has p + 1 entries. */
static void find_shifts(const plb_learner_t *self, int64_t *begin, int64_t *end, double *shift)
{
    const plb_timings_t *last = &self->seen[self->n_seen - 1], *now = &self->now;
    int64_t i = 0;
    for (int64_t j = 0; j < now->n; j++) { /* space for all objects, also for unused ones */
        begin[now->rank[j] + 1]++;
    }
    for (int32_t r = 0; r < self->p; r++) {
        begin[r + 1] += begin[r];
    }
    memcpy(end, begin, (size_t)self->p * sizeof *end);
    for (int64_t j = 0; j < now->n; j++) {
        i = plb_timings_find(last, i, now->key[j]);
        if (i < last->n && last->key[i] == now->key[j] &&
            tells_shift(self, last->rank[i], now->rank[j])) {
            const int32_t a = last->rank[i], b = now->rank[j];
            const double known = a == b ? 0.0 : self->guess[a] - self->guess[b];
            shift[end[b]++] = (double)now->y[j] - last->y[i] - known;
        }
    }
}

/* The median is computed first, so that each other quantile needs only half of the values. */
static change_t quantiles(int32_t r, double *x, int64_t m)
{
    const double last = (double)(m - 1);
    const int64_t low = (int64_t)rint(0.1 * last), middle = (int64_t)rint(0.5 * last),
                  high = (int64_t)rint(0.9 * last);
    change_t out = {.rank = r, .m = m, .middle = plb_nth(x, m, middle)};
    out.low = low < middle ? plb_nth(x, middle, low) : out.middle;
    out.high =
        high > middle ? plb_nth(x + middle + 1, m - middle - 1, high - middle - 1) : out.middle;
    return out;
}

static bool has_changed(const change_t *of, double by, double noise)
{
    const double width = of->high - of->low;
    const bool alike = width < CHANGED_ALIKE * by + noise;
    const bool sure = by > fmax(CHANGED, ERRORS * 0.5 * width / sqrt((double)of->m));
    return alike && sure && of->m >= LEAST;
}

/* For each changed rank r, assign the old observations to the rank number past_of[r]. */
static void begin_again(plb_learner_t *self, const int32_t *past_of)
{
    for (int32_t j = 0; j < self->n_seen; j++) {
        int32_t *rank = self->seen[j].rank;
        for (int64_t i = 0; i < self->seen[j].n; i++) {
            if (rank[i] < self->p && past_of[rank[i]] >= 0) {
                rank[i] = past_of[rank[i]];
            }
        }
        for (int32_t r = 0; r < self->p; r++) {
            self->is_there[(int64_t)j * self->p + r] &= past_of[r] < 0;
        }
    }
}

/* Find which of n ranks have changed relative to the program as a whole.  past_of[r]: if rank r
 * has changed, a new rank number for its old observations; otherwise -1.  shift[r]: log of the
 * factor by which the times on rank r have grown: the median change of rank r if it has changed
 * while speeds are in use, else the median change of the program.  room[n]: scratch memory. */
static void find_changed(plb_learner_t *self, const change_t *change, int32_t n, double *room,
                         int32_t *past_of, double *shift)
{
    for (int32_t i = 0; i < n; i++) {
        room[i] = change[i].middle;
    }
    const double all = n > 2 ? plb_median(room, n) : 0.0;
    for (int32_t i = 0; i < n; i++) {
        room[i] = change[i].high - change[i].low;
    }
    const double noise = fmin(n > 0 ? plb_median(room, n) : 0.0, NOISE * self->fit.sigma);
    for (int32_t r = 0; r < self->p; r++) {
        past_of[r] = -1;
        shift[r] = all;
    }
    for (int32_t i = 0; i < n; i++) {
        const double by = fabs(change[i].middle - all);
        self->shift[self->n_shifts++ % ((int64_t)MOST * self->p)] = by;
        if (has_changed(&change[i], by, noise)) {
            past_of[change[i].rank] = self->p + self->n_past++;
            /* while no speeds are in use, it is not known whether the rank has become slower or
             * its objects' work has grown: the shift is then that of the whole program */
            shift[change[i].rank] = self->unlike ? change[i].middle : all;
            self->suspected[change[i].rank] = plb_suspicion(
                change[i].m, all - change[i].middle, change[i].high - change[i].low - noise);
        }
    }
    self->now.usual = all;
}

/* Test whether the speeds of the previous fit predict the times under the new placement. */
static void test_guess(plb_learner_t *self, const double *shift)
{
    const int32_t n = self->n_seen;
    if (plb_timings_same(&self->seen[n - 1], &self->now)) {
        return;
    }
    const plb_interval_t interval = {
        .last = &self->seen[n - 1],
        .now = &self->now,
        .before = n > 1 ? &self->seen[n - 2] : NULL,
        .oldest = n > 1 ? &self->seen[0] : NULL,
        .intervals = n > 1 ? n - 1 : 1,
        .shift = shift,
        .log_speed = self->guess,
        .error = self->error,
    };
    plb_evidence_test(&self->evidence, &interval);
}

static int make_room(plb_learner_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    if (n > self->n_room) {
        plb_free(self->room);
        self->n_room = 0;
        PLB_NEW(self->room, n);
        self->n_room = n;
    }
out:
    return ret;
}

/* Find the ranks that have changed since the previous placement, and test the speeds. */
static int compare(plb_learner_t *self, plb_err_t *err)
{
    const int32_t p = self->p, before = self->n_past;
    int64_t *begin = NULL, *end = NULL;
    double *shift = NULL, *room = NULL;
    change_t *change = NULL;
    int32_t *past_of = NULL, n = 0;
    int ret = make_room(self, self->now.n, err);
    if (ret != PLB_OK || self->n_seen == 0) {
        return ret;
    }
    PLB_NEW0(begin, p + 1);
    PLB_NEW(end, p);
    PLB_NEW(shift, p);
    PLB_NEW(room, p);
    PLB_NEW(change, p);
    PLB_NEW(past_of, p);
    PLB_TRY(
        plb_suspicions_test(self->suspected, p, &self->seen[self->n_seen - 1], &self->now, err));
    find_shifts(self, begin, end, self->room);
    for (int32_t r = 0; r < p; r++) {
        if (end[r] > begin[r]) {
            change[n++] = quantiles(r, self->room + begin[r], end[r] - begin[r]);
        }
    }
    find_changed(self, change, n, room, past_of, shift);
    test_guess(self, shift);
    self->has_changed = self->n_past > before;
    if (self->has_changed) {
        begin_again(self, past_of);
        plb_evidence_forgive(&self->evidence);
    }
out:
    plb_free(begin);
    plb_free(end);
    plb_free(shift);
    plb_free(room);
    plb_free(change);
    plb_free(past_of);
    return ret;
}

/* After every MOST placements, renumber the old ranks (learner.h, n_past), and drop those that no
 * longer occur in a remembered placement. */
static int forget_past(plb_learner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *number = NULL, n = 0;
    if (++self->n_remembered % MOST != 0 || self->n_past == 0) {
        return ret;
    }
    PLB_NEW0(number, self->n_past);
    /* in the first pass find the ranks that occur, in the second renumber them */
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t j = 0; j < self->n_seen; j++) {
            int32_t *rank = self->seen[j].rank;
            for (int64_t i = 0; i < self->seen[j].n; i++) {
                if (rank[i] >= self->p && pass == 0) {
                    number[rank[i] - self->p] = 1;
                } else if (rank[i] >= self->p) {
                    rank[i] = self->p + number[rank[i] - self->p];
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

static void note_ranks(plb_learner_t *self, int32_t j)
{
    uint8_t *is_there = self->is_there + (int64_t)j * self->p;
    memset(is_there, 0, (size_t)self->p);
    for (int64_t i = 0; i < self->seen[j].n; i++) {
        is_there[self->seen[j].rank[i]] = 1;
    }
}

/* Remember the new placement.  The next one reuses the memory of the placement that is dropped. */
static int remember(plb_learner_t *self, plb_err_t *err)
{
    plb_timings_t gone = {0};
    int32_t n = self->n_seen;
    if (n > 0 && plb_timings_same(&self->seen[n - 1], &self->now)) {
        /* the same placement shows nothing new: replace the most recent one, not the oldest */
        gone = self->seen[--n];
        self->now.usual += gone.usual;
    } else if (n == MOST) {
        gone = self->seen[0];
        memmove(self->seen, self->seen + 1, (size_t)--n * sizeof *self->seen);
        memmove(self->is_there, self->is_there + self->p, (size_t)n * (size_t)self->p);
    }
    self->seen[n] = self->now;
    note_ranks(self, n);
    self->n_seen = n + 1;
    self->now = gone;
    return forget_past(self, err);
}

/* ---- the fit -------------------------------------------------------------------------------- */

/* The observations of an object in all placements that have it, the oldest first. */
typedef struct history {
    int32_t n;
    int32_t placement[MOST + 1], rank[MOST + 1];
    float y[MOST + 1], weight[MOST + 1];
} history_t;

static void add_observation(plb_moved_t *out, int32_t rank, float y, float weight)
{
    out->rank[out->m] = rank;
    out->y[out->m] = y;
    out->weight[out->m++] = weight;
}

/* For the model of constant work: add a moved object, with one observation per stay on a rank. */
static void add_stays(plb_moved_t *out, const history_t *from)
{
    const int64_t first = out->m;
    for (int32_t i = 0; i < from->n;) {
        const int32_t rank = from->rank[i];
        float sum = 0.0F, weight = 0.0F;
        for (; i < from->n && from->rank[i] == rank; i++) {
            sum += from->weight[i] * from->y[i];
            weight += from->weight[i];
        }
        add_observation(out, rank, sum / weight, weight);
    }
    if (out->m - first > 1) {
        out->start[++out->n] = out->m;
    } else {
        out->m = first;
    }
}

/* For the model of changing work: add each move of an object from one placement to the next as an
 * object of its own, with two observations. */
static void add_pairs(plb_moved_t *out, const history_t *from)
{
    for (int32_t i = 0; i + 1 < from->n; i++) {
        if (from->placement[i + 1] == from->placement[i] + 1 &&
            from->rank[i] != from->rank[i + 1]) {
            add_observation(out, from->rank[i], from->y[i], from->weight[i]);
            add_observation(out, from->rank[i + 1], from->y[i + 1], from->weight[i + 1]);
            out->start[++out->n] = out->m;
        }
    }
}

/* Reads all placements object by object; the user's estimates of work are one more placement. */
typedef struct reader {
    const plb_timings_t *of[MOST + 1];
    float age[MOST + 1];  /* weight of each placement, which decreases with its age */
    int64_t at[MOST + 1]; /* next object in each placement */
    int32_t n;            /* number of placements */
    bool aligned; /* true: all placements have the same objects, and there are no estimates */
    int32_t user; /* the number of the rank that represents the user's estimates */
} reader_t;

static void begin_reading(const plb_learner_t *self, reader_t *out)
{
    const int32_t n = self->n_seen;
    *out = (reader_t){.n = n, .aligned = self->user.n == 0, .user = self->p + self->n_past};
    for (int32_t j = 0; j < n; j++) {
        out->of[j] = &self->seen[j];
        out->age[j] = (float)pow(AGEING, n - 1 - j);
        out->aligned = out->aligned && plb_timings_same_keys(out->of[j], out->of[0]);
    }
    out->of[n] = &self->user;
    out->age[n] = (float)PRIOR;
}

static void read_one(reader_t *self, int32_t j, history_t *out)
{
    const plb_timings_t *of = self->of[j];
    const int64_t i = self->at[j];
    out->placement[out->n] = j;
    out->rank[out->n] = j < self->n ? of->rank[i] : self->user;
    out->y[out->n] = of->y[i];
    out->weight[out->n++] = of->weight[i] * self->age[j];
}

/* Read the next object that has moved; false: there is none. */
static bool read_aligned(reader_t *self, history_t *out)
{
    int64_t i = self->at[0];
    bool moved = false;
    for (; i < self->of[0]->n && !moved; i++) {
        const int32_t rank = self->of[0]->rank[i];
        for (int32_t j = 1; j < self->n; j++) {
            moved |= self->of[j]->rank[i] != rank;
        }
    }
    self->at[0] = i;
    for (int32_t j = 0; j < self->n && moved; j++) {
        self->at[j] = i - 1;
        read_one(self, j, out);
    }
    self->at[0] = i;
    return moved;
}

static bool read_any(reader_t *self, history_t *out)
{
    int64_t key = INT64_MAX;
    bool any = false;
    for (int32_t j = 0; j <= self->n; j++) {
        if (self->at[j] < self->of[j]->n) {
            key = self->of[j]->key[self->at[j]] < key ? self->of[j]->key[self->at[j]] : key;
            any = true;
        }
    }
    for (int32_t j = 0; j <= self->n && any; j++) {
        if (self->at[j] < self->of[j]->n && self->of[j]->key[self->at[j]] == key) {
            read_one(self, j, out);
            self->at[j]++;
        }
    }
    return any;
}

/* Add the history of each object to both models; the user's estimates only to `steady`. */
static void gather(const plb_learner_t *self, plb_moved_t *steady, plb_moved_t *drifting)
{
    reader_t reader;
    history_t object;
    begin_reading(self, &reader);
    for (;;) {
        object.n = 0;
        if (!(reader.aligned ? read_aligned : read_any)(&reader, &object)) {
            return;
        }
        add_stays(steady, &object);
        object.n -= object.n > 0 && object.placement[object.n - 1] == reader.n;
        add_pairs(drifting, &object);
    }
}

/* Increase the error of each speed, because speeds also change from placement to placement (other
 * programs, drift of the objects).  The standard deviation of these changes comes from their
 * median, and is divided by the square root of the number of placements with this rank. */
static int add_unrest(const plb_learner_t *self, double *error, plb_err_t *err)
{
    int ret = PLB_OK;
    double *shift = NULL;
    const int64_t all = (int64_t)MOST * self->p, n = self->n_shifts < all ? self->n_shifts : all;
    if (n == 0) {
        return ret;
    }
    PLB_NEW(shift, n);
    memcpy(shift, self->shift, (size_t)n * sizeof *shift);
    const double deviation = WARY * 1.4826 * plb_median(shift, n) / sqrt(2.0);
    for (int32_t r = 0; r < self->p; r++) {
        int32_t seen_in = 0;
        for (int32_t j = 0; j < self->n_seen; j++) {
            seen_in += self->is_there[(int64_t)j * self->p + r];
        }
        error[r] = hypot(error[r], deviation / sqrt(seen_in > 1 ? seen_in : 1.0));
    }
out:
    plb_free(shift);
    return ret;
}

/* Shift the known log speeds of the present ranks such that their mean is 0. */
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

/* Whether the most recent fit shows that the ranks' speeds differ. */
static bool shows(const plb_learner_t *self)
{
    double most = 0.0, squares = 0.0;
    int32_t known = 0;
    for (int32_t r = 0; r < self->p; r++) {
        if (isfinite(self->error[r])) {
            const double off = fabs(self->guess[r]) / self->error[r];
            most = fmax(most, fabs(self->guess[r]));
            squares += off * off;
            known++;
        }
    }
    const double freedom = known > 2 ? known - 1 : 1;
    return self->fit.explained > (self->unlike ? STILL : EXPLAINED) && most > UNLIKE &&
           squares > freedom + ERRORS * sqrt(2.0 * freedom);
}

/* The fraction of the changes of moved objects between the two most recent placements that the
 * most recent fit explains (plb_evidence_explained), at least 0. */
static double explained(plb_learner_t *self)
{
    const int32_t n = self->n_seen;
    if (n < 2) {
        return 0.0;
    }
    const plb_interval_t interval = {.last = &self->seen[n - 2],
                                     .now = &self->seen[n - 1],
                                     .log_speed = self->guess,
                                     .error = self->error};
    return fmax(0.0, plb_evidence_explained(&self->evidence, &interval));
}

/* Whether the speeds are proven (see PROVEN).  Speeds that are in use, or that rest on the user's
 * own estimates of the work, need no proof, but must not be disproved. */
static bool is_proven(plb_learner_t *self)
{
    const double gain = plb_evidence_total(&self->evidence);
    if (self->unlike || self->user.n > 0) {
        return gain >= 0.0;
    }
    return gain / PROVEN + explained(self) / CLEAR > 1.0;
}

static void conclude(plb_learner_t *self)
{
    const bool unlike = shows(self) && is_proven(self);
    self->doubts = unlike ? 0 : self->doubts + 1;
    if (unlike) {
        memcpy(self->log_speed, self->guess, (size_t)self->p * sizeof *self->guess);
        self->unlike = true;
        memset(self->suspected, 0, (size_t)self->p * sizeof *self->suspected);
    } else if (self->doubts >= DOUBTS) {
        self->unlike = false;
    }
}

/* Fit both models; the results of the better one go to the first half of the arrays. */
static int fit_both(plb_learner_t *self, const plb_moved_t *steady, const plb_moved_t *drifting,
                    double *log_speed, double *error, plb_speeds_t *found, plb_err_t *err)
{
    /* the last rank stands for the user's estimates */
    const int32_t q = self->p + self->n_past + 1;
    plb_speeds_t other = {0};
    int ret = plb_speeds_of_moved(steady, q, &self->steady, log_speed, error, found, err);
    if (ret != PLB_OK || self->n_seen < 3 || found->explained >= 1.0 - BETTER) {
        return ret;
    }
    ret = plb_speeds_of_moved(drifting, q, &self->drifting, log_speed + q, error + q, &other, err);
    if (ret == PLB_OK && other.explained > found->explained + BETTER) {
        *found = other;
        memcpy(log_speed, log_speed + q, (size_t)q * sizeof *log_speed);
        memcpy(error, error + q, (size_t)q * sizeof *error);
    }
    return ret;
}

static int fit(plb_learner_t *self, plb_err_t *err)
{
    const int32_t q = self->p + self->n_past + 1;
    int64_t n = self->user.n;
    plb_moved_t steady = {0}, drifting = {0};
    plb_speeds_t found = {0};
    double *log_speed = NULL, *error = NULL;
    for (int32_t j = 0; j < self->n_seen; j++) {
        n += self->seen[j].n;
    }
    int ret = plb_moved_init(&steady, n, n, err);
    ret = ret == PLB_OK ? plb_moved_init(&drifting, n, 2 * n, err) : ret;
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(log_speed, 2 * (int64_t)q);
    PLB_NEW(error, 2 * (int64_t)q);
    gather(self, &steady, &drifting);
    ret = fit_both(self, &steady, &drifting, log_speed, error, &found, err);
    if (ret != PLB_OK || found.moved * FEW < self->seen[self->n_seen - 1].n) {
        goto out; /* too few objects have moved: keep what was known */
    }
    ret = add_unrest(self, error, err);
    if (ret == PLB_OK) {
        self->fit = found;
        centre(log_speed, error, self->p);
        memcpy(self->error, error, (size_t)self->p * sizeof *error);
        memcpy(self->guess, log_speed, (size_t)self->p * sizeof *log_speed);
        conclude(self);
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
    PLB_FAIL_IF(p < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", p);
    PLB_TRY(plb_evidence_init(&self->evidence, p, err));
    PLB_NEW0(self->log_speed, p);
    PLB_NEW0(self->suspected, p);
    PLB_NEW0(self->guess, p);
    PLB_NEW(self->error, p);
    PLB_NEW(self->shift, (int64_t)MOST * p);
    PLB_NEW0(self->is_there, (int64_t)MOST * p);
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
        plb_timings_free(&self->seen[j]);
    }
    plb_timings_free(&self->now);
    plb_timings_free(&self->user);
    plb_evidence_free(&self->evidence);
    plb_speeds_start_free(&self->steady);
    plb_speeds_start_free(&self->drifting);
    plb_free(self->room);
    plb_free(self->log_speed);
    plb_free(self->suspected);
    plb_free(self->guess);
    plb_free(self->error);
    plb_free(self->shift);
    plb_free(self->is_there);
    *self = (plb_learner_t){0};
}

int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, plb_err_t *err)
{
    const plb_times_t times = {n, key, rank, seconds, work, self->p};
    int ret = plb_timings_take(&times, &self->now, &self->user, err);
    ret = ret == PLB_OK ? compare(self, err) : ret;
    ret = ret == PLB_OK ? remember(self, err) : ret;
    return ret == PLB_OK ? fit(self, err) : ret;
}

bool plb_learner_speeds(const plb_learner_t *self, bool suspects, double *speed)
{
    const bool any =
        self->unlike || (suspects && plb_suspicions_most(self->suspected, self->p) >= 0);
    const double *use = self->unlike ? self->log_speed : self->suspected;
    for (int32_t r = 0; r < self->p; r++) {
        speed[r] = any ? plb_speed_of(use[r]) : 1.0;
    }
    return any;
}
