/* Tests of csrc/replay, replay: every allocation that fails, random and broken traces in memory of
 * exactly their size, so that a sanitizer finds every access beyond it; the rounding of sums of
 * several phases at once. */
#include "plb.h"
#include "replay/internal.h"
#include "test.h"

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

/* A strategy that needs no memory: round robin.  It also reads all edges. */
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

/* What a replay needs besides the trace. */
typedef struct setting {
    plb_trigger_t trigger;
    plb_decider_t decider;
    plb_replay_t replay;
} setting_t;

static void setting_free(setting_t *s)
{
    plb_replay_free(&s->replay);
    plb_decider_free(&s->decider);
    plb_trigger_free(&s->trigger);
}

static int decider_of(setting_t *s, const plb_strategy_t *strategy, bool learns, plb_err_t *err)
{
    const double every = 2.0;
    double params[32] = {0}, ledger[PLB_N_LEDGER], selection[PLB_N_SELECTION];
    for (int i = 0; i < strategy->n_params; i++) {
        params[i] = strategy->params[i].fallback;
    }
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        ledger[i] = plb_ledger_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        selection[i] = plb_selection_params[i].fallback;
    }
    const plb_candidate_strategy_t candidate = {*strategy, params};
    const plb_decider_options_t opt = {.n_ranks = RANKS,
                                       .candidates = &candidate,
                                       .n = 1,
                                       .selection = selection,
                                       .ledger = ledger,
                                       .gives_up = learns,
                                       .learns = learns};
    const int ret = plb_trigger_init(&s->trigger, plb_trigger_find("periodic"), &every, err);
    return ret != PLB_OK ? ret : plb_decider_init(&s->decider, &opt, &s->trigger, err);
}

/* Replay the trace, in one part or in two (from phase `cut` on). strategy NULL: as recorded. */
static int run_with(setting_t *s, const owned_t *o, const plb_strategy_t *strategy,
                    plb_replay_opts_t opts, int64_t cut, plb_err_t *err)
{
    *s = (setting_t){0};
    int ret = strategy == NULL ? PLB_OK : decider_of(s, strategy, o->task_ptr[1] % 2, err);
    opts.decider = strategy == NULL ? NULL : &s->decider;
    opts.n_ranks = o->trace.n_ranks;
    opts.model = (plb_lb_cost_t){.alpha = 1e-3, .beta = 1e-6, .steps = 1e-3};
    opts.keep_times = opts.keep_ranks = true;
    const plb_loop_t loop = {0, PHASES, NAN, NAN};
    plb_trace_t part = o->trace;
    part.n_phases = cut;
    if (ret != PLB_OK || (ret = plb_replay_init(&s->replay, &opts, err)) ||
        (ret = plb_replay_loop(&s->replay, &loop, err)) ||
        (ret = plb_replay_feed(&s->replay, &part, err))) {
        return ret;
    }
    plb_trace_t rest = o->trace; /* the part from `cut` on; its pointers count from its first task
                                    and edge */
    int64_t task_ptr[PHASES + 1], edge_ptr[PHASES + 1];
    const int64_t t0 = o->task_ptr[cut], e0 = o->edge_ptr[cut];
    for (int64_t i = cut; i <= PHASES; i++) {
        task_ptr[i - cut] = o->task_ptr[i] - t0;
        edge_ptr[i - cut] = o->edge_ptr[i] - e0;
    }
    rest.n_phases = PHASES - cut;
    rest.task_ptr = task_ptr;
    rest.edge_ptr = edge_ptr;
    rest.task_entity += t0;
    rest.task_rank += t0;
    rest.task_load += t0;
    rest.task_bytes += t0;
    rest.edge_src += e0;
    rest.edge_dst += e0;
    rest.edge_bytes += e0;
    rest.edge_messages += e0;
    if (cut < PHASES && (ret = plb_replay_feed(&s->replay, &rest, err)) != PLB_OK) {
        return ret;
    }
    return plb_replay_settle(&s->replay, NULL, false, err);
}

static int run(setting_t *s, const owned_t *o, const plb_strategy_t *strategy, bool foresight,
               plb_err_t *err)
{
    const plb_replay_opts_t opts = {.foresight = foresight,
                                    .moves = true,
                                    .network = {.alpha = 0.5, .beta = 0.25},
                                    .cost = NAN};
    return run_with(s, o, strategy, opts, PHASES, err);
}

static void check_ranks(const owned_t *o, const plb_replay_t *replay)
{
    assert_int_equal(replay->n, PHASES);
    assert_int_equal(replay->tasks, o->task_ptr[PHASES]);
    for (int64_t k = 0; k < replay->tasks; k++) {
        assert_in_range(replay->rank[k], 0, RANKS - 1);
        if (!o->entity_migratable[o->task_entity[k]]) {
            assert_int_equal(replay->rank[k], o->task_rank[k]);
        }
    }
}

/* A replay in two parts, cut anywhere, also with a lag, has the same result as in one part, to the
 * last bit. */
TEST(parts_are_the_same_as_the_whole)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        owned_t o = random_trace(seed);
        const plb_replay_opts_t opts = {
            .moves = true, .cost = 0.25, .lag = (int32_t)(seed % 3), .network = {0.0, 0.0}};
        setting_t whole, parts;
        plb_err_t err = {0, ""};
        assert_int_equal(run_with(&whole, &o, &dealer, opts, PHASES, &err), PLB_OK);
        check_ranks(&o, &whole.replay);
        for (int64_t cut = 0; cut < PHASES; cut++) {
            assert_int_equal(run_with(&parts, &o, &dealer, opts, cut, &err), PLB_OK);
            const plb_replay_t *a = &whole.replay, *b = &parts.replay;
            assert_memory_equal(a->rank, b->rank, (size_t)a->tasks * sizeof *a->rank);
            assert_memory_equal(a->seconds, b->seconds, PHASES * sizeof *a->seconds);
            assert_memory_equal(a->times, b->times, PHASES * RANKS * sizeof *a->times);
            assert_int_equal(whole.decider.n_lb_steps, parts.decider.n_lb_steps);
            for (int64_t i = 0; i < whole.decider.n_receipts; i++) {
                const double x = whole.decider.receipts[i].gain,
                             y = parts.decider.receipts[i].gain;
                assert_true(x == y || (isnan(x) && isnan(y)));
            }
            setting_free(&parts);
        }
        setting_free(&whole);
        owned_free(&o);
    }
}

TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    owned_t o = random_trace(7);
    int failed = 0;
    for (int64_t n = 0;; n++) {
        setting_t s;
        plb_err_t err = {0, ""};
        plb_mem_fail_at(n);
        const int ret = run(&s, &o, &dealer, false, &err);
        plb_mem_fail_at(-1);
        setting_free(&s);
        if (ret == PLB_OK) {
            break;
        }
        assert_int_equal(ret, PLB_ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 15);
    owned_free(&o);
}

/* Any single wrong element of any array is an error. */
TEST(broken_traces_are_refused)
{
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
        setting_t s;
        plb_err_t err = {0, ""};
        const int ret = run(&s, &o, &dealer, false, &err);
        assert_true(ret == PLB_ERR_VALUE || ret == PLB_ERR_RANGE);
        assert_true(strlen(err.text) > 0 && err.code == ret);
        setting_free(&s);
        owned_free(&o);
    }
}

static int stop(void *calls)
{
    ++*(int *)calls;
    return PLB_ERR_INTERRUPTED;
}

TEST(a_signal_ends_it)
{
    owned_t o = random_trace(3);
    int calls = 0;
    setting_t s;
    plb_err_t err = {0, ""};
    const plb_replay_opts_t opts = {.cost = 0.0};
    plb_interrupt_set((plb_interrupt_t){.check = stop, .arg = &calls});
    assert_int_equal(run_with(&s, &o, NULL, opts, PHASES, &err), PLB_ERR_INTERRUPTED);
    plb_interrupt_set((plb_interrupt_t){.check = NULL});
    assert_int_equal(calls, 1);
    setting_free(&s);
    owned_free(&o);
}

TEST(another_number_of_ranks_is_refused)
{
    owned_t o = random_trace(1);
    plb_replay_t replay = {0};
    plb_err_t err = {0, ""};
    const plb_replay_opts_t opts = {.n_ranks = RANKS + 1, .as_recorded = true, .cost = NAN};
    const plb_loop_t loop = {0, PHASES, NAN, NAN};
    assert_int_equal(plb_replay_init(&replay, &opts, &err), PLB_OK);
    assert_int_equal(plb_replay_loop(&replay, &loop, &err), PLB_OK);
    assert_int_equal(plb_replay_feed(&replay, &o.trace, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "n_ranks is 3: expected 4"));
    plb_replay_free(&replay);
    owned_free(&o);
}

/* ---- sums that are made ahead ---- */

enum { KINDS = 9 };

/* Loads whose sums are hard to round: ties, neighbours of ties, different magnitudes. */
static double hard(int kind, int64_t k, plb_rng_t *rng)
{
    const double u = plb_rng_uniform(rng);
    switch (kind) {
    case 0: /* ties of the rounding to 1, and small loads that break them */
        return k == 0 ? 1.0 : ldexp(1.0, -53 - (int)plb_rng_below(rng, 3));
    case 1: /* a tie, which one tiny load breaks */
        return k == 0 ? 1.0 + 0x1p-52 : k == 1 ? 0x1p-53 : ldexp(u, -100 - (int)(k % 80));
    case 2:
        return pow(10.0, -300.0 + 330.0 * u);
    case 3: /* many equal loads */
        return 0.1;
    case 4:
        return k % 3 == 0 ? 1e30 : k % 3 == 1 ? 1e14 : 1e-300;
    case 5: /* just above and below a power of two */
        return k == 0 ? 2.0 - 0x1p-52 : k % 2 ? 0x1p-53 : 0x1p-54;
    case 6:
        return plb_rng_below(rng, 2) ? 0.0 : ldexp(u, (int)plb_rng_below(rng, 120) - 90);
    case 7: /* smaller than the lowest bit of an exact sum */
        return ldexp(u, -180 - (int)plb_rng_below(rng, 40));
    default:
        return u;
    }
}

static void check_ahead(int kind, int64_t n, int n_phases, int32_t p, uint64_t seed)
{
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    double *load = space(n * n_phases, sizeof *load);
    int32_t *rank = space(n, sizeof *rank);
    double *sum = space((int64_t)p * PLB_SUM_PHASES, sizeof *sum);
    double *room = space(2 * (int64_t)p * PLB_SUM_PHASES, sizeof *room);
    for (int64_t k = 0; k < n; k++) {
        rank[k] = (int32_t)plb_rng_below(&rng, (uint64_t)p);
    }
    for (int64_t k = 0; k < n * n_phases; k++) {
        load[k] = hard(kind, k % n, &rng);
    }
    for (int64_t k = n - 1; k > 0 && seed % 2; k--) { /* in another order */
        const int64_t j = (int64_t)plb_rng_below(&rng, (uint64_t)k + 1);
        const double swap = load[k];
        load[k] = load[j];
        load[j] = swap;
    }
    plb_load_sums(load, n, n_phases, rank, p, sum, room);
    for (int j = 0; j < n_phases; j++) {
        for (int32_t r = 0; r < p; r++) {
            plb_exact_t of = {{0}};
            for (int64_t k = 0; k < n; k++) {
                if (rank[k] == r) {
                    plb_exact_add(&of, load[j * n + k]);
                }
            }
            assert_true(sum[r * PLB_SUM_PHASES + j] == plb_exact_value(&of));
        }
    }
    free(load);
    free(rank);
    free(sum);
    free(room);
}

TEST(test_sums_ahead_are_rounded_once)
{
    static const int64_t counts[] = {0, 1, 2, 3, 4, 7, 30, 1000};
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t seed = 0; seed < 60; seed++) {
            const int64_t n = counts[seed % 8];
            const int32_t p = seed % 3 == 0 ? 1 : (int32_t)(1 + seed % 7);
            check_ahead(kind, n, 1 + (int)(seed / 8 % PLB_SUM_PHASES), p, seed);
        }
    }
}
