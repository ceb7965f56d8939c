/* The selection of strategies (Menon 3.7). */
#include "base/base.h"
#include "decide/decider.h"
#include "place/strategy.h"
#include "test.h"

enum { STAY, GREEDY, REFINE, SWAP, METIS, SCOTCH, SCOTCH_REFINE, N };

#define OF(kind, parts)                                                                           \
    {                                                                                             \
        .strategy = {.family = kind, .looks_at = parts }                                          \
    }
static const plb_candidate_strategy_t full[N] = {
    [STAY] = OF(PLB_REFINEMENT, 0),
    [GREEDY] = OF(PLB_COMPREHENSIVE, PLB_LOOKS_LOAD | PLB_LOOKS_SPEED),
    [REFINE] = OF(PLB_REFINEMENT, PLB_LOOKS_LOAD),
    [SWAP] = OF(PLB_REFINEMENT, PLB_LOOKS_LOAD),
    [METIS] = OF(PLB_COMPREHENSIVE, PLB_LOOKS_LOAD | PLB_LOOKS_COMM),
    [SCOTCH] = OF(PLB_COMPREHENSIVE, PLB_LOOKS_COMM),
    [SCOTCH_REFINE] = OF(PLB_REFINEMENT, PLB_LOOKS_LOAD | PLB_LOOKS_COMM)};

static const plb_iteration_t balanced = {
    .max = 1.05, .mean = 1.0, .total = 8.0, .utilization = 0.9};

/* Messages cost 0.9 s of the 8 s of load. */
static plb_iteration_t made(double max, double utilization, bool talks)
{
    plb_iteration_t it = balanced;
    it.max = max;
    it.utilization = utilization;
    it.messages = talks ? 500 : 0;
    it.bytes = talks ? 400000 : 0;
    return it;
}

static plb_selector_t begun(const plb_candidate_strategy_t *candidates, int n, double again)
{
    plb_err_t err;
    plb_selector_t out;
    double params[PLB_N_SELECTION];
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        params[i] = plb_selection_params[i].fallback;
    }
    params[PLB_SELECTION_again] = again;
    const plb_network_t network = {1e-3, 1e-6};
    assert_int_equal(plb_selector_init(&out, candidates, n, network, params, &err), PLB_OK);
    return out;
}

static const plb_choice_t *seen(plb_selector_t *self, plb_iteration_t it)
{
    plb_selector_observe(self, &it);
    return &self->choice;
}

/* An LB step with `strategy` leaves max/mean `after`; return the choice for the next one. */
static int next(plb_selector_t *self, int strategy, double after, double cost)
{
    plb_selector_balanced(self, strategy, after, cost);
    return self->choice.candidate;
}

TEST(each_path_of_figure_3_8)
{
    const struct {
        plb_iteration_t it;
        plb_need_t need;
        int strategy;
    } paths[] = {{balanced, PLB_NEED_BALANCED, GREEDY},
                 {made(1.05, 0.9, true), PLB_NEED_BALANCED, METIS},
                 {made(1.05, 0.6, false), PLB_NEED_IDLE, GREEDY},
                 {made(1.05, 0.6, true), PLB_NEED_IDLE_COMMUNICATION, METIS},
                 {made(1.5, 0.9, false), PLB_NEED_IMBALANCED, GREEDY},
                 {made(1.5, 0.5, false), PLB_NEED_IMBALANCED, GREEDY},
                 {made(1.5, 0.9, true), PLB_NEED_IMBALANCED_COMMUNICATION, METIS},
                 {{.utilization = 1.0}, PLB_NEED_BALANCED, GREEDY}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        plb_selector_t s = begun(full, N, 5.0);
        const plb_choice_t *choice = seen(&s, paths[i].it);
        assert_int_equal(choice->need, paths[i].need);
        assert_int_equal(choice->candidate, paths[i].strategy);
        assert_int_equal(choice->family, PLB_COMPREHENSIVE);
        plb_free(s.records);
    }
}

/* Menon 2012: GreedyLB for leanmd (few messages); MetisLB for kNeighbor (large messages). */
TEST(figures_3_6_and_3_7)
{
    plb_selector_t s = begun(full, N, 5.0);
    const plb_iteration_t leanmd = {.max = 1.8,
                                    .mean = 1.0,
                                    .total = 64.0,
                                    .utilization = 0.5,
                                    .messages = 2000,
                                    .bytes = 1000000};
    assert_int_equal(seen(&s, leanmd)->candidate, GREEDY);
    assert_int_equal(s.choice.kind, PLB_COMPUTATION);
    const plb_iteration_t neighbour = {.max = 1.0,
                                       .mean = 1.0,
                                       .total = 4.0,
                                       .utilization = 0.4,
                                       .messages = 64,
                                       .bytes = 1 << 22};
    assert_int_equal(seen(&s, neighbour)->candidate, METIS);
    assert_int_equal(s.choice.kind, PLB_COMMUNICATION);
    plb_free(s.records);
}

TEST(on_the_thresholds_themselves)
{
    plb_selector_t s = begun(full, N, 5.0);
    s.network = (plb_network_t){0.25, 0.0};
    s.params[PLB_SELECTION_imbalance] = 1.25;
    s.params[PLB_SELECTION_utilization] = 0.5;
    assert_int_equal(seen(&s, made(1.25, 0.5, false))->need, PLB_NEED_BALANCED);
    assert_int_equal(seen(&s, made(nextafter(1.25, 2.0), 0.5, false))->need, PLB_NEED_IMBALANCED);
    assert_int_equal(seen(&s, made(1.25, 0.49, false))->need, PLB_NEED_IDLE);
    plb_iteration_t it = made(1.25, 0.4, false); /* messages cost 0.5 s, 10 % of the load */
    it.messages = 2;
    it.total = 5.0;
    assert_int_equal(seen(&s, it)->kind, PLB_COMMUNICATION);
    it.total = 5.001;
    assert_int_equal(seen(&s, it)->kind, PLB_COMPUTATION);
    plb_free(s.records);
}

TEST(comprehensive_first_of_each_kind_then_refinement)
{
    plb_selector_t s = begun(full, N, 5.0);
    assert_int_equal(s.choice.need, PLB_NEED_START);
    assert_int_equal(seen(&s, made(1.5, 0.6, false))->candidate, GREEDY);
    assert_int_equal(next(&s, GREEDY, 1.02, 1.0), REFINE);
    assert_int_equal(s.choice.lead, PLB_LEAD_NEXT);
    assert_int_equal(next(&s, REFINE, 1.03, 1.0), REFINE);
    assert_int_equal(s.choice.lead, PLB_LEAD_COMPARABLE);
    assert_int_equal(seen(&s, made(1.5, 0.6, true))->candidate, METIS);
    assert_int_equal(s.choice.lead, PLB_LEAD_FIRST);
    assert_int_equal(next(&s, METIS, 1.0, 1.0), SCOTCH_REFINE);
    assert_int_equal(seen(&s, made(1.5, 0.6, false))->candidate, REFINE);
    plb_free(s.records);
}

TEST(poor_refinements_give_way_and_get_another_chance)
{
    plb_selector_t s = begun(full, N, 3.0);
    (void)seen(&s, made(1.5, 0.6, false));
    (void)next(&s, GREEDY, 1.0, 1.0);
    (void)next(&s, REFINE, 1.05, 1.0); /* exactly the tolerance */
    assert_int_equal(s.choice.family, PLB_REFINEMENT);
    assert_int_equal(next(&s, REFINE, 1.06, 1.0), GREEDY);
    assert_int_equal(s.choice.lead, PLB_LEAD_POOR);
    (void)next(&s, GREEDY, 1.0, 1.0);
    assert_int_equal(next(&s, GREEDY, 1.0, 1.0), GREEDY);
    assert_int_equal(next(&s, GREEDY, 1.0, 1.0), REFINE);
    assert_int_equal(s.choice.lead, PLB_LEAD_REFINE_AGAIN);
    assert_int_equal(next(&s, REFINE, 1.2, 1.0), GREEDY);
    (void)next(&s, GREEDY, 1.0, 1.0);
    (void)next(&s, GREEDY, 1.0, 1.0);
    assert_int_equal(next(&s, GREEDY, 1.0, 1.0), SWAP); /* REFINE leaves too much imbalance */
    assert_int_equal(next(&s, SWAP, 1.0, 1.0), SWAP);
    plb_free(s.records);
}

TEST(expensive_refinements_give_way_unless_they_leave_less)
{
    plb_selector_t s = begun(full, N, 5.0);
    (void)seen(&s, made(1.5, 0.6, false));
    (void)next(&s, GREEDY, 1.02, 1.0);
    (void)next(&s, REFINE, 1.02, 2.0); /* twice the cost is accepted */
    assert_int_equal(s.choice.family, PLB_REFINEMENT);
    (void)next(&s, REFINE, 1.02, 1.0);
    (void)next(&s, REFINE, 1.02, 2.4); /* the mean of costs is 1.95 */
    assert_int_equal(s.choice.family, PLB_REFINEMENT);
    (void)next(&s, REFINE, 1.02, 2.5); /* the mean of costs is 2.225 */
    assert_int_equal(s.choice.family, PLB_COMPREHENSIVE);
    assert_int_equal(s.choice.lead, PLB_LEAD_DEAR);
    (void)next(&s, REFINE, 1.01, 9.0);
    assert_int_equal(s.choice.family, PLB_REFINEMENT);
    plb_free(s.records);
}

/* One object is too heavy: every strategy leaves max/mean 1.5.  A comprehensive one is tried after
 * every five refinements, since the loads may have changed. */
TEST(if_nothing_helps_strategies_are_tried_again_now_and_then)
{
    static const int used[] = {GREEDY, REFINE, SWAP,   REFINE, REFINE, REFINE, GREEDY,
                               REFINE, REFINE, REFINE, REFINE, REFINE, GREEDY, REFINE,
                               REFINE, REFINE, REFINE, REFINE, GREEDY, REFINE};
    plb_selector_t s = begun(full, N, 5.0);
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        assert_int_equal(seen(&s, made(1.5, 0.6, false))->candidate, used[i]);
        (void)next(&s, used[i], 1.5, 1.0);
    }
    plb_free(s.records);
}

TEST(a_strategy_that_goes_on_to_leave_little_ends_the_trials)
{
    plb_selector_t s = begun(full, N, 5.0);
    (void)seen(&s, made(1.5, 0.6, true));
    (void)next(&s, METIS, 1.3, 1.0);
    assert_int_equal(next(&s, SCOTCH_REFINE, 1.5, 1.0), SCOTCH);
    assert_int_equal(next(&s, SCOTCH, 1.3, 0.5), SCOTCH); /* as good as METIS, and cheaper */
    assert_int_equal(next(&s, METIS, 1.3, 0.0), METIS);   /* all equal: first in the table */
    plb_free(s.records);
}

TEST(another_strategy_replaces_one_that_is_not_there)
{
    const struct {
        int names[2];
        bool talks;
        int picked;
        plb_kind_t kind, used;
    } cases[] = {{{GREEDY, REFINE}, true, 0, PLB_COMMUNICATION, PLB_COMPUTATION},
                 {{METIS, SCOTCH_REFINE}, false, 0, PLB_COMPUTATION, PLB_COMMUNICATION},
                 {{REFINE, METIS}, false, 0, PLB_COMPUTATION, PLB_COMPUTATION},
                 {{REFINE, METIS}, true, 1, PLB_COMMUNICATION, PLB_COMMUNICATION}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const plb_candidate_strategy_t two[] = {full[cases[i].names[0]], full[cases[i].names[1]]};
        plb_selector_t s = begun(two, 2, 5.0);
        const plb_choice_t *choice = seen(&s, made(1.5, 0.6, cases[i].talks));
        assert_int_equal(choice->candidate, cases[i].picked);
        assert_int_equal(choice->kind, cases[i].kind);
        assert_int_equal(choice->used, cases[i].used);
        assert_true(choice->kind != choice->used || choice->lead == PLB_LEAD_ONLY);
        plb_free(s.records);
    }
}

TEST(some_candidate_must_look_at_load_or_communication)
{
    plb_err_t err;
    plb_selector_t s;
    double params[PLB_N_SELECTION] = {0.0};
    for (int n = 0; n < 2; n++) {
        assert_int_equal(plb_selector_init(&s, full, n, (plb_network_t){0}, params, &err),
                         PLB_ERR_VALUE);
        assert_non_null(strstr(err.text, "strategies looks at"));
    }
}
