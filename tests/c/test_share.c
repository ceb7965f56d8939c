/* Work lent within a step: speeds of ranks, costs of rows. */
#include "base/rng.h"
#include "comm/share.h"
#include "test.h"

enum { P = 4 };

static plb_chunks_t chunks(int n, double predicted, double seconds)
{
    plb_chunks_t out = {0};
    for (int i = 0; i < n; i++) {
        plb_chunks_add(&out, predicted, seconds * (i % 2 == 0 ? 0.9 : 1.1));
    }
    return out;
}

/* Nobody gets or gives more than the plan's time allows; without a toll this is the bound. */
TEST(test_a_plan_reaches_the_bound)
{
    enum { MOST = 40 };
    plb_rng_t rng;
    plb_rng_init(&rng, 1);
    for (int round = 0; round < 500; round++) {
        const int p = 1 + (int)plb_rng_below(&rng, MOST);
        const double toll = round % 2 == 0 ? 0.0 : 0.01;
        plb_share_rank_t rank[MOST];
        plb_share_flow_t flow[MOST];
        double after[MOST], trade[MOST] = {0}, work = 0.0, speed = 0.0, longest = 0.0;
        int32_t n;
        for (int r = 0; r < p; r++) {
            const bool none = plb_rng_below(&rng, 4) == 0;
            after[r] = none ? 0.0 : exp(14.0 * plb_rng_uniform(&rng) - 7.0);
            rank[r] = (plb_share_rank_t){after[r], 0.1 + 9.9 * plb_rng_uniform(&rng)};
            work += after[r];
            speed += rank[r].speed;
            longest = fmax(longest, after[r] / rank[r].speed);
        }
        const double time = plb_share_plan(rank, p, toll, flow, &n), bound = work / speed;
        assert_true(n < p);
        for (int k = 0; k < n; k++) {
            assert_true(flow[k].work > 0.0);
            after[flow[k].from] -= flow[k].work;
            after[flow[k].to] += flow[k].work;
            trade[flow[k].from] += flow[k].work;
            trade[flow[k].to] += flow[k].work;
        }
        assert_true(bound * (1.0 - 1e-9) <= time && time <= longest * (1.0 + 1e-9));
        assert_true(toll > 0.0 || time <= bound * (1.0 + 1e-5) + 1e-6 * longest);
        const double slack = 0.011 * time * speed; /* of all small flows, which are left out */
        for (int r = 0; r < p; r++) {
            assert_true(after[r] >= -1e-9 * longest * rank[r].speed);
            assert_true(after[r] / rank[r].speed + toll * trade[r] <=
                        time * (1.0 + 1e-5) + slack / rank[r].speed);
        }
    }
}

/* Rank 0 lends to each other rank in turn; their speeds are 1, 2, 4 and 8. */
TEST(test_speeds_are_learned)
{
    plb_err_t err;
    plb_learned_speeds_t speeds;
    assert_int_equal(plb_learned_speeds_init(&speeds, P, &err), PLB_OK);
    const plb_chunks_t kept = chunks(12, 1.0, 1.0);
    for (int call = 0; call < 12; call++) {
        plb_speed_sight_t told[P];
        for (int k = 0; k < P; k++) {
            told[k] = (plb_speed_sight_t){-1.0, 0.0, INFINITY};
        }
        const int to = 1 + call % 3;
        const plb_chunks_t lent = chunks(12, 1.0, 1.0 / (1 << to));
        told[0] = plb_speed_compare(to, &lent, &kept);
        const double before =
            plb_learned_speeds_ratio(&speeds, 0, &(plb_speed_sight_t){to, 0.0, INFINITY});
        const double with = plb_learned_speeds_ratio(&speeds, 0, &told[0]);
        assert_true(fabs(with - log(1 << to)) <= fabs(before - log(1 << to)) + 1e-12);
        plb_learned_speeds_update(&speeds, told);
    }
    for (int r = 1; r < P; r++) {
        assert_true(fabs(speeds.speed[r] / speeds.speed[0] / (1 << r) - 1.0) < 0.1);
    }
    plb_learned_speeds_free(&speeds);
}

/* One sight far off changes little; the same sight again and again is believed. */
TEST(test_one_wrong_sight_does_little)
{
    plb_err_t err;
    plb_learned_speeds_t speeds;
    assert_int_equal(plb_learned_speeds_init(&speeds, 2, &err), PLB_OK);
    const plb_chunks_t kept = chunks(20, 1.0, 1.0), alike = kept, light = chunks(20, 1.0, 0.05);
    plb_speed_sight_t told[2] = {plb_speed_compare(1, &alike, &kept), {-1.0, 0.0, INFINITY}};
    for (int call = 0; call < 50; call++) {
        plb_learned_speeds_update(&speeds, told);
    }
    assert_true(fabs(speeds.speed[1] - 1.0) < 0.01);
    told[0] = plb_speed_compare(1, &light, &kept);
    plb_learned_speeds_update(&speeds, told);
    assert_true(speeds.speed[1] / speeds.speed[0] < 1.2);
    for (int call = 0; call < 20; call++) {
        plb_learned_speeds_update(&speeds, told);
    }
    assert_true(speeds.speed[1] / speeds.speed[0] > 15.0);
    plb_learned_speeds_free(&speeds);
    assert_true(plb_speed_compare(1, &kept, &(plb_chunks_t){0}).rank < 0.0);
}

TEST(test_rows_beside_heavy_ones_may_be_heavy)
{
    enum { N = 120 };
    plb_err_t err;
    plb_row_costs_t costs = {.trust = 1.0};
    double sum;
    for (int call = 0; call < 4; call++) { /* ten heavy rows that move on by five in each call */
        assert_int_equal(plb_row_costs_begin(&costs, N, NULL, &sum, &err), PLB_OK);
        for (int i = 0; i < N; i++) {
            const bool heavy = i >= 40 + 5 * call && i < 50 + 5 * call;
            plb_row_costs_learn(&costs, i, NULL, 1, heavy ? 20.0 : 1.0);
        }
        plb_row_costs_end(&costs, sum);
    }
    assert_int_equal(plb_row_costs_begin(&costs, N, NULL, &sum, &err), PLB_OK);
    plb_row_costs_look_around(&costs);
    for (int i = 0; i < N; i++) {
        assert_true(costs.worst[i] >= costs.now[i]);
    }
    assert_true(costs.worst[67] > 4.0 * costs.now[67]); /* the next ones */
    assert_true(costs.worst[5] == costs.now[5]);
    costs.surprises = 0.0;
    plb_row_costs_look_around(&costs);
    assert_true(costs.worst[67] == costs.now[67]);
    plb_row_costs_free(&costs);
}
