/* Tests of csrc/replay, optimum: narrow searches, every allocation that fails; runs with equal and
 * with different phases.
 * tests/replay/test_optimum.py compares it with all schedules. */
#include "plb.h"
#include "test.h"

enum { PHASES = 21, ENTITIES = 9, RANKS = 3, SMALL = 8 };

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

/* A strategy: round robin.  The rank at which it begins depends on which object has the largest
 * load. */
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

/* A strategy that uses the present placement: the largest object that may migrate goes to the next
 * rank. */
static int shift(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                 int32_t *out, plb_err_t *err)
{
    (void)self, (void)opts, (void)err;
    int64_t largest = -1;
    for (int64_t k = 0; k < in->n_objects; k++) {
        out[k] = in->rank[k];
        if (plb_may_migrate(in, k) && (largest < 0 || in->load[k] > in->load[largest])) {
            largest = k;
        }
    }
    if (largest >= 0) {
        out[largest] = (out[largest] + 1) % in->n_ranks;
    }
    return PLB_OK;
}

/* Make three strategies: one that uses loads alone and declares this, one that does not declare
 * it, and one that uses the present placement. */
static void all_strategies(plb_candidate_strategy_t *out)
{
    static const double none[1] = {0.0};
    out[0] = (plb_candidate_strategy_t){plb_strategy_greedy, none};
    out[1] = (plb_candidate_strategy_t){{.name = "dealer", .run = deal}, none};
    out[2] = (plb_candidate_strategy_t){{.name = "shifter", .run = shift}, none};
}

/* A narrow search that may have missed the best schedule says so.  If `upper` is below every
 * schedule, a search finds none. */
TEST(a_narrow_search_says_that_it_is_not_exact)
{
    plb_candidate_strategy_t all[3];
    all_strategies(all);
    bool any = false;
    for (uint64_t seed = 0; seed < 20; seed++) {
        run_t r;
        const plb_trace_t t = random_run(&r, PHASES, seed % 2, seed);
        plb_optimum_opts_t opts = {.cost = 1.0, .width = 1, .upper = INFINITY};
        plb_optimum_t narrow, wide, none;
        plb_err_t err = {0, ""};
        assert_int_equal(plb_optimum_of_trace(&narrow, &t, &all[2], 1, &opts, &err), PLB_OK);
        opts.width = 32;
        assert_int_equal(plb_optimum_of_trace(&wide, &t, &all[2], 1, &opts, &err), PLB_OK);
        assert_true(narrow.bound <= wide.time && wide.bound == narrow.bound);
        assert_true(!narrow.exact || narrow.time <= wide.time + 1e-9);
        any = any || !narrow.exact;
        opts.upper = wide.bound;
        assert_int_equal(plb_optimum_of_trace(&none, &t, &all[2], 1, &opts, &err), PLB_OK);
        assert_true(none.exact && isinf(none.time) && none.n == 0);
        plb_optimum_free(&narrow);
        plb_optimum_free(&wide);
        plb_optimum_free(&none);
    }
    assert_true(any);
}

TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    plb_candidate_strategy_t all[3];
    all_strategies(all);
    for (int c = 0; c < 4; c++) {
        run_t r;
        const plb_trace_t t = random_run(&r, PHASES, c % 2, 1);
        const plb_optimum_opts_t opts = {.cost = 1.0, .width = 8, .upper = INFINITY};
        int failed = 0;
        for (int64_t n = 0;; n++) {
            plb_optimum_t best;
            plb_err_t err = {0, ""};
            plb_mem_fail_at(n);
            const int ret = plb_optimum_of_trace(&best, &t, all, c < 2 ? 1 : 3, &opts, &err);
            plb_mem_fail_at(-1);
            plb_optimum_free(&best);
            if (ret == PLB_OK) {
                break;
            }
            assert_int_equal(ret, PLB_ERR_NOMEM);
            failed++;
        }
        assert_true(failed >= 40);
    }
}

TEST(bad_arguments_are_refused)
{
    plb_candidate_strategy_t all[3];
    all_strategies(all);
    run_t r;
    const plb_trace_t t = random_run(&r, SMALL, true, 0);
    plb_optimum_opts_t opts = {.width = 0, .upper = INFINITY};
    plb_optimum_t best;
    plb_err_t err = {0, ""};
    assert_int_equal(plb_optimum_of_trace(&best, &t, all, 1, &opts, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "width is 0"));
    opts.width = 1;
    assert_int_equal(plb_optimum_of_trace(&best, &t, all, 0, &opts, &err), PLB_ERR_VALUE);
    plb_optimum_free(&best);
}

static int stop(void *arg)
{
    ++*(int *)arg;
    return PLB_ERR_INTERRUPTED;
}

TEST(a_long_search_can_be_interrupted)
{
    int looks = 0;
    const plb_interrupt_t signal = {.check = stop, .arg = &looks};
    plb_optimum_t best;
    plb_err_t err;
    plb_candidate_strategy_t all[3];
    all_strategies(all);
    run_t r;
    const plb_trace_t t = random_run(&r, PHASES, true, 0);
    const plb_optimum_opts_t opts = {.cost = 1.0, .width = 8, .upper = INFINITY};
    plb_interrupt_set(signal);
    assert_int_equal(plb_optimum_of_trace(&best, &t, &all[1], 1, &opts, &err),
                     PLB_ERR_INTERRUPTED);
    plb_interrupt_set((plb_interrupt_t){.check = NULL});
    assert_int_equal(looks, 1);
    plb_optimum_free(&best);
}
