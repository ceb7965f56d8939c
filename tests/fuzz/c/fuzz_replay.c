/* The replay of any recorded run, with any decider: it ends or is refused with a message; times
 * are finite; objects that may not migrate stay on their ranks; receipts are in the order of the
 * iterations.  The best schedule of LB steps is not below its lower bound. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "plb.h"
#include "replay/replay.h"

enum { RANKS = 5, ENTITIES = 16, PHASES = 12, MOST_EDGES = 16, MOST_STEPS = 4 };

/* ---- a recorded run ------------------------------------------------------------------------- */

/* Choose the tasks of all phases.  Some phases have the entities of the phase before. */
static void draw_tasks(plb_trace_t *t, feed_t *feed)
{
    int64_t *ptr = feed_zeros(feed, (size_t)t->n_phases + 1, sizeof *ptr);
    const size_t most = (size_t)(t->n_phases * t->n_entities);
    int32_t *entity = feed_zeros(feed, most, sizeof *entity);
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

static void draw_edges(plb_trace_t *t, feed_t *feed)
{
    int64_t m = 0;
    const bool any = feed_bool(feed) && t->n_entities > 0;
    const size_t n = (size_t)t->n_phases;
    t->edge_ptr = any ? feed_starts(feed, n, MOST_EDGES * PHASES, &m)
                      : feed_zeros(feed, n + 1, sizeof *t->edge_ptr);
    t->edge_src = feed_indices(feed, (size_t)m, 0, (int32_t)t->n_entities);
    t->edge_dst = feed_indices(feed, (size_t)m, 0, (int32_t)t->n_entities);
    t->edge_bytes = feed_amounts(feed, (size_t)m);
    t->edge_messages = feed_bool(feed) ? feed_amounts(feed, (size_t)m) : NULL;
    t->edge_multicast = feed_bool(feed) ? feed_indices(feed, (size_t)m, 0, 4) : NULL;
}

static void draw_ranks(plb_trace_t *t, feed_t *feed)
{
    const size_t p = (size_t)t->n_ranks;
    const uint8_t has = feed_byte(feed);
    double *speed = has & 1 ? feed_amounts(feed, p) : NULL;
    double *measured = has & 2 ? feed_amounts(feed, p) : NULL;
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
    t->background = has & 4 ? feed_amounts(feed, p) : NULL;
    t->memory_limit = has & 8 ? feed_bytes(feed, p) : NULL;
}

static void draw_recorded(plb_trace_t *t, feed_t *feed)
{
    *t = (plb_trace_t){0};
    t->n_ranks = 1 + (int32_t)feed_below(feed, RANKS);
    t->n_entities = feed_size(feed, ENTITIES);
    t->n_phases = feed_size(feed, PHASES);
    int64_t *key = feed_zeros(feed, ENTITIES, sizeof *key);
    for (int64_t e = 0; e < ENTITIES; e++) {
        key[e] = 10 * e;
    }
    t->entity_key = key;
    t->entity_migratable = feed_flags(feed, ENTITIES);
    draw_tasks(t, feed);
    draw_edges(t, feed);
    draw_ranks(t, feed);
    const size_t n = (size_t)t->task_ptr[t->n_phases];
    const uint8_t has = feed_byte(feed);
    t->task_rank = feed_indices(feed, n, 0, t->n_ranks);
    t->task_load = feed_amounts(feed, n);
    t->task_home = has & 1 ? feed_indices(feed, n, 0, t->n_ranks) : NULL;
    t->task_bytes = has & 2 ? feed_bytes(feed, n) : NULL;
    t->task_memory = has & 4 ? feed_bytes(feed, n) : NULL;
    t->task_coords = has & 8 ? feed_amounts(feed, 3 * n) : NULL;
    t->task_work = has & 16 ? feed_amounts(feed, n) : NULL;
    t->task_migratable = has & 32 ? feed_flags(feed, n) : NULL;
    t->figures = has & 64 ? feed_amounts(feed, (size_t)t->n_phases * PLB_N_TRACE_FIGURES) : NULL;
    t->task_seconds = has & 128 ? feed_amounts(feed, n) : NULL;
}

/* ---- a decider with a trigger, strategies and parameters from the feed ---------------------- */

enum { MADE_PARAMS = 16, MADE_CANDIDATES = 24 };

typedef struct made {
    plb_trigger_t trigger;
    plb_decider_t decider;
    double params[MADE_CANDIDATES][MADE_PARAMS], selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    plb_candidate_strategy_t candidates[MADE_CANDIDATES];
} made_t;

static void draw_params(feed_t *feed, const plb_param_t *table, int n, double *out)
{
    for (int k = 0; k < n; k++) {
        out[k] = feed_param(feed, table[k].fallback, table[k].least, table[k].most);
    }
}

/* Make the decider, with strategies that need no library.  Free `self` also after a failure. */
static int made_init(made_t *self, feed_t *feed, int32_t n_ranks, plb_err_t *err)
{
    double params[MADE_PARAMS];
    int n_kinds = 0, n = 0;
    memset(self, 0, sizeof *self);
    while (plb_triggers[n_kinds] != NULL) {
        n_kinds++;
    }
    const plb_trigger_kind_t *kind = plb_triggers[feed_below(feed, (uint32_t)n_kinds)];
    MUST(kind->n_params <= MADE_PARAMS);
    draw_params(feed, kind->params, kind->n_params, params);
    draw_params(feed, plb_selection_params, PLB_N_SELECTION, self->selection);
    draw_params(feed, plb_ledger_params, PLB_N_LEDGER, self->ledger);
    const bool selects = feed_bool(feed);
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL && (selects || n == 0); s++) {
        if ((*s)->library == NULL) {
            MUST(n < MADE_CANDIDATES && (*s)->n_params <= MADE_PARAMS);
            draw_params(feed, (*s)->params, (*s)->n_params, self->params[n]);
            self->candidates[n] = (plb_candidate_strategy_t){**s, self->params[n]};
            n++;
        }
    }
    const uint8_t how = feed_byte(feed);
    const plb_decider_options_t opt = {
        .n_ranks = n_ranks,
        .candidates = self->candidates,
        .n = n,
        .selects = selects,
        .selection = self->selection,
        .ledger = self->ledger,
        .gives_up = how & 1,
        .learns = how & 2,
        .watches = how & 4,
        .network = {how & 8 ? 1e-5 : 0.0, how & 8 ? 1e-9 : 0.0},
        .keep = how & 64 ? 0 : 8,
    };
    PLB_PASS(plb_trigger_init(&self->trigger, kind, params, err));
    return plb_decider_init(&self->decider, &opt, &self->trigger, err);
}

static void made_free(made_t *self)
{
    plb_decider_free(&self->decider);
    plb_trigger_free(&self->trigger);
}

/* ---- a replay ------------------------------------------------------------------------------- */

static int replay_all(plb_replay_t *r, const plb_trace_t *t, plb_err_t *err)
{
    const plb_loop_t loop = {0, t->n_phases, NAN, NAN};
    PLB_PASS(plb_replay_loop(r, &loop, err));
    return plb_replay_feed(r, t, err);
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

static void replay(feed_t *feed, const plb_trace_t *t, made_t *made)
{
    plb_err_t err = {0, ""};
    plb_replay_t r = {0};
    plb_measured_step_t steps[MOST_STEPS];
    plb_replay_opts_t opts = draw_options(feed, t->n_ranks, steps);
    opts.decider = opts.as_recorded || feed_byte(feed) < 32 ? NULL : &made->decider;
    const uint8_t rare = feed_byte(feed);
    const int64_t fail_at = rare < 32 ? feed_byte(feed) : -1;
    plb_mem_fail_at(fail_at);
    int ret = plb_replay_init(&r, &opts, &err);
    if (ret == PLB_OK) {
        ret = replay_all(&r, t, &err);
    }
    plb_mem_fail_at(-1);
    MUST(expected(ret, fail_at) && (ret == PLB_OK || err.text[0] != '\0'));
    if (ret == PLB_OK && t->n_phases > 0) {
        check_replayed(&r, t);
        if (opts.decider != NULL) {
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
    MUST(plb_replay_init(&r, &opts, &err) == PLB_OK);
    const bool out = replay_all(&r, t, &err) == PLB_OK;
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
    plb_trace_t run;
    made_t *made = plb_calloc(1, sizeof *made);
    draw_recorded(&run, &feed);
    const int ret = made_init(made, &feed, run.n_ranks, &err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err.text[0] != '\0'));
    if (ret == PLB_OK && feed_byte(&feed) < 192) {
        replay(&feed, &run, made);
    } else if (ret == PLB_OK) {
        optimize(&feed, &run, made);
    }
    made_free(made);
    plb_free(made);
    feed_free(&feed);
    return 0;
}
