/* The rows of a recorded run: the placement of each start, run forward to the end.
 *
 * Where every phase has the same objects in the same order, the loads are laid out by blocks of
 * phases, [block][object][phase of the block], and each rank's objects are added block by block:
 * the inner loop runs over phases that do not depend on each other, and all rows of a group use
 * the block while it is in the cache.  Sums are in the order of the tasks either way.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/parallel.h"
#include "explore/optimum.h"
#include "explore/runner.h"

enum { PHASES = 16 };            /* of a block: eight SSE registers */
enum { MOST_BLOCKED = 1 << 25 }; /* loads: 256 MiB */

typedef struct rows {
    plb_runner_t runner;
    int n_parts;
    int32_t *held;     /* [rows of a group, n_entities] rank, or -1: as recorded */
    double *rank_time; /* [n_parts, n_ranks] */
    /* where all phases are alike, else NULL: */
    double *blocked;   /* [blocks, n_tasks, PHASES] loads */
    int32_t *recorded; /* [n_tasks] rank in all phases, or -1 */
    int32_t *order;    /* [rows of a group, n_tasks] tasks by rank */
    int32_t *rank_ptr; /* [rows of a group, n_ranks + 1] into it; [0] is -1: not to be had */
    /* the present group: */
    int64_t first, count;
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
    self->runner.since = self->blocked != NULL ? 0 : s - 1;
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

static void run_row(rows_t *self, int64_t k, double *time)
{
    const plb_trace_t *t = self->runner.trace;
    const int64_t s = self->first + k;
    int32_t *held = self->held + k * t->n_entities;
    for (int64_t i = s; i < t->n_phases; i++) {
        self->t[k * t->n_phases + i] = phase_time(t, i, s > 0, held, time);
    }
}

/* ---- phases that are alike --------------------------------------------------------------------
 */

static int64_t tasks_of(const plb_trace_t *t)
{
    return t->task_ptr[1];
}

static bool alike(const plb_trace_t *t)
{
    if (t->n_phases == 0) {
        return false;
    }
    const int64_t n = tasks_of(t);
    bool same = n * t->n_phases <= MOST_BLOCKED;
    for (int64_t i = 1; same && i < t->n_phases; i++) {
        same = plb_runner_alike(t, i);
    }
    return same;
}

static int lay_out(rows_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->runner.trace;
    const int64_t n = tasks_of(t), blocks = (t->n_phases + PHASES - 1) / PHASES;
    PLB_NEW0(self->blocked, blocks * n * PHASES);
    PLB_NEW(self->recorded, n);
    PLB_NEW(self->order, PLB_OPTIMUM_BLOCK * n);
    PLB_NEW(self->rank_ptr, PLB_OPTIMUM_BLOCK * ((int64_t)t->n_ranks + 1));
    for (int64_t k = 0; k < n; k++) {
        self->recorded[k] = t->task_rank[k];
    }
    for (int64_t i = 0; i < t->n_phases; i++) {
        double *block = self->blocked + i / PHASES * n * PHASES + i % PHASES;
        for (int64_t k = 0; k < n; k++) {
            block[k * PHASES] = t->task_load[i * n + k];
            if (t->task_rank[i * n + k] != self->recorded[k]) {
                self->recorded[k] = -1;
            }
        }
    }
out:
    return ret;
}

/* Row k's tasks by rank, in their order. */
static void sort_row(rows_t *self, int64_t k)
{
    const plb_trace_t *t = self->runner.trace;
    const int64_t n = tasks_of(t);
    const int32_t *held = self->held + k * t->n_entities;
    int32_t *ptr = self->rank_ptr + k * ((int64_t)t->n_ranks + 1);
    int32_t *order = self->order + k * n;
    memset(ptr, 0, ((size_t)t->n_ranks + 1) * sizeof *ptr);
    for (int64_t j = 0; j < n; j++) {
        const int32_t own = held[t->task_entity[j]], r = own < 0 ? self->recorded[j] : own;
        if (r < 0) {
            ptr[0] = -1;
            return;
        }
        ptr[r + 1]++;
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        ptr[r + 1] += ptr[r];
    }
    for (int64_t j = 0; j < n; j++) { /* ptr[r] runs to the end of r, the start of r + 1 */
        const int32_t own = held[t->task_entity[j]], r = own < 0 ? self->recorded[j] : own;
        order[ptr[r]++] = (int32_t)j;
    }
    memmove(ptr + 1, ptr, (size_t)t->n_ranks * sizeof *ptr);
    ptr[0] = 0;
}

/* Seconds of the phases of a block, under row k, into most[PHASES]. */
static void run_block(const rows_t *self, int64_t k, const double *block, double *most)
{
    const plb_trace_t *t = self->runner.trace;
    const int32_t *ptr = self->rank_ptr + k * ((int64_t)t->n_ranks + 1);
    const int32_t *order = self->order + k * tasks_of(t);
    for (int i = 0; i < PHASES; i++) {
        most[i] = 0.0;
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        double sum[PHASES] = {0.0};
        for (int32_t j = ptr[r]; j < ptr[r + 1]; j++) {
            const double *load = block + (int64_t)order[j] * PHASES;
            for (int i = 0; i < PHASES; i++) {
                sum[i] += load[i];
            }
        }
        const double speed = t->speed == NULL ? 1.0 : t->speed[r];
        const double background = t->background == NULL ? 0.0 : t->background[r];
        for (int i = 0; i < PHASES; i++) {
            const double all = background + sum[i] / speed;
            most[i] = all > most[i] ? all : most[i];
        }
    }
}

static bool is_sorted(const rows_t *self, int64_t k)
{
    return self->blocked != NULL &&
           self->rank_ptr[k * ((int64_t)self->runner.trace->n_ranks + 1)] == 0;
}

/* Every n_parts-th row of the group. */
static void run_part(void *arg, int part, int n_parts)
{
    rows_t *self = arg;
    const plb_trace_t *t = self->runner.trace;
    for (int64_t k = part; k < self->count; k += n_parts) {
        if (self->blocked != NULL) {
            sort_row(self, k);
        }
        if (!is_sorted(self, k)) {
            run_row(self, k, self->rank_time + (int64_t)part * t->n_ranks);
        }
    }
    for (int64_t i0 = self->first / PHASES * PHASES; self->blocked != NULL && i0 < t->n_phases;
         i0 += PHASES) {
        const int64_t end = i0 + PHASES < t->n_phases ? i0 + PHASES : t->n_phases;
        for (int64_t k = part; k < self->count; k += n_parts) {
            const int64_t begin = self->first + k > i0 ? self->first + k : i0;
            if (begin < end && is_sorted(self, k)) {
                double most[PHASES];
                run_block(self, k, self->blocked + i0 * tasks_of(t), most);
                memcpy(self->t + k * t->n_phases + begin, most + (begin - i0),
                       (size_t)(end - begin) * sizeof *most);
            }
        }
    }
}

/* ---- the rows ---------------------------------------------------------------------------------
 */

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
        ret = plb_runner_check_tasks(trace, i, false, err);
    }
    if (ret != PLB_OK || (ret = plb_runner_init(&rows.runner, err)) != PLB_OK) {
        goto out;
    }
    PLB_NEW(rows.held, PLB_OPTIMUM_BLOCK * trace->n_entities);
    PLB_NEW(rows.rank_time, rows.n_parts * trace->n_ranks);
    if (alike(trace) && (ret = lay_out(&rows, err)) != PLB_OK) {
        goto out;
    }
    ret = plb_optimum_find(self, trace->n_phases, opts, trace_rows, &rows, err);
out:
    plb_runner_free(&rows.runner);
    plb_free(rows.held);
    plb_free(rows.rank_time);
    plb_free(rows.blocked);
    plb_free(rows.recorded);
    plb_free(rows.order);
    plb_free(rows.rank_ptr);
    return ret;
}
