/* Room explore, optimum: every schedule tried, every allocation that fails; runs whose phases are
 * alike and runs whose phases are not; and every trigger on generated programs, in memory of
 * exactly their size. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plb.h"

enum { PHASES = 21, ENTITIES = 9, RANKS = 3, SMALL = 11 };

typedef struct run {
    int64_t task_ptr[PHASES + 1], edge_ptr[PHASES + 1], key[ENTITIES];
    int32_t entity[PHASES * ENTITIES], rank[PHASES * ENTITIES];
    double load[PHASES * ENTITIES], speed[RANKS], background[RANKS];
    uint8_t migratable[ENTITIES];
} run_t;

static plb_trace_t random_run(run_t *r, int64_t n_phases, bool alike, uint64_t seed)
{
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    memset(r, 0, sizeof *r);
    for (int e = 0; e < ENTITIES; e++) {
        r->key[e] = e;
        r->migratable[e] = plb_rng_below(&rng, 5) > 0;
    }
    for (int i = 0; i < RANKS; i++) {
        r->speed[i] = 0.5 + plb_rng_uniform(&rng);
        r->background[i] = plb_rng_uniform(&rng);
    }
    int64_t n = 0;
    for (int64_t i = 0; i < n_phases; i++) {
        for (int e = 0; e < ENTITIES; e++) {
            if (alike || plb_rng_below(&rng, 3) > 0) {
                r->entity[n] = e;
                r->rank[n] = seed % 3 ? e % RANKS : (int32_t)plb_rng_below(&rng, RANKS);
                r->load[n++] = exp(3.0 * plb_rng_uniform(&rng));
            }
        }
        r->task_ptr[i + 1] = n;
    }
    return (plb_trace_t){.n_phases = n_phases,
                         .n_entities = ENTITIES,
                         .n_ranks = RANKS,
                         .entity_key = r->key,
                         .entity_migratable = r->migratable,
                         .task_ptr = r->task_ptr,
                         .task_entity = r->entity,
                         .task_rank = r->rank,
                         .task_load = r->load,
                         .edge_ptr = r->edge_ptr,
                         .speed = r->speed,
                         .background = r->background};
}

/* A strategy that deals the objects out, beginning where the largest load is. */
static int deal(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                int32_t *out, plb_err_t *err)
{
    (void)self, (void)opts, (void)err;
    int64_t first = 0;
    for (int64_t k = 0; k < in->n_objects; k++) {
        first = in->load[k] > in->load[first] ? k : first;
    }
    for (int64_t k = 0; k < in->n_objects; k++) {
        out[k] = plb_may_migrate(in, k) ? (int32_t)((k + first) % in->n_ranks) : in->rank[k];
    }
    return PLB_OK;
}

static const plb_strategy_t dealer = {.name = "dealer", .run = deal};

/* Seconds of phase i with the last balancing just before s, written plainly. */
static double plainly(const plb_trace_t *t, int64_t s, int64_t i)
{
    int32_t at[ENTITIES];
    memset(at, -1, sizeof at);
    if (s > 0) {
        const int64_t k0 = t->task_ptr[s - 1], n = t->task_ptr[s] - k0;
        int64_t first = 0;
        for (int64_t k = 0; k < n; k++) {
            first = t->task_load[k0 + k] > t->task_load[k0 + first] ? k : first;
        }
        for (int64_t k = 0; k < n; k++) {
            at[t->task_entity[k0 + k]] = (int32_t)((k + first) % RANKS);
        }
    }
    double time[RANKS] = {0}, most = 0.0;
    for (int64_t j = s; j <= i; j++) {
        for (int64_t k = t->task_ptr[j]; k < t->task_ptr[j + 1]; k++) {
            const int32_t e = t->task_entity[k], own = t->task_rank[k];
            at[e] = s > 0 && at[e] < 0 ? own : at[e];
            time[s > 0 && t->entity_migratable[e] ? at[e] : own] += j == i ? t->task_load[k] : 0.0;
        }
    }
    for (int r = 0; r < RANKS; r++) {
        most = fmax(most, t->background[r] + time[r] / t->speed[r]);
    }
    return most;
}

/* The best of all schedules, each a set of bits. */
static double exhaustive(const plb_trace_t *t, double cost)
{
    double row[SMALL][SMALL], best = INFINITY;
    for (int64_t s = 0; s < t->n_phases; s++) {
        for (int64_t i = s; i < t->n_phases; i++) {
            row[s][i] = plainly(t, s, i);
        }
    }
    for (uint32_t set = 0; set < 1u << (t->n_phases - 1); set++) {
        double sum = 0.0;
        int64_t s = 0;
        for (int64_t i = 0; i < t->n_phases; i++) {
            sum += row[s][i];
            if (set >> i & 1) {
                sum += cost;
                s = i + 1;
            }
        }
        best = fmin(best, sum);
    }
    return best;
}

static void optimum_is_the_best_of_all_schedules(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        run_t r;
        const plb_trace_t t = random_run(&r, SMALL, seed % 2, seed);
        const plb_optimum_opts_t opts = {.cost = (double)(seed % 5) * 3.0};
        plb_optimum_t best;
        plb_err_t err = {0, ""};
        assert_int_equal(plb_optimum_of_trace(&best, &t, &dealer, NULL, 0, &opts, &err), PLB_OK);
        assert_true(fabs(best.time - exhaustive(&t, opts.cost)) < 1e-9);
        double sum = (double)best.n * opts.cost;
        int64_t s = 0, k = 0;
        for (int64_t i = 0; i < SMALL; i++) {
            sum += plainly(&t, s, i);
            if (k < best.n && best.when[k] == i) {
                s = i + 1;
                k++;
            }
        }
        assert_int_equal(k, best.n);
        assert_true(fabs(best.time - sum) < 1e-9);
        plb_optimum_free(&best);
        plb_optimum_free(&best); /* twice is fine */
    }
}

static void every_failed_allocation_is_told_and_leaks_nothing(void **state)
{
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        run_t r;
        const plb_trace_t t = random_run(&r, PHASES, alike, 1);
        const plb_optimum_opts_t opts = {.cost = 1.0};
        int failed = 0;
        for (int64_t n = 0;; n++) {
            plb_optimum_t best;
            plb_err_t err = {0, ""};
            plb_mem_fail_at(n);
            const int ret = plb_optimum_of_trace(&best, &t, &dealer, NULL, 0, &opts, &err);
            plb_mem_fail_at(-1);
            plb_optimum_free(&best);
            if (ret == PLB_OK) {
                break;
            }
            assert_int_equal(ret, PLB_ERR_NOMEM);
            failed++;
        }
        assert_true(failed >= 15);
    }
}

static int stop(void *arg)
{
    return ++*(int *)arg == 2 ? PLB_ERR_INTERRUPTED : PLB_OK;
}

static void a_long_search_can_be_interrupted(void **state)
{
    (void)state;
    double growth[200] = {0};
    const plb_program_t p = {.n = 200, .mean = 1.0, .growth = growth};
    int ticks = 0;
    const plb_optimum_opts_t opts = {.cost = 1.0, .tick = stop, .tick_arg = &ticks};
    plb_optimum_t best;
    plb_err_t err;
    assert_int_equal(plb_optimum_of_program(&best, &p, &opts, &err), PLB_ERR_INTERRUPTED);
    assert_int_equal(ticks, 2);
    plb_optimum_free(&best);
}

/* Long enough for the rings of auto to go round. */
static void no_trigger_is_better_than_the_optimum(void **state)
{
    (void)state;
    enum { N = 2500 };
    double *drift = malloc(N * sizeof *drift), *noise = malloc(N * sizeof *noise);
    double *time = malloc(N * sizeof *time);
    int64_t *when = malloc(N * sizeof *when);
    for (uint64_t seed = 0; seed < 6; seed++) {
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        double x = 0.0;
        for (int i = 0; i < N; i++) {
            x += 0.05 * (plb_rng_uniform(&rng) - 0.5) *
                 (seed % 2      ? 1.0
                  : i % 90 == 0 ? 20.0
                                : 0.0);
            drift[i] = x;
            noise[i] = 0.02 * plb_rng_uniform(&rng);
        }
        const plb_program_t p = {.n = N, .mean = 0.25, .drift = drift, .noise = noise};
        const plb_optimum_opts_t opts = {.cost = seed < 3 ? 2.0 : 90.0};
        plb_optimum_t best;
        plb_err_t err;
        assert_int_equal(plb_optimum_of_program(&best, &p, &opts, &err), PLB_OK);
        for (const plb_trigger_kind_t *const *kind = plb_triggers; *kind != NULL; kind++) {
            double params[16], sum;
            int64_t n;
            for (int i = 0; i < (*kind)->n_params; i++) {
                params[i] = (*kind)->params[i].fallback;
            }
            plb_trigger_t trigger;
            assert_int_equal(plb_trigger_init(&trigger, *kind, params, &err), PLB_OK);
            assert_int_equal(plb_trigger_expect(&trigger, N, opts.cost, &err), PLB_OK);
            assert_int_equal(plb_program_run(&p, &trigger, opts.cost, time, when, &n, &err),
                             PLB_OK);
            sum = (double)n * opts.cost;
            for (int i = 0; i < N; i++) {
                sum += time[i];
            }
            assert_true(sum >= best.time - 1e-9);
            plb_trigger_free(&trigger);
        }
        plb_optimum_free(&best);
    }
    free(drift);
    free(noise);
    free(time);
    free(when);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimum_is_the_best_of_all_schedules),
        cmocka_unit_test(every_failed_allocation_is_told_and_leaks_nothing),
        cmocka_unit_test(a_long_search_can_be_interrupted),
        cmocka_unit_test(no_trigger_is_better_than_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
