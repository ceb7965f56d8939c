/* Loops without barriers on a few ranks, with and without a lag: AtSync with a decider on each
 * rank, and the steps of an advisor.  The input chooses the objects, delays, failures and the
 * answers of a user's trigger.  No rank may wait forever, all ranks must decide the same, and at
 * an LB step no object may have passed the iteration of the LB step. */
#include <math.h>
#include <string.h>

#include "feed.h"
#include "medium.h"
#include "plb.h"

enum { RANKS = 4, OBJECTS = 8, ITERATIONS = 24, MOST_TURNS = 100000, MOST_REDUCTIONS = 400 };

typedef struct object {
    int rank;
    int64_t slot, done; /* done: number of iterations */
} object_t;

typedef struct world {
    feed_t *feed;
    int p, n_objects;
    int64_t n; /* number of iterations */
    int32_t lag;
    bool decides, foreign;
    medium_reduction_t reductions[MOST_REDUCTIONS];
    medium_t medium;
    plb_trigger_t trigger[RANKS];
    plb_decider_t decider[RANKS];
    plb_atsync_t rank[RANKS];
    bool left[RANKS];
    object_t object[OBJECTS];
    int64_t now;
    double load[OBJECTS];

    plb_steps_t steps[RANKS]; /* the advisor's steps on each rank */
    int64_t step[RANKS];
    enum { RUNS, LEAVES, IS_OVER } state[RANKS];
} world_t;

static bool is_late(void *world)
{
    return feed_byte(((world_t *)world)->feed) < 64;
}

static int64_t tick(world_t *w)
{
    return w->now +=
           feed_below(w->feed, 200) * 100000 - 3000000; /* ns; the clock sometimes steps back */
}

/* ---- triggers and deciders ------------------------------------------------------------------ */

/* A trigger that is a function of the user.  Parameters: `odd`: the iteration in which it answers
 * differently on this rank, or fails; 0: never; `fails`: 1: it fails, 0: it answers differently.
 */
enum { ODD, FAILS, N_OWN };

static void observe_own(plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    const bool odd = o->iteration == (int64_t)self->params[ODD];
    self->failed = odd && self->params[FAILS] > 0.0 ? PLB_ERR_CALLBACK : PLB_OK;
    v->reason = (self->cycle.n >= 3) != odd ? PLB_REASON_ASKED : PLB_REASON_EARLY;
}

static const plb_param_t own_params[N_OWN] = {{"odd", "", "", 0.0, 0.0, 1e9},
                                              {"fails", "", "", 0.0, 0.0, 1.0}};
static const plb_trigger_kind_t own = {.name = "own",
                                       .params = own_params,
                                       .n_params = N_OWN,
                                       .foreign = true,
                                       .observe = observe_own};

static void begin_triggers(world_t *w, plb_err_t *err)
{
    double params[16];
    int n_kinds = 0;
    while (plb_triggers[n_kinds] != NULL) {
        n_kinds++;
    }
    const uint32_t which = feed_below(w->feed, (uint32_t)n_kinds + 1);
    const plb_trigger_kind_t *kind = which == (uint32_t)n_kinds ? &own : plb_triggers[which];
    w->foreign = kind->foreign;
    for (int k = 0; k < kind->n_params; k++) {
        const plb_param_t *p = &kind->params[k];
        params[k] = feed_param(w->feed, p->fallback, p->least, p->most);
    }
    for (int r = 0; r < w->p; r++) {
        if (w->foreign) {
            params[ODD] = r == 0 ? feed_below(w->feed, 2 * ITERATIONS) : 0.0;
            params[FAILS] = feed_bool(w->feed);
        }
        MUST(plb_trigger_init(&w->trigger[r], kind, params, err) == PLB_OK);
    }
}

static void begin_deciders(world_t *w, plb_err_t *err)
{
    double params[16], selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    const plb_strategy_t *strategy = &plb_strategy_greedy;
    for (int k = 0; k < strategy->n_params; k++) {
        params[k] = strategy->params[k].fallback;
    }
    for (int k = 0; k < PLB_N_SELECTION; k++) {
        selection[k] = plb_selection_params[k].fallback;
    }
    for (int k = 0; k < PLB_N_LEDGER; k++) {
        ledger[k] = plb_ledger_params[k].fallback;
    }
    const plb_candidate_strategy_t candidate = {*strategy, params};
    const plb_decider_options_t opt = {.n_ranks = w->p,
                                       .candidates = &candidate,
                                       .n = 1,
                                       .selection = selection,
                                       .ledger = ledger,
                                       .gives_up = feed_bool(w->feed)};
    for (int r = 0; r < w->p; r++) {
        MUST(plb_decider_init(&w->decider[r], &opt, &w->trigger[r], err) == PLB_OK);
        plb_atsync_decide(&w->rank[r], &w->decider[r]);
    }
}

/* ---- AtSync --------------------------------------------------------------------------------- */

static void join(world_t *w, int i, int r, plb_err_t *err)
{
    w->object[i].rank = r;
    MUST(plb_atsync_join(&w->rank[r], &w->object[i].slot, tick(w), err) == PLB_OK);
}

static void begin_loop(world_t *w, plb_err_t *err)
{
    const int depth = (w->lag > 0 ? w->lag : PLB_ATSYNC_WINDOW) + 2;
    const plb_atsync_options_t opt = {
        .kind = 4, .first = 1, .n = w->n, .lag = w->lag, .balance = feed_byte(w->feed) > 16};
    medium_init(&w->medium, w->p, depth, is_late, w, w->reductions, MOST_REDUCTIONS);
    begin_triggers(w, err);
    for (int r = 0; r < w->p; r++) {
        MUST(plb_atsync_init(&w->rank[r], &opt, &w->medium.face[r], &w->trigger[r], tick(w),
                             err) == PLB_OK);
    }
    if (w->decides) {
        begin_deciders(w, err);
    }
    for (int i = 0; i < w->n_objects; i++) {
        join(w, i, (int)feed_below(w->feed, (uint32_t)w->p), err);
    }
    for (int r = 0; r < w->p; r++) {
        MUST(plb_atsync_begin(&w->rank[r], tick(w), err) == PLB_OK);
    }
}

static void give_up(world_t *w, int r, bool failed, plb_err_t *err)
{
    MUST(plb_atsync_give_up(&w->rank[r], failed, tick(w), err) == PLB_OK);
    w->left[r] = true;
}

static void migrate(world_t *w, int i, int r, plb_err_t *err)
{
    const object_t o = w->object[i];
    if (r != o.rank) {
        join(w, i, r, err);
        MUST(plb_atsync_leave(&w->rank[o.rank], o.slot, tick(w), err) == PLB_OK);
    }
}

/* Rank 0 places; all ranks decide the same. */
static void decide(world_t *w, int32_t *to, plb_err_t *err)
{
    int64_t key[OBJECTS];
    int32_t rank[OBJECTS];
    double speed[RANKS];
    plb_placing_t placing;
    for (int i = 0; i < w->n_objects; i++) {
        key[i] = i;
        rank[i] = w->object[i].rank;
    }
    const plb_database_t db = {.snapshot = {.n_objects = w->n_objects,
                                            .n_ranks = w->p,
                                            .n_components = 1,
                                            .load = w->load,
                                            .rank = rank,
                                            .key = key}};
    const plb_step_done_t done = {.cost = 0.5, .moved = true, .given = true};
    for (int r = 0; r < w->p; r++) {
        plb_decider_t *d = &w->decider[r];
        MUST(plb_decider_choose(d, &w->rank[r].wish.why, w->n_objects, err) == PLB_OK);
        MUST(d->chosen == w->decider[0].chosen);
        if (r == 0) {
            MUST(plb_decider_place(d, &db, to, speed, &placing, err) == PLB_OK);
        }
        MUST(plb_decider_placed(d, &placing, speed, err) == PLB_OK);
        MUST(plb_decider_balanced(d, &done, err) == PLB_OK);
        MUST(d->n_receipts == w->decider[0].n_receipts);
    }
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

static void balance(world_t *w, plb_err_t *err)
{
    int32_t to[OBJECTS];
    const int64_t at = w->rank[0].rank.final;
    for (int i = 0; i < w->n_objects; i++) {
        MUST(w->object[i].done == at);
        to[i] = (int32_t)feed_below(w->feed, (uint32_t)w->p);
    }
    if (w->decides) {
        decide(w, to, err);
    }
    for (int i = 0; i < w->n_objects; i++) {
        migrate(w, i, to[i], err);
    }
    for (int r = 0; r < w->p; r++) {
        MUST(w->rank[r].rank.final == at);
        MUST(w->decides || plb_trigger_balanced(&w->trigger[r], at, 1e-3, 1.0, err) == PLB_OK);
        MUST(plb_atsync_balanced(&w->rank[r], tick(w), err) == PLB_OK);
    }
}

/* Ask whether an object, or the whole rank (slot -1), may go on; return whether the rank must
 * leave the loop. */
static bool must_leave(world_t *w, int r, int64_t slot, plb_err_t *err)
{
    plb_atsync_answer_t answer = PLB_ATSYNC_PAUSE;
    const int ret = plb_atsync_ask(&w->rank[r], slot, &answer, err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && w->foreign && plb_atsync_over(&w->rank[r])));
    w->left[r] =
        w->left[r] ||
        ret != PLB_OK; /* the user's trigger has failed or answered differently: no LB step */
    return ret == PLB_OK && answer == PLB_ATSYNC_FAILED && !w->left[r];
}

static void run_object(world_t *w, int i, plb_err_t *err)
{
    object_t *o = &w->object[i];
    plb_atsync_t *rank = &w->rank[o->rank];
    if (w->left[o->rank]) {
        return;
    }
    if (plb_atsync_runs(rank, o->slot)) {
        o->done++;
        w->load[i] = feed_byte(w->feed) / 64.0;
        MUST(plb_atsync_reached(rank, o->slot, &w->load[i], 1, tick(w), err) == PLB_OK);
    }
    if (must_leave(w, o->rank, o->slot, err)) {
        give_up(w, o->rank, false, err);
    }
}

static void turn(world_t *w, plb_err_t *err)
{
    const int r = (int)feed_below(w->feed, (uint32_t)w->p);
    const int ret = plb_atsync_progress(&w->rank[r], tick(w), err);
    if (ret != PLB_OK) { /* only a user's trigger fails */
        MUST(ret == PLB_ERR_CALLBACK && w->foreign);
        give_up(w, r, true, err);
    }
    if (w->n_objects > 0) {
        run_object(w, (int)feed_below(w->feed, (uint32_t)w->n_objects), err);
    }
    if (must_leave(w, r, -1, err)) {
        give_up(w, r, false, err);
    }
    if (all_balance(w)) {
        balance(w, err);
    }
}

static bool all_over(const world_t *w)
{
    bool out = true;
    for (int r = 0; r < w->p; r++) {
        out = out && plb_atsync_over(&w->rank[r]);
    }
    return out;
}

static void loop(world_t *w, plb_err_t *err)
{
    const int fault = feed_byte(w->feed) < 64 ? feed_byte(w->feed) : -1;
    begin_loop(w, err);
    for (int i = 0; !all_over(w); i++) {
        MUST(i < MOST_TURNS); /* else a rank waits forever */
        if (i == fault) {
            give_up(w, (int)feed_below(w->feed, (uint32_t)w->p), feed_bool(w->feed), err);
        }
        turn(w, err);
    }
    const int64_t n_rows = w->rank[0].n_rows;
    for (int r = 0; r < w->p; r++) {
        MUST(w->rank[r].n_rows == n_rows);
        plb_atsync_free(&w->rank[r]);
        plb_decider_free(&w->decider[r]);
        plb_trigger_free(&w->trigger[r]);
    }
}

/* ---- an advisor's steps --------------------------------------------------------------------- */

/* Make a rank's contribution to a step; it is mostly valid. */
static int sample(world_t *w, int r, plb_stats_t *out, plb_err_t *err)
{
    double load[5], sum = 0.0;
    const uint8_t odd = feed_byte(w->feed);
    for (int i = 0; i < 5; i++) {
        load[i] = odd == 0 ? feed_double(w->feed) : feed_byte(w->feed) / 64.0;
    }
    PLB_PASS(plb_advisor_load(load, 5, &sum, err));
    const plb_advisor_sample_t mine = {.iteration = w->step[r] + (odd == 1),
                                       .n_cells = 5,
                                       .seconds = sum,
                                       .time = odd == 2 ? feed_double(w->feed) : sum,
                                       .rebalanced = feed_bool(w->feed)};
    return plb_advisor_record(&mine, r, out, err);
}

/* Begin to leave: at the end, after a failure, or because another rank has left. */
static void leave(world_t *w, int r, bool failed, plb_err_t *err)
{
    bool done;
    plb_stats_t mine;
    plb_stats_init(&mine);
    mine.iteration = w->step[r];
    mine.n_ended = mine.n_ranks = !failed;
    mine.failed_rank = failed ? r : INT64_MAX;
    MUST(plb_steps_leave(&w->steps[r], &mine, 0, NULL, NULL, &done, err) == PLB_OK);
    w->state[r] = done ? IS_OVER : LEAVES;
}

static void run_step(world_t *w, int r, plb_err_t *err)
{
    bool have;
    plb_stats_t mine;
    plb_iteration_t it;
    plb_steps_t *s = &w->steps[r];
    MUST(plb_steps_take(s, 0, NULL, NULL, &have, err) == PLB_OK);
    if (have && !plb_steps_broken(s) && s->all.failed_rank != INT64_MAX) {
        w->state[r] = LEAVES; /* without a lag, all ranks learn it in this step */
        return;
    }
    if (have && !plb_steps_broken(s) && s->all.n_ended == 0) {
        plb_advisor_iteration(&s->all, &it);
        /* 1e-320: the mean of subnormal loads is rounded */
        MUST(s->all.n_ranks == w->p && it.max >= it.mean * (1.0 - 1e-12) - 1e-320);
    }
    if (plb_steps_is_due(s) && !plb_steps_broken(s)) {
        return; /* the record did not come yet */
    }
    if (w->step[r] == w->n || plb_steps_broken(s)) {
        leave(w, r, false, err);
        return;
    }
    const int ret = sample(w, r, &mine, err);
    MUST(ret == PLB_OK || (ret == PLB_ERR_VALUE && err->text[0] != '\0'));
    if (ret != PLB_OK || feed_byte(w->feed) == 0) {
        leave(w, r, feed_bool(w->feed), err);
        return;
    }
    MUST(plb_steps_begin(s, &mine, err) == PLB_OK);
    w->step[r]++;
}

static void steps(world_t *w, plb_err_t *err)
{
    int n_over = 0;
    medium_init(&w->medium, w->p, w->lag + 2, is_late, w, w->reductions, MOST_REDUCTIONS);
    for (int r = 0; r < w->p; r++) {
        MUST(plb_steps_init(&w->steps[r], &w->medium.face[r], w->lag, err) == PLB_OK);
    }
    for (int i = 0; n_over < w->p; i++) {
        bool done = false, have;
        const int r = (int)feed_below(w->feed, (uint32_t)w->p);
        MUST(i < MOST_TURNS);
        if (w->state[r] == RUNS) {
            run_step(w, r, err);
        } else if (w->state[r] == LEAVES) {
            MUST(plb_steps_leave(&w->steps[r], NULL, 0, NULL, NULL, &done, err) == PLB_OK);
            w->state[r] = done ? IS_OVER : LEAVES;
        }
        n_over = 0;
        for (int k = 0; k < w->p; k++) {
            n_over += w->state[k] == IS_OVER;
        }
        MUST(w->state[r] != IS_OVER || plb_steps_under_way(&w->steps[r]) == 0);
        MUST(w->state[r] != IS_OVER ||
             (plb_steps_next(&w->steps[r], 0, NULL, NULL, &have, err) == PLB_OK && !have));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plb_err_t err = {0, ""};
    feed_t feed = feed_of(data, size);
    world_t *w = plb_calloc(1, sizeof *w);
    const uint8_t how = feed_byte(&feed);
    w->feed = &feed;
    w->p = 1 + (int)feed_below(&feed, RANKS);
    w->n = 1 + feed_below(&feed, ITERATIONS);
    w->lag = (int32_t)feed_below(&feed, 5);
    w->n_objects = (int)feed_below(&feed, OBJECTS + 1);
    w->decides = how & 2 && w->n_objects > 0;
    how & 1 ? steps(w, &err) : loop(w, &err);
    plb_free(w);
    return 0;
}
