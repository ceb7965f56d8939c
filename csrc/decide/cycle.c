#include "decide/cycle.h"

#include <math.h>

#include "base/mem.h"

const int plb_cycle_aheads[PLB_CYCLE_AHEADS] = {0, 1, 2, 4, 8};

/* The waiting time is computed after so many iterations; it is linear between two of them, and
 * constant after the last. */
static const int TIMES[] = {0, 1, 2, 4, 8, 16};
enum { N_TIMES = sizeof TIMES / sizeof *TIMES, LONGEST = 128 };

/* A load is not expected to fall below this fraction of the present one. */
static const double LEAST = 0.05;

void plb_cycle_loads(const plb_cycle_costs_t *self, int t, double *load)
{
    const plb_snapshot_t *now = self->now;
    for (int64_t i = 0; i < now->n_objects; i++) {
        load[i] = fmax(now->load[i] + t * self->belief * self->drift[i], LEAST * now->load[i]);
    }
}

int plb_cycle_bytes(const plb_snapshot_t *now, const int32_t *rank, double *bytes, plb_err_t *err)
{
    int ret = PLB_OK;
    double *leave = NULL;
    *bytes = 0.0;
    if (now->bytes == NULL) {
        return PLB_OK;
    }
    PLB_NEW0(leave, now->n_ranks);
    for (int64_t i = 0; i < now->n_objects; i++) {
        leave[now->rank[i]] += rank == NULL || rank[i] != now->rank[i] ? (double)now->bytes[i] : 0;
    }
    for (int32_t r = 0; r < now->n_ranks; r++) {
        *bytes = fmax(*bytes, leave[r]);
    }
out:
    plb_free(leave);
    return ret;
}

/* Seconds that the ranks wait on average for the slowest one. */
static double waiting(const plb_snapshot_t *s, const int32_t *rank, double *time)
{
    double most = 0.0, sum = 0.0;
    plb_snapshot_rank_times(s, rank, time);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        most = fmax(most, time[r]);
        sum += time[r];
    }
    return fmax(most - sum / s->n_ranks, 0.0); /* the mean may be rounded up */
}

/* Compute wait[n], the seconds that the ranks will wait on average at each of the first n TIMES.
 */
static int wait_for(const plb_cycle_costs_t *self, const int32_t *rank, int n, double *wait,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    plb_snapshot_t then = *self->now;
    double *load = NULL, *time = NULL;
    PLB_NEW(load, then.n_objects);
    PLB_NEW(time, then.n_ranks);
    then.load = load;
    for (int k = 0; k < n; k++) {
        plb_cycle_loads(self, TIMES[k], load);
        wait[k] = waiting(&then, rank, time);
    }
out:
    PLB_FREE(load, time);
    return ret;
}

int plb_cycle_believe(plb_cycle_costs_t *self, double grown, plb_err_t *err)
{
    double wait[2];
    self->belief = 1.0;
    PLB_PASS(wait_for(self, NULL, 2, wait, err));
    const double said = wait[1] - wait[0];
    self->belief = said == 0.0 ? 0.0 : fmin(fmax(grown / said, 0.0), 1.0);
    return PLB_OK;
}

/* The average loss per iteration of a cycle of the best length: the LB step costs `paid`,
 * iteration TIMES[k] loses wait[k]. */
static double lowest_average(const plb_cycle_costs_t *self, double paid, const double *wait)
{
    double best = INFINITY;
    for (int k = 1; k < N_TIMES && TIMES[k] <= fmax(self->left, 1.0); k++) {
        paid += 0.5 * (wait[k - 1] + wait[k]) * (TIMES[k] - TIMES[k - 1]);
        best = fmin(best, paid / TIMES[k]);
    }
    const double longest = fmin(self->left, LONGEST), last = TIMES[N_TIMES - 1];
    return longest > last ? fmin(best, (paid + wait[N_TIMES - 1] * (longest - last)) / longest)
                          : best;
}

int plb_cycle_loss(const plb_cycle_costs_t *self, const int32_t *rank, double *loss,
                   plb_err_t *err)
{
    double wait[N_TIMES], bytes;
    PLB_PASS(plb_cycle_bytes(self->now, rank, &bytes, err));
    PLB_PASS(wait_for(self, rank, N_TIMES, wait, err));
    *loss = lowest_average(self, self->step + self->per_byte * bytes, wait);
    return PLB_OK;
}
