/* Tests of csrc/decide, the advisor and its steps: bad input, LB steps that no rank carries out,
 * gains computed by hand; ranks that fail or leave at any moment, in random order.
 * tests/run/test_advisor.py and tests/lib run the same code under MPI. */
#include "decide/advisor.h"
#include "medium.h"
#include "plb.h"
#include "test.h"

#define OK(call) assert_int_equal(call, PLB_OK)

/* ---- an advisor with a period --------------------------------------------------------------- */

typedef struct made {
    double selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    plb_trigger_t trigger;
    plb_decider_t decider;
    plb_advisor_t advisor;
} made_t;

static void make(made_t *m, double every, const plb_strategy_t *strategy)
{
    plb_err_t err;
    const double params[] = {0};
    const plb_candidate_strategy_t candidate = {*strategy, params};
    *m = (made_t){0};
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        m->selection[i] = plb_selection_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        m->ledger[i] = plb_ledger_params[i].fallback;
    }
    const plb_decider_options_t opt = {
        .n_ranks = 2,
        .candidates = &candidate,
        .n = 1,
        .selection = m->selection,
        .ledger = m->ledger,
    };
    OK(plb_trigger_init(&m->trigger, plb_trigger_find("periodic"), &every, &err));
    OK(plb_decider_init(&m->decider, &opt, &m->trigger, &err));
    plb_advisor_init(&m->advisor, &m->decider, strategy != &plb_own_strategy);
}

static void unmake(made_t *m)
{
    plb_decider_free(&m->decider);
    plb_trigger_free(&m->trigger);
}

/* Observe a step in which the two ranks took a and b seconds; return what the decider asks for. */
static plb_ask_t step(made_t *m, int64_t i, int64_t now, double a, double b, double cost,
                      int64_t n_rebalanced)
{
    plb_err_t err;
    plb_stats_t all, other;
    plb_iteration_t it;
    plb_ask_t ask;
    const plb_advisor_sample_t one = {.iteration = i, .seconds = a, .hidden = 0.5},
                               two = {.iteration = i, .seconds = b};
    OK(plb_advisor_record(&one, 0, &all, &err));
    OK(plb_advisor_record(&two, 1, &other, &err));
    plb_stats_merge(&all, &other);
    plb_advisor_iteration(&all, &it);
    assert_true(it.time == fmax(a, b) && it.mean == (a + b) / 2);
    const plb_advisor_outcome_t outcome = {cost, n_rebalanced};
    OK(plb_advisor_observe(&m->advisor, &it, &outcome, now, false, &ask, &err));
    return ask;
}

TEST(a_record_is_checked)
{
    plb_err_t err;
    plb_stats_t s;
    const double wrong[] = {-1, NAN, INFINITY};
    for (int i = 0; i < 3; i++) {
        const plb_advisor_sample_t a = {.seconds = wrong[i]}, b = {.time = wrong[i]},
                                   c = {.cost = wrong[i]};
        assert_int_equal(plb_advisor_record(&a, 0, &s, &err), PLB_ERR_VALUE);
        assert_int_equal(plb_advisor_record(&b, 0, &s, &err), PLB_ERR_VALUE);
        assert_int_equal(plb_advisor_record(&c, 0, &s, &err), PLB_ERR_VALUE);
    }
    const plb_advisor_sample_t good = {3, 10, 2.0, 8.0, 1.5, true, 0.25, 0.0};
    OK(plb_advisor_record(&good, 4, &s, &err));
    assert_true(s.iteration == 3 && s.n_objects == 10 && s.load_max_rank == 4);
    assert_true(s.load_max == 2.0 && s.load_min == 2.0 && s.time_max == 8.0 && s.cost_max == 1.5);
    assert_true(s.utilization_min == 0.25 && s.n_rebalanced == 1 && s.n_ranks == 1);
    assert_true(s.hidden_max == 0.25);
    plb_iteration_t it;
    plb_advisor_iteration(&s, &it);
    assert_true(it.time == 8.0 && it.utilization == 0.25);
}

TEST(the_own_strategy_cannot_be_run)
{
    plb_err_t err;
    assert_int_equal(plb_own_strategy.run(&plb_own_strategy, NULL, NULL, NULL, &err),
                     PLB_ERR_STATE);
    assert_null(plb_strategy_find(plb_own_strategy.name));
}

TEST(an_advice_that_is_ignored_teaches_nothing)
{
    made_t m;
    make(&m, 3, &plb_own_strategy);
    for (int64_t i = 0; i < 9; i++) {
        assert_int_equal(step(&m, i, i, 3, 1, 99.0, 0),
                         i % 3 == 2 ? PLB_ASK_BALANCE : PLB_ASK_NOTHING);
        assert_int_equal(m.advisor.due, i % 3 == 2);
    }
    assert_int_equal(m.advisor.n_ignored, 2);
    assert_int_equal(m.decider.n_lb_steps, 0);
    plb_advisor_abandon(&m.advisor);
    assert_false(m.advisor.due);
    unmake(&m);
}

static double told;

static void keep(plb_trigger_t *self, double cost, double max_over_mean)
{
    (void)self, (void)cost, told = max_over_mean;
}

TEST(the_programs_first_lb_step_tells_its_cost)
{
    made_t m;
    make(&m, 3, &plb_own_strategy);
    plb_trigger_kind_t kind = *m.trigger.kind;
    kind.balanced = keep;
    m.trigger.kind = &kind;
    (void)step(&m, 0, 0, 3, 1, 5.0, 1);
    assert_true(told == 1.5); /* the imbalance that it has left */
    assert_true(m.trigger.cost == 5.0 && m.trigger.cycle.n == 1);
    (void)step(&m, 1, 1, 3, 1, 9.0, 1); /* not advised */
    assert_true(m.trigger.cost == 5.0 && m.trigger.cycle.n == 2 && m.decider.n_lb_steps == 0);
    unmake(&m);
}

TEST(what_the_user_should_know_is_said_once)
{
    made_t m;
    make(&m, 3, &plb_own_strategy);
    for (int64_t i = 0; i < 9; i++) {
        (void)step(&m, i, i, 3, 1, 0, 0);
        const char *word = plb_advisor_word(&m.advisor);
        assert_int_equal(word != NULL, i == 3);
        assert_true(word == NULL || strstr(word, "not carried out") != NULL);
    }
    unmake(&m);
}

TEST(a_program_that_measures_nothing_is_told_so_once)
{
    made_t m;
    make(&m, 100, &plb_own_strategy);
    for (int64_t i = 0; i < 2 * PLB_WINDOW; i++) {
        (void)step(&m, i, i, 0, 0, 0, 0);
        const char *word = plb_advisor_word(&m.advisor);
        assert_int_equal(word != NULL, i == PLB_WINDOW - 1);
        assert_true(word == NULL || strstr(word, "no rank has measured any work") != NULL);
    }
    unmake(&m);
}

TEST(a_cost_is_learned_and_a_gain)
{
    plb_err_t err;
    made_t m;
    make(&m, 3, &plb_own_strategy);
    for (int64_t i = 0; i < 3; i++) {
        (void)step(&m, i, i, 3, 1, 0, 0); /* max/mean 1.5 */
    }
    (void)step(&m, 3, 3, 2, 2, 5.0, 1);
    assert_int_equal(m.decider.n_lb_steps, 1);
    const plb_receipt_t *r = &m.decider.receipts[m.decider.last];
    assert_true(r->cost == 5.0 && r->placing.before == 1.5 && r->placing.predicted == 1.0);
    assert_true(r->iteration == 2 && r->seconds_hidden == 0.5);
    (void)step(&m, 4, 4, 2, 2, 0, 0);
    OK(plb_advisor_judge(&m.advisor, &err));
    assert_true(r->gain == 2.0); /* two iterations took 2 s instead of 3 s */
    (void)step(&m, 5, 5, 2.5, 1.5, 0, 0);
    OK(plb_advisor_judge(&m.advisor, &err));
    r = &m.decider.receipts[m.decider.last];
    /* Without the LB step, max/mean of 1.5 would have grown as since the LB step: by 0.1 per
     * iteration, the line through 1, 1 and 1.25 that begins at 1. */
    assert_true(fabs(r->gain - (2.0 + 0.5 + 2.0 * 0.1 * 3.0)) < 1e-12);
    OK(plb_advisor_judge(&m.advisor, &err)); /* no iteration since the last call */
    unmake(&m);
}

TEST(records_of_the_placement_before_do_not_count)
{
    made_t m;
    make(&m, 3, &plb_own_strategy);
    for (int64_t i = 0; i < 3; i++) { /* each record is known two steps later */
        (void)step(&m, i, i + 2, 3, 1, 0, 0);
    }
    for (int64_t i = 3; i < 5; i++) {
        assert_int_equal(step(&m, i, i + 2, 3, 1, 7.0, 2), PLB_ASK_NOTHING);
        assert_true(m.advisor.due);
    }
    assert_int_equal(m.decider.n_lb_steps, 0);
    (void)step(&m, 5, 7, 2, 2, 4.0, 1);
    assert_int_equal(m.decider.n_lb_steps, 1);
    assert_true(m.decider.receipts[m.decider.last].cost == 4.0);
    unmake(&m);
}

TEST(a_second_plan_for_an_lb_step_is_refused)
{
    plb_err_t err;
    made_t m;
    const plb_placing_t placing = {.before = 1.5,
                                   .predicted = 1.0,
                                   .before_with_messages = 1.5,
                                   .predicted_with_messages = 1.0,
                                   .passed_over = NAN,
                                   .seconds_statistics = 0.5,
                                   .seconds_strategy = 0.25};
    make(&m, 1, &plb_strategy_greedy);
    assert_int_equal(plb_advisor_placed(&m.advisor, &placing, NULL, 1, 1, &err), PLB_ERR_STATE);
    assert_int_equal(step(&m, 0, 0, 3, 1, 0, 0), PLB_ASK_BALANCE);
    OK(plb_advisor_placed(&m.advisor, &placing, NULL, 2, 64, &err));
    assert_int_equal(plb_advisor_placed(&m.advisor, &placing, NULL, 1, 1, &err), PLB_ERR_STATE);
    assert_int_equal(step(&m, 1, 1, 2, 2, 4.0, 2), PLB_ASK_BALANCE);
    const plb_receipt_t *r = &m.decider.receipts[m.decider.last];
    assert_true(r->cost == 4.75 && r->migrations == 2 && r->nbytes == 64);
    /* no cell moves, so the LB step is over */
    OK(plb_advisor_placed(&m.advisor, &placing, NULL, 0, 0, &err));
    assert_false(m.advisor.due);
    r = &m.decider.receipts[m.decider.last];
    assert_true(r->cost == 0.75 && m.decider.n_lb_steps == 2);
    unmake(&m);
}

/* ---- steps ---------------------------------------------------------------------------------- */

enum { RANKS = 4, RECORDS = 64 };

static bool never(void *arg)
{
    return false;
}

/* A rank of a program of N_STEPS steps. */
typedef struct program {
    plb_steps_t steps;
    int64_t step;
    bool leaves, ended, knew; /* knew: the rank learned that another has left or failed */
} program_t;

enum { N_STEPS = 12 };
typedef enum ending { FINE, FAILS, LEAVES, ELSEWHERE } ending_t;

static plb_stats_t contribution(int rank, int64_t step, bool fails)
{
    plb_err_t err;
    plb_stats_t s;
    const plb_advisor_sample_t sample = {.iteration = step, .seconds = rank + 1.0};
    OK(plb_advisor_record(&sample, rank, &s, &err));
    s.failed_rank = fails ? rank : INT64_MAX;
    return s;
}

static void leave(program_t *p, const plb_stats_t *mine)
{
    plb_err_t err;
    p->leaves = true;
    if (mine != NULL && !plb_steps_broken(&p->steps)) {
        OK(plb_steps_begin(&p->steps, mine, &err));
    }
    OK(plb_steps_leave(&p->steps, 0, NULL, NULL, &p->ended, &err));
}

/* Let a rank do its next action. */
static void turn(program_t *p, int rank, ending_t ending, int64_t when)
{
    plb_err_t err;
    bool have;
    if (p->leaves) {
        leave(p, NULL);
        return;
    }
    if (plb_steps_is_due(&p->steps)) {
        OK(plb_steps_take(&p->steps, true, 0, NULL, NULL, &have, &err));
        if (have && plb_steps_broken(&p->steps)) {
            p->knew = true;
            leave(p, NULL);
        } else if (have && p->steps.all.failed_rank != INT64_MAX) { /* repeat the step */
            p->knew = true;
            p->step--;
        } else if (have) {
            assert_true(p->steps.all.load_max == RANKS);
        }
        return;
    }
    const bool odd = rank == 1 && p->step == when && !p->knew;
    if (p->step == N_STEPS || (odd && ending == LEAVES)) {
        plb_stats_t last = contribution(rank, p->step, false);
        last.n_ended = 1;
        leave(p, &last);
        return;
    }
    const int64_t says = odd && ending == ELSEWHERE ? p->step + 1 : p->step;
    const plb_stats_t mine = contribution(rank, says, odd && ending == FAILS);
    OK(plb_steps_begin(&p->steps, &mine, &err));
    p->step++;
    if (odd && ending == FAILS && p->steps.lag > 0) {
        leave(p, NULL);
    }
}

static void run(int lag, ending_t ending, int64_t when, unsigned seed)
{
    medium_t net;
    medium_reduction_t records[RECORDS] = {0};
    plb_err_t err;
    program_t p[RANKS] = {0};
    medium_init(&net, RANKS, lag + 2, never, NULL, records, RECORDS);
    for (int r = 0; r < RANKS; r++) {
        OK(plb_steps_init(&p[r].steps, &net.face[r], lag, &err));
    }
    const bool again = ending == FAILS && lag == 0; /* then the step is repeated */
    int left = RANKS;
    for (int turns = 0; left > 0; turns++) {
        seed = seed * 1103515245u + 12345u;
        const int r = (int)(seed >> 16) % RANKS;
        assert_true(turns < 100000); /* no rank waits forever */
        if (!p[r].ended) {
            turn(&p[r], r, ending, when);
            left -= p[r].ended;
        }
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(plb_steps_under_way(&p[r].steps), 0);
        assert_int_equal(net.rank[r].begun, net.rank[0].begun);
        assert_int_equal(plb_steps_broken(&p[r].steps), ending != FINE && !again);
        if (r != 1 && ending != FINE && when + lag < N_STEPS) {
            assert_true(p[r].knew && p[r].step == (again ? N_STEPS : when + lag + 1));
        }
    }
}

TEST(no_rank_waits_for_ever)
{
    for (unsigned seed = 0; seed < 40; seed++) {
        for (int lag = 0; lag <= 5; lag++) {
            run(lag, FINE, 0, seed);
            for (int64_t when = 0; when < N_STEPS; when++) {
                run(lag, FAILS, when, seed);
                run(lag, LEAVES, when, seed);
                run(lag, ELSEWHERE, when, seed);
            }
        }
    }
}

TEST(one_rank_alone)
{
    plb_err_t err;
    plb_reduction_t alone;
    plb_steps_t s;
    bool have, done;
    OK(plb_reduction_alone(&alone, 4, &err));
    assert_int_equal(plb_steps_init(&s, &alone, -1, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_steps_init(&s, &alone, 3, &err), PLB_ERR_VALUE);
    OK(plb_steps_init(&s, &alone, 2, &err));
    OK(plb_steps_take(&s, false, 0, NULL, NULL, &have, &err));
    assert_false(have);
    for (int64_t i = 0; i < 5; i++) {
        const plb_stats_t mine = contribution(0, i, false);
        OK(plb_steps_begin(&s, &mine, &err));
        OK(plb_steps_take(&s, true, -1, NULL, NULL, &have, &err));
        assert_int_equal(have, i >= 2);
        assert_true(!have || s.all.iteration == i - 2);
    }
    for (int64_t i = 3; i < 5; i++) {
        OK(plb_steps_take(&s, false, -1, NULL, NULL, &have, &err));
        assert_true(have && s.all.iteration == i);
    }
    assert_int_equal(plb_steps_under_way(&s), 0);
    plb_stats_t last = contribution(0, 5, false);
    last.n_ended = 1;
    OK(plb_steps_begin(&s, &last, &err));
    OK(plb_steps_leave(&s, -1, NULL, NULL, &done, &err));
    assert_true(done && !plb_steps_broken(&s));
    const plb_stats_t failed = contribution(0, 6, true);
    OK(plb_steps_begin(&s, &failed, &err));
    OK(plb_steps_leave(&s, -1, NULL, NULL, &done, &err));
    assert_true(done && plb_steps_broken(&s));
    assert_int_equal(plb_steps_begin(&s, &failed, &err), PLB_ERR_STATE);
    assert_non_null(strstr(err.text, "has failed or left, or the ranks were in different steps"));
    for (int i = 0; i < 4; i++) {
        OK(alone.begin_stats(alone.self, &failed, &err));
    }
    assert_int_equal(alone.begin_stats(alone.self, &failed, &err), PLB_ERR_STATE);
    assert_string_equal(err.text,
                        "4 reductions are under way: expected fewer before another one begins");
    plb_reduction_alone_free(&alone);
}
