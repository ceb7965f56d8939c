#include "place/kit/vectors.h"

#include <float.h>
#include <string.h>

#include "base/mem.h"

void plb_vectors_put(plb_vectors_t *self, int32_t i, int32_t r)
{
    self->rank[i] = r;
    for (int32_t k = 0; k < self->d; k++) {
        self->t[(int64_t)k * self->p + r] += plb_vectors_load(self, i, k) * self->pace[r];
    }
    plb_memory_add(&self->memory, i, r);
    if (plb_may_migrate(self->in, i)) {
        plb_members_enter(&self->on, i, r);
    }
}

void plb_vectors_take(plb_vectors_t *self, int32_t i)
{
    const int32_t r = self->rank[i];
    for (int32_t k = 0; k < self->d; k++) {
        self->t[(int64_t)k * self->p + r] -= plb_vectors_load(self, i, k) * self->pace[r];
    }
    plb_memory_remove(&self->memory, i, r);
    plb_members_leave(&self->on, i, r);
}

int plb_vectors_begin(plb_vectors_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->in;
    plb_memory_free(&self->memory);
    const int ret = plb_memory_init(&self->memory, in, in->n_objects + 2 * PLB_VECTOR_ROUNDS, err);
    memset(self->t, 0, (size_t)self->d * (size_t)self->p * sizeof *self->t);
    for (int32_t r = 0; r < self->p; r++) {
        self->t[r] = plb_background(in, r);
        self->on.head[r] = -1;
    }
    for (int64_t i = 0; ret == PLB_OK && in->migratable != NULL && i < in->n_objects; i++) {
        if (!in->migratable[i]) {
            plb_vectors_put(self, (int32_t)i, in->rank[i]);
        }
    }
    return ret;
}

bool plb_vectors_within_limits(const plb_vectors_t *self)
{
    bool out = true;
    for (int32_t r = 0; self->memory.left != NULL && r < self->p; r++) {
        out = out && self->memory.left[r] >= 0;
    }
    return out;
}

int plb_vectors_go_home(plb_vectors_t *self, bool *kept, plb_err_t *err)
{
    const int ret = plb_vectors_begin(self, err);
    for (int64_t i = 0; ret == PLB_OK && i < self->in->n_objects; i++) {
        if (plb_may_migrate(self->in, i)) {
            plb_vectors_put(self, (int32_t)i, self->in->rank[i]);
        }
    }
    *kept = ret == PLB_OK && plb_vectors_within_limits(self);
    return ret;
}

static void set_goals(plb_vectors_t *self)
{
    const plb_snapshot_t *in = self->in;
    double speed = 0.0, fastest = 0.0, background = 0.0;
    for (int32_t r = 0; r < self->p; r++) {
        const double v = plb_speed(in, r);
        self->pace[r] = 1.0 / v;
        speed += v;
        fastest = v > fastest ? v : fastest;
        background += plb_background(in, r) * v;
    }
    for (int32_t k = 0; k < self->d; k++) {
        double sum = k == 0 ? background : 0.0, heaviest = 0.0;
        for (int64_t i = 0; i < in->n_objects; i++) {
            sum += plb_vectors_load(self, i, k);
            heaviest = fmax(heaviest, plb_vectors_load(self, i, k));
        }
        self->goal[k] = fmax(sum / speed, heaviest / fastest);
        /* the inverse of a subnormal number would be infinite */
        self->per[k] = self->goal[k] > 0.0 ? fmin(1.0 / self->goal[k], DBL_MAX) : 0.0;
    }
}

static plb_slowest_t slowest_in(const double *t, int32_t p)
{
    plb_slowest_t out = {{-1.0, -1.0, -1.0}, {-1, -1, -1}};
    for (int32_t r = 0; r < p; r++) {
        if (t[r] <= out.time[2]) {
            continue;
        }
        int at = 2;
        for (; at > 0 && t[r] > out.time[at - 1]; at--) {
            out.time[at] = out.time[at - 1];
            out.rank[at] = out.rank[at - 1];
        }
        out.time[at] = t[r];
        out.rank[at] = r;
    }
    return out;
}

double plb_vectors_cost(plb_vectors_t *self)
{
    double cost = 0.0;
    for (int32_t k = 0; k < self->d; k++) {
        self->slowest[k] = slowest_in(self->t + (int64_t)k * self->p, self->p);
        cost = plb_vectors_add(self, cost, self->slowest[k].time[0], k);
    }
    return cost;
}

double plb_vectors_least(const plb_vectors_t *self)
{
    double cost = 0.0;
    for (int32_t k = 0; k < self->d; k++) {
        cost = plb_vectors_add(self, cost, self->goal[k], k);
    }
    return cost;
}

int plb_vectors_init(plb_vectors_t *self, const plb_snapshot_t *in, bool phases, int32_t *rank,
                     plb_err_t *err)
{
    const int64_t p = in->n_ranks, d = in->n_components;
    *self = (plb_vectors_t){
        .in = in, .p = in->n_ranks, .d = in->n_components, .phases = phases, .rank = rank};
    PLB_PASS_NEW_EACH(d, self->goal, self->per);
    PLB_PASS_NEW(self->pace, p);
    PLB_PASS_NEW(self->t, d * p);
    PLB_PASS_NEW(self->slowest, d);
    PLB_PASS(plb_members_init(&self->on, self->p, in->n_objects, err));
    set_goals(self);
    return PLB_OK;
}

void plb_vectors_free(plb_vectors_t *self)
{
    PLB_FREE(self->goal, self->per, self->pace, self->t, self->slowest);
    plb_members_free(&self->on);
    plb_memory_free(&self->memory);
}
