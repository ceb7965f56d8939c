#include "place/internal.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

int plb_problem_check_left(const plb_snapshot_t *in, const int64_t *left, plb_err_t *err)
{
    for (int32_t r = 0; left != NULL && r < in->n_ranks; r++) {
        PLB_FAIL_IF(left[r] < 0, err, PLB_ERR_INFEASIBLE,
                    "rank %d: the objects that may not migrate take %lld bytes more than "
                    "its memory_limit of %lld",
                    r, (long long)-left[r], (long long)in->memory_limit[r]);
    }
    return PLB_OK;
}

int plb_problem_init(plb_problem_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_problem_t){.in = in};
    PLB_NEW0(self->fixed, in->n_ranks);
    if (in->memory != NULL && in->memory_limit != NULL) {
        PLB_NEW(self->room, in->n_ranks);
        memcpy(self->room, in->memory_limit, (size_t)in->n_ranks * sizeof *self->room);
    }
    if (in->migratable == NULL) {
        self->n = in->n_objects;
    } else {
        PLB_NEW(self->object, in->n_objects);
    }
    for (int64_t i = 0; in->migratable != NULL && i < in->n_objects; i++) {
        if (in->migratable[i]) {
            self->object[self->n++] = (int32_t)i;
            continue;
        }
        self->fixed[in->rank[i]] += in->load[i];
        if (self->room != NULL) {
            self->room[in->rank[i]] -= in->memory[i];
        }
    }
    ret = plb_problem_check_left(in, self->room, err);
out:
    if (ret != PLB_OK) {
        plb_problem_free(self);
    }
    return ret;
}

void plb_problem_free(plb_problem_t *self)
{
    PLB_FREE(self->object, self->fixed, self->room);
    *self = (plb_problem_t){0};
}

double plb_average(const plb_snapshot_t *in)
{
    double work = 0.0, speed = 0.0;
    for (int64_t i = 0; i < in->n_objects; i++) {
        work += in->load[i];
    }
    for (int32_t r = 0; r < in->n_ranks; r++) {
        work += plb_background(in, r) * plb_speed(in, r);
        speed += plb_speed(in, r);
    }
    return work / speed;
}

int plb_problem_shares(const plb_problem_t *self, double movable, double *share, plb_err_t *err)
{
    const int32_t p = self->in->n_ranks;
    double *base = NULL, *speed = NULL, total = 0.0;
    int ret = PLB_OK;
    PLB_NEW_EACH(p, base, speed);
    for (int32_t r = 0; r < p; r++) {
        base[r] = plb_problem_fixed_seconds(self, r);
        speed[r] = plb_speed(self->in, r);
    }
    const double level = plb_level(base, speed, p, movable);
    for (int32_t r = 0; r < p; r++) {
        share[r] = fmax((level - base[r]) * speed[r], 0.0);
        total += share[r];
    }
    for (int32_t r = 0; !(total > 0.0) && r < p; r++) {
        share[r] = 1.0; /* the loads are zero or tiny */
    }
out:
    PLB_FREE(base, speed);
    return ret;
}
