/* PowerAwareLB: gives each rank a number of objects such that all ranks end at the same time.
 *
 * Dasgupta eq. 3 and 4: rank i gets x_i of the N objects; w_i x_i is the same for all ranks.
 *
 *   here: 1 / speed[i], seconds per object    there: w_i, "the processor's object time"
 *
 * In the paper all ranks start with the same number of objects, so a processor's total object time
 * can be its weight.  After the first LB step, only the time per object is correct.  The weight of
 * a rank without a measured time (no objects, or all of load 0) is the mean load of an object,
 * divided by the rank's speed.  A rank's background is part of its time.  Objects that may not
 * migrate are part of x_i, even if there are more of them than eq. 4 gives.
 *
 * The x_i are rounded by the method of the largest remainder (ties: the rank that now has more
 * movable objects, then the lowest rank).  Only as many objects move as needed: from each rank
 * those with the highest indices, to the lowest ranks.  All objects are assumed to be equal. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

static const double FASTEST = 1e30; /* objects per second */

typedef struct quota {
    const plb_problem_t *problem;
    int32_t p;
    double *speed; /* [p] objects per second: 1 / weight */
    double *fixed; /* [p] number of fixed objects (that may not migrate) */
    double *share; /* [p] number of movable objects that each rank should have, not rounded */
    int64_t *have; /* [p] number of movable objects before the LB step */
    int64_t *part; /* [p] number of movable objects after the LB step */
} quota_t;

/* Count the objects, and compute shares such that all ranks end at the same time. */
static int quota_init(quota_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    double sum = 0.0;
    *self = (quota_t){.problem = problem, .p = in->n_ranks};
    PLB_PASS_NEW0_EACH(self->p, self->speed, self->fixed, self->have);
    PLB_PASS_NEW_EACH(self->p, self->share, self->part);
    for (int64_t i = 0; i < in->n_objects; i++) {
        const int32_t r = in->rank[i];
        self->speed[r] += in->load[i];
        sum += in->load[i];
        self->have[r] += plb_may_migrate(in, i);
        self->fixed[r] += !plb_may_migrate(in, i);
    }
    const double mean = sum > 0.0 ? sum / (double)in->n_objects : 1.0;
    for (int32_t r = 0; r < self->p; r++) {
        const double n = self->fixed[r] + (double)self->have[r];
        const double load = self->speed[r] > 0.0 ? self->speed[r] / n : mean;
        self->speed[r] = fmin(plb_speed(in, r) / load, FASTEST);
    }
    plb_snapshot_t equal = *in;
    equal.speed = self->speed;
    equal.n_speeds = 1;
    const plb_problem_t of = {.in = &equal, .fixed = self->fixed};
    return plb_problem_shares(&of, (double)problem->n, self->share, err);
}

/* Round to whole numbers of objects.  Ranks are sorted because of the rule for ties. */
static int round_off(quota_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_loads_t order = {0};
    double *share = NULL;
    int64_t *part = NULL;
    PLB_NEW_EACH(self->p, share, part);
    for (int32_t r = 0; r < self->p; r++) {
        share[r] = (double)self->have[r];
    }
    PLB_TRY(plb_loads_sorted(&order, share, self->p, PLB_DESCENDING, err));
    for (int32_t k = 0; k < self->p; k++) {
        share[k] = self->share[order.item[k].id];
    }
    PLB_TRY(plb_apportion(share, self->p, self->problem->n, part, err));
    for (int32_t k = 0; k < self->p; k++) {
        self->part[order.item[k].id] = part[k];
    }
out:
    plb_loads_free(&order);
    PLB_FREE(share, part);
    return ret;
}

static void hand_over(const quota_t *self, int32_t *out)
{
    int64_t *have = self->have;
    int32_t to = 0;
    for (int64_t k = self->problem->n - 1; k >= 0; k--) {
        const int32_t i = plb_problem_object(self->problem, k), from = self->problem->in->rank[i];
        if (have[from] <= self->part[from]) {
            continue;
        }
        while (have[to] >= self->part[to]) {
            to++;
        }
        out[i] = to;
        have[from]--;
        have[to]++;
    }
}

static int power_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                     int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    quota_t quota = {0};
    PLB_PASS(plb_problem_init(&problem, in, err));
    int ret = PLB_OK;
    PLB_TRY(quota_init(&quota, &problem, err));
    if (problem.n > 0) {
        PLB_TRY(round_off(&quota, err));
        hand_over(&quota, out);
        ret = plb_start_repaired(in, out, err);
    }
out:
    PLB_FREE(quota.speed, quota.fixed, quota.share, quota.have, quota.part);
    plb_problem_free(&problem);
    return ret;
}

const plb_strategy_t plb_strategy_power = {
    .name = "PowerAwareLB",
    .help = "gives each rank as many objects as it can finish in the same time; assumes that all "
            "objects are equal",
    .source = "Dasgupta eq. 3, 4",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .for_equal_objects = true,
    .run = power_run,
};
