#include "decide/decider.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* The iterations for which the waiting is computed; it is interpolated between them, and constant
 * after the last one.  LONGEST: iterations of the longest cycle that is considered. */
const int plb_cycle_times[] = {0, 1, 2, 4, 8, 16};
enum { N_TIMES = sizeof plb_cycle_times / sizeof *plb_cycle_times, LONGEST = 128 };

/* No load is expected to fall below this fraction of its present value. */
static const double LEAST = 0.05;

/* the slope is fitted to this many objects on each side; with fewer it would be mostly noise */
enum { NEAR = 4 };

/* The velocity is 0 if it explains less than this fraction of the drift's sum of squares. */
static const double EXPLAINED = 0.25;

/* Slope of the load from object to object, fitted to `near` objects on each side of object i. */
static double slope(const plb_snapshot_t *s, int64_t i, int near)
{
    const int64_t last = s->n_objects - 1;
    double sum = 0.0, squares = 0.0;
    for (int k = 1; k <= near; k++) {
        const double before = s->load[i > k ? i - k : 0];
        const double after = s->load[i + k < last ? i + k : last];
        sum += k * (after - before);
        squares += 2.0 * k * k;
    }
    return sum / squares;
}

/* Interpolate the load at `place`, a fractional object index; outside, return the nearest load. */
static double load_at(const plb_snapshot_t *s, double place)
{
    const double x = fmin(fmax(place, 0.0), (double)(s->n_objects - 1));
    const int64_t i = (int64_t)x, next = i + 1 < s->n_objects ? i + 1 : i;
    const double part = x - (double)i;
    return (1.0 - part) * s->load[i] + part * s->load[next];
}

/* Set the velocity, fitted to the drift: a moving pattern changes each load by -velocity * (slope
 * of the loads at the object).  The velocity is 0 if this explains too little of the drift. Growth
 * that all loads have in common is not caused by a moving pattern, so it is subtracted.  The slope
 * over many objects is an instrumental variable: neither its smoothing nor the noise of the loads
 * biases the velocity. */
static void fit_velocity(plb_cycle_costs_t *self)
{
    const plb_snapshot_t *s = self->now;
    double change = 0.0, slopes = 0.0, drifts = 0.0, wide = 0.0, load = 0.0, drift = 0.0;
    for (int64_t i = 0; i < s->n_objects; i++) {
        load += s->load[i];
        drift += self->drift[i];
    }
    const double growth = load > 0.0 ? drift / load : 0.0;
    for (int64_t i = 0; i < s->n_objects; i++) {
        const double g = slope(s, i, NEAR), d = self->drift[i] - growth * s->load[i];
        change -= d * g;
        slopes += slope(s, i, 1) * g;
        drifts += d * d;
        wide += g * g;
    }
    const bool moves = slopes > 0.0 && change * change > EXPLAINED * wide * drifts;
    self->velocity = moves ? change / slopes : 0.0;
}

void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load)
{
    const plb_snapshot_t *now = self->now;
    const double span = t * self->belief, v = self->velocity;
    for (int64_t i = 0; i < now->n_objects; i++) {
        const double from = v == 0.0 ? now->load[i] : load_at(now, (double)i - span * v);
        const double own = v == 0.0 ? self->drift[i] : self->drift[i] + v * slope(now, i, NEAR);
        load[i] = fmax(from + span * own, LEAST * now->load[i]);
    }
}

int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err)
{
    int ret = PLB_OK;
    double *leave = NULL;
    *bytes = 0.0;
    if (now->nbytes == NULL) {
        return PLB_OK;
    }
    PLB_NEW0(leave, now->n_ranks);
    for (int64_t i = 0; i < now->n_objects; i++) {
        leave[now->rank[i]] +=
            rank == NULL || rank[i] != now->rank[i] ? (double)now->nbytes[i] : 0;
    }
    for (int32_t r = 0; r < now->n_ranks; r++) {
        *bytes = fmax(*bytes, leave[r]);
    }
out:
    plb_free(leave);
    return ret;
}

/* The seconds of an iteration that a rank loses on average, by its messages (talk[n_ranks]) and by
 * waiting for the slowest rank.  time: [n_ranks], scratch memory. */
static double waiting(const plb_snapshot_t *s, const int32_t *rank, const double *talk,
                      double *time)
{
    double most = 0.0, sum = 0.0;
    plb_snapshot_rank_times(s, rank, time);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        most = fmax(most, time[r] + talk[r]);
        sum += time[r];
    }
    return fmax(most - sum / s->n_ranks, 0.0); /* the mean may be rounded up */
}

/* Compute talk[n_ranks], the seconds of the ranks' messages.  time: [n_ranks], scratch memory. */
static int messages(const plb_snapshot_t *s, const int32_t *rank, plb_network_t network,
                    double *time, double *talk, plb_err_t *err)
{
    if (!(network.alpha + network.beta > 0.0 && s->n_edges + s->n_multicasts > 0)) {
        return PLB_OK;
    }
    PLB_PASS(plb_phase_times(s, rank, network, talk, err));
    plb_snapshot_rank_times(s, rank, time);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        talk[r] -= time[r];
    }
    return PLB_OK;
}

/* Compute wait[n], the mean seconds that a rank loses at each of the first n plb_cycle_times; and,
 * if not NULL, *elsewhere: those in the iteration after a jump, which shifts the loads along the
 * row of objects by a quarter, a half or three quarters of the row (without messages). */
static int wait_for(const plb_cycle_costs_t *self, const int32_t *rank, plb_network_t network,
                    int n, double *wait, double *elsewhere, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_snapshot_t then = *self->now;
    double *load = NULL, *time = NULL, *talk = NULL;
    PLB_NEW(load, then.n_objects);
    PLB_NEW(time, then.n_ranks);
    PLB_NEW0(talk, then.n_ranks);
    PLB_TRY(messages(&then, rank, network, time, talk, err));
    then.load = load;
    for (int k = 0; k < n; k++) {
        plb_cycle_loads(self, plb_cycle_times[k], load);
        wait[k] = waiting(&then, rank, talk, time);
    }
    memset(talk, 0, (size_t)then.n_ranks * sizeof *talk);
    for (int64_t k = 1; elsewhere != NULL && k < 4; k++) {
        for (int64_t i = 0; i < then.n_objects; i++) {
            load[i] = self->now->load[(i + k * then.n_objects / 4) % then.n_objects];
        }
        *elsewhere += waiting(&then, rank, talk, time) / 3;
    }
out:
    PLB_FREE(load, time, talk);
    return ret;
}

int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err)
{
    double wait[2];
    fit_velocity(self);
    self->belief = 1.0;
    /* messages are free: the measured waiting does not include them */
    PLB_PASS(wait_for(self, NULL, (plb_network_t){0}, 2, wait, NULL, err));
    const double said = wait[1] - wait[0];
    self->belief = said == 0.0 ? 0.0 : fmin(fmax(grown / said, 0.0), 1.0);
    return PLB_OK;
}

/* The average seconds lost per iteration in a cycle of the best length, if its LB step costs
 * `paid` seconds, and wait[k] seconds are lost in iteration plb_cycle_times[k]. */
static double lowest_average(const plb_cycle_costs_t *self, double paid, const double *wait)
{
    double best = INFINITY;
    for (int k = 1; k < N_TIMES && plb_cycle_times[k] <= fmax(self->left, 1.0); k++) {
        paid += 0.5 * (wait[k - 1] + wait[k]) * (plb_cycle_times[k] - plb_cycle_times[k - 1]);
        best = fmin(best, paid / plb_cycle_times[k]);
    }
    const double longest = fmin(self->left, LONGEST), last = plb_cycle_times[N_TIMES - 1];
    return longest > last ? fmin(best, (paid + wait[N_TIMES - 1] * (longest - last)) / longest)
                          : best;
}

int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err)
{
    double wait[N_TIMES], bytes, elsewhere = 0.0;
    PLB_PASS(plb_cycle_bytes(self->now, rank, &bytes, err));
    PLB_PASS(wait_for(self, rank, self->network, N_TIMES, wait, &elsewhere, err));
    *loss =
        lowest_average(self, self->step + self->per_byte * bytes, wait) + self->jumps * elsewhere;
    return PLB_OK;
}
