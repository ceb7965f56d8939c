#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "comm/share.h"

/* ---- which rank lends to which ---------------------------------------------------------- */

/* The smallest flow that is worth a message, as a part of the time of the slowest rank. */
static const double LEAST_FLOW = 0.01;

/* The work that a rank lends (positive) or borrows if all are to end at `time`. */
static double amount(const plb_share_rank_t *rank, double time, double toll)
{
    const double pace = 1.0 / rank->speed, late = rank->work * pace - time;
    if (late <= 0.0) {
        return late / (pace + toll);
    }
    return pace > toll ? fmin(late / (pace - toll), rank->work) : 0.0;
}

double plb_share_plan(const plb_share_rank_t *rank, int32_t p, double toll, plb_share_flow_t *flow,
                      int32_t *n)
{
    double low = 0.0, high = 0.0, work = 0.0, speed = 0.0;
    for (int32_t r = 0; r < p; r++) {
        work += rank[r].work;
        speed += rank[r].speed;
        high = fmax(high, rank[r].work / rank[r].speed);
    }
    low = work / speed;
    for (int k = 0; k < 50 && high - low > 1e-6 * high; k++) {
        const double time = 0.5 * (low + high);
        double sum = 0.0;
        for (int32_t r = 0; r < p; r++) {
            sum += amount(&rank[r], time, toll);
        }
        *(sum > 0.0 ? &low : &high) = time;
    }
    /* pair lenders with borrowers, both in order of the ranks */
    const double least = LEAST_FLOW * high * speed / p;
    double room = 0.0;
    *n = 0;
    for (int32_t from = 0, to = -1; from < p; from++) {
        double left = amount(&rank[from], high, toll);
        while (left > least) {
            while (room <= least && ++to < p) {
                room = -amount(&rank[to], high, toll);
            }
            if (to >= p) {
                return high;
            }
            const double w = fmin(left, room);
            flow[(*n)++] = (plb_share_flow_t){from, to, w};
            left -= w;
            room -= w;
        }
    }
    return high;
}

/* ---- how fast the ranks are ------------------------------------------------------------- */

/* Variance of a log(speed): at first (a factor of 1.6 is usual); what a call adds, because speeds
 * drift; of an estimate from many chunks. */
static const double FIRST_VARIANCE = 0.25, DRIFT = 1e-4, LEAST_VARIANCE = 1e-4;
/* A sight this many standard deviations off counts as this many, and the speeds count as unknown
 * again: if the next sights agree, they are believed. */
static const double MOST_SIGMA = 3.0;
/* Variance of a chunk beside what is seen: some rows change from one call to the next. */
static const double SPREAD = 0.5;

void plb_chunks_add(plb_chunks_t *self, double predicted, double seconds)
{
    if (predicted > 0.0 && seconds > 0.0) {
        self->n += 1.0;
        self->predicted += predicted;
        self->seconds += seconds;
        self->squares += seconds * seconds / predicted;
    }
}

/* Variance of the log of seconds / predicted, from the spread of the chunks. */
static double chunks_variance(const plb_chunks_t *self)
{
    const double spread = self->squares * self->predicted / (self->seconds * self->seconds) - 1.0;
    return fmax(spread, 0.0) / (self->n - 1.0) + SPREAD / self->n;
}

plb_speed_sight_t plb_speed_compare(int rank, const plb_chunks_t *lent, const plb_chunks_t *kept)
{
    if (lent->n < 2.0 || kept->n < 2.0) {
        return (plb_speed_sight_t){-1.0, 0.0, INFINITY};
    }
    return (plb_speed_sight_t){
        rank, log(kept->seconds / kept->predicted) - log(lent->seconds / lent->predicted),
        chunks_variance(lent) + chunks_variance(kept) + LEAST_VARIANCE};
}

int plb_learned_speeds_init(plb_learned_speeds_t *self, int32_t p, plb_err_t *err)
{
    *self = (plb_learned_speeds_t){.p = p};
    PLB_PASS_NEW0(self->log_speed, p);
    PLB_PASS_NEW(self->variance, p);
    PLB_PASS_NEW(self->speed, p);
    for (int32_t r = 0; r < p; r++) {
        self->variance[r] = FIRST_VARIANCE;
        self->speed[r] = 1.0;
    }
    return PLB_OK;
}

void plb_learned_speeds_free(plb_learned_speeds_t *self)
{
    PLB_FREE(self->log_speed, self->variance, self->speed);
}

/* How far a sight is from what is known, at most MOST_SIGMA; *sum: the variance of this. */
static double innovation(const plb_learned_speeds_t *self, int lender,
                         const plb_speed_sight_t *sight, double *sum)
{
    const int32_t to = (int32_t)sight->rank;
    *sum = self->variance[to] + self->variance[lender] + sight->variance;
    const double e = sight->ratio - (self->log_speed[to] - self->log_speed[lender]);
    const double most = MOST_SIGMA * sqrt(*sum);
    return fmin(fmax(e, -most), most);
}

double plb_learned_speeds_ratio(const plb_learned_speeds_t *self, int lender,
                                const plb_speed_sight_t *sight)
{
    const int32_t to = (int32_t)sight->rank;
    double sum, ratio = self->log_speed[to] - self->log_speed[lender];
    if (isfinite(sight->variance)) {
        const double e = innovation(self, lender, sight, &sum);
        ratio += (1.0 - sight->variance / sum) * e;
    }
    return ratio;
}

void plb_learned_speeds_update(plb_learned_speeds_t *self, const plb_speed_sight_t *sight)
{
    double mean = 0.0;
    for (int32_t lender = 0; lender < self->p; lender++) {
        const int32_t to = (int32_t)sight[lender].rank;
        if (to < 0) {
            continue;
        }
        double sum;
        const double e = innovation(self, lender, &sight[lender], &sum);
        const bool far = fabs(e) >= MOST_SIGMA * sqrt(sum);
        double *const v = self->variance;
        self->log_speed[to] += v[to] / sum * e;
        self->log_speed[lender] -= v[lender] / sum * e;
        v[to] = far ? fmin(4.0 * v[to], FIRST_VARIANCE) : v[to] * (1.0 - v[to] / sum);
        v[lender] =
            far ? fmin(4.0 * v[lender], FIRST_VARIANCE) : v[lender] * (1.0 - v[lender] / sum);
    }
    for (int32_t r = 0; r < self->p; r++) {
        mean += self->log_speed[r] / self->p;
    }
    for (int32_t r = 0; r < self->p; r++) {
        self->log_speed[r] -= mean;
        self->speed[r] = exp(self->log_speed[r]);
        self->variance[r] = fmin(self->variance[r] + DRIFT, FIRST_VARIANCE);
    }
}

/* ---- what the rows cost ----------------------------------------------------------------- */

/* A chunk that took this many times what was predicted says no more than "much longer". */
static const double MOST_CHANGE = 32.0;
/* Least prediction for a row, in mean rows: a factor cannot make 0 grow. */
static const double LEAST_COST = 1e-3;
/* Rows within this part of the array may turn out like each other, if this part of the time was a
 * surprise in recent calls. */
static const double AROUND = 1.0 / 12.0, LEAST_SURPRISE = 0.01;

void plb_row_costs_free(plb_row_costs_t *self)
{
    PLB_FREE(self->last, self->now, self->worst);
    *self = (plb_row_costs_t){.trust = 1.0};
}

int plb_row_costs_begin(plb_row_costs_t *self, int64_t n, const double *cost, double *sum,
                        plb_err_t *err)
{
    if (n > self->room) {
        PLB_PASS_RENEW(self->last, n);
        PLB_PASS_RENEW(self->now, n);
        PLB_PASS_RENEW(self->worst, n);
        self->room = n;
    }
    const bool from_cost = cost != NULL, same = n == self->n && from_cost == self->from_cost;
    const double mean = self->known && from_cost == self->from_cost ? self->mean : 1.0;
    for (int64_t i = 0; i < n && from_cost; i++) {
        PLB_FAIL_IF(!(cost[i] >= 0.0 && cost[i] <= 1e30), err, PLB_ERR_VALUE,
                    "cost[%lld] is %g: expected 0 ... 1e30", (long long)i, cost[i]);
    }
    *sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        self->last[i] = from_cost ? cost[i] * mean : same ? self->last[i] : mean;
        self->now[i] = from_cost ? self->last[i] : mean + self->trust * (self->last[i] - mean);
        self->now[i] = fmax(self->now[i], LEAST_COST * mean);
        *sum += self->now[i];
    }
    self->n = n;
    self->known = self->known && from_cost == self->from_cost;
    self->from_cost = from_cost;
    self->mean = mean;
    memset(self->sum, 0, sizeof self->sum);
    return PLB_OK;
}

void plb_row_costs_look_around(plb_row_costs_t *self)
{
    const int64_t n = self->n, block = 1 + (int64_t)(AROUND * (double)n);
    memcpy(self->worst, self->now, (size_t)n * sizeof *self->worst);
    if (!self->known || self->surprises < LEAST_SURPRISE) {
        return;
    }
    double before = 0.0, here = 0.0, after = 0.0; /* the heaviest rows of three blocks */
    for (int64_t begin = -block; begin < n; begin += block) {
        before = here;
        here = after;
        after = 0.0;
        for (int64_t i = begin + block; i < begin + 2 * block && i < n; i++) {
            after = fmax(after, self->now[i]);
        }
        const double heaviest = fmax(fmax(before, here), after);
        for (int64_t i = begin < 0 ? 0 : begin; i < begin + block && i < n; i++) {
            self->worst[i] = heaviest;
        }
    }
}

void plb_row_costs_learn(plb_row_costs_t *self, int64_t first, const int64_t *row, int64_t n,
                         double seconds)
{
    double now = 0.0, last = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = row != NULL ? row[k] : first + k;
        now += self->now[i];
        last += self->last[i];
    }
    const double ratio = now > 0.0 ? seconds / now : 1.0;
    const double most = self->known ? MOST_CHANGE : INFINITY;
    const double change = fmin(fmax(ratio, 1.0 / most), most);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = row != NULL ? row[k] : first + k;
        self->last[i] = self->now[i] * change;
    }
    const double count = (double)n;
    const double add[6] = {count,
                           last,
                           seconds,
                           last * last / count,
                           last * seconds / count,
                           ratio > 2.0 ? seconds - now : 0.0};
    for (int k = 0; k < 6; k++) {
        self->sum[k] += add[k];
    }
}

void plb_row_costs_end(plb_row_costs_t *self, double predicted)
{
    const double *s = self->sum, rows = s[0], seconds = s[2];
    if (rows == 0.0) {
        return;
    }
    const double spread = s[3] - s[1] * s[1] / rows;
    if (self->known && spread > 1e-4 * s[3]) { /* otherwise all predictions were alike */
        const double slope = (s[4] - s[1] * seconds / rows) / spread;
        self->trust = 0.5 * (self->trust + fmin(fmax(slope, 0.0), 1.0));
    }
    if (self->known && predicted > 0.0) {
        self->error = 0.5 * (self->error + fabs(seconds / predicted - 1.0));
        self->surprises = 0.5 * (self->surprises + (seconds > 0.0 ? s[5] / seconds : 0.0));
    }
    self->mean = self->from_cost
                     ? (predicted > 0.0 ? self->mean * seconds / predicted : self->mean)
                     : seconds / rows;
    self->known = true;
}
