/* The replay of any recorded run, with any decider, whole or in parts: it ends or is refused with
 * a message; times are finite; objects that may not migrate stay on their ranks; receipts are in
 * the order of the iterations.  Without a decider, the result does not depend on the parts.  The
 * best schedule of LB steps is not below its lower bound. */
#include <math.h>
#include <string.h>

#include "made.h"
#include "replay/optimum.h"
#include "replay/replay.h"

enum { RANKS = 5, ENTITIES = 16, PHASES = 12, MOST_EDGES = 16, MOST_STEPS = 4 };

typedef struct recorded {
    plb_trace_t trace;
    void *owned[32];
    int n_owned;
} recorded_t;

static void *own(recorded_t *self, void *array)
{
    return self->owned[self->n_owned++] = array;
}

/* ---- a recorded run ------------------------------------------------------------------------- */

/* Choose the tasks of all phases.  Some phases have the entities of the phase before. */
static void draw_tasks(recorded_t *self, feed_t *feed)
{
    plb_trace_t *t = &self->trace;
    int64_t *ptr = own(self, plb_malloc((size_t)t->n_phases + 1, sizeof *ptr));
    const size_t most = (size_t)(t->n_phases * t->n_entities);
    int32_t *entity = own(self, plb_malloc(most, sizeof *entity));
    ptr[0] = 0;
    for (int64_t i = 0; i < t->n_phases; i++) {
        int64_t end = ptr[i];
        const uint8_t kind = feed_byte(feed);
        if (kind < 128 && i > 0) {
            for (int64_t k = ptr[i - 1]; k < ptr[i]; k++) {
                entity[end++] = entity[k];
            }
        } else {
            for (int32_t e = 0; e < t->n_entities; e++) {
                entity[end] = kind > 248 ? (int32_t)feed_below(feed, ENTITIES) : e;
                end += kind % 4 != 0 || feed_bool(feed);
            }
        }
        ptr[i + 1] = end;
    }
    t->task_ptr = ptr;
    t->task_entity = entity;
}

static void draw_edges(recorded_t *self, feed_t *feed)
{
    plb_trace_t *t = &self->trace;
    int64_t m = 0;
    const bool any = feed_bool(feed) && t->n_entities > 0;
    const size_t n = (size_t)t->n_phases;
    t->edge_ptr = any ? own(self, feed_starts(feed, n, MOST_EDGES * PHASES, &m))
                      : own(self, plb_calloc(n + 1, sizeof *t->edge_ptr));
    t->edge_src = own(self, feed_indices(feed, (size_t)m, 0, (int32_t)t->n_entities));
    t->edge_dst = own(self, feed_indices(feed, (size_t)m, 0, (int32_t)t->n_entities));
    t->edge_bytes = own(self, feed_amounts(feed, (size_t)m));
    t->edge_messages = feed_bool(feed) ? own(self, feed_amounts(feed, (size_t)m)) : NULL;
    t->edge_multicast = feed_bool(feed) ? own(self, feed_indices(feed, (size_t)m, 0, 4)) : NULL;
}

static void draw_ranks(recorded_t *self, feed_t *feed)
{
    plb_trace_t *t = &self->trace;
    const size_t p = (size_t)t->n_ranks;
    const uint8_t has = feed_byte(feed);
    double *speed = has & 1 ? own(self, feed_amounts(feed, p)) : NULL;
    double *measured = has & 2 ? own(self, feed_amounts(feed, p)) : NULL;
    for (size_t r = 0; has & 16 && r < p; r++) {
        if (speed != NULL) {
            speed[r] += 0.25;
        }
        if (measured != NULL) {
            measured[r] += 0.25;
        }
    }
    t->speed = speed;
    t->measured = measured;
    t->background = has & 4 ? own(self, feed_amounts(feed, p)) : NULL;
    t->memory_limit = has & 8 ? own(self, feed_bytes(feed, p)) : NULL;
}

static uint8_t *flags(recorded_t *self, feed_t *feed, size_t n)
{
    uint8_t *out = own(self, plb_malloc(n, 1));
    for (size_t i = 0; i < n; i++) {
        out[i] = feed_byte(feed) % 8 != 0;
    }
    return out;
}

static void draw_recorded(recorded_t *self, feed_t *feed)
{
    plb_trace_t *t = &self->trace;
    *self = (recorded_t){0};
    t->n_ranks = 1 + (int32_t)feed_below(feed, RANKS);
    t->n_entities = feed_size(feed, ENTITIES);
    t->n_phases = feed_size(feed, PHASES);
    int64_t *key = own(self, plb_malloc(ENTITIES, sizeof *key));
    for (int64_t e = 0; e < ENTITIES; e++) {
        key[e] = 10 * e;
    }
    t->entity_key = key;
    t->entity_migratable = flags(self, feed, ENTITIES);
    draw_tasks(self, feed);
    draw_edges(self, feed);
    draw_ranks(self, feed);
    const size_t n = (size_t)t->task_ptr[t->n_phases];
    const uint8_t has = feed_byte(feed);
    t->task_rank = own(self, feed_indices(feed, n, 0, t->n_ranks));
    t->task_load = own(self, feed_amounts(feed, n));
    t->task_home = has & 1 ? own(self, feed_indices(feed, n, 0, t->n_ranks)) : NULL;
    t->task_bytes = has & 2 ? own(self, feed_bytes(feed, n)) : NULL;
    t->task_memory = has & 4 ? own(self, feed_bytes(feed, n)) : NULL;
    t->task_coords = has & 8 ? own(self, feed_amounts(feed, 3 * n)) : NULL;
    t->task_work = has & 16 ? own(self, feed_amounts(feed, n)) : NULL;
    t->task_migratable = has & 32 ? flags(self, feed, n) : NULL;
    t->figures =
        has & 64 ? own(self, feed_amounts(feed, (size_t)t->n_phases * PLB_N_TRACE_FIGURES)) : NULL;
    t->task_seconds = has & 128 ? own(self, feed_amounts(feed, n)) : NULL;
}

static void free_recorded(recorded_t *self)
{
    for (int i = 0; i < self->n_owned; i++) {
        plb_free(self->owned[i]);
    }
}

/* Return phases first ... end - 1.  ptr: [2][PHASES + 1], storage. */
static plb_trace_t part_of(const plb_trace_t *t, int64_t first, int64_t end,
                           int64_t ptr[2][PHASES + 1])
{
    plb_trace_t out = *t;
    const int64_t a = t->task_ptr[first], b = t->edge_ptr[first];
    for (int64_t i = first; i <= end; i++) {
        ptr[0][i - first] = t->task_ptr[i] - a;
        ptr[1][i - first] = t->edge_ptr[i] - b;
    }
    out.n_phases = end - first;
    out.task_ptr = ptr[0];
    out.edge_ptr = ptr[1];
#define FROM(field, n) out.field = t->field == NULL ? NULL : t->field + (n)
    FROM(task_entity, a);
    FROM(task_rank, a);
    FROM(task_home, a);
    FROM(task_load, a);
    FROM(task_seconds, a);
    FROM(task_bytes, a);
    FROM(task_memory, a);
    FROM(task_coords, 3 * a);
    FROM(task_work, a);
    FROM(task_migratable, a);
    FROM(edge_src, b);
    FROM(edge_dst, b);
    FROM(edge_bytes, b);
    FROM(edge_messages, b);
    FROM(edge_multicast, b);
    FROM(figures, first * PLB_N_TRACE_FIGURES);
#undef FROM
    return out;
}

/* ---- a replay ------------------------------------------------------------------------------- */

/* How the phases are given: how many at once; the loops, each with as many iterations as it says,
 * and perhaps left early. */
typedef struct parts {
    int64_t at_once, loop, given;
    bool settles;
} parts_t;

static int replay_all(plb_replay_t *r, const plb_trace_t *t, const parts_t *parts, plb_err_t *err)
{
    int64_t ptr[2][PHASES + 1];
    int64_t end_of_loop = 0;
    for (int64_t i = 0; i < t->n_phases;) {
        if (i == end_of_loop) {
            const plb_loop_t loop = {i, parts->loop, NAN, NAN};
            PLB_PASS(plb_replay_loop(r, &loop, err));
            end_of_loop = i + parts->given < t->n_phases ? i + parts->given : t->n_phases;
        }
        const int64_t end = i + parts->at_once < end_of_loop ? i + parts->at_once : end_of_loop;
        const plb_trace_t part = part_of(t, i, end, ptr);
        PLB_PASS(plb_replay_feed(r, &part, err));
        i = end;
        if (parts->settles && i == end_of_loop && r->opt.decider != NULL) {
            PLB_PASS(plb_replay_settle(r, NULL, parts->given < parts->loop, err));
        }
    }
    return PLB_OK;
}

static void check_receipts(const plb_decider_t *d)
{
    for (int64_t k = 0; k < d->n_receipts; k++) {
        const plb_receipt_t *r = &d->receipts[k];
        MUST(k == 0 || r->iteration >= d->receipts[k - 1].iteration);
        MUST(!(r->cost < 0.0) && r->migrations >= 0);
    }
}

/* Whether the object of task k never leaves its recorded rank. */
static bool stays(const plb_trace_t *t, int64_t k)
{
    return t->task_migratable == NULL && !t->entity_migratable[t->task_entity[k]];
}

static void check_replayed(const plb_replay_t *r, const plb_trace_t *t)
{
    MUST(r->n == t->n_phases && r->tasks == t->task_ptr[t->n_phases]);
    for (int64_t i = 0; i < r->n; i++) {
        MUST(isfinite(r->metrics[i].max) && isfinite(r->seconds[i]) && r->seconds[i] >= 0.0);
        MUST(r->metrics[i].min <= r->metrics[i].max);
    }
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
            MUST(r->rank[k] >= 0 && r->rank[k] < t->n_ranks);
            const bool fixed = r->opt.as_recorded || stays(t, k);
            MUST(!fixed || r->rank[k] == t->task_rank[k]);
        }
    }
}

static plb_replay_opts_t draw_options(feed_t *feed, int32_t n_ranks, plb_measured_step_t *steps)
{
    const uint8_t how = feed_byte(feed);
    plb_replay_opts_t o = {.n_ranks = n_ranks, .cost = NAN, .model.pace = 1.0};
    o.as_recorded = how & 1;
    o.foresight = how & 2;
    o.lag = how & 4 && !o.foresight ? 1 + (int32_t)feed_below(feed, 3) : 0;
    o.moves = how & 8;
    o.keep_ranks = true;
    o.keep_times = how & 16;
    if (how & 32) {
        o.network = (plb_network_t){feed_byte(feed) / 64.0, feed_byte(feed) / 64.0};
    }
    o.cost = how & 64 ? feed_byte(feed) / 16.0 : NAN;
    if (how & 128) {
        o.model = (plb_lb_cost_t){1e-6, 1e-9, 1e-4, 1e-6, 1.0};
        o.per_move = feed_byte(feed) / 64.0;
        o.n_steps = feed_below(feed, MOST_STEPS);
    }
    for (int64_t k = 0; k < o.n_steps; k++) {
        const double s = feed_byte(feed) / 32.0;
        steps[k] = (plb_measured_step_t){feed_below(feed, PHASES),
                                         (int32_t)feed_below(feed, 8),
                                         feed_below(feed, ENTITIES),
                                         feed_byte(feed),
                                         s,
                                         s,
                                         s,
                                         3.0 * s};
    }
    o.steps = steps;
    return o;
}

static bool expected(int ret, int64_t fail_at)
{
    return ret == PLB_OK || ret == PLB_ERR_VALUE || ret == PLB_ERR_STATE || ret == PLB_ERR_RANGE ||
           ret == PLB_ERR_INFEASIBLE || (ret == PLB_ERR_NOMEM && fail_at >= 0);
}

/* Replay without a decider, all phases at once, and compare. */
static void check_whole(const plb_replay_t *parts, const plb_trace_t *t)
{
    plb_replay_t whole = {0};
    plb_err_t err = {0, ""};
    MUST(plb_replay_init(&whole, &parts->opt, &err) == PLB_OK);
    const plb_loop_t loop = {0, t->n_phases, NAN, NAN};
    MUST(plb_replay_loop(&whole, &loop, &err) == PLB_OK);
    MUST(plb_replay_feed(&whole, t, &err) == PLB_OK);
    for (int64_t i = 0; i < t->n_phases; i++) {
        MUST(memcmp(&whole.seconds[i], &parts->seconds[i], sizeof(double)) == 0);
        MUST(memcmp(&whole.metrics[i], &parts->metrics[i], sizeof(plb_metrics_t)) == 0);
    }
    plb_replay_free(&whole);
}

static void replay(feed_t *feed, const plb_trace_t *t, made_t *made)
{
    plb_err_t err = {0, ""};
    plb_replay_t r = {0};
    plb_measured_step_t steps[MOST_STEPS];
    plb_replay_opts_t opts = draw_options(feed, t->n_ranks, steps);
    opts.decider = opts.as_recorded || feed_byte(feed) < 32 ? NULL : &made->decider;
    parts_t parts = {1 + feed_below(feed, PHASES), 1 + feed_below(feed, PHASES), 0,
                     feed_bool(feed)};
    parts.given = feed_bool(feed) ? parts.loop : 1 + feed_below(feed, (uint32_t)parts.loop);
    const uint8_t rare = feed_byte(feed);
    const int64_t fail_at = rare < 32 ? feed_byte(feed) : -1;
    plb_mem_fail_at(fail_at);
    int ret = plb_replay_init(&r, &opts, &err);
    if (ret == PLB_OK) {
        ret = replay_all(&r, t, &parts, &err);
    }
    plb_mem_fail_at(-1);
    MUST(expected(ret, fail_at) && (ret == PLB_OK || err.text[0] != '\0'));
    if (ret == PLB_OK && t->n_phases > 0) {
        check_replayed(&r, t);
        if (opts.decider == NULL) {
            check_whole(&r, t);
        } else {
            check_receipts(opts.decider);
        }
    }
    plb_replay_free(&r);
}

/* Whether the run can be replayed as it was recorded. */
static bool is_valid(const plb_trace_t *t)
{
    plb_err_t err = {0, ""};
    plb_replay_t r = {0};
    const plb_replay_opts_t opts = {.n_ranks = t->n_ranks, .as_recorded = true, .cost = NAN};
    const plb_loop_t loop = {0, t->n_phases, NAN, NAN};
    MUST(plb_replay_init(&r, &opts, &err) == PLB_OK);
    MUST(plb_replay_loop(&r, &loop, &err) == PLB_OK);
    const bool out = plb_replay_feed(&r, t, &err) == PLB_OK;
    plb_replay_free(&r);
    return out;
}

/* Search for the best schedule of LB steps.  Like Python, only if the run is valid. */
static void optimize(feed_t *feed, const plb_trace_t *t, const made_t *made)
{
    if (!is_valid(t)) {
        return;
    }
    plb_err_t err = {0, ""};
    plb_optimum_t best = {0};
    const plb_optimum_opts_t opts = {feed_byte(feed) / 16.0, 1 + feed_below(feed, 4), INFINITY, 1};
    const int32_t n = 1 + (int32_t)feed_below(feed, (uint32_t)made->decider.opt.n);
    const uint8_t rare = feed_byte(feed);
    const int64_t fail_at = rare < 32 ? feed_byte(feed) : -1;
    plb_mem_fail_at(fail_at);
    const int ret = plb_optimum_of_trace(&best, t, made->candidates, n < 4 ? n : 4, &opts, &err);
    plb_mem_fail_at(-1);
    MUST(expected(ret, fail_at) && (ret == PLB_OK || err.text[0] != '\0'));
    if (ret == PLB_OK) {
        MUST(isfinite(best.time) && best.bound <= best.time * (1.0 + 1e-9));
        for (int64_t k = 0; k < best.n; k++) {
            MUST(best.when[k] >= 0 && best.when[k] < t->n_phases && best.which[k] < n);
            MUST(k == 0 || best.when[k] > best.when[k - 1]);
        }
    }
    plb_optimum_free(&best);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_t feed = feed_of(data, size);
    plb_err_t err = {0, ""};
    recorded_t run;
    made_t *made = plb_calloc(1, sizeof *made);
    draw_recorded(&run, &feed);
    const int ret = made_init(made, &feed, run.trace.n_ranks, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err.text[0] != '\0'));
    if (ret == PLB_OK && feed_byte(&feed) < 192) {
        replay(&feed, &run.trace, made);
    } else if (ret == PLB_OK) {
        optimize(&feed, &run.trace, made);
    }
    made_free(made);
    plb_free(made);
    free_recorded(&run);
    return 0;
}
