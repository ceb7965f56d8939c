/* Tests of csrc/decide, the ledger: failing allocations, bad input; the states on, off and trial,
 * computed by hand. */
#include "decide/decider.c" /* for its static functions */
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
    assert_int_equal(ledger_init(&s, 2, params, &err), PLB_OK);
    return s;
}

static void observe(plb_ledger_t *s, int n, double time, double max, double mean)
{
    for (int i = 0; i < n; i++) {
        ledger_observe(s, time, max, mean);
    }
}

static void balance(plb_ledger_t *s, int64_t iteration, double whole)
{
    const plb_costs_t costs = {NAN, NAN, NAN, whole, false, 0.0, false};
    ledger_balanced(s, iteration, 0, &costs);
}

static void judge(plb_ledger_t *s, int64_t iteration, double gain)
{
    assert_true(ledger_judges(s, iteration, true));
    ledger_judge(s, iteration, gain);
    assert_false(ledger_judges(s, iteration, true)); /* only once */
}

/* Make a ledger with LB steps after iterations 10, 20 and 30, each of which saves `gain`
 * seconds. */
static plb_ledger_t after_three(double gain)
{
    plb_ledger_t s = made();
    observe(&s, 1, 1.5, 1.5, 1.0);
    for (int64_t i = 10; i <= 30; i += 10) {
        assert_true(ledger_allows(&s, i));
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
    assert_int_equal(ledger_init(&s, 2, params, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    plb_free(s.accounts);
    params[PLB_LEDGER_share] = 0.0;
    assert_int_equal(ledger_init(&s, 2, params, &err), PLB_ERR_VALUE);
    assert_non_null(strstr(err.text, "share is 0"));
    plb_free(s.accounts);
}

TEST(no_strategy_is_free)
{
    plb_ledger_t s = made();
    observe(&s, 1, 2.0, 2.0, 0.25);
    const plb_costs_t silent = {.statistics = NAN, .migration = NAN},
                      parts = {1.0, 2.0, 3.0, 4.0, false, 0.0, false},
                      whole = {1.0, NAN, 0.0, 5.0, false, 0.0, false};
    ledger_balanced(&s, 1, 0, &silent);
    /* no cost was reported: the expected cost is the time of a balanced iteration */
    assert_true(ledger_theta(&s, 0) == 0.25);
    ledger_balanced(&s, 2, 1, &parts);
    assert_true(ledger_theta(&s, 1) == 6.0);
    ledger_balanced(&s, 3, 1, &whole);
    assert_true(ledger_theta(&s, 1) == 5.5); /* the mean of 6 and 5 */
    plb_free(s.accounts);
}

TEST(a_larger_imbalance_ends_the_pause)
{
    plb_ledger_t s = after_three(0.0); /* the imbalance before the LB steps was 0.5 s */
    observe(&s, 50, 1.0, 2.0, 1.0);    /* twice that imbalance is not above the limit */
    assert_false(ledger_allows(&s, 90));
    observe(&s, 2, 1.0, 2.1, 1.0); /* two iterations may be a spike */
    observe(&s, 1, 1.0, 1.0, 1.0);
    observe(&s, 2, 1.0, 2.1, 1.0);
    assert_false(ledger_allows(&s, 95));
    observe(&s, 1, 1.0, 2.1, 1.0);
    assert_true(ledger_allows(&s, 96));
    balance(&s, 96, 1.0);
    assert_false(ledger_allows(&s, 97)); /* a trial is under way */
    plb_free(s.accounts);
}
