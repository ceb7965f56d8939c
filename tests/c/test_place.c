/* Tests of csrc/place: every strategy of the table under failing allocations, limits of memory. */
#include "place/internal.h"
#include "place/strategy.h"
#include "plb.h"
#include "test.h"

enum { N = 200, P = 7 };

/* A problem with all optional parts: speeds, background, fixed objects, memory. */
typedef struct fixture {
    double load[N], coords[3 * N], speed[P], background[P], params[8];
    int32_t rank[N], out[N];
    int64_t memory[N], limit[P];
    uint8_t migratable[N];
    plb_snapshot_t snapshot;
    plb_opts_t opts;
    plb_err_t err;
} fixture_t;

static void fill(fixture_t *f, const plb_strategy_t *strategy, int variant)
{
    plb_rng_t rng;
    plb_rng_init(&rng, 11);
    memset(f, 0, sizeof *f);
    for (int i = 0; i < N; i++) {
        f->load[i] = plb_rng_uniform(&rng);
        f->rank[i] = (int32_t)(i * 2 / N);
        f->memory[i] = 10 + (int64_t)plb_rng_below(&rng, 90);
        f->migratable[i] = i % 10 != 0;
        for (int d = 0; d < 3; d++) {
            f->coords[3 * i + d] = (i * (d + 7)) % 61;
        }
    }
    for (int r = 0; r < P; r++) {
        f->speed[r] = 1.0 + 0.5 * (r % 3);
        f->background[r] = 0.25 * r;
        f->limit[r] = strategy->agent == NULL
                          ? 2100
                          : 6300; /* distributed strategies must begin within the limits */
    }
    for (int k = 0; k < strategy->n_params; k++) {
        f->params[k] = strategy->params[k].fallback;
    }
    f->snapshot = (plb_snapshot_t){
        .n_objects = N, .n_ranks = P, .n_components = 1, .load = f->load, .rank = f->rank};
    if (strategy->looks_at & PLB_LOOKS_COORDS) {
        f->snapshot.coords = f->coords;
    }
    if (variant & 1) {
        f->snapshot.speed = f->speed;
        f->snapshot.background = f->background;
    }
    if (variant & 2) {
        f->snapshot.memory = f->memory;
        f->snapshot.memory_limit = f->limit;
    }
    if (variant & 4) {
        f->snapshot.migratable = f->migratable;
    }
    f->opts.params = f->params;
}

static int run(fixture_t *f, const plb_strategy_t *strategy)
{
    memcpy(f->out, f->rank, sizeof f->rank);
    return strategy->run(strategy, &f->snapshot, &f->opts, f->out, &f->err);
}

TEST(every_strategy_survives_failed_allocations)
{
    fixture_t f;
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if ((*s)->library != NULL) { /* these tests link no library */
            fill(&f, *s, 0);
            assert_int_equal(run(&f, *s), PLB_ERR_MISSING);
            continue;
        }
        for (int variant = 0; variant < 8; variant++) {
            int ret = PLB_ERR_NOMEM;
            for (int64_t at = 0; ret != PLB_OK; at++) {
                fill(&f, *s, variant);
                plb_mem_fail_at(at);
                ret = run(&f, *s);
                plb_mem_fail_at(-1);
                assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
            }
            assert_int_equal(plb_snapshot_check_placement(&f.snapshot, f.out, &f.err), PLB_OK);
        }
    }
}

/* Make a snapshot of objects with memory, on two ranks with limits. */
static plb_snapshot_t limited(int64_t n, const double *load, const int32_t *rank,
                              const int64_t *memory, const int64_t *limit)
{
    return (plb_snapshot_t){.n_objects = n,
                            .n_ranks = 2,
                            .n_components = 1,
                            .load = load,
                            .rank = rank,
                            .memory = memory,
                            .memory_limit = limit};
}

/* Greedy by load leaves no room for the last object, although a placement exists. */
TEST(a_stuck_order_of_loads_is_packed_instead)
{
    const double load[] = {5, 4, 1};
    const int64_t memory[] = {3, 3, 6}, limit[] = {6, 6};
    const int32_t rank[] = {0, 0, 1};
    int32_t out[3];
    plb_err_t err;
    const plb_opts_t opts = {0};
    const plb_snapshot_t in = limited(3, load, rank, memory, limit);
    const plb_strategy_t *s = plb_strategy_find("GreedyLB");
    assert_int_equal(s->run(s, &in, &opts, out, &err), PLB_OK);
    assert_true(out[0] == out[1] && out[2] == 1 - out[0]);
}

/* The largest go first: 4 + 4 and 3 + 3 + 3 leave no room for the last 3; 4 + 3 + 3 twice does. */
TEST(packing_undoes_wrong_choices)
{
    const double load[] = {1, 1, 1, 1, 1, 1};
    const int64_t memory[] = {4, 4, 3, 3, 3, 3}, limit[] = {10, 10};
    const int32_t rank[] = {0, 0, 0, 0, 0, 0};
    int32_t out[6] = {0};
    plb_err_t err;
    const plb_snapshot_t in = limited(6, load, rank, memory, limit);
    assert_int_equal(plb_start_repaired(&in, out, &err), PLB_OK);
    int64_t used[2] = {0, 0};
    for (int i = 0; i < 6; i++) {
        used[out[i]] += memory[i];
    }
    assert_int_equal(used[0], 10);
    assert_int_equal(used[1], 10);
}

/* The object with the least load for its memory leaves a rank above its limit; only that one. */
TEST(little_load_leaves_a_rank_above_its_limit)
{
    const double load[] = {4, 1, 3, 8};
    const int64_t memory[] = {10, 10, 10, 10}, limit[] = {20, 20};
    const int32_t rank[] = {0, 0, 0, 1}, expected[] = {0, 1, 0, 1};
    int32_t out[] = {0, 0, 0, 1};
    plb_err_t err;
    const plb_snapshot_t in = limited(4, load, rank, memory, limit);
    assert_int_equal(plb_start_repaired(&in, out, &err), PLB_OK);
    assert_memory_equal(out, expected, sizeof out);
}

/* By load, then memory, the slowest rank would take 9 s instead of 6 s. */
TEST(greedy_with_limits_is_not_slower_than_the_present_placement)
{
    const double load[] = {1, 2, 4, 5, 5};
    const int64_t memory[] = {1, 4, 1, 4, 3}, limit[] = {4, 5, 4};
    const int32_t rank[] = {0, 1, 1, 2, 0};
    int32_t out[5];
    double time[3] = {0};
    plb_err_t err;
    const plb_opts_t opts = {0};
    plb_snapshot_t in = limited(5, load, rank, memory, limit);
    in.n_ranks = 3;
    const plb_strategy_t *s = plb_strategy_find("GreedyLB");
    assert_int_equal(s->run(s, &in, &opts, out, &err), PLB_OK);
    for (int i = 0; i < 5; i++) {
        time[out[i]] += load[i];
    }
    for (int r = 0; r < 3; r++) {
        assert_true(time[r] <= 6.0);
    }
}

/* Memory limits that cannot be kept: more time does not help objects without load. */
TEST(gossip_ends_where_nothing_can_move)
{
    const double load[] = {0.0, 0.0, 0.0, 0.0}, params[] = {1.0, 4, 3, 1e6};
    const int32_t rank[] = {0, 0, 1, 2};
    const int64_t memory[] = {10, 10, 10, 10}, limit[] = {15, 15, 15};
    const plb_snapshot_t in = {.n_objects = 4,
                               .n_ranks = 3,
                               .n_components = 1,
                               .load = load,
                               .rank = rank,
                               .memory = memory,
                               .memory_limit = limit};
    const plb_opts_t opts = {.params = params, .lenient = true};
    int64_t messages[3] = {0}, bytes[3] = {0}, held[3] = {0};
    plb_traffic_t traffic = {.messages = messages, .bytes = bytes, .held = held};
    int32_t out[4];
    plb_err_t err;
    assert_int_equal(plb_rounds_run(plb_strategy_gossip.agent, &in, &opts, out, &traffic, &err),
                     0);
    assert_memory_equal(out, rank, sizeof rank);
    assert_true(traffic.rounds < 1000);
}
