/* Work lent within a step: the plan, and speeds of ranks. */
#include "base/base.h"
#include "comm/share.h"
#include "test.h"

/* Nobody gets or gives more than the plan's time allows; without a toll this is the bound. */
TEST(test_a_plan_reaches_the_bound)
{
    enum { MOST = 40 };
    plb_rng_t rng;
    plb_rng_init(&rng, 1);
    for (int round = 0; round < 500; round++) {
        const int p = 1 + (int)plb_rng_below(&rng, MOST);
        const double toll = round % 2 == 0 ? 0.0 : 0.01;
        plb_share_offer_t offer[MOST];
        plb_share_flow_t flow[MOST];
        double speed[MOST], after[MOST], trade[MOST] = {0}, work = 0.0, speeds = 0.0;
        double longest = 0.0;
        int32_t n;
        for (int r = 0; r < p; r++) {
            const bool none = plb_rng_below(&rng, 4) == 0;
            after[r] = none ? 0.0 : exp(14.0 * plb_rng_uniform(&rng) - 7.0);
            offer[r] = (plb_share_offer_t){.work = after[r]};
            speed[r] = 0.1 + 9.9 * plb_rng_uniform(&rng);
            work += after[r];
            speeds += speed[r];
            longest = fmax(longest, after[r] / speed[r]);
        }
        const double time = plb_share_plan(offer, speed, p, toll, flow, &n), bound = work / speeds;
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
        /* of all small flows, which are left out */
        const double slack = 1.1 * PLB_SHARE_GAIN * time * speeds;
        for (int r = 0; r < p; r++) {
            assert_true(after[r] >= -1e-9 * longest * speed[r]);
            assert_true(after[r] / speed[r] + toll * trade[r] <=
                        time * (1.0 + 1e-5) + slack / speed[r]);
        }
    }
}

/* Rank 0 lends to each other rank in turn; their speeds are 1, 2, 4 and 8. */
TEST(test_speeds_are_learned)
{
    enum { P = 4 };
    double speed[P] = {1.0, 1.0, 1.0, 1.0};
    for (int call = 0; call < 36; call++) {
        const int of = 1 + call % 3;
        const plb_share_offer_t offer[P] = {
            {0.0, 1 << of, of}, {.of = -1.0}, {.of = -1.0}, {.of = -1.0}};
        const double before = speed[of] / speed[0];
        plb_share_speeds(offer, P, speed);
        assert_true(fabs(log(speed[of] / speed[0] / (1 << of))) <=
                    fabs(log(before / (1 << of))) + 1e-12);
        assert_true(fabs(speed[0] * speed[1] * speed[2] * speed[3] - 1.0) < 1e-9);
    }
    for (int r = 1; r < P; r++) {
        assert_true(fabs(speed[r] / speed[0] / (1 << r) - 1.0) < 0.1);
    }
}

/* One sight far off changes little; the same sight again and again is believed. */
TEST(test_one_wrong_sight_does_little)
{
    double speed[2] = {1.0, 1.0};
    const plb_share_offer_t offer[2] = {{0.0, 20.0, 1.0}, {.of = -1.0}};
    plb_share_speeds(offer, 2, speed);
    assert_true(speed[1] / speed[0] < 1.5);
    for (int call = 0; call < 20; call++) {
        plb_share_speeds(offer, 2, speed);
    }
    assert_true(speed[1] / speed[0] > 15.0);
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
