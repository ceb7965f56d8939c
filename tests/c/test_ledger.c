/* Tests of csrc/decide, the ledger: failing allocations, bad input; the states on, off and trial,
 * computed by hand. */
#include "plb.h"
#include "test.h"

static void defaults(double *params)
{
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        params[i] = plb_ledger_params[i].fallback;
    }
}

static plb_ledger_t made(void)
{
    double params[PLB_N_LEDGER];
    plb_ledger_t s;
    plb_err_t err;
    defaults(params);
    assert_int_equal(plb_ledger_init(&s, 2, params, &err), PLB_OK);
    return s;
}

static void observe(plb_ledger_t *s, int n, double time, double max, double mean)
{
    plb_err_t err;
    for (int i = 0; i < n; i++) {
        assert_int_equal(plb_ledger_observe(s, time, max, mean, &err), PLB_OK);
    }
}

static void balance(plb_ledger_t *s, int64_t iteration, double whole)
{
    plb_err_t err;
    const plb_costs_t costs = {NAN, NAN, NAN, whole, false, 0.0, false};
    assert_int_equal(plb_ledger_balanced(s, iteration, 0, &costs, &err), PLB_OK);
}

static void judge(plb_ledger_t *s, int64_t iteration, double gain)
{
    plb_err_t err;
    assert_true(plb_ledger_judges(s, iteration, true));
    assert_int_equal(plb_ledger_judge(s, iteration, gain, &err), PLB_OK);
    assert_false(plb_ledger_judges(s, iteration, true)); /* only once */
}

/* Make a ledger with LB steps after iterations 10, 20 and 30, each of which saves `gain`
 * seconds. */
static plb_ledger_t after_three(double gain)
{
    plb_ledger_t s = made();
    observe(&s, 1, 1.5, 1.5, 1.0);
    for (int64_t i = 10; i <= 30; i += 10) {
        assert_true(plb_ledger_allows(&s, i));
        balance(&s, i, 1.0);
        judge(&s, i + 10, gain);
    }
    return s;
}

TEST(memory_and_parameters)
{
    double params[PLB_N_LEDGER];
    plb_ledger_t s;
    plb_err_t err;
    defaults(params);
    plb_mem_fail_at(0);
    assert_int_equal(plb_ledger_init(&s, 2, params, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    plb_ledger_free(&s);
    plb_ledger_free(&s);
    params[PLB_LEDGER_share] = 0.0;
    assert_int_equal(plb_ledger_init(&s, 2, params, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "share is 0"));
    plb_ledger_free(&s);
}

TEST(bad_input_changes_nothing)
{
    plb_ledger_t s = made();
    plb_err_t err;
    assert_int_equal(plb_ledger_judge(&s, 1, 1.0, &err), PLB_ERR_STATE);
    assert_int_equal(plb_ledger_observe(&s, NAN, 1, 1, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_ledger_observe(&s, 1, INFINITY, 1, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_ledger_observe(&s, 1, 1, -1, &err), PLB_ERR_VALUE);
    const plb_costs_t fine = {0}, negative = {.strategy = -1}, endless = {.whole = INFINITY};
    assert_int_equal(plb_ledger_balanced(&s, 1, 2, &fine, &err), PLB_ERR_RANGE);
    assert_int_equal(plb_ledger_balanced(&s, 1, -1, &fine, &err), PLB_ERR_RANGE);
    assert_int_equal(plb_ledger_balanced(&s, 1, 0, &negative, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_ledger_balanced(&s, 1, 0, &endless, &err), PLB_ERR_VALUE);
    assert_true(isnan(plb_ledger_theta(&s, 0)));
    balance(&s, 1, 1.0);
    assert_int_equal(plb_ledger_judge(&s, 2, NAN, &err), PLB_ERR_VALUE);
    assert_true(plb_ledger_judges(&s, 2, true));
    plb_ledger_free(&s);
}

TEST(no_strategy_is_free)
{
    plb_ledger_t s = made();
    plb_err_t err;
    observe(&s, 1, 2.0, 2.0, 0.25);
    const plb_costs_t silent = {.statistics = NAN, .migration = NAN},
                      parts = {1.0, 2.0, 3.0, 4.0, false, 0.0, false},
                      whole = {1.0, NAN, 0.0, 5.0, false, 0.0, false};
    assert_int_equal(plb_ledger_balanced(&s, 1, 0, &silent, &err), PLB_OK);
    /* no cost was reported: the expected cost is the time of a balanced iteration */
    assert_true(plb_ledger_theta(&s, 0) == 0.25);
    assert_int_equal(plb_ledger_balanced(&s, 2, 1, &parts, &err), PLB_OK);
    assert_true(plb_ledger_theta(&s, 1) == 6.0);
    assert_int_equal(plb_ledger_balanced(&s, 3, 1, &whole, &err), PLB_OK);
    assert_true(plb_ledger_theta(&s, 1) == 5.5); /* the mean of 6 and 5 */
    static const char *const names[] = {"statistics", "strategy", "migration", "LB step"};
    for (int i = 0; i < 4; i++) {
        char words[64];
        double cost[4] = {1.0, 1.0, 1.0, 1.0};
        cost[i] = -1.0;
        const plb_costs_t bad = {cost[0], cost[1], cost[2], cost[3], false, 0.0, false};
        assert_int_equal(plb_ledger_balanced(&s, 4, 1, &bad, &err), PLB_ERR_VALUE);
        snprintf(words, sizeof words, "cost of the %s is -1", names[i]);
        assert_non_null(strstr(err.text, words));
    }
    plb_ledger_free(&s);
}

TEST(a_larger_imbalance_ends_the_pause)
{
    plb_ledger_t s = after_three(0.0); /* the imbalance before the LB steps was 0.5 s */
    observe(&s, 50, 1.0, 2.0, 1.0);    /* twice that imbalance is not above the limit */
    assert_false(plb_ledger_allows(&s, 90));
    observe(&s, 2, 1.0, 2.1, 1.0); /* two iterations may be a spike */
    observe(&s, 1, 1.0, 1.0, 1.0);
    observe(&s, 2, 1.0, 2.1, 1.0);
    assert_false(plb_ledger_allows(&s, 95));
    observe(&s, 1, 1.0, 2.1, 1.0);
    assert_true(plb_ledger_allows(&s, 96));
    balance(&s, 96, 1.0);
    assert_false(plb_ledger_allows(&s, 97)); /* a trial is under way */
    plb_ledger_free(&s);
}
