#include "place/kit/ranks.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* Successive objects are often on the same rank: their sum stays in a register. */
static void add_loads(plb_ranks_t *self)
{
    const plb_snapshot_t *in = self->in;
    for (int64_t i = 0; i < in->n_objects;) {
        const int32_t r = self->rank[i];
        const int64_t begin = i;
        double sum = self->load[r];
        for (; i < in->n_objects && self->rank[i] == r; i++) {
            sum += in->load[i];
        }
        self->load[r] = sum;
        self->on[r] += (int32_t)(i - begin);
    }
}

/* The processor runs the four independent chains of comparisons in parallel. */
static void find_heaviest(plb_ranks_t *self)
{
    const double *load = self->in->load;
    double most[4] = {0.0};
    for (int64_t k = 0; k < self->problem->n; k += 4) {
        for (int64_t lane = 0; lane < 4; lane++) {
            const int64_t own = k + lane < self->problem->n ? k + lane : k;
            const double w = load[plb_problem_object(self->problem, own)];
            most[lane] = w > most[lane] ? w : most[lane];
        }
    }
    self->heaviest = fmax(fmax(most[0], most[1]), fmax(most[2], most[3]));
}

static void take_memory(plb_ranks_t *self)
{
    memcpy(self->room, self->problem->room, (size_t)self->in->n_ranks * sizeof *self->room);
    for (int64_t k = 0; k < self->problem->n; k++) {
        const int32_t i = plb_problem_object(self->problem, k);
        self->room[self->rank[i]] -= self->in->memory[i];
    }
}

int plb_ranks_init(plb_ranks_t *self, const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    const int32_t p = problem->in->n_ranks;
    *self = (plb_ranks_t){.problem = problem, .in = problem->in, .rank = rank};
    PLB_PASS_NEW0_EACH(p, self->load, self->on);
    PLB_PASS_NEW(self->allowed, p);
    add_loads(self);
    find_heaviest(self);
    if (problem->room != NULL) {
        PLB_PASS_NEW(self->room, p);
        take_memory(self);
    }
    return PLB_OK;
}

void plb_ranks_free(plb_ranks_t *self)
{
    PLB_FREE(self->load, self->on, self->allowed, self->room);
    *self = (plb_ranks_t){0};
}

double plb_ranks_average(const plb_ranks_t *self)
{
    double work = 0.0, speed = 0.0;
    for (int32_t r = 0; r < self->in->n_ranks; r++) {
        work += self->load[r] + plb_background(self->in, r) * plb_speed(self->in, r);
        speed += plb_speed(self->in, r);
    }
    return work / speed;
}

void plb_ranks_allow(plb_ranks_t *self, double limit)
{
    self->limit = limit;
    for (int32_t r = 0; r < self->in->n_ranks; r++) {
        self->allowed[r] = (limit - plb_background(self->in, r)) * plb_speed(self->in, r);
    }
}

double plb_ranks_max(const plb_ranks_t *self)
{
    double most = 0.0;
    for (int32_t r = 0; r < self->in->n_ranks; r++) {
        const double here = plb_ranks_seconds(self, r);
        most = here > most ? here : most;
    }
    return most;
}

void plb_ranks_move_known(plb_ranks_t *self, int32_t i, double load, int32_t from, int32_t to)
{
    self->rank[i] = to;
    self->on[from]--;
    self->on[to]++;
    self->load[from] -= load;
    self->load[to] += load;
    if (self->room != NULL) {
        self->room[from] += self->in->memory[i];
        self->room[to] -= self->in->memory[i];
    }
}

void plb_ranks_move(plb_ranks_t *self, int32_t i, int32_t to)
{
    plb_ranks_move_known(self, i, self->in->load[i], self->rank[i], to);
}
