/* Tests of csrc/decide, the decider: calls that are repeated, the network, the promise.
 * Tests of csrc/model: the cost model.  The golden receipts (tests/place/golden.py) show every
 * change of its decisions; tests/base/test_no_memory.py lets each allocation fail. */
#include "decide/decider.c" /* for its static functions */
#include "plb.h"
#include "test.h"

enum { RANKS = 3, OBJECTS = 7, MOST = 32 };

/* ---- a decider ---- */

typedef struct made {
    plb_trigger_t trigger;
    plb_decider_t decider;
    plb_candidate_strategy_t candidates[MOST];
    double params[MOST][16], selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
} made_t;

static int add_candidate(made_t *m, int n, const plb_strategy_t *s)
{
    for (int i = 0; i < s->n_params; i++) {
        m->params[n][i] = s->params[i].fallback;
    }
    m->candidates[n] = (plb_candidate_strategy_t){*s, m->params[n]};
    return n + 1;
}

/* strategy: NULL: the decider selects one. */
static plb_decider_options_t options_of(made_t *m, const char *strategy)
{
    const bool selects = strategy == NULL;
    int n = 0;
    for (const plb_strategy_t *const *s = plb_strategies; selects && *s != NULL; s++) {
        if ((*s)->library == NULL && (*s)->agent == NULL && !(*s)->for_equal_objects &&
            !((*s)->looks_at & PLB_LOOKS_COORDS) &&
            ((*s)->looks_at & (PLB_LOOKS_LOAD | PLB_LOOKS_COMM))) {
            n = add_candidate(m, n, *s);
        }
    }
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        m->selection[i] = plb_selection_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        m->ledger[i] = plb_ledger_params[i].fallback;
    }
    return (plb_decider_options_t){
        .n_ranks = RANKS,
        .candidates = m->candidates,
        .n = selects ? n : add_candidate(m, 0, plb_strategy_find(strategy)),
        .selects = selects,
        .selection = m->selection,
        .ledger = m->ledger,
        .gives_up = true,
        .learns = true,
        .watches = true,
        .network = {1e-3, 1e-6},
    };
}

static int make(made_t *m, const char *trigger, const char *strategy, plb_err_t *err)
{
    *m = (made_t){0};
    const plb_decider_options_t opt = options_of(m, strategy);
    const plb_trigger_kind_t *kind = plb_trigger_find(trigger);
    double params[16];
    for (int i = 0; i < kind->n_params; i++) {
        params[i] = kind->params[i].fallback;
    }
    const int ret = plb_trigger_init(&m->trigger, kind, params, err);
    return ret != PLB_OK ? ret : plb_decider_init(&m->decider, &opt, &m->trigger, err);
}

static void unmake(made_t *m)
{
    plb_decider_free(&m->decider);
    plb_decider_free(&m->decider); /* freeing twice is allowed */
    plb_trigger_free(&m->trigger);
}

/* Check that two runs have made the same decisions. */
static void same_receipts(const plb_decider_t *a, const plb_decider_t *b)
{
    assert_int_equal(a->n_receipts, b->n_receipts);
    for (int64_t i = 0; i < a->n_receipts; i++) {
        const plb_receipt_t *r = &a->receipts[i], *s = &b->receipts[i];
        assert_int_equal(r->kind, s->kind);
        assert_int_equal(r->strategy, s->strategy);
        assert_string_equal(r->why, s->why);
#define X(name) assert_memory_equal(&r->name, &s->name, sizeof r->name);
        PLB_RECEIPT(X)
        PLB_RECEIPT_COUNTS(X)
#undef X
        assert_memory_equal(r->alternatives, s->alternatives,
                            (size_t)a->opt.n * sizeof *r->alternatives);
        assert_int_equal(r->speed == NULL, s->speed == NULL);
    }
}

/* If a call runs out of memory and is repeated, the receipts are the same to the last bit. */
TEST(test_a_step_that_ran_out_of_memory)
{
    for (int call = 0; call < 2; call++) {
        made_t a, b;
        plb_err_t err = {0, ""};
        const plb_iteration_t it = {
            .time = 3.0, .max = 3.0, .mean = 2.0, .min = 1.0, .total = 6.0, .utilization = 0.5};
        const double speed[RANKS] = {1.0, 2.0, 0.5};
        plb_placing_t placing = {.before = 1.5,
                                 .predicted = 1.0,
                                 .before_with_messages = 1.5,
                                 .predicted_with_messages = 1.0,
                                 .passed_over = NAN};
        const plb_step_done_t done = {.migrations = 2, .cost = 1.0, .moved = true};
        made_t *const both[] = {&a, &b};
        for (int i = 0; i < 2; i++) {
            plb_decider_t *d = &both[i]->decider;
            assert_int_equal(make(both[i], "periodic", NULL, &err), PLB_OK);
            assert_int_equal(plb_decider_observe(d, &it, &err), PLB_OK);
#define STEP(k, what)                                                                             \
    if (i == 1 && call == (k)) {                                                                  \
        plb_mem_fail_at(0);                                                                       \
        assert_int_equal((what), PLB_ERR_NOMEM);                                                  \
        plb_mem_fail_at(-1);                                                                      \
    }                                                                                             \
    assert_int_equal((what), PLB_OK)
            STEP(0, plb_decider_choose(d, NULL, 0, &err));
            STEP(1, plb_decider_placed(d, &placing, speed, &err));
#undef STEP
            plb_mem_fail_at(0); /* needs no memory */
            assert_int_equal(plb_decider_balanced(d, &done, &err), PLB_OK);
            plb_mem_fail_at(-1);
            assert_int_equal(plb_decider_balanced(d, &done, &err), PLB_ERR_STATE);
            assert_int_equal(d->n_lb_steps, 1);
            assert_int_equal(d->ledger.accounts[d->receipts[0].strategy].n, 1);
        }
        same_receipts(&a.decider, &b.decider);
        assert_true(a.decider.trigger->cost == b.decider.trigger->cost);
        unmake(&a);
        unmake(&b);
    }
}

/* The parameters alpha and beta of a strategy get the network's values, limited to their
 * ranges. */
TEST(test_strategies_are_told_the_network)
{
    made_t m;
    plb_err_t err = {0, ""};
    int told = 0;
    assert_int_equal(make(&m, "periodic", NULL, &err), PLB_OK);
    assert_int_equal(plb_decider_network(&m.decider, (plb_network_t){0.25, 1e9}, &err), PLB_OK);
    for (int32_t i = 0; i < m.decider.opt.n; i++) {
        const plb_candidate_strategy_t *c = &m.decider.candidates[i];
        for (int k = 0; k < c->strategy.n_params; k++) {
            const plb_param_t *p = &c->strategy.params[k];
            const bool alpha = strcmp(p->name, "alpha") == 0, beta = strcmp(p->name, "beta") == 0;
            const double expected = alpha  ? fmin(fmax(0.25, p->least), p->most)
                                    : beta ? p->most
                                           : p->fallback;
            assert_true(c->params[k] == expected);
            told += alpha || beta;
        }
    }
    assert_true(told >= 2);
    unmake(&m);
    /* a strategy that the user chose keeps its parameters until the network is measured */
    assert_int_equal(make(&m, "periodic", "RefineCommLB", &err), PLB_OK);
    const plb_candidate_strategy_t *c = &m.decider.candidates[0];
    for (int k = 0; k < c->strategy.n_params; k++) {
        assert_true(c->params[k] == c->strategy.params[k].fallback);
    }
    assert_int_equal(plb_decider_network(&m.decider, (plb_network_t){0.25, 0.5}, &err), PLB_OK);
    for (int k = 0; k < c->strategy.n_params; k++) {
        const plb_param_t *p = &c->strategy.params[k];
        const double expected = strcmp(p->name, "alpha") == 0  ? 0.25
                                : strcmp(p->name, "beta") == 0 ? 0.5
                                                               : p->fallback;
        assert_true(c->params[k] == expected);
    }
    unmake(&m);
}

/* Objects with several loads, on ranks of different speeds: rank 1 is slow in the first phase. */
TEST(test_components)
{
    made_t m;
    plb_err_t err = {0, ""};
    const plb_iteration_t it = {.time = 1.0, .max = 1.0, .mean = 1.0, .utilization = 1.0};
    assert_int_equal(make(&m, "periodic", "VectorLB", &err), PLB_OK);
    double speed[RANKS], *load = malloc(2 * OBJECTS * sizeof *load);
    int64_t key[OBJECTS];
    int32_t rank[OBJECTS], out[OBJECTS];
    plb_placing_t placing;
    for (int64_t k = 0; k < 6; k++) {
        plb_iteration_t now = it;
        now.iteration = k;
        assert_int_equal(plb_decider_observe(&m.decider, &now, &err), PLB_OK);
        for (int i = 0; i < OBJECTS; i++) {
            key[i] = i;
            rank[i] = (int32_t)((i + k) % RANKS);
            load[2 * i + 1] = 0.1 + 0.1 * i;
            load[2 * i] = (1.0 + i) * (rank[i] == 1 ? 8.0 : 1.0);
        }
        const plb_database_t db = {.snapshot = {.n_objects = OBJECTS,
                                                .n_ranks = RANKS,
                                                .n_components = 2,
                                                .load = load,
                                                .rank = rank,
                                                .key = key},
                                   .here = load};
        assert_int_equal(plb_decider_choose(&m.decider, NULL, 0, &err), PLB_OK);
        if (plb_decider_place(&m.decider, &db, out, speed, &placing, &err) != PLB_OK) {
            fail_msg("%s", err.text);
        }
        plb_decider_abandon(&m.decider);
    }
    const plb_learner_t *of = m.decider.learner;
    assert_true(of[0].unlike && of[1].unlike && !of[2].unlike);
    assert_true(speed[0] > 4.0 * speed[1]);
    free(load);
    unmake(&m);
}

/* ---- the promise ---- */

/* Find the iterations at which a preview is due, if there was an LB step before the first one; -1
 * ends the list. */
static void previews(const double *ratio, int n, double predicted, double price, int *at)
{
    plb_promise_t s = NO_PROMISE;
    int found = 0;
    s.predicted = predicted, s.price = price, s.last = 1.0;
    for (int i = 0; i < n; i++) {
        if (promise_observe(&s, 2.0 * ratio[i], 2.0)) {
            at[found++] = i;
        }
    }
    at[found] = -1;
}

static void check_previews(const double *ratio, int n, double predicted, double price,
                           const int *expected)
{
    int at[101];
    previews(ratio, n, predicted, price, at);
    for (int i = 0;; i++) {
        assert_int_equal(at[i], expected[i]);
        if (expected[i] < 0) {
            return;
        }
    }
}

static int fill(double *ratio, int from, int n, double x)
{
    for (int i = 0; i < n; i++) {
        ratio[from + i] = x;
    }
    return from + n;
}

TEST(test_a_preview_is_due_if_iterations_take_longer_than_predicted)
{
    double x[100];
    static const int none[] = {-1};
    fill(x, 0, 50, 1.0);
    check_previews(x, 50, 1.0, 0.0, none);
    fill(x, 0, 50, 1.04);
    check_previews(x, 50, 1.0, 0.0, none);
    fill(x, 0, 50, 1.4);
    check_previews(x, 50, 1.39, 0.0, none);
    fill(x, 0, 50, 1.5);
    check_previews(x, 4, 1.0, 0.0, (const int[]){2, -1});
    for (int i = 0; i < 30; i++) {
        x[i] = i % 3 == 1 ? 1.5 : 1.0; /* spikes */
    }
    check_previews(x, 30, 1.0, 0.0, none);
    fill(x, 0, 30, 1.0);
    fill(x, 30, 2, 1.5);
    /* only after two iterations in a row */
    check_previews(x, 32, 1.0, 0.0, (const int[]){31, -1});
    plb_promise_t fresh = NO_PROMISE;
    for (int i = 0; i < 10; i++) {
        assert_false(promise_observe(&fresh, 3.0, 1.0)); /* there is no prediction yet */
        assert_false(promise_observe(&fresh, 0.0, 0.0));
    }
    fill(x, 0, 16, 1.5);
    /* each iteration loses 1 s, a preview costs 0.8 s: a tenth of the loss */
    check_previews(x, 16, 1.0, 0.8, (const int[]){7, 15, -1});
}

TEST(test_previews_that_do_not_help_become_rare)
{
    double x[100];
    fill(x, 0, 100, 1.5);
    check_previews(x, 100, 1.0, 0.0, (const int[]){2, 5, 11, 23, 47, 95, -1});
    fill(x, fill(x, 0, 30, 1.5), 10, 2.0); /* worse: a preview at once */
    check_previews(x, 40, 1.0, 0.0, (const int[]){2, 5, 11, 23, 31, 34, -1});
    /* good iterations in between do not reset the pause */
    fill(x, fill(x, fill(x, 0, 30, 1.5), 2, 1.0), 2, 1.5);
    check_previews(x, 34, 1.0, 0.0, (const int[]){2, 5, 11, 23, 33, -1});
}

/* ---- the cost model ---- */

/* Of the ranks 0, 1 and 2, rank 0 gives two objects to rank 1, and one to rank 2. */
TEST(test_migrations_take_what_the_busiest_rank_needs)
{
    const plb_lb_cost_t cost = {.alpha = 0.5, .beta = 0.25, .steps = 99.0, .handling = 2.0};
    const double load[] = {1, 1, 1, 1};
    const int32_t rank[] = {0, 0, 0, 1}, to[] = {1, 1, 2, 1};
    const int64_t nbytes[] = {8, 4, 12, 100};
    const plb_snapshot_t s = {.n_objects = 4,
                              .n_ranks = RANKS,
                              .n_components = 1,
                              .load = load,
                              .rank = rank,
                              .nbytes = nbytes};
    double seconds;
    plb_err_t err;
    assert_int_equal(plb_migration_seconds(&cost, &s, to, &seconds, &err), PLB_OK);
    assert_true(seconds == 3 * 2.0 + 24 * 0.25 + 2 * 0.5); /* one message to each rank */
    assert_int_equal(plb_migration_seconds(&cost, &s, rank, &seconds, &err), PLB_OK);
    assert_true(seconds == 0.0);
    plb_mem_fail_at(0);
    assert_int_equal(plb_migration_seconds(&cost, &s, to, &seconds, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
}
