#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "comm/share.h"

/* ---- which rank lends to which
 * ------------------------------------------------------------------ */

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

/* ---- what the rows cost ----------------------------------------------------------------- */

/* A chunk that took this many times what was predicted says no more than "much longer". */
static const double MOST_CHANGE = 32.0;
/* Least prediction for a row, in mean rows: a factor cannot make 0 grow. */
static const double LEAST_COST = 1e-3;

void plb_row_costs_free(plb_row_costs_t *self)
{
    PLB_FREE(self->last, self->now);
    *self = (plb_row_costs_t){.trust = 1.0};
}

int plb_row_costs_begin(plb_row_costs_t *self, int64_t n, const double *cost, double *sum,
                        plb_err_t *err)
{
    if (n > self->room) {
        PLB_PASS_RENEW(self->last, n);
        PLB_PASS_RENEW(self->now, n);
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

void plb_row_costs_learn(plb_row_costs_t *self, int64_t first, const int64_t *row, int64_t n,
                         double work)
{
    double now = 0.0, last = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = row != NULL ? row[k] : first + k;
        now += self->now[i];
        last += self->last[i];
    }
    const double ratio = now > 0.0 ? work / now : 1.0;
    const double most = self->known ? MOST_CHANGE : INFINITY;
    const double change = fmin(fmax(ratio, 1.0 / most), most);
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = row != NULL ? row[k] : first + k;
        self->last[i] = self->now[i] * change;
    }
    const double count = (double)n;
    const double add[5] = {count, last, work, last * last / count, last * work / count};
    for (int k = 0; k < 5; k++) {
        self->sum[k] += add[k];
    }
}

void plb_row_costs_end(plb_row_costs_t *self, double predicted)
{
    const double *s = self->sum, rows = s[0], work = s[2];
    if (rows == 0.0) {
        return;
    }
    const double spread = s[3] - s[1] * s[1] / rows;
    if (self->known && spread > 1e-4 * s[3]) { /* otherwise all predictions were alike */
        const double slope = (s[4] - s[1] * work / rows) / spread;
        self->trust = 0.5 * (self->trust + fmin(fmax(slope, 0.0), 1.0));
    }
    if (self->known && predicted > 0.0) {
        self->error = 0.5 * (self->error + fabs(work / predicted - 1.0));
    }
    self->mean = self->from_cost ? (predicted > 0.0 ? self->mean * work / predicted : self->mean)
                                 : work / rows;
    self->known = true;
}
