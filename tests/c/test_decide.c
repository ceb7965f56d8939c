/* Tests of csrc/decide: line fits far from zero, triggers when memory runs out. */
#include "plb.h"
#include "test.h"

enum { MOST_PARAMS = 16 };

static void near(double x, double expected, double relative)
{
    if (!(fabs(x - expected) <= relative * fabs(expected))) {
        fail_msg("%.17g: expected %.17g", x, expected);
    }
}

static int make(plb_trigger_t *self, const char *name, plb_err_t *err)
{
    const plb_trigger_kind_t *kind = plb_trigger_find(name);
    double params[MOST_PARAMS];
    assert_non_null(kind);
    assert_true(kind->n_params <= MOST_PARAMS);
    for (int i = 0; i < kind->n_params; i++) {
        params[i] = kind->params[i].fallback;
    }
    return plb_trigger_init(self, kind, params, err);
}

TEST(fit_is_exact_on_a_line_far_from_zero)
{
    plb_fit_t fit;
    plb_fit_init(&fit, 20.0);
    for (int i = 0; i < 1000; i++) {
        plb_fit_add(&fit, 1e12 + i, 3.0 + 0.25 * i);
    }
    near(plb_fit_slope(&fit), 0.25, 1e-12);
    near(plb_fit_at(&fit, 1e12 + 2000), 503.0, 1e-12);
}

TEST(one_observation_has_no_slope)
{
    plb_fit_t fit;
    plb_fit_init(&fit, INFINITY);
    plb_fit_add(&fit, 5.0, 2.0);
    assert_true(plb_fit_slope(&fit) == 0.0 && plb_fit_at(&fit, 100.0) == 2.0);
    plb_fit_restart(&fit);
    assert_int_equal(fit.n, 0);
    assert_true(fit.keep == 1.0);
}

TEST(each_trigger_survives_each_failed_allocation)
{
    for (const plb_trigger_kind_t *const *k = plb_triggers; *k != NULL; k++) {
        int failed = 0;
        for (int64_t n = 0;; n++) {
            plb_trigger_t trigger;
            plb_err_t err;
            plb_mem_fail_at(n);
            const int ret = make(&trigger, (*k)->name, &err);
            plb_mem_fail_at(-1);
            plb_trigger_free(&trigger);
            plb_trigger_free(&trigger); /* freeing twice is allowed */
            if (ret == PLB_OK) {
                break;
            }
            assert_int_equal(ret, PLB_ERR_NOMEM);
            failed++;
        }
        assert_int_equal(failed, 2);
    }
}

TEST(a_trial_is_due_when_the_imbalance_has_cost_enough)
{
    plb_trigger_t trigger;
    plb_err_t err;
    assert_int_equal(make(&trigger, "menon", &err), PLB_OK);
    assert_true(plb_trigger_trial(&trigger, 4.0, 2.0)); /* 2 iterations of 2 s */
    assert_false(plb_trigger_trial(&trigger, 3.9, 2.0));
    assert_false(plb_trigger_trial(&trigger, 0.0, 0.0));
    const plb_observation_t first = {10, 1.0, 1.0};
    assert_int_equal(plb_trigger_expect(&trigger, 60, NAN, &err), PLB_OK);
    assert_int_equal(plb_trigger_observe(&trigger, &first, &err), PLB_OK);
    near(plb_trigger_guess(&trigger, 20.0), 1.5, 1e-12); /* 3 % of 50 iterations */
    assert_true(plb_trigger_trial(&trigger, 3.1, 2.0));
    assert_int_equal(plb_trigger_balanced(&trigger, 10, 5.0, 1.0, &err), PLB_OK);
    assert_false(plb_trigger_trial(&trigger, 1e9, 2.0)); /* the cost is known */
    plb_trigger_free(&trigger);
}
