/* The rows of a recorded run: the placement of each start, run forward to the end. */
#include <math.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "explore/optimum.h"
#include "explore/runner.h"

typedef struct rows {
    plb_runner_t runner;
    int n_parts;
    int32_t *held;        /* [rows of a block, n_entities] rank, or -1: as recorded */
    double *rank_time;    /* [n_parts, n_ranks] */
    int64_t first, count; /* the present block */
    double *t;
} rows_t;

/* The placement that a balancing just before s makes, into held[n_entities]. */
static int place(rows_t *self, int64_t s, int32_t *held, plb_err_t *err)
{
    const plb_trace_t *t = self->runner.trace;
    for (int64_t e = 0; e < t->n_entities; e++) {
        held[e] = -1;
    }
    if (s == 0) {
        return PLB_OK;
    }
    plb_decision_t unused = {0};
    const int64_t k0 = t->task_ptr[s - 1];
    const int ret = plb_runner_ask(&self->runner, s - 1, t->task_rank + k0, &unused, err);
    for (int64_t k = k0; ret == PLB_OK && k < t->task_ptr[s]; k++) {
        const int32_t e = t->task_entity[k];
        held[e] = t->entity_migratable[e] ? self->runner.answer[k - k0] : -1;
    }
    return ret;
}

/* Seconds of phase i; an object that is new since the balancing stays where it was recorded. */
static double phase_time(const plb_trace_t *t, int64_t i, bool balanced, int32_t *held,
                         double *time)
{
    for (int32_t r = 0; r < t->n_ranks; r++) {
        time[r] = 0.0;
    }
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const int32_t e = t->task_entity[k];
        if (held[e] >= 0) {
            time[held[e]] += t->task_load[k];
            continue;
        }
        time[t->task_rank[k]] += t->task_load[k];
        if (balanced && t->entity_migratable[e]) {
            held[e] = t->task_rank[k];
        }
    }
    double most = 0.0;
    for (int32_t r = 0; r < t->n_ranks; r++) {
        const double own = t->speed == NULL ? time[r] : time[r] / t->speed[r];
        const double all = t->background == NULL ? own : t->background[r] + own;
        most = all > most ? all : most;
    }
    return most;
}

/* Every n_parts-th row of the block. */
static void run_part(void *arg, int part, int n_parts)
{
    rows_t *self = arg;
    const plb_trace_t *t = self->runner.trace;
    double *time = self->rank_time + (int64_t)part * t->n_ranks;
    for (int64_t k = part; k < self->count; k += n_parts) {
        const int64_t s = self->first + k;
        int32_t *held = self->held + k * t->n_entities;
        for (int64_t i = s; i < t->n_phases; i++) {
            self->t[k * t->n_phases + i] = phase_time(t, i, s > 0, held, time);
        }
    }
}

static int trace_rows(void *user, int64_t first, int64_t count, double *t, plb_err_t *err)
{
    rows_t *self = user;
    const int64_t n = self->runner.trace->n_entities;
    for (int64_t k = 0; k < count; k++) {
        const int ret = place(self, first + k, self->held + k * n, err);
        if (ret != PLB_OK) {
            return ret;
        }
    }
    self->first = first;
    self->count = count;
    self->t = t;
    plb_parallel(self->n_parts, run_part, self);
    return PLB_OK;
}

int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_strategy_t *strategy, const double *params, uint64_t seed,
                         const plb_optimum_opts_t *opts, plb_err_t *err)
{
    *self = (plb_optimum_t){0};
    const plb_replay_opts_t asked = {.strategy = strategy,
                                     .params = params,
                                     .seed = seed,
                                     .tick = opts->tick,
                                     .tick_arg = opts->tick_arg};
    rows_t rows = {.runner = {.trace = trace, .opts = &asked}, .n_parts = plb_cores()};
    int ret = plb_runner_check(trace, err);
    for (int64_t i = 0; ret == PLB_OK && i < trace->n_phases; i++) {
        ret = plb_runner_check_tasks(trace, i, err);
    }
    if (ret != PLB_OK || trace->n_phases == 0 ||
        (ret = plb_runner_init(&rows.runner, err)) != PLB_OK) {
        goto out;
    }
    PLB_NEW(rows.held, PLB_OPTIMUM_BLOCK * trace->n_entities);
    PLB_NEW(rows.rank_time, rows.n_parts * trace->n_ranks);
    ret = plb_optimum_find(self, trace->n_phases, opts, trace_rows, &rows, err);
out:
    plb_runner_free(&rows.runner);
    plb_free(rows.held);
    plb_free(rows.rank_time);
    return ret;
}
