/* Tests of csrc/measure: clocks, exact sums, the merge of the statistics. */
#include "plb.h"
#include "test.h"

enum { MANY = 12 };

static plb_stats_t contribution(plb_rng_t *rng, int64_t rank)
{
    plb_stats_t s;
    plb_stats_init(&s);
    const double load = ldexp(plb_rng_uniform(rng), (int)plb_rng_below(rng, 60) - 30);
    s.kind = 1;
    s.iteration = 42;
    s.arguments = -5;
    s.n_ranks = 1;
    s.n_objects = (int64_t)plb_rng_below(rng, 100);
    plb_exact_add(&s.load_sum, load);
    plb_exact_add(&s.idle_sum, plb_rng_uniform(rng));
    s.load_max = rank % 3 == 0 ? 1e12 : load; /* several ranks have the maximum */
    s.load_max_rank = rank;
    s.utilization_min = plb_rng_uniform(rng);
    s.messages = (int64_t)plb_rng_below(rng, 1000);
    s.message_bytes = s.messages * 8;
    s.time_max = plb_rng_uniform(rng);
    s.cost_max = plb_rng_uniform(rng);
    const double phase[3] = {load, plb_rng_uniform(rng), 1e-9};
    plb_stats_set_phases(&s, phase, 3);
    return s;
}

/* Merge random pairs until one record is left: any order, any tree. */
static plb_stats_t merged(plb_stats_t *part, int n, plb_rng_t *rng)
{
    for (; n > 1; n--) {
        const int i = (int)plb_rng_below(rng, (uint64_t)n);
        const plb_stats_t taken = part[i];
        part[i] = part[n - 1];
        plb_stats_merge(&part[plb_rng_below(rng, (uint64_t)(n - 1))], &taken);
    }
    return part[0];
}

TEST(merge_does_not_depend_on_order_or_tree)
{
    plb_rng_t rng;
    plb_rng_init(&rng, 3);
    plb_stats_t all[MANY], work[MANY];
    for (int r = 0; r < MANY; r++) {
        all[r] = contribution(&rng, r);
    }
    memcpy(work, all, sizeof all);
    const plb_stats_t expected = merged(work, MANY, &rng);
    assert_int_equal(expected.n_ranks, MANY);
    assert_int_equal(expected.load_max_rank, 0); /* ties: the lowest rank */
    assert_int_equal(expected.failed_rank, INT64_MAX);
    assert_int_equal(expected.flags, 0);
    for (int trial = 0; trial < 200; trial++) {
        memcpy(work, all, sizeof all);
        const plb_stats_t again = merged(work, MANY, &rng);
        assert_memory_equal(&again, &expected, sizeof again);
    }
}

TEST(an_iteration_takes_the_slowest_rank_of_each_phase)
{
    plb_stats_t a, b;
    plb_stats_init(&a);
    plb_stats_init(&b);
    a.load_max = 4.0;
    b.load_max = 5.0;
    plb_stats_merge(&a, &b);
    assert_true(plb_stats_max(&a) == 5.0); /* no phases */
    plb_stats_set_phases(&a, (double[]){3.0, 1.0}, 2);
    plb_stats_set_phases(&b, (double[]){1.0, 4.0}, 2);
    plb_stats_merge(&a, &b);
    assert_int_equal(a.n_phases, 2);
    assert_true(plb_stats_max(&a) == 7.0);
    assert_true(plb_exact_value(&a.phase_sum[0]) == 4.0 &&
                plb_exact_value(&a.phase_sum[1]) == 5.0);
}

TEST(merge_notes_ranks_that_disagree)
{
    plb_rng_t rng;
    plb_rng_init(&rng, 4);
    plb_stats_t a = contribution(&rng, 0), b = contribution(&rng, 1);
    b.iteration = 43;
    b.failed_rank = 1;
    plb_stats_t c = b;
    plb_stats_merge(&c, &a);
    plb_stats_merge(&a, &b);
    assert_memory_equal(&a, &c, sizeof a);
    assert_int_equal(a.flags, PLB_STATS_MIXED);
    assert_int_equal(a.iteration, 43);
    assert_int_equal(a.failed_rank, 1);
}

TEST(exact_sums_merge_as_they_add)
{
    plb_exact_t a = {{0}}, b = {{0}}, one = {{0}};
    plb_rng_t rng;
    plb_rng_init(&rng, 5);
    for (int i = 0; i < 1000; i++) {
        const double x = ldexp(plb_rng_uniform(&rng), (int)plb_rng_below(&rng, 160) - 80);
        plb_exact_add(i % 2 ? &a : &b, x);
        plb_exact_add(&one, x);
    }
    plb_exact_merge(&a, &b);
    assert_memory_equal(&a, &one, sizeof a);
    plb_exact_t huge = {{0}};
    plb_exact_add(&huge, 1e30);
    plb_exact_add(&huge, 1.0);
    assert_true(plb_exact_value(&huge) == 1e30);
    plb_exact_t zero = {{0}};
    assert_true(plb_exact_value(&zero) == 0.0);
}

TEST(utilization_is_load_over_all)
{
    assert_true(plb_utilization(3.0, 1.0) == 0.75);
    assert_true(plb_utilization(0.0, 0.0) == 1.0);
    assert_true(plb_utilization(0.0, 2.0) == 0.0);
}

TEST(impossible_numbers_of_objects_and_edges_are_refused)
{
    plb_err_t err;
    plb_snapshot_t in = {.n_objects = (int64_t)INT32_MAX + 1, .n_ranks = 1, .n_components = 1};
    assert_int_equal(plb_snapshot_check(&in, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "2147483648 objects: expected 0 ... 2^31 - 1"));
    in.n_objects = -1;
    assert_int_equal(plb_snapshot_check(&in, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "-1 objects: expected 0 ... 2^31 - 1"));
    in.n_objects = 0;
    in.n_edges = -3;
    assert_int_equal(plb_snapshot_check(&in, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "-3 edges: expected zero or more"));
}

static void burn(int64_t ns)
{
    const int64_t end = plb_clock_real_ns(PLB_CLOCK_WALL) + ns;
    while (plb_clock_real_ns(PLB_CLOCK_WALL) < end) {
    }
}

TEST(a_threads_own_time_passes_in_its_frames)
{
    plb_clock_enter(PLB_CLOCK_NONE, 1000, 1.0);
    burn(1000000);
    assert_int_equal(plb_clock_ns(PLB_CLOCK_WALL), 1000);
    plb_clock_declare(77);
    assert_int_equal(plb_clock_ns(PLB_CLOCK_WALL), 1077);
    assert_int_equal(plb_clock_leave(), 1077);
    /* after the frame, it is the machine's clock again */
    assert_true(plb_clock_ns(PLB_CLOCK_WALL) > 1000000000);

    plb_clock_enter(PLB_CLOCK_WALL, 5000, 4.0);
    const int64_t cpu = plb_clock_ns(PLB_CLOCK_CPU);
    burn(1000000);
    plb_clock_declare(10000000);
    assert_true(plb_clock_ns(PLB_CLOCK_CPU) >= cpu + 10000000);
    assert_true(plb_clock_leave() >= 5000 + 4000000 + 10000000);
    burn(1000000);
    const int64_t before = plb_clock_real_ns(PLB_CLOCK_CPU);
    plb_clock_enter(PLB_CLOCK_CPU, 0, 0.5);
    const int64_t own = plb_clock_ns(PLB_CLOCK_CPU);
    /* time between the frames does not count */
    assert_in_range(own, 0, plb_clock_real_ns(PLB_CLOCK_CPU) - before);
    assert_true(plb_clock_ns(PLB_CLOCK_WALL) >= own);
    plb_clock_leave();
}
