/* Tests of csrc/decide, strategy selection: failing allocations, all strategies of the table as
 * candidates, the rules about numbers of LB steps. tests/decide/test_selection.py compares the
 * selection with a plain twin. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "plb.h"

enum { MOST = 64 };

static void defaults(double *params)
{
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        params[i] = plb_selection_params[i].fallback;
    }
}

static int make(plb_selector_t *self, const plb_candidate_t *candidates, int32_t n, plb_err_t *err)
{
    double params[PLB_N_SELECTION];
    defaults(params);
    return plb_selector_init(self, candidates, n, 1e-3, 1e-6, params, err);
}

static const plb_candidate_t four[] = {
    {PLB_COMPREHENSIVE, PLB_LOOKS_LOAD},
    {PLB_REFINEMENT, PLB_LOOKS_LOAD | PLB_LOOKS_SPEED},
    {PLB_COMPREHENSIVE, PLB_LOOKS_COMM},
    {PLB_REFINEMENT, PLB_LOOKS_LOAD | PLB_LOOKS_COMM},
};

static const plb_workload_t imbalanced = {1.5, 1.0, 8.0, 0.6, 0, 0};
static const plb_workload_t chatty = {1.0, 1.0, 8.0, 0.6, 1000, 0};

static void each_failed_allocation_is_survived(void **state)
{
    (void)state;
    int failed = 0;
    for (int64_t n = 0;; n++) {
        plb_selector_t s;
        plb_err_t err;
        plb_mem_fail_at(n);
        const int ret = make(&s, four, 4, &err);
        plb_mem_fail_at(-1);
        plb_selector_free(&s);
        plb_selector_free(&s); /* freeing twice is allowed */
        if (ret == PLB_OK) {
            break;
        }
        assert_int_equal(ret, PLB_ERR_NOMEM);
        failed++;
    }
    assert_int_equal(failed, 2);
}

static void the_table_of_strategies_gives_candidates(void **state)
{
    (void)state;
    plb_candidate_t candidates[MOST];
    int32_t n = 0;
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        assert_true(n < MOST);
        candidates[n++] = (plb_candidate_t){(*s)->family, (*s)->looks_at};
    }
    plb_selector_t s;
    plb_err_t err;
    assert_int_equal(make(&s, candidates, n, &err), PLB_OK);
    assert_int_equal(plb_selector_observe(&s, &imbalanced, &err), PLB_OK);
    assert_true(s.choice.needed);
    assert_int_equal(s.choice.need, PLB_NEED_IMBALANCED);
    assert_int_equal(plb_strategies[s.choice.candidate]->family, PLB_COMPREHENSIVE);
    plb_selector_free(&s);
}

static void choices_follow_the_history(void **state)
{
    (void)state;
    plb_selector_t s;
    plb_err_t err;
    assert_int_equal(make(&s, four, 4, &err), PLB_OK);
    assert_int_equal(s.choice.need, PLB_NEED_START);
    const plb_outcome_t well = {1.5, 1.0, 1.0, 5}, badly = {1.5, 1.4, 1.0, 5};
    const struct {
        const plb_workload_t *load;
        int32_t candidate;
        plb_lead_t lead;
        const plb_outcome_t *outcome;
    } steps[] = {
        {&imbalanced, 0, PLB_LEAD_FIRST, &well},       {&imbalanced, 1, PLB_LEAD_NEXT, &well},
        {&imbalanced, 1, PLB_LEAD_COMPARABLE, &badly}, {&imbalanced, 0, PLB_LEAD_POOR, &well},
        {&chatty, 2, PLB_LEAD_FIRST, &badly},          {&chatty, 3, PLB_LEAD_NEXT, &well},
        {&chatty, 3, PLB_LEAD_COMPARABLE, &well},      {&imbalanced, 0, PLB_LEAD_POOR, &well},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(plb_selector_observe(&s, steps[i].load, &err), PLB_OK);
        assert_int_equal(s.choice.candidate, steps[i].candidate);
        assert_int_equal(s.choice.lead, steps[i].lead);
        assert_int_equal(plb_selector_balanced(&s, s.choice.candidate, steps[i].outcome, &err),
                         PLB_OK);
    }
    assert_int_equal(s.records[3].n, 2);
    plb_selector_free(&s);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    plb_selector_t s;
    plb_err_t err;
    double params[PLB_N_SELECTION];
    const plb_candidate_t blind = {PLB_REFINEMENT, PLB_LOOKS_NODES};
    assert_int_equal(make(&s, &blind, 1, &err), PLB_ERR_VALUE);
    assert_int_equal(make(&s, four, 0, &err), PLB_ERR_VALUE);
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        defaults(params);
        params[i] = NAN;
        const int ret = plb_selector_init(&s, four, 4, 0.0, 0.0, params, &err);
        assert_int_equal(ret, PLB_ERR_VALUE);
    }
    assert_int_equal(make(&s, four, 4, &err), PLB_OK);
    const plb_outcome_t fine = {1.0, 1.0, 0.0, 0};
    assert_int_equal(plb_selector_balanced(&s, -1, &fine, &err), PLB_ERR_RANGE);
    assert_int_equal(plb_selector_balanced(&s, 4, &fine, &err), PLB_ERR_RANGE);
    assert_int_equal(plb_selector_balanced(&s, 3, &fine, &err), PLB_OK);
    plb_selector_free(&s);
}

static void very_many_messages_and_no_load(void **state)
{
    (void)state;
    plb_selector_t s;
    plb_err_t err;
    assert_int_equal(make(&s, four, 4, &err), PLB_OK);
    const plb_workload_t most = {0.0, 0.0, 0.0, 0.0, INT64_MAX, INT64_MAX};
    assert_int_equal(plb_selector_observe(&s, &most, &err), PLB_OK);
    assert_int_equal(s.choice.need, PLB_NEED_IDLE_COMMUNICATION);
    assert_true(isinf(s.choice.communication) && s.choice.max_over_mean == 1.0);
    const plb_workload_t none = {0};
    assert_int_equal(plb_selector_observe(&s, &none, &err), PLB_OK);
    assert_int_equal(s.choice.need, PLB_NEED_IDLE);
    assert_true(s.choice.communication == 0.0);
    plb_selector_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failed_allocation_is_survived),
        cmocka_unit_test(the_table_of_strategies_gives_candidates),
        cmocka_unit_test(choices_follow_the_history),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(very_many_messages_and_no_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
