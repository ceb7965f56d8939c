/* Tests of csrc/decide: what triggers learn, and when memory runs out. */
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

/* Let a trigger observe iterations of this mean load, whose max is twice as long. */
static void observe(plb_trigger_t *self, int64_t first, int64_t n, double mean)
{
    plb_err_t err;
    for (int64_t i = first; i < first + n; i++) {
        assert_int_equal(
            plb_trigger_observe(self, &(plb_observation_t){i, 2.0 * mean, mean}, &err), PLB_OK);
    }
}

/* Return what a run of 100 iterations learns, whose LB step takes 10 s and leaves max/mean 2. */
static plb_experience_t experience(const char *name)
{
    plb_trigger_t first;
    plb_err_t err;
    assert_int_equal(make(&first, name, &err), PLB_OK);
    assert_true(isnan(*plb_trigger_learned(&first).mean));
    observe(&first, 0, 50, 1.0);
    assert_int_equal(plb_trigger_balanced(&first, 49, 10.0, 1.0, &err), PLB_OK);
    observe(&first, 50, 50, 1.0);
    const plb_experience_t out = plb_trigger_learned(&first);
    plb_trigger_free(&first);
    return out;
}

TEST(a_run_begins_with_what_an_earlier_one_has_learned)
{
    plb_experience_t e = experience("auto");
    near(*e.iterations, 100.0, 0.0);
    near(*e.cost, 10.0, 0.0);
    near(*e.residual, 2.0, 1e-12);
    near(*e.rate, (10.0 + 100.0) / 100.0, 1e-12);
    plb_trigger_t next;
    plb_err_t err;
    assert_int_equal(make(&next, "auto", &err), PLB_OK);
    assert_int_equal(plb_trigger_begin(&next, &e, &err), PLB_OK);
    assert_true(next.end == 100 && next.cost == 10.0);
    observe(&next, 0, 99, 1.0);
    assert_false(next.verdict.balance); /* no LB step removes this imbalance */
    assert_true(*next.told.mean == 1.0 && next.end == 100);
    observe(&next, 99, 1, 1.0);
    assert_true(next.end == INT64_MAX); /* a longer run */
    assert_int_equal(plb_trigger_begin(&next, &e, &err), PLB_ERR_STATE);
    near(*plb_trigger_learned(&next).residual, 2.0, 1e-12);
    plb_trigger_free(&next);
}

TEST(what_a_run_itself_has_learned_stays)
{
    plb_trigger_t trigger;
    plb_err_t err;
    assert_int_equal(make(&trigger, "auto", &err), PLB_OK);
    observe(&trigger, 0, 1, 1.0);
    assert_int_equal(plb_trigger_balanced(&trigger, 0, 10.0, 1.0, &err), PLB_OK);
    observe(&trigger, 1, 3, 1.0);
    near(*plb_trigger_learned(&trigger).residual, 2.0, 1e-12);
    plb_trigger_free(&trigger);
}

TEST(a_run_with_other_loads_forgets)
{
    for (const plb_trigger_kind_t *const *k = plb_triggers; *k != NULL; k++) {
        const plb_experience_t e = experience((*k)->name);
        plb_trigger_t next;
        plb_err_t err;
        assert_int_equal(make(&next, (*k)->name, &err), PLB_OK);
        assert_int_equal(plb_trigger_begin(&next, &e, &err), PLB_OK);
        assert_int_equal(plb_trigger_expect(&next, 77, NAN, &err), PLB_OK);
        observe(&next, 0, 1, 1.0);
        assert_true(next.cost == 10.0);
        observe(&next, 1, 1, 3.0);
        assert_true(isnan(next.cost) && next.end == 77 && isnan(*next.told.mean));
        plb_trigger_free(&next);
    }
}

TEST(experience_out_of_range_is_refused)
{
    plb_experience_t e = experience("auto");
    double *const all = (double *)&e;
    for (size_t i = 0; i < sizeof e / sizeof *all; i++) {
        const double good = all[i];
        plb_trigger_t trigger;
        plb_err_t err;
        assert_int_equal(make(&trigger, "auto", &err), PLB_OK);
        all[i] = INFINITY;
        assert_int_equal(plb_trigger_begin(&trigger, &e, &err), PLB_ERR_VALUE);
        all[i] = good;
        plb_trigger_free(&trigger);
    }
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
