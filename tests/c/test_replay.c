/* Room explore, replay: every allocation that fails, random and broken traces in memory of exactly
 * their size, so that a sanitizer sees the first element too far. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plb.h"

enum { PHASES = 6, ENTITIES = 12, RANKS = 3 };

typedef struct owned {
    plb_trace_t trace;
    int64_t *task_ptr, *edge_ptr, *entity_key, *task_bytes;
    uint8_t *entity_migratable;
    int32_t *task_entity, *task_rank, *edge_src, *edge_dst;
    double *task_load, *edge_bytes, *edge_messages;
} owned_t;

static void *space(int64_t n, size_t size)
{
    void *p = malloc((size_t)n * size + (n == 0));
    assert_non_null(p);
    return p;
}

static void owned_free(owned_t *o)
{
    void *all[] = {o->task_ptr,          o->edge_ptr,    o->entity_key, o->task_bytes,
                   o->entity_migratable, o->task_entity, o->task_rank,  o->edge_src,
                   o->edge_dst,          o->task_load,   o->edge_bytes, o->edge_messages};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

/* Entities come and go; some may not migrate; edges also name entities without a task. */
static owned_t random_trace(uint64_t seed)
{
    owned_t o;
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    uint8_t here[PHASES][ENTITIES];
    o.task_ptr = space(PHASES + 1, sizeof(int64_t));
    o.edge_ptr = space(PHASES + 1, sizeof(int64_t));
    o.task_ptr[0] = o.edge_ptr[0] = 0;
    for (int i = 0; i < PHASES; i++) {
        int64_t n = 0;
        for (int e = 0; e < ENTITIES; e++) {
            n += here[i][e] = plb_rng_below(&rng, 4) > 0;
        }
        o.task_ptr[i + 1] = o.task_ptr[i] + n;
        o.edge_ptr[i + 1] = o.edge_ptr[i] + (int64_t)plb_rng_below(&rng, 9);
    }
    const int64_t n = o.task_ptr[PHASES], m = o.edge_ptr[PHASES];
    o.entity_key = space(ENTITIES, sizeof(int64_t));
    o.entity_migratable = space(ENTITIES, 1);
    o.task_bytes = space(n, sizeof(int64_t));
    o.task_entity = space(n, sizeof(int32_t));
    o.task_rank = space(n, sizeof(int32_t));
    o.task_load = space(n, sizeof(double));
    o.edge_src = space(m, sizeof(int32_t));
    o.edge_dst = space(m, sizeof(int32_t));
    o.edge_bytes = space(m, sizeof(double));
    o.edge_messages = space(m, sizeof(double));
    for (int e = 0; e < ENTITIES; e++) {
        o.entity_key[e] = 100 + e;
        o.entity_migratable[e] = plb_rng_below(&rng, 5) > 0;
    }
    for (int64_t i = 0, k = 0; i < PHASES; i++) {
        for (int32_t e = 0; e < ENTITIES; e++) {
            if (here[i][e]) {
                o.task_entity[k] = e;
                o.task_rank[k] = (int32_t)plb_rng_below(&rng, RANKS);
                o.task_load[k] = plb_rng_uniform(&rng);
                o.task_bytes[k++] = (int64_t)plb_rng_below(&rng, 1000);
            }
        }
    }
    for (int64_t k = 0; k < m; k++) {
        o.edge_src[k] = (int32_t)plb_rng_below(&rng, ENTITIES);
        o.edge_dst[k] = (int32_t)plb_rng_below(&rng, ENTITIES);
        o.edge_bytes[k] = plb_rng_uniform(&rng);
        o.edge_messages[k] = 1.0;
    }
    o.trace = (plb_trace_t){.n_phases = PHASES,
                            .n_entities = ENTITIES,
                            .n_ranks = RANKS,
                            .entity_key = o.entity_key,
                            .entity_migratable = o.entity_migratable,
                            .task_ptr = o.task_ptr,
                            .task_entity = o.task_entity,
                            .task_rank = o.task_rank,
                            .task_load = o.task_load,
                            .task_bytes = o.task_bytes,
                            .edge_ptr = o.edge_ptr,
                            .edge_src = o.edge_src,
                            .edge_dst = o.edge_dst,
                            .edge_bytes = o.edge_bytes,
                            .edge_messages = o.edge_messages};
    return o;
}

/* A strategy that needs no memory and looks at everything: round robin, and the edges are read. */
static int deal(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                int32_t *out, plb_err_t *err)
{
    (void)self, (void)opts, (void)err;
    for (int64_t k = 0; k < in->n_edges; k++) {
        assert_true(in->edge_src[k] < in->n_objects && in->edge_dst[k] < in->n_objects);
    }
    for (int64_t k = 0; k < in->n_objects; k++) {
        out[k] = plb_may_migrate(in, k) ? (int32_t)(k % in->n_ranks) : in->rank[k];
    }
    return PLB_OK;
}

static const plb_strategy_t dealer = {.name = "deal", .looks_at = ~0u, .run = deal};

static int run(const plb_trace_t *trace, const plb_strategy_t *strategy, bool foresight,
               plb_replay_t *out, plb_err_t *err)
{
    const double every = 2.0;
    plb_trigger_t trigger;
    *out = (plb_replay_t){0};
    int ret = plb_trigger_init(&trigger, plb_trigger_find("periodic"), &every, err);
    double params[32] = {0};
    for (int i = 0; i < strategy->n_params; i++) {
        params[i] = strategy->params[i].fallback;
    }
    if (ret == PLB_OK) {
        const plb_replay_opts_t opts = {.strategy = strategy,
                                        .params = params,
                                        .trigger = &trigger,
                                        .foresight = foresight,
                                        .cost = NAN,
                                        .alpha = 0.5,
                                        .beta = 0.25};
        ret = plb_replay_run(out, trace, &opts, err);
    }
    plb_trigger_free(&trigger);
    return ret;
}

static void random_traces_run_under_every_strategy(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        owned_t o = random_trace(seed);
        for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
            plb_replay_t replay;
            plb_err_t err = {0, ""};
            const int ret = run(&o.trace, *s, seed % 2, &replay, &err);
            if ((*s)->library != NULL) { /* none is linked with these tests */
                assert_int_equal(ret, PLB_ERR_MISSING);
                continue;
            }
            if (ret != PLB_OK) {
                fail_msg("%s: %s", (*s)->name, err.text);
            }
            assert_int_equal(replay.n_decisions, PHASES / 2);
            for (int64_t k = 0; k < o.task_ptr[PHASES]; k++) {
                assert_in_range(replay.rank[k], 0, RANKS - 1);
                if (!o.entity_migratable[o.task_entity[k]]) {
                    assert_int_equal(replay.rank[k], o.task_rank[k]);
                }
            }
            plb_replay_free(&replay);
            plb_replay_free(&replay); /* twice is fine */
        }
        owned_free(&o);
    }
}

static void every_failed_allocation_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    owned_t o = random_trace(7);
    int failed = 0;
    for (int64_t n = 0;; n++) {
        plb_replay_t replay;
        plb_err_t err = {0, ""};
        plb_mem_fail_at(n);
        const int ret = run(&o.trace, &dealer, false, &replay, &err);
        plb_mem_fail_at(-1);
        plb_replay_free(&replay);
        if (ret == PLB_OK) {
            break;
        }
        assert_int_equal(ret, PLB_ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 15);
    owned_free(&o);
}

/* One element out of place in each array: refused, whatever it is. */
static void broken_traces_are_refused(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        owned_t o = random_trace(seed);
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        const uint64_t n = (uint64_t)o.task_ptr[PHASES], m = (uint64_t)o.edge_ptr[PHASES];
        const uint64_t k = plb_rng_below(&rng, n), e = m > 0 ? plb_rng_below(&rng, m) : 0;
        const int32_t index = seed % 2 ? -1 - (int32_t)plb_rng_below(&rng, 1u << 31) : ENTITIES;
        const double figure = seed % 3 == 0 ? NAN : seed % 3 == 1 ? INFINITY : -1e-300;
        switch (m > 0 ? plb_rng_below(&rng, 7) : plb_rng_below(&rng, 4)) {
        case 0:
            o.task_entity[k] = index;
            break;
        case 1:
            o.task_rank[k] = index;
            break;
        case 2:
            o.task_load[k] = figure;
            break;
        case 3:
            o.task_ptr[1 + plb_rng_below(&rng, PHASES)] = -1;
            break;
        case 4:
            o.edge_src[e] = index;
            break;
        case 5:
            o.edge_dst[e] = index;
            break;
        default:
            o.edge_bytes[e] = figure;
            break;
        }
        plb_replay_t replay;
        plb_err_t err = {0, ""};
        const int ret = run(&o.trace, &dealer, false, &replay, &err);
        assert_true(ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE);
        assert_true(strlen(err.text) > 0 && err.code == ret);
        assert_null(replay.rank);
        owned_free(&o);
    }
}

static int stop(void *calls)
{
    ++*(int *)calls;
    return PLB_ERR_INTERRUPTED;
}

/* So many ranks that each phase counts for a tick. */
static void a_tick_ends_it(void **state)
{
    (void)state;
    owned_t o = random_trace(3);
    o.trace.n_ranks = 1 << 20;
    int calls = 0;
    plb_replay_t replay;
    plb_err_t err = {0, ""};
    const plb_replay_opts_t opts = {
        .strategy = &dealer, .cost = 0.0, .tick = stop, .tick_arg = &calls};
    assert_int_equal(plb_replay_run(&replay, &o.trace, &opts, &err), PLB_ERR_INTERRUPTED);
    assert_int_equal(calls, 1);
    assert_null(replay.rank);
    owned_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_traces_run_under_every_strategy),
        cmocka_unit_test(every_failed_allocation_is_told_and_leaks_nothing),
        cmocka_unit_test(broken_traces_are_refused),
        cmocka_unit_test(a_tick_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
