#include "decide/decider.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* The iterations for which the waiting is computed; it is interpolated between them, and constant
 * after the last one. */
const int plb_cycle_times[] = {0, 1, 2, 4, PLB_WINDOW, 2 * PLB_WINDOW};
enum { N_TIMES = sizeof plb_cycle_times / sizeof *plb_cycle_times };

void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load)
{
    const double span = t * self->belief;
    for (int64_t i = 0; i < self->now->n_objects; i++) {
        load[i] = fmax(self->now->load[i] + span * self->drift[i], 0.0);
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

/* Return the seconds of an iteration that a rank loses on average, by its messages (talk[n_ranks])
 * and by waiting for the slowest rank.  time: [n_ranks], scratch memory. */
static double waiting(const plb_snapshot_t *s, const int32_t *rank, const double *talk,
                      double stretch, double *time)
{
    double most = 0.0, sum = 0.0;
    plb_snapshot_rank_times(s, rank, time);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        most = fmax(most, time[r] + talk[r]);
        sum += time[r];
    }
    return fmax(most - stretch * (sum / s->n_ranks), 0.0); /* the mean may be rounded up */
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
    PLB_TRY(plb_add_messages(&then, rank, network, talk, err));
    then.load = load;
    for (int k = 0; k < n; k++) {
        plb_cycle_loads(self, plb_cycle_times[k], load);
        wait[k] = waiting(&then, rank, talk, self->stretch, time);
    }
    memset(talk, 0, (size_t)then.n_ranks * sizeof *talk);
    for (int64_t k = 1; elsewhere != NULL && k < 4; k++) {
        for (int64_t i = 0; i < then.n_objects; i++) {
            load[i] = self->now->load[(i + k * then.n_objects / 4) % then.n_objects];
        }
        *elsewhere += waiting(&then, rank, talk, self->stretch, time) / 3;
    }
out:
    PLB_FREE(load, time, talk);
    return ret;
}

int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err)
{
    double wait[2];
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
    const double longest = fmin(self->left, PLB_LONG), last = plb_cycle_times[N_TIMES - 1];
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
