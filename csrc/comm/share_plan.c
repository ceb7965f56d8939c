#include <math.h>
#include <string.h>

#include "base/base.h"
#include "comm/share.h"

/* Return the work that a rank lends (positive) or borrows if all ranks are to end at `time`. */
static double amount(double work, double speed, double time, double toll)
{
    const double pace = 1.0 / speed, late = work * pace - time;
    if (late <= 0.0) {
        return late / (pace + toll);
    }
    return pace > toll ? fmin(late / (pace - toll), work) : 0.0;
}

double plb_share_plan(const plb_share_offer_t *offer, const double *speed, int32_t p, double toll,
                      plb_share_flow_t *flow, int32_t *n)
{
    double high = 0.0, work = 0.0, speeds = 0.0;
    for (int32_t r = 0; r < p; r++) {
        work += offer[r].work;
        speeds += speed[r];
        high = fmax(high, offer[r].work / speed[r]);
    }
    double low = work / speeds;
    for (int k = 0; k < 64 && high - low > PLB_ROUNDING * high; k++) {
        const double time = 0.5 * (low + high);
        double sum = 0.0;
        for (int32_t r = 0; r < p; r++) {
            sum += amount(offer[r].work, speed[r], time, toll);
        }
        *(sum > 0.0 ? &low : &high) = time;
    }
    /* pair lenders with borrowers, both in order of the ranks */
    const double least = PLB_SHARE_GAIN * high * speeds / p;
    double room = 0.0;
    *n = 0;
    for (int32_t from = 0, to = -1; from < p; from++) {
        double left = amount(offer[from].work, speed[from], high, toll);
        while (left > least) {
            while (room <= least && ++to < p) {
                room = -amount(offer[to].work, speed[to], high, toll);
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

bool plb_share_pays(double alone, double together)
{
    return alone - together > fmax(PLB_SHARE_GAIN * together, PLB_SHARE_CHUNK);
}

double plb_share_step(const double *alone, const double *speed, int32_t p, double longest,
                      double bytes, plb_share_offer_t *offer, plb_share_flow_t *flow)
{
    int32_t n;
    double work = 1e-12, slowest = longest;
    for (int32_t r = 0; r < p; r++) {
        offer[r].work = alone[r] * speed[r];
        work += offer[r].work;
        slowest = fmax(slowest, alone[r]);
    }
    const double toll = 2.0 * PLB_SHARE_BETA * bytes / work;
    const double time = fmax(plb_share_plan(offer, speed, p, toll, flow, &n), longest);
    return plb_share_pays(slowest, time) ? time : slowest;
}

void plb_share_speeds(const plb_share_offer_t *offer, int32_t p, double *speed)
{
    double mean = 0.0;
    for (int32_t r = 0; r < p; r++) {
        const int32_t of = (int32_t)offer[r].of;
        if (of >= 0) {
            const double change =
                fmin(fmax(offer[r].ratio / (speed[of] / speed[r]), 1.0 / PLB_ABRUPT), PLB_ABRUPT);
            speed[of] *= pow(change, PLB_NEWEST);
            speed[r] *= pow(change, -PLB_NEWEST);
        }
    }
    for (int32_t r = 0; r < p; r++) {
        mean += log(speed[r]) / p;
    }
    for (int32_t r = 0; r < p; r++) {
        speed[r] *= exp(-mean);
    }
}

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
    const bool known = self->known && from_cost == self->from_cost;
    const double mean = known ? self->mean : 1.0;
    for (int64_t i = 0; i < n && from_cost; i++) {
        PLB_FAIL_IF(!(cost[i] >= 0.0 && cost[i] <= 1e30), err, PLB_ERR_VALUE,
                    "cost[%lld] is %g: expected 0 ... 1e30", (long long)i, cost[i]);
    }
    *sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        self->last[i] = from_cost ? cost[i] * mean : same ? self->last[i] : mean;
        self->now[i] = from_cost ? self->last[i] : mean + self->trust * (self->last[i] - mean);
        self->now[i] = fmax(self->now[i], PLB_NOISE * mean); /* a factor cannot make 0 larger */
        *sum += self->now[i];
    }
    self->n = n;
    self->known = known;
    self->from_cost = from_cost;
    self->mean = mean;
    memset(self->sum, 0, sizeof self->sum);
    return PLB_OK;
}

void plb_row_costs_look_around(plb_row_costs_t *self)
{
    const int64_t n = self->n, block = 1 + n / PLB_SHARE_PARTS;
    memcpy(self->worst, self->now, (size_t)n * sizeof *self->worst);
    if (!self->known || self->surprises < PLB_SHARE_GAIN) {
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
    for (int64_t k = 0; k < n; k++) {
        const int64_t i = row != NULL ? row[k] : first + k;
        self->last[i] = self->now[i] * ratio;
    }
    self->sum[0] += (double)n;
    self->sum[1] += last;
    self->sum[2] += seconds;
    self->sum[3] += last * last / (double)n;
    self->sum[4] += last * seconds / (double)n;
    self->sum[5] += ratio > PLB_ABRUPT ? seconds - now : 0.0;
}

void plb_row_costs_end(plb_row_costs_t *self, double predicted)
{
    const double *s = self->sum, rows = s[0], seconds = s[2];
    if (rows == 0.0) {
        return;
    }
    const double spread = s[3] - s[1] * s[1] / rows;
    /* else all predictions were nearly equal */
    if (self->known && spread > PLB_NOISE * PLB_NOISE * s[3]) {
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
