#include "place/internal.h"

#include <float.h>
#include <math.h>

#include "base/base.h"

/* Return the bytes of object i, with any block that it shares. */
static double size_of(const plb_snapshot_t *in, int64_t i)
{
    const bool shares = in->block != NULL && in->block[i] >= 0;
    return (in->memory == NULL ? 0.0 : (double)in->memory[i]) +
           (shares ? (double)in->block_bytes[in->block[i]] : 0.0);
}

static int fits_nowhere(const plb_state_t *on, int32_t i, plb_err_t *err)
{
    int64_t more = INT64_MAX;
    for (int32_t r = 0; r < on->p; r++) {
        const int64_t here = plb_state_bytes(on, i, r) - on->left[r];
        more = here < more ? here : more;
    }
    return PLB_FAIL(err, PLB_ERR_INFEASIBLE,
                    "no placement found that keeps memory_limit: object %lld needs %lld bytes%s, "
                    "%lld more than any rank has left after the larger objects are placed",
                    plb_key(on->in, i), (long long)size_of(on->in, i),
                    plb_state_block(on, i) < 0 ? "" : " with its block", (long long)more);
}

void plb_start_present(plb_state_t *on)
{
    plb_state_set(on, on->in->rank);
    plb_state_value(on);
}

/* ---- by work -------------------------------------------------------------------------------- */

/* Compute score[r], the largest component of rank r with the object, in units of the goal. */
PLB_MULTIVERSION
static void score_ranks(const plb_state_t *on, const double *object, double *restrict score)
{
    const int32_t p = on->p;
    for (int32_t k = 0; k < on->d; k++) {
        const double *restrict t = on->t + (int64_t)k * p;
        const double *restrict pace = on->pace + (int64_t)k * p;
        const double x = object[k], per = on->per[k];
        const bool first = k == 0;
        for (int32_t r = 0; r < p; r++) {
            const double s = (t[r] + x * pace[r]) * per;
            score[r] = first || s > score[r] ? s : score[r];
        }
    }
}

/* Return the rank for an object; -1: the object fits nowhere. */
static int32_t best_rank(const plb_state_t *on, int64_t i, double *score)
{
    int32_t best = -1;
    score_ranks(on, on->in->load + i * on->d, score);
    for (int64_t k = on->own == NULL || !on->of.messages ? 0 : on->start[i];
         on->own != NULL && on->of.messages && k < on->start[i + 1]; k++) {
        const int32_t at = on->rank[on->other[k]];
        if (at >= 0) { /* the rank of a partner */
            score[at] -= on->bond[k] * on->per[0];
        }
        for (int32_t r = at < 0 || on->near == NULL ? at : on->neighbour[at]; r != at;
             r = on->neighbour[r]) {
            score[r] -= fabs(on->near[k]) * on->per[0];
        }
    }
    for (int32_t r = 0; r < on->p; r++) {
        if ((best < 0 || score[r] < score[best]) && plb_state_has_room(on, i, r)) {
            best = r;
        }
    }
    return best;
}

static bool may_stay(const plb_state_t *on, int64_t i, double overload)
{
    const int32_t r = on->in->rank[i];
    for (int32_t k = 0; k < on->d; k++) {
        const int64_t at = (int64_t)k * on->p + r;
        const double t = on->t[at] + plb_state_load(on, i, k) * on->pace[at];
        if (t > overload * on->goal[k]) {
            return false;
        }
    }
    return plb_state_has_room(on, i, r);
}

/* Place objects in two orders: those that may stay, then the others. */
static int fit_in_order(plb_state_t *on, double overload, const plb_loads_t *stay,
                        const plb_loads_t *order, double *score, plb_err_t *err)
{
    const plb_snapshot_t *in = on->in;
    plb_state_begin(on);
    PLB_PASS(plb_problem_check_left(in, on->left, err));
    for (int64_t j = 0; j < in->n_objects; j++) {
        const int32_t i = stay->item[j].id;
        if (overload > 0.0 && on->rank[i] < 0 && may_stay(on, i, overload)) {
            plb_state_put(on, i, in->rank[i]);
        }
    }
    for (int64_t j = 0; j < in->n_objects; j++) {
        const int32_t i = order->item[j].id;
        if (on->rank[i] >= 0) {
            continue;
        }
        const int32_t r = best_rank(on, i, score);
        if (r < 0) {
            return fits_nowhere(on, i, err);
        }
        plb_state_put(on, i, r);
        PLB_PASS(plb_interrupted(on->p));
    }
    return PLB_OK;
}

/* Objects are placed in descending order of their largest component, in units of its goal.  With
 * memory limits, those with the most bytes for this size stay first: so the objects that leave
 * have much load, but few bytes. */
int plb_start_fit(plb_state_t *on, double overload, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = on->in->n_objects;
    double *size = NULL, *score = NULL;
    plb_loads_t order = {0}, stay = {0};
    PLB_NEW(size, n);
    PLB_NEW(score, on->p);
    for (int64_t i = 0; i < n; i++) {
        size[i] = 0.0;
        for (int32_t k = 0; k < on->d; k++) {
            size[i] = fmax(size[i], plb_state_load(on, i, k) * on->per[k]);
        }
    }
    PLB_TRY(plb_loads_sorted(&order, size, n, PLB_DESCENDING, err));
    for (int64_t i = 0; on->left != NULL && i < n; i++) {
        size[i] = fmin(size_of(on->in, i) / fmax(size[i], DBL_MIN), DBL_MAX);
    }
    PLB_TRY(plb_loads_sorted(&stay, size, n, PLB_DESCENDING, err));
    PLB_TRY(fit_in_order(on, overload, &stay, &order, score, err));
    plb_state_value(on);
out:
    plb_loads_free(&order);
    plb_loads_free(&stay);
    PLB_FREE(size, score);
    return ret;
}

/* ---- by memory ------------------------------------------------------------------------------ */

/* A unit is all objects of a block, or an object without a block.  Units are placed as a whole, if
 * possible: a block that is split needs its bytes on two ranks. */
typedef struct units {
    plb_state_t *on;
    int32_t *object; /* [n_objects] the objects, one unit after the other */
    int64_t *start;  /* [n + 1] unit u has object[start[u]] ... object[start[u + 1] - 1] */
    int64_t n;
    bool stay; /* units stay on their rank if they fit there */
} units_t;

/* Make units of the objects without a rank. */
static int units_init(units_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t m = 0;
    const plb_snapshot_t *in = self->on->in;
    const int64_t n = in->n_objects;
    int32_t *object = NULL;
    double *key = NULL;
    plb_loads_t order = {0};
    PLB_NEW_EACH(n, key, object, self->object);
    PLB_NEW(self->start, n + 1);
    for (int64_t i = 0; i < n; i++) {
        const bool shares = in->block != NULL && in->block[i] >= 0;
        if (self->on->rank[i] < 0) {
            key[m] = (double)(shares ? in->block[i] : in->n_blocks + i);
            object[m++] = (int32_t)i;
        }
    }
    PLB_TRY(plb_loads_sorted(&order, key, m, PLB_ASCENDING, err));
    for (int64_t j = 0; j < m; j++) {
        self->object[j] = object[order.item[j].id];
        if (j == 0 || order.item[j].key != order.item[j - 1].key) {
            self->start[self->n++] = j;
        }
    }
    self->start[self->n] = m;
out:
    plb_loads_free(&order);
    PLB_FREE(key, object);
    return ret;
}

/* Return the bytes of the objects j ... end-1 without their block. */
static int64_t own_bytes(const units_t *self, int64_t j, int64_t end)
{
    const int64_t *memory = self->on->in->memory;
    int64_t sum = 0;
    for (; memory != NULL && j < end; j++) {
        sum += memory[self->object[j]];
    }
    return sum;
}

/* Put the objects j ... end-1 of one block on a rank: the present rank of the first one if they
 * may stay, else the one with the most memory left afterwards; return whether they fit on one. */
static bool put_together(units_t *self, int64_t j, int64_t end)
{
    plb_state_t *on = self->on;
    const int32_t first = self->object[j], present = on->in->rank[first];
    const int64_t rest = own_bytes(self, j + 1, end);
    int32_t best = -1;
    int64_t most = -1;
    for (int32_t r = 0; r < on->p; r++) {
        const int64_t left = on->left[r] - plb_state_bytes(on, first, r) - rest;
        if (left > most && !(self->stay && best == present)) {
            most = left;
            best = r;
        }
        if (self->stay && r == present && left >= 0) {
            best = r;
        }
    }
    for (; best >= 0 && j < end; j++) {
        plb_state_put(on, self->object[j], best);
    }
    return best >= 0;
}

/* Put all units on ranks, those with the most bytes first; a unit that fits nowhere is split. */
static int put_all(units_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    double *size = NULL;
    plb_loads_t order = {0};
    PLB_NEW(size, self->n);
    for (int64_t u = 0; u < self->n; u++) {
        const int64_t j = self->start[u];
        size[u] = (double)own_bytes(self, j + 1, self->start[u + 1]) +
                  size_of(self->on->in, self->object[j]);
    }
    PLB_TRY(plb_loads_sorted(&order, size, self->n, PLB_DESCENDING, err));
    for (int64_t u = 0; u < self->n; u++) {
        int64_t j = self->start[order.item[u].id];
        const int64_t end = self->start[order.item[u].id + 1];
        PLB_TRY(plb_interrupted(self->on->p));
        if (put_together(self, j, end)) {
            continue;
        }
        for (; j < end; j++) {
            if (!put_together(self, j, j + 1)) {
                ret = fits_nowhere(self->on, self->object[j], err);
                goto out;
            }
        }
    }
out:
    plb_loads_free(&order);
    plb_free(size);
    return ret;
}

/* Place the objects without a rank, with memory as the only aim. */
static int put_rest(plb_state_t *on, bool stay, plb_err_t *err)
{
    units_t units = {.on = on, .stay = stay};
    int ret = PLB_OK;
    PLB_TRY(units_init(&units, err));
    ret = put_all(&units, err);
out:
    PLB_FREE(units.object, units.start);
    plb_state_value(on);
    return ret;
}

int plb_start_packed(plb_state_t *on, plb_err_t *err)
{
    int ret = PLB_ERR_INFEASIBLE;
    for (int stay = 1; ret == PLB_ERR_INFEASIBLE && stay >= 0; stay--) {
        plb_state_begin(on);
        PLB_PASS(plb_problem_check_left(on->in, on->left, err));
        ret = put_rest(on, stay == 1, err);
    }
    if (ret == PLB_ERR_INFEASIBLE) {
        plb_start_present(on);
        return PLB_OK;
    }
    return ret;
}

/* Take objects from ranks above their limits, those with the least load per byte first, because
 * they change the times least. */
static int evict(plb_state_t *on, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = on->in;
    plb_loads_t order = {0};
    double *density = NULL;
    PLB_NEW(density, in->n_objects);
    for (int64_t i = 0; i < in->n_objects; i++) {
        density[i] = in->load[i] / fmax((double)in->memory[i], 1.0);
    }
    PLB_TRY(plb_loads_sorted(&order, density, in->n_objects, PLB_ASCENDING, err));
    for (int64_t j = 0; j < in->n_objects; j++) {
        const int32_t i = order.item[j].id;
        if (on->left[on->rank[i]] < 0 && in->memory[i] > 0 && plb_may_migrate(in, i)) {
            plb_state_take(on, i);
        }
    }
out:
    plb_loads_free(&order);
    plb_free(density);
    return ret;
}

int plb_start_repaired(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err)
{
    const plb_objective_t of = {0};
    const plb_aim_t aim = {INFINITY, PLB_ALL_STEPS, true, 0};
    plb_state_t on = {0};
    int ret = PLB_OK;
    if (in->memory == NULL || in->memory_limit == NULL) {
        return ret;
    }
    PLB_TRY(plb_state_init(&on, in, &of, rank, err));
    plb_state_set(&on, rank);
    plb_state_value(&on);
    if (on.fits) {
        goto out;
    }
    PLB_TRY(evict(&on, err));
    ret = put_rest(&on, false, err);
    if (ret == PLB_ERR_INFEASIBLE || (ret == PLB_OK && !on.fits)) {
        plb_start_present(&on);
        ret = on.fits ? PLB_OK : plb_start_packed(&on, err);
        PLB_THEN(plb_improve(&on, &aim, err));
        ret = ret == PLB_OK && !on.fits ? PLB_ERR_INFEASIBLE : ret;
    }
out:
    plb_state_free(&on);
    return ret;
}
