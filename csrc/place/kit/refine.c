#include "place/kit/refine.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "place/kit/bound.h"

/* The limit of a search is higher by this fraction, because sums are rounded. */
static const double ROUNDING = 1e-9;

/* A lower maximum is worth migrations if it is lower by at least this fraction. */
static const double WORTH = 1e-4;

/* If the limit is missed by the fraction FAR, it was too low.  Then the search begins again, with
 * a limit above what was reached by the fraction NEAR / 2, and may end above it by NEAR. */
static const double FAR = 0.01, NEAR = 0.002;

static int64_t migrations(const plb_snapshot_t *in, const int32_t *from, const int32_t *rank)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_objects; i++) {
        n += rank[i] != from[i];
    }
    return n;
}

/* If the limit was missed, search for the lowest one that can be met, from where the search is. */
static int bisect(plb_state_t *on, double limit, plb_aim_t aim, plb_err_t *err)
{
    double low = limit, most = plb_state_value(on);
    aim.kicks = 0;
    while (most - low > 2.0 * NEAR * limit) {
        aim.value = 0.5 * (low + most);
        PLB_PASS(plb_improve(on, &aim, err));
        low = plb_state_value(on) > aim.value ? aim.value : low;
        most = plb_state_value(on);
    }
    return PLB_OK;
}

int plb_refine(const plb_problem_t *problem, plb_refinement_t *self, const int32_t *from,
               int32_t *rank, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const plb_objective_t of = {0};
    plb_state_t on = {0};
    int32_t *best = NULL;
    bool raised = false;
    int ret = plb_state_init(&on, in, &of, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    plb_state_set(&on, from);
    self->before = self->after = plb_state_value(&on);
    self->limit = fmax(self->overload * plb_state_mean(&on), on.goal[0]);
    const bool swaps = problem->n >= (int64_t)PLB_REFINE_VERY_SCARCE * in->n_ranks;
    const unsigned families = swaps ? self->families : self->families & ~PLB_SWAPS;
    plb_aim_t aim = {self->limit * (1.0 + ROUNDING), families & ~PLB_SETS, 0, self->seed};
    PLB_TRY(plb_improve(&on, &aim, err));
    if (plb_state_value(&on) > aim.value) {
        PLB_TRY(plb_bound_raise(problem, &self->limit, &raised, err));
        aim = (plb_aim_t){self->limit * (1.0 + ROUNDING), families, self->kicks, self->seed};
        if (raised) {
            plb_state_set(&on, from);
        }
        PLB_TRY(plb_improve(&on, &aim, err));
        PLB_TRY(bisect(&on, self->limit, aim, err));
    }
    self->after = plb_state_value(&on);
    if (self->after > (1.0 + FAR) * self->limit) {
        PLB_NEW(best, in->n_objects);
        memcpy(best, rank, (size_t)in->n_objects * sizeof *rank);
        aim.value = (1.0 + 0.5 * NEAR) * self->after;
        plb_state_set(&on, from);
        PLB_TRY(plb_improve(&on, &aim, err));
        if (plb_state_value(&on) <= (1.0 + NEAR) * self->after &&
            migrations(in, from, rank) < migrations(in, from, best)) {
            self->after = plb_state_value(&on);
        } else {
            plb_state_set(&on, best);
        }
    }
    if (self->after >= self->before * (1.0 - WORTH)) {
        self->after = self->before;
        plb_state_set(&on, from);
    }
out:
    plb_state_free(&on);
    plb_free(best);
    return ret;
}

int plb_refine_more(const plb_problem_t *problem, double overload, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *from = NULL;
    plb_refinement_t how = {.overload = overload, .families = PLB_ALL_STEPS};
    const size_t size = (size_t)problem->in->n_objects * sizeof *rank;
    PLB_NEW(from, problem->in->n_objects);
    memcpy(from, rank, size);
    ret = plb_refine(problem, &how, from, rank, err);
    plb_free(from);
out:
    return ret;
}
