/* Tests csrc/decide/consensus.h with random programs, delays and faults; the ranks reduce through
 * common memory. interleave.c tests the consensus itself. */
#include "base/base.h"
#include "decide/consensus.h"
#include "medium.h"
#include "test.h"

enum { RANKS = MEDIUM_RANKS, OBJECTS = 12, MOST = 4096 };

typedef struct object {
    int rank;
    int64_t slot, done; /* done: number of iterations that the object has finished */
} object_t;

typedef struct world {
    plb_rng_t rng;
    int p, n_objects;
    int64_t n; /* number of iterations */
    int32_t lag;
    medium_reduction_t reductions[MOST];
    medium_t medium;
    plb_trigger_t trigger[RANKS];
    plb_atsync_t rank[RANKS];
    object_t object[OBJECTS];
    int64_t now[RANKS];
    int64_t balanced[MOST];
    int n_balanced;
    bool left[RANKS];
    int errors[RANKS]; /* code of the error of each rank's own trigger */
} world_t;

static plb_err_t err;

#define OK(call)                                                                                  \
    do {                                                                                          \
        if ((call) != PLB_OK) {                                                                   \
            fail_msg("%s: %s", #call, err.text);                                                  \
        }                                                                                         \
    } while (0)

/* ---- the world -------------------------------------------------------------------------------
 */

static int below(world_t *w, int n)
{
    return (int)plb_rng_below(&w->rng, (uint64_t)n);
}

static bool is_late(void *world)
{
    return below(world, 3) == 0;
}

static int64_t tick(world_t *w, int r)
{
    w->now[r] += below(w, 2000) - 500; /* the clock sometimes steps back */
    return w->now[r];
}

static void join(world_t *w, int i, int r)
{
    object_t *o = &w->object[i];
    o->rank = r;
    OK(plb_atsync_join(&w->rank[r], &o->slot, tick(w, r), &err));
}

static void begin_with(world_t *w, const plb_trigger_kind_t *kind, const double *params)
{
    const int depth = (w->lag > 0 ? w->lag : PLB_ATSYNC_WINDOW) + 2;
    const plb_atsync_options_t opt = {
        .kind = 4, .first = 100, .n = w->n, .lag = w->lag, .balance = true};
    medium_init(&w->medium, w->p, depth, is_late, w, w->reductions, MOST);
    for (int r = 0; r < w->p; r++) {
        OK(plb_trigger_init(&w->trigger[r], kind, params, &err));
        OK(plb_atsync_init(&w->rank[r], &opt, &w->medium.face[r], &w->trigger[r], tick(w, r),
                           &err));
        w->rank[r].background = 1e-4 * (r % 3);
    }
    for (int i = 0; i < w->n_objects; i++) {
        join(w, i, below(w, w->p));
    }
    for (int r = 0; r < w->p; r++) {
        OK(plb_atsync_begin(&w->rank[r], tick(w, r), &err));
    }
}

static void begin(world_t *w, const char *trigger, const double *params)
{
    begin_with(w, plb_trigger_find(trigger), params);
}

static void end(world_t *w)
{
    for (int r = 0; r < w->p; r++) {
        plb_atsync_free(&w->rank[r]);
        plb_trigger_free(&w->trigger[r]);
    }
}

static double load_of(const world_t *w, int i, int64_t iteration)
{
    return 1e-3 * (1 + i) * (double)(1 + iteration * i % 3) * (w->n_objects > 1);
}

/* Do an LB step, for which all ranks are ready: some objects move, then all continue. */
static void balance(world_t *w)
{
    const int64_t at = w->rank[0].rank.final;
    for (int i = 0; i < w->n_objects; i++) {
        const object_t o = w->object[i];
        assert_int_equal(o.done, at);
        if (below(w, 3) == 0) {
            join(w, i, below(w, w->p));
            OK(plb_atsync_leave(&w->rank[o.rank], o.slot, tick(w, o.rank), &err));
        }
    }
    for (int r = 0; r < w->p; r++) {
        assert_int_equal(w->rank[r].rank.final, at);
        OK(plb_trigger_balanced(&w->trigger[r], 99 + at, 1e-3, 1.0, &err));
        OK(plb_atsync_balanced(&w->rank[r], tick(w, r), &err));
    }
    w->balanced[w->n_balanced++] = at;
}

static void give_up(world_t *w, int r, bool failed)
{
    OK(plb_atsync_give_up(&w->rank[r], failed, tick(w, r), &err));
    w->left[r] = true;
}

/* Let an object ask whether it may go on.  Returns whether the rank raises an error, because an LB
 * step is due that only some ranks' triggers want. */
static bool disputes(world_t *w, int r, int64_t slot, plb_atsync_answer_t *answer)
{
    const int ret = plb_atsync_ask(&w->rank[r], slot, answer, &err);
    if (ret != PLB_OK) {
        assert_int_equal(ret, PLB_ERR_VALUE);
        assert_true(plb_atsync_over(&w->rank[r]));
        w->errors[r] = ret;
        w->left[r] = true; /* no LB step */
    }
    return ret != PLB_OK;
}

/* Advance an object.  Returns whether its rank must leave the loop: a rank has failed, or the
 * triggers disagree. */
static bool move(world_t *w, int i)
{
    object_t *o = &w->object[i];
    plb_atsync_t *rank = &w->rank[o->rank];
    plb_atsync_answer_t answer;
    if (plb_atsync_runs(rank, o->slot)) {
        const double load = load_of(w, i, ++o->done);
        OK(plb_atsync_reached(rank, o->slot, &load, 1, tick(w, o->rank), &err));
    }
    if (disputes(w, o->rank, o->slot, &answer)) {
        return true;
    }
    assert_true(answer != PLB_ATSYNC_END || o->done == w->n);
    return answer == PLB_ATSYNC_FAILED;
}

static bool all_balance(const world_t *w)
{
    for (int r = 0; r < w->p; r++) {
        if (!w->rank[r].balance || w->left[r]) {
            return false;
        }
    }
    return true;
}

static bool all_over(const world_t *w)
{
    for (int r = 0; r < w->p; r++) {
        if (!plb_atsync_over(&w->rank[r])) {
            return false;
        }
    }
    return true;
}

/* Take one random step. */
static void step(world_t *w)
{
    const int r = below(w, w->p);
    const int ret = plb_atsync_progress(&w->rank[r], tick(w, r), &err);
    if (ret != PLB_OK) {
        assert_int_equal(ret, PLB_ERR_CALLBACK);
        assert_int_equal(w->errors[r], PLB_OK);
        w->errors[r] = ret;
        give_up(w, r, true);
    }
    if (w->n_objects > 0) {
        const int i = below(w, w->n_objects), at = w->object[i].rank;
        if (!w->left[at] && move(w, i)) {
            give_up(w, at, false);
        }
    }
    plb_atsync_answer_t answer;
    if (!disputes(w, r, -1, &answer) && answer == PLB_ATSYNC_FAILED && !w->left[r]) {
        give_up(w, r, false);
    }
    if (all_balance(w)) {
        balance(w);
    }
}

static void check_rows(const world_t *w, bool whole)
{
    const plb_atsync_t *first = &w->rank[0];
    assert_true(!whole || first->n_rows == w->n);
    for (int r = 0; r < w->p; r++) {
        assert_int_equal(w->rank[r].n_rows, first->n_rows);
    }
    for (int64_t k = 0; k < first->n_rows; k++) {
        const plb_atsync_row_t *a = &first->row[k];
        double sum = 0.0, load = 0.0, most = 0.0;
        for (int i = 0; i < w->n_objects; i++) {
            sum += load_of(w, i, k + 1);
        }
        for (int r = 0; r < w->p; r++) {
            sum += w->rank[r].background;
        }
        for (int r = 0; r < w->p; r++) {
            const plb_atsync_row_t *b = &w->rank[r].row[k];
            assert_memory_equal(a, b, offsetof(plb_atsync_row_t, load));
            load += b->load;
            most = fmax(most, b->load);
        }
        assert_true(a->time >= 0.0 && a->idle >= 0.0 && a->idle < 1.0);
        assert_true(a->utilization >= 0.0 && a->utilization <= 1.0);
        assert_true(a->max == most);
        if (whole) {
            assert_true(fabs(load - sum) < 1e-12 && fabs(a->mean - sum / w->p) < 1e-12);
        }
    }
}

static world_t w; /* too large for the stack */

static void draw(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    plb_rng_init(&w.rng, seed);
    w.p = 1 + below(&w, RANKS);
    w.n_objects = below(&w, 4) == 0 ? below(&w, 2) : below(&w, OBJECTS + 1);
    w.n = 1 + below(&w, 40);
    w.lag = below(&w, 5);
}

static void run(void)
{
    for (int i = 0; i < 400000 && !all_over(&w); i++) {
        step(&w);
    }
    assert_true(all_over(&w)); /* fails if the run hangs */
}

TEST(test_all_rebalance_at_the_same_iteration)
{
    int balanced = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        draw(seed);
        const double every = 1 + below(&w, 50); /* may be longer than the run */
        begin(&w, "periodic", &every);
        run();
        check_rows(&w, true);
        for (int b = 0; b < w.n_balanced; b++) {
            assert_true(w.balanced[b] < w.n);
            assert_true(w.balanced[b] - (b > 0 ? w.balanced[b - 1] : 0) >= every);
        }
        if (every > 2 * (w.lag > 0 ? w.lag : PLB_ATSYNC_WINDOW)) { /* the LB step was announced
                                                                      early enough */
            assert_int_equal(w.n_balanced, (w.n - 1) / (int64_t)every);
        }
        balanced += w.n_balanced;
        end(&w);
    }
    assert_true(balanced > 400);
}

/* Without forecasts, the LB step takes place D iterations after the trigger's decision, which the
 * trigger repeats in the meantime. */
TEST(test_the_lb_step_follows_the_decision_after_the_lag)
{
    const double threshold = 1.0000001;
    for (uint64_t seed = 0; seed < 100; seed++) {
        draw(seed);
        w.lag = 1 + below(&w, 4);
        w.n_objects = 1 + below(&w, 3);
        w.p = 4; /* the load is never balanced, unless an object has no load */
        begin(&w, "threshold", &threshold);
        run();
        check_rows(&w, true);
        if (w.n_objects > 1) {
            assert_int_equal(w.n_balanced, (w.n - 1) / (1 + w.lag));
            for (int b = 0; b < w.n_balanced; b++) {
                assert_int_equal(w.balanced[b], (b + 1) * (1 + w.lag));
            }
        }
        end(&w);
    }
}

TEST(test_ranks_leave_and_fail)
{
    int heard = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        draw(seed);
        const bool failed = below(&w, 2);
        const double every = 1 + below(&w, 10);
        begin(&w, "periodic", &every);
        for (int i = below(&w, 8 * (int)w.n); i > 0; i--) {
            step(&w);
        }
        const int odd = below(&w, w.p);
        const int before = w.n_balanced;
        give_up(&w, odd, false);
        give_up(&w, odd, failed);
        run();
        check_rows(&w, false);
        assert_true(w.n_balanced <= before + 1);
        heard += failed && w.rank[(odd + 1) % w.p].failed_rank == odd;
        end(&w);
    }
    assert_true(heard > 50);
}

/* Parameters of a trigger that imitates a function of the user.  It wants an LB step after each
 * `every`-th iteration.  On rank `odd`, it fails or gives the opposite answer after iteration
 * `at`. */
enum { EVERY, AT, ODD, FAILS, N_OWN };

static void observe_own(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const bool odd =
        self == &w.trigger[(int)self->params[ODD]] && o->iteration == (int64_t)self->params[AT];
    const bool wants = self->cycle.n >= (int64_t)self->params[EVERY];
    self->failed = odd && self->params[FAILS] > 0.0 ? PLB_ERR_CALLBACK : PLB_OK;
    v->reason = wants != odd ? PLB_REASON_ASKED : PLB_REASON_EARLY;
}

static const plb_param_t own_params[N_OWN] = {
    {"every", "", "", 0.0, 0.0, 1e9},
    {"at", "", "", 0.0, 0.0, 1e9},
    {"odd", "", "", 0.0, 0.0, 1e9},
    {"fails", "", "", 0.0, 0.0, 1.0},
};

static const plb_trigger_kind_t own = {.name = "own",
                                       .params = own_params,
                                       .n_params = N_OWN,
                                       .foreign = true,
                                       .observe = observe_own};

TEST(test_a_trigger_that_answers_alike)
{
    int balanced = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        draw(seed);
        begin_with(&w, &own, (double[N_OWN]){1 + below(&w, 10), 0});
        run();
        check_rows(&w, true);
        for (int r = 0; r < w.p; r++) {
            assert_int_equal(w.errors[r], PLB_OK);
        }
        balanced += w.n_balanced;
        end(&w);
    }
    assert_true(balanced > 200);
}

TEST(test_a_trigger_that_answers_differently_or_fails)
{
    int differed = 0, failed = 0;
    for (uint64_t seed = 0; seed < 600; seed++) {
        draw(seed);
        const int64_t at = 100 + below(&w, (int)w.n);
        const int odd = below(&w, w.p);
        const bool fails = below(&w, 2);
        begin_with(&w, &own, (double[N_OWN]){1 + below(&w, 10), (double)at, odd, fails});
        run(); /* the run ends, so no rank waits forever */
        check_rows(&w, false);
        for (int r = 0; r < w.p; r++) {
            plb_atsync_answer_t answer;
            const bool stops = w.rank[r].balance;
            assert_int_equal(stops, w.rank[0].balance);
            assert_int_equal(w.rank[r].dispute.iteration, w.rank[0].dispute.iteration);
            if (stops && !fails) { /* all ranks stop at the iteration of the LB step */
                assert_true(disputes(&w, r, -1, &answer));
                assert_int_equal(w.rank[r].rank.final, w.rank[0].rank.final);
            }
            assert_true(!fails || (w.errors[r] == PLB_ERR_CALLBACK) == (r == odd));
            differed += stops && !fails;
        }
        failed += fails && w.p > 1 && w.rank[(odd + 1) % w.p].failed_rank == odd;
        end(&w);
    }
    assert_true(differed > 200 && failed > 100);
}

static int mixed_test(void *self, plb_stats_t *all, bool *done, plb_err_t *e)
{
    const int ret = medium_test_stats(self, all, done, e);
    all->iteration += *done;
    return ret;
}

TEST(test_contributions_of_different_iterations)
{
    const double every = 5;
    draw(3);
    w.p = 1;
    w.n = 9;
    w.n_objects = 1;
    w.lag = 1;
    begin(&w, "periodic", &every);
    w.medium.face[0].test_stats = mixed_test;
    plb_atsync_answer_t answer;
    const double load = 0.0;
    OK(plb_atsync_ask(&w.rank[0], w.object[0].slot, &answer, &err));
    OK(plb_atsync_reached(&w.rank[0], w.object[0].slot, &load, 1, 0, &err));
    int ret = PLB_OK;
    for (int i = 0; i < 100 && ret == PLB_OK; i++) {
        ret = plb_atsync_progress(&w.rank[0], 0, &err);
    }
    assert_int_equal(ret, PLB_ERR_STATE);
    assert_non_null(strstr(err.text, "different iterations"));
    end(&w);
}

TEST(test_options)
{
    plb_reduction_t net;
    plb_atsync_t self;
    plb_trigger_t trigger;
    const double every = 5;
    OK(plb_trigger_init(&trigger, plb_trigger_find("periodic"), &every, &err));
    OK(plb_reduction_alone(&net, 4, &err));
    plb_atsync_options_t opt = {.n = 3, .lag = 2};
    OK(plb_atsync_init(&self, &opt, &net, &trigger, 0, &err));
    plb_atsync_free(&self);
    plb_atsync_free(&self);
    opt.lag = 3; /* too large for the depth of the reductions */
    assert_int_equal(plb_atsync_init(&self, &opt, &net, &trigger, 0, &err), PLB_ERR_VALUE);
    opt = (plb_atsync_options_t){.n = 0, .lag = 2};
    assert_int_equal(plb_atsync_init(&self, &opt, &net, &trigger, 0, &err), PLB_ERR_VALUE);
    opt = (plb_atsync_options_t){.n = 3, .lag = 2};
    plb_mem_fail_at(0);
    assert_int_equal(plb_atsync_init(&self, &opt, &net, &trigger, 0, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    plb_reduction_alone_free(&net);
    plb_mem_fail_at(0);
    assert_int_equal(plb_reduction_alone(&net, 4, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    plb_trigger_free(&trigger);
}
