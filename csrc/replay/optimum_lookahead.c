#include "replay/optimum_lookahead.h"

#include <string.h>

#include "base/cpu.h"

/* Four numbers, which the compiler keeps in one vector register. */
typedef double lanes_t __attribute__((vector_size(4 * sizeof(double)), aligned(8)));

static bool as_recorded(const layout_t *self, const section_t *c, int64_t i, const int32_t *rank)
{
    const int32_t *recorded = self->trace->task_rank + self->trace->task_ptr[i];
    const int32_t *slot = self->slot + c->slots;
    for (int64_t k = 0; k < c->n; k++) {
        if (rank[slot[k]] != recorded[k]) {
            return false;
        }
    }
    return true;
}

/* Like add_block, for GROUP placements together, whose sums are adjacent. */
PLB_MULTIVERSION
static void add_blocks(const double *restrict lanes, const int32_t *slot, int64_t n,
                       const int32_t *const *rank, int64_t stride, double *restrict sum)
{
    const int32_t *a = rank[0], *b = rank[1], *c = rank[2], *d = rank[3];
    double *of_b = sum + stride, *of_c = of_b + stride, *of_d = of_c + stride;
    for (int64_t k = 0; k < n; k++) {
        const int32_t j = slot[k];
        double *w = sum + (int64_t)a[j] * LANES, *x = of_b + (int64_t)b[j] * LANES;
        double *y = of_c + (int64_t)c[j] * LANES, *z = of_d + (int64_t)d[j] * LANES;
        const lanes_t *load = (const lanes_t *)(lanes + k * LANES);
        for (int l = 0; l < LANES / 4; l++) {
            ((lanes_t *)w)[l] += load[l];
            ((lanes_t *)x)[l] += load[l];
            ((lanes_t *)y)[l] += load[l];
            ((lanes_t *)z)[l] += load[l];
        }
    }
}

/* Add the loads of n tasks in the LANES phases of a block to the sums of their ranks. */
PLB_MULTIVERSION
static void add_block(const double *restrict lanes, const int32_t *slot, int64_t n,
                      const int32_t *rank, double *restrict sum)
{
    for (int64_t k = 0; k < n; k++) {
        double *of = sum + (int64_t)rank[slot[k]] * LANES;
        for (int l = 0; l < LANES; l++) {
            of[l] += lanes[k * LANES + l];
        }
    }
}

/* Compute most[LANES], the seconds of the slowest rank in each phase. */
PLB_MULTIVERSION
static void slowest(const double *sum, const double *pace, const double *background, int32_t p,
                    double *most)
{
    for (int l = 0; l < LANES; l++) {
        most[l] = 0.0;
    }
    for (int32_t r = 0; r < p; r++) {
        const double own = pace == NULL ? 1.0 : pace[r];
        const double other = background == NULL ? 0.0 : background[r];
        for (int l = 0; l < LANES; l++) {
            const double all = other + sum[(int64_t)r * LANES + l] / own;
            most[l] = all > most[l] ? all : most[l];
        }
    }
}

static void add_phase(const layout_t *self, const section_t *c, int64_t i, const int32_t *rank,
                      double *sum)
{
    for (int64_t k = 0; k < c->n; k++) {
        sum[(int64_t)rank[self->slot[c->slots + k]] * LANES] +=
            plb_task_work(self->trace, self->trace->task_ptr[i] + k);
    }
}

/* Compute the times of phases i ... end - 1 of one block; without blocks, `end` is i + 1. */
static void run_block(const layout_t *self, const section_t *c, int64_t i, int64_t end,
                      const group_t *group)
{
    const plb_trace_t *t = self->trace;
    const int32_t *slot = self->slot + c->slots;
    const int64_t block = (i - c->first) / LANES, stride = (int64_t)t->n_ranks * LANES;
    const int64_t at = c->lanes < 0 ? i : c->first + block * LANES;
    const double *lanes = self->lanes + c->lanes + block * c->n * LANES;
    double most[LANES];
    memset(group->sum, 0, (size_t)(group->n * stride) * sizeof *group->sum);
    if (c->lanes >= 0 && group->n == GROUP) {
        add_blocks(lanes, slot, c->n, group->rank, stride, group->sum);
    }
    for (int g = 0; g < group->n; g++) {
        const int32_t *rank = group->rank[g];
        double *sum = group->sum + g * stride;
        if (c->lanes < 0) {
            add_phase(self, c, i, rank, sum);
        } else if (group->n < GROUP) {
            add_block(lanes, slot, c->n, rank, sum);
        }
        slowest(sum, self->pace, t->background, t->n_ranks, most);
        for (int64_t j = i; j < end; j++) {
            group->ring[g][j % RING] = t->figures != NULL && as_recorded(self, c, j, rank)
                                           ? t->figures[PLB_N_TRACE_FIGURES * j + PLB_FIGURE_TIME]
                                           : plb_phase_seconds(t, j, most[j - at]);
        }
    }
}

int64_t plb_layout_run(const layout_t *self, int64_t i, int64_t known, int64_t until,
                       group_t *group)
{
    int64_t at = self->section_of[i];
    while (known < until) {
        const section_t *c = &self->section[self->section_of[known]];
        while (at < self->section_of[known]) {
            at++;
            for (int g = 0; g < group->n; g++) {
                int32_t *own = group->scratch + g * self->n_slots;
                if (group->rank[g] != own) {
                    memcpy(own, group->rank[g], (size_t)self->n_slots * sizeof *own);
                    group->rank[g] = own;
                }
                plb_layout_enter(self, at, own);
            }
        }
        const int64_t block = c->first + ((known - c->first) / LANES + 1) * LANES;
        const int64_t end = c->lanes < 0 ? known + 1 : block < c->end ? block : c->end;
        run_block(self, c, known, end, group);
        known = end;
    }
    return known;
}
