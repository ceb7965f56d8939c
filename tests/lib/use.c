/* Calls every function of pylb.h that needs no MPI, also with wrong arguments.  This file is valid
 * C11 and C++17. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pylb.h"

static int failures = 0;

static void expect(int ok, const char *what, int line)
{
    if (!ok) {
        fprintf(stderr, "line %d: %s (%s)\n", line, what, pylb_error());
        failures++;
    }
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)
#define FAILS(code, word, call) EXPECT((call) == (code) && strstr(pylb_error(), word) != NULL)

enum { N = 8, P = 2 };

static void example(pylb_snapshot *s, double *load, int32_t *rank)
{
    pylb_snapshot_init(s);
    for (int i = 0; i < N; i++) {
        load[i] = 1.0 + i;
        rank[i] = 0;
    }
    s->n_objects = N;
    s->n_ranks = P;
    s->load = load;
    s->rank = rank;
}

static int to_last(const pylb_snapshot *s, uint64_t seed, int32_t *rank, void *user)
{
    (void)seed;
    for (int64_t i = 0; i < s->n_objects; i++) {
        rank[i] = s->n_ranks - 1;
    }
    return *(const int *)user;
}

static void placement(void)
{
    pylb_snapshot s;
    double load[N], time[P];
    int32_t rank[N], placed[N];
    pylb_metrics m;
    static int code = 0;
    example(&s, load, rank);
    EXPECT(pylb_place(&s, "GreedyLB", NULL, 0, placed) == PYLB_OK);
    EXPECT(pylb_rank_times(&s, placed, time) == PYLB_OK && time[0] == 18.0 && time[1] == 18.0);
    EXPECT(pylb_metrics_of(time, P, &m) == PYLB_OK && m.max_over_mean == 1.0);
    EXPECT(pylb_rank_times(&s, NULL, time) == PYLB_OK && time[0] == 36.0);
    FAILS(PYLB_ERR_KEY, "GreedLB", pylb_place(&s, "GreedLB", NULL, 0, placed));
    FAILS(PYLB_ERR_KEY, "nothing", pylb_place(&s, "RefineLB", "nothing=1", 0, placed));
    FAILS(PYLB_ERR_VALUE, "overload", pylb_place(&s, "RefineLB", "overload=-1", 0, placed));
    EXPECT(pylb_place(&s, "auto", "imbalance=1.2 beta=1e-9", 0, placed) == PYLB_OK);
    EXPECT(pylb_rank_times(&s, placed, time) == PYLB_OK && time[0] == 18.0 && time[1] == 18.0);
    FAILS(PYLB_ERR_KEY, "auto has no", pylb_place(&s, "auto", "overload=1", 0, placed));
    FAILS(PYLB_ERR_VALUE, "beta", pylb_place(&s, "auto", "beta=-1", 0, placed));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_place(&s, NULL, NULL, 0, placed));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_place(NULL, "GreedyLB", NULL, 0, placed));
    FAILS(PYLB_ERR_MISSING, "distributed", pylb_place(&s, "GossipLB", NULL, 0, placed));
    load[3] = NAN;
    FAILS(PYLB_ERR_VALUE, "load", pylb_place(&s, "GreedyLB", NULL, 0, placed));
    load[3] = 1.0;
    rank[2] = 7;
    FAILS(PYLB_ERR_RANGE, "rank", pylb_place(&s, "GreedyLB", NULL, 0, placed));
    rank[2] = 0;
    s.size = 4;
    FAILS(PYLB_ERR_VALUE, "pylb_snapshot_init", pylb_place(&s, "GreedyLB", NULL, 0, placed));
    s.size = sizeof s;
    FAILS(PYLB_ERR_VALUE, "n is 0", pylb_metrics_of(time, 0, &m));
    EXPECT(pylb_strategy_register("ToLast", to_last, &code) == PYLB_OK);
    FAILS(PYLB_ERR_KEY, "already", pylb_strategy_register("ToLast", to_last, &code));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_strategy_register("X", NULL, NULL));
    FAILS(PYLB_ERR_KEY, "auto", pylb_strategy_register("auto", to_last, &code));
    EXPECT(pylb_place(&s, "ToLast", NULL, 0, placed) == PYLB_OK && placed[5] == P - 1);
    code = 3;
    placed[5] = 0;
    FAILS(PYLB_ERR_CALLBACK, "returned 3", pylb_place(&s, "ToLast", NULL, 0, placed));
    EXPECT(placed[5] == 0);                               /* a call that fails changes nothing */
    for (int i = 0; pylb_strategy_name(i) != NULL; i++) { /* into the array of present ranks */
        int32_t present[N] = {0, 1};
        s.rank = rank;
        memcpy(rank, present, sizeof rank);
        if (pylb_place(&s, pylb_strategy_name(i), NULL, 0, placed) == PYLB_OK) {
            s.rank = present;
            EXPECT(pylb_place(&s, pylb_strategy_name(i), NULL, 0, present) == PYLB_OK);
            EXPECT(memcmp(placed, present, sizeof placed) == 0);
        }
    }
    int n = 0, found = 0;
    for (; pylb_strategy_name(n) != NULL; n++) {
        found += strcmp(pylb_strategy_name(n), "ToLast") == 0;
        EXPECT(pylb_strategy_help(n)[0] != '\0');
    }
    EXPECT(n > 5 && found == 1 && pylb_strategy_name(-1) == NULL);
}

static void mesh(void)
{
    const double load[4] = {1.0, 4.0, 2.0, 4.0};
    const int64_t parent[5] = {0, 1, 1, 2, 3}, child[5] = {3, 0, 1, 2, 2};
    double out[4] = {-1.0};
    EXPECT(pylb_inherit(4, load, 1, 5, parent, child, 1, 4, out) == PYLB_OK);
    EXPECT(out[0] == 2.0 && out[1] == 2.0 && out[2] == 6.0 && out[3] == 1.0);
    EXPECT(pylb_inherit(4, load, 1, 5, parent, child, 0, 4, out) == PYLB_OK);
    EXPECT(out[0] == 4.0 && out[1] == 4.0 && out[2] == 3.0 && out[3] == 1.0);
    EXPECT(pylb_inherit(2, load, 2, 2, parent, parent, 1, 2, out) == PYLB_OK);
    EXPECT(memcmp(out, load, sizeof load) == 0); /* two loads of each cell */
    EXPECT(pylb_inherit(0, NULL, 1, 0, NULL, NULL, 1, 0, NULL) == PYLB_OK);
    FAILS(PYLB_ERR_RANGE, "pair 3", pylb_inherit(2, load, 1, 5, parent, child, 1, 4, out));
    FAILS(PYLB_ERR_VALUE, "new cell 2 has no parent",
          pylb_inherit(4, load, 1, 3, parent, child, 1, 4, out));
    FAILS(PYLB_ERR_VALUE, "n_components", pylb_inherit(4, load, 9, 5, parent, child, 1, 4, out));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_inherit(4, NULL, 1, 5, parent, child, 1, 4, out));
    EXPECT(out[3] == 4.0); /* a call that fails changes nothing */
}

static int when(const pylb_cycle *c, void *user)
{
    (void)user;
    return c->n == 4 ? 1 : c->n > 5 ? -1 : 0;
}

static void triggers(void)
{
    pylb_trigger *t = NULL, *copy;
    int rebalance = -1;
    EXPECT(pylb_trigger_create("periodic", "every=3", &t) == PYLB_OK);
    EXPECT(pylb_trigger_expect(t, 100, NAN) == PYLB_OK);
    for (int i = 0; i < 3; i++) {
        EXPECT(pylb_trigger_observe(t, i, 2.0, 1.0, &rebalance) == PYLB_OK);
        EXPECT(rebalance == (i == 2));
    }
    EXPECT(strlen(pylb_trigger_reason(t)) > 5);
    EXPECT(pylb_trigger_balanced(t, 2, 0.5, 1.0) == PYLB_OK);
    FAILS(PYLB_ERR_STATE, "iteration", pylb_trigger_observe(t, 1, 2.0, 1.0, &rebalance));
    FAILS(PYLB_ERR_VALUE, "max", pylb_trigger_observe(t, 9, -2.0, 1.0, &rebalance));
    copy = t;
    EXPECT(pylb_trigger_close(&t) == PYLB_OK && t == NULL);
    EXPECT(pylb_trigger_close(&t) == PYLB_OK);
    FAILS(PYLB_ERR_STATE, "closed", pylb_trigger_observe(copy, 9, 2.0, 1.0, &rebalance));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_trigger_observe(NULL, 9, 2.0, 1.0, &rebalance));
    FAILS(PYLB_ERR_VALUE, "another kind", pylb_advise((pylb_advisor *)(void *)copy, &rebalance));
    FAILS(PYLB_ERR_KEY, "often", pylb_trigger_create("often", NULL, &t));
    FAILS(PYLB_ERR_VALUE, "every", pylb_trigger_create("periodic", "every=0", &t));
    FAILS(PYLB_ERR_VALUE, "name=value", pylb_trigger_create("periodic", "every", &t));
    EXPECT(pylb_trigger_register("when", when, NULL) == PYLB_OK);
    EXPECT(pylb_trigger_create("when", NULL, &t) == PYLB_OK);
    for (int i = 0; i < 5; i++) {
        EXPECT(pylb_trigger_observe(t, i, 2.0, 1.0, &rebalance) == PYLB_OK);
        EXPECT(rebalance == (i == 3));
    }
    FAILS(PYLB_ERR_CALLBACK, "when", pylb_trigger_observe(t, 5, 2.0, 1.0, &rebalance));
    EXPECT(pylb_trigger_close(&t) == PYLB_OK);
    EXPECT(pylb_trigger_name(0) != NULL && pylb_trigger_help(0) != NULL);
}

static void words(void)
{
    pylb_advisor *lb = NULL;
    int rebalance;
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    FAILS(PYLB_ERR_KEY, "colour", pylb_advisor_set(lb, "colour", "red"));
    FAILS(PYLB_ERR_KEY, "Greedy", pylb_advisor_set(lb, "strategy", "Greedy"));
    FAILS(PYLB_ERR_KEY, "never", pylb_advisor_set(lb, "trigger", "never"));
    FAILS(PYLB_ERR_VALUE, "every", pylb_advisor_set(lb, "every", "0.5"));
    FAILS(PYLB_ERR_VALUE, "mode", pylb_advisor_set(lb, "mode", "of"));
    FAILS(PYLB_ERR_VALUE, "lag", pylb_advisor_set(lb, "lag", "-1"));
    FAILS(PYLB_ERR_VALUE, "pause_if_useless", pylb_advisor_set(lb, "pause_if_useless", "maybe"));
    FAILS(PYLB_ERR_VALUE, ".json", pylb_advisor_set(lb, "record", "run.h5"));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_advisor_set(lb, NULL, "1"));
    FAILS(PYLB_ERR_STATE, "pylb_start", pylb_stop(lb));
    FAILS(PYLB_ERR_STATE, "begin", pylb_rebalance_end(lb));
    FAILS(PYLB_ERR_VALUE, "seconds", pylb_work(lb, NAN));
    EXPECT(pylb_advisor_set(lb, "trigger.theta", "1.2") == PYLB_OK); /* refused below, by "auto" */
    const double began = pylb_seconds(lb);
    EXPECT(pylb_seconds(lb) >= began && isnan(pylb_seconds(NULL)));
    EXPECT(pylb_start(lb) == PYLB_OK);
    FAILS(PYLB_ERR_STATE, "within", pylb_start(lb));
    EXPECT(pylb_stop(lb) == PYLB_OK);
    FAILS(PYLB_ERR_STATE, "first step", pylb_advisor_set(lb, "lag", "1"));
    FAILS(PYLB_ERR_KEY, "theta", pylb_advise(lb, &rebalance));
    FAILS(PYLB_ERR_STATE, "no more steps", pylb_advise(lb, &rebalance));
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK && lb == NULL);
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK && pylb_advisor_close(NULL) == PYLB_OK);
}

static void options_end_with_the_first_measurement(void)
{
    for (int i = 0; i < 3; i++) {
        pylb_advisor *lb = NULL;
        EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
        EXPECT((i == 0   ? pylb_work(lb, 0.5)
                : i == 1 ? pylb_rebalanced(lb, 0.5)
                         : pylb_rebalance_begin(lb)) == PYLB_OK);
        FAILS(PYLB_ERR_STATE, "first step", pylb_advisor_set(lb, "lag", "1"));
        EXPECT(pylb_advisor_close(&lb) == PYLB_OK);
    }
}

/* A strategy or trigger from the environment has its default parameters. */
static void environment(void)
{
    pylb_advisor *lb = NULL;
    pylb_cells cells;
    pylb_plan *plan = NULL;
    pylb_receipt receipt;
    int64_t decisions = 0;
    double load = 1.0;
    pylb_cells_init(&cells);
    cells.n = 1;
    cells.load = &load;
    setenv("PYLB_STRATEGY", "GreedyLB", 1);
    setenv("PYLB_TRIGGER", "2", 1);
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "trigger", "periodic") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "trigger.every", "3") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "strategy", "RefineLB") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "strategy.overload", "1.01") == PYLB_OK);
    EXPECT(pylb_advise_cells(lb, &cells, &plan) == PYLB_OK);
    EXPECT(pylb_advise_cells(lb, &cells, &plan) == PYLB_OK);
    EXPECT(pylb_advisor_counts(lb, &decisions, NULL) == PYLB_OK && decisions == 1);
    EXPECT(pylb_advisor_receipt(lb, 0, &receipt) == PYLB_OK && receipt.iteration == 1);
    EXPECT(strcmp(receipt.strategy, "GreedyLB") == 0);
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);

    setenv("PYLB_STRATEGY", "Greedy", 1);
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    FAILS(PYLB_ERR_KEY, "Greedy", pylb_work(lb, 1.0));
    FAILS(PYLB_ERR_KEY, "Greedy", pylb_advise_cells(lb, &cells, &plan));
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);
    unsetenv("PYLB_STRATEGY");
    unsetenv("PYLB_TRIGGER");
}

static void steps(void)
{
    pylb_advisor *lb = NULL, *closed;
    pylb_cells cells;
    pylb_plan *plan = NULL;
    pylb_receipt receipt;
    int rebalance = 0, rank = -1, n_ranks = 0;
    int64_t decisions = -1, key[2] = {4, 4};
    double load[2] = {1.0, -1.0};
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    EXPECT(pylb_advisor_rank(lb, &rank, &n_ranks) == PYLB_OK && rank == 0 && n_ranks == 1);
    EXPECT(pylb_advisor_set(lb, "every", "2") == PYLB_OK);
    for (int i = 0; i < 4; i++) {
        EXPECT(pylb_work(lb, 0.5) == PYLB_OK);
        EXPECT(pylb_advise(lb, &rebalance) == PYLB_OK);
        EXPECT(rebalance == (i % 2 == 1));
        if (rebalance) {
            EXPECT(pylb_rebalance_begin(lb) == PYLB_OK);
            EXPECT(pylb_rebalance_end(lb) == PYLB_OK);
        }
    }
    FAILS(PYLB_ERR_STATE, "every", pylb_advisor_set(lb, "every", "3"));
    EXPECT(pylb_advisor_counts(lb, &decisions, NULL) == PYLB_OK && decisions == 1);
    EXPECT(pylb_advisor_receipt(lb, 0, &receipt) == PYLB_OK && receipt.rebalanced == 1);
    EXPECT(strcmp(receipt.strategy, "own") == 0 && receipt.iteration == 1);
    FAILS(PYLB_ERR_RANGE, "expected 0 ... 0", pylb_advisor_receipt(lb, 1, &receipt));
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);

    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    pylb_cells_init(&cells);
    cells.n = 2;
    plan = (pylb_plan *)load; /* any pointer: also after an error, it must not stay */
    FAILS(PYLB_ERR_VALUE, "load", pylb_advise_cells(lb, &cells, &plan));
    EXPECT(plan == NULL);
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);

    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    cells.load = load;
    FAILS(PYLB_ERR_VALUE, "loads[1] is -1", pylb_advise_cells(lb, &cells, &plan));
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);

    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "every", "1") == PYLB_OK);
    load[1] = 2.0;
    cells.key = key;
    FAILS(PYLB_ERR_KEY, "key 4 is given twice", pylb_advise_cells(lb, &cells, &plan));
    key[1] = 5;
    EXPECT(pylb_advise_cells(lb, &cells, &plan) == PYLB_OK && plan == NULL);
    EXPECT(pylb_plan_n(plan) == 0 && pylb_plan_rank(plan) == NULL);
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_plan_migrate(plan, load, 8, load));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_plan_migrate_begin(plan, load, 8, load));
    FAILS(PYLB_ERR_VALUE, "NULL", pylb_plan_migrate_end(plan));
    closed = lb;
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);
    plan = (pylb_plan *)load;
    FAILS(PYLB_ERR_STATE, "closed", pylb_advise_cells(closed, &cells, &plan));
    EXPECT(plan == NULL);
}

/* Names that JSON would have to escape, numbers that would be rounded, sums of bytes that
 * overflow, and loads whose reciprocal is infinite. */
static void limits(void)
{
    static const char *const wrong[] = {"a\"b", "\\", "a\n", "\x01", "w\xc3\xa4hrend"};
    pylb_advisor *lb = NULL;
    pylb_cells cells;
    pylb_plan *plan = NULL;
    double load[2] = {1e-310, 5e-324};
    int64_t bytes[2] = {INT64_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        FAILS(PYLB_ERR_VALUE, "the character", pylb_trigger_register(wrong[i], when, NULL));
        FAILS(PYLB_ERR_VALUE, "the character", pylb_strategy_register(wrong[i], to_last, NULL));
    }
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    FAILS(PYLB_ERR_VALUE, "2^53 - 1", pylb_advisor_set(lb, "seed", "9007199254740993"));
    FAILS(PYLB_ERR_VALUE, "2^53 - 1", pylb_advisor_set(lb, "steps", "9007199254740992"));
    EXPECT(pylb_advisor_set(lb, "seed", "9007199254740991") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "clock", "none") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "trigger.every", "2") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "trigger", "periodic") == PYLB_OK);
    pylb_cells_init(&cells);
    cells.n = 2;
    cells.load = load;
    cells.nbytes = bytes;
    FAILS(PYLB_ERR_VALUE, "2^63 or more", pylb_advise_cells(lb, &cells, &plan));
    cells.n_edges = INT64_MAX;
    FAILS(PYLB_ERR_VALUE, "2^31 - 1", pylb_advise_cells(lb, &cells, &plan));
    cells.n_edges = 0;
    cells.nbytes = NULL;
    for (int i = 0; i < 5; i++) {
        EXPECT(pylb_advise_cells(lb, &cells, &plan) == PYLB_OK);
    }
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);
}

/* Records that are under way at the end are observed in `close`. */
static void an_own_trigger_that_is_off(void)
{
    pylb_advisor *lb = NULL;
    int rebalance = 0;
    EXPECT(pylb_advisor_create(&lb) == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "trigger", "when") == PYLB_OK);
    EXPECT(pylb_advisor_set(lb, "mode", "off") == PYLB_OK);
    FAILS(PYLB_ERR_VALUE, "mode", pylb_advisor_set(lb, "mode", "of")); /* it stays off */
    EXPECT(pylb_advisor_set(lb, "lag", "2") == PYLB_OK);
    for (int i = 0; i < 4; i++) {
        EXPECT(pylb_advise(lb, &rebalance) == PYLB_OK && rebalance == 0);
    }
    EXPECT(pylb_advisor_close(&lb) == PYLB_OK);
}

int main(void)
{
    placement();
    mesh();
    triggers();
    words();
    options_end_with_the_first_measurement();
    environment();
    steps();
    limits();
    an_own_trigger_that_is_off();
    EXPECT(strcmp(pylb_version(), PYLB_VERSION) == 0);
    EXPECT(strcmp(pylb_error_name(PYLB_ERR_STATE), pylb_error_name(PYLB_ERR_KEY)) != 0);
    printf("%d failures\n", failures);
    return failures != 0;
}
