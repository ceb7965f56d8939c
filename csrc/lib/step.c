/* The end of a step: all ranks reduce their statistics to one record, and learn what to do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ints.h"
#include "base/mem.h"
#include "lib/advisor.h"
#include "lib/database.h"

/* A rank that waits longer than this prints a line. */
static const int64_t PATIENCE_NS = 10000000000;

/* ---- was the plan carried out? -------------------------------------------------------------- */

static bool was_exported(const plb_lib_advisor_t *self, int64_t key)
{
    const int64_t low = plb_lower_bound(self->exported, self->n_exported, key);
    return low < self->n_exported && self->exported[low] == key;
}

static void forget_exports(plb_lib_advisor_t *self)
{
    plb_free(self->exported);
    self->exported = NULL;
    self->n_exported = 0;
}

/* A rank without cells may have no array of keys. */
static bool has_keys(const pylb_cells *cells)
{
    return cells->key != NULL || cells->n == 0;
}

/* Check by the cells' keys whether this rank has carried out the plan: see pylb_rebalanced.  A
 * rank that had nothing to send does not know it. */
static void check_exports(plb_lib_advisor_t *self, const pylb_cells *cells)
{
    if (self->exported != NULL && has_keys(cells)) {
        int64_t here = 0;
        for (int64_t i = 0; i < cells->n; i++) {
            here += was_exported(self, cells->key[i]);
        }
        self->rebalanced = self->n_exported > 0 && 2 * here <= self->n_exported;
    }
    forget_exports(self);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int remember_exports(plb_lib_advisor_t *self, const pylb_cells *cells, const int32_t *rank,
                            plb_err_t *err)
{
    forget_exports(self);
    if (has_keys(cells)) {
        PLB_PASS_NEW(self->exported, cells->n);
        for (int64_t i = 0; i < cells->n; i++) {
            if (rank[i] != self->ranks->rank) {
                self->exported[self->n_exported++] = cells->key[i];
            }
        }
        qsort(self->exported, (size_t)self->n_exported, sizeof *self->exported, by_value);
    }
    return PLB_OK;
}

/* ---- a step --------------------------------------------------------------------------------- */

/* End the steps of this rank: a rank that waits for it in a gather or exchange gets an error. */
static int end(plb_lib_advisor_t *self, plb_err_t *err)
{
    self->over = true;
    return self->ranks->leave(self->ranks, err);
}

static void forget_step(plb_lib_advisor_t *self)
{
    self->work = self->cost = 0.0;
    self->moved_ns = 0;
    self->rebalanced = false;
}

static int sample_of(plb_lib_advisor_t *self, int64_t n_cells, plb_stats_t *out, plb_err_t *err)
{
    const int64_t now = plb_lib_measures_nothing(self) ? 0 : plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t ns = now - self->mark - self->moved_ns;
    const plb_advisor_sample_t sample = {
        .iteration = self->step,
        .n_cells = n_cells,
        .seconds = self->work,
        .time = plb_lib_measures_nothing(self) || ns < 0 ? 0.0 : 1e-9 * (double)ns,
        .cost = self->cost,
        .rebalanced = self->rebalanced,
    };
    self->mark = now;
    PLB_PASS(plb_advisor_record(&sample, self->ranks->rank, out, err));
    out->arguments = self->fingerprint;
    return PLB_OK;
}

static int why_broken(const plb_lib_advisor_t *self, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    PLB_FAIL_IF(all->failed_rank != INT64_MAX, err, PLB_ERR_STATE, "rank %lld failed in step %lld",
                (long long)all->failed_rank, (long long)all->iteration);
    PLB_FAIL_IF(all->n_ended > 0, err, PLB_ERR_STATE,
                "%lld of %d ranks closed their advisor before step %lld of this rank",
                (long long)all->n_ended, self->ranks->size, (long long)self->step);
    return PLB_FAIL(err, PLB_ERR_STATE,
                    "the ranks are in different steps (this one in step %lld, others up to %lld), "
                    "or were given different options",
                    (long long)self->step, (long long)all->iteration);
}

static void keep_row(plb_lib_advisor_t *self, const plb_iteration_t *it, double idle)
{
    if (self->settings.record != NULL) {
        plb_step_row_t *row = &self->row[self->n_rows++];
        *row = (plb_step_row_t){it->time,        it->max, it->mean, idle,
                                it->utilization, it->min, row->load};
    }
}

/* Keep the load of this rank in this step until the statistics of all ranks are known. */
static int keep_load(plb_lib_advisor_t *self, double load, plb_err_t *err)
{
    if (self->settings.record != NULL) {
        PLB_PASS_GROW(self->row, self->room, self->step + 1);
        self->row[self->step] = (plb_step_row_t){.load = load};
    }
    return PLB_OK;
}

/* Estimate the cost of the first LB step if pylb chooses the strategy, like Python's Advisor.  If
 * nothing is measured, it is that of the messages; without a network, it is not known. */
static int foresee(plb_lib_advisor_t *self, plb_err_t *err)
{
    double cost;
    const plb_settings_t *s = &self->settings;
    if (self->n_observed++ > 0 || self->cells == NULL || !self->decider.opt.selects || s->off) {
        return PLB_OK;
    }
    PLB_PASS(plb_database_rehearse(self->ranks, &s->network, self->cells,
                                   !plb_lib_measures_nothing(self), &cost, err));
    return plb_decider_expect(&self->decider, s->steps < 0 ? INT64_MAX : s->steps,
                              cost > 0.0 ? cost : NAN, NAN, err);
}

/* Say once, on rank 0, that waiting is counted as work. */
static void say_waiting(plb_lib_advisor_t *self)
{
    plb_wait_check_t *waiting = &self->core.waiting;
    const bool before = waiting->noticed;
    plb_wait_check_observe(waiting, &self->steps.all, self->steps.all.time_max);
    if (waiting->noticed && !before && self->ranks->rank == 0) {
        fprintf(stderr, "pylb: %s\n", plb_wait_check_words);
    }
}

static int ask_decider(plb_lib_advisor_t *self, plb_ask_t *ask, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    plb_iteration_t it;
    *ask = PLB_ASK_NOTHING;
    plb_advisor_iteration(all, &it);
    say_waiting(self);
    keep_row(self, &it, plb_exact_value(&all->idle_sum) / (double)all->n_ranks);
    PLB_PASS(foresee(self, err));
    if (self->settings.off) {
        return PLB_OK;
    }
    const plb_advisor_outcome_t outcome = {all->cost_max, all->n_rebalanced};
    const bool may_preview = self->cells != NULL;
    PLB_PASS(plb_advisor_observe(&self->core, &it, &outcome, self->step, may_preview, ask, err));
    if (*ask != PLB_ASK_PREVIEW) {
        return PLB_OK;
    }
    double gain = 0.0;
    PLB_PASS(plb_database_preview(self->ranks, &self->decider, self->cells, &gain, err));
    return plb_advisor_previewed(&self->core, gain, self->step, ask, err);
}

/* The answer of a rank's trigger, sent as the length (0, 1 or 2 bytes) of a message: the gather's
 * sizes then tell every rank all answers. */
enum { GO_ON, LB_STEP, FAILED };

/* Compare the answers of all ranks.  Collective. */
static int same_answer(plb_lib_advisor_t *self, int64_t mine, plb_err_t *err)
{
    static const char nothing[FAILED];
    static const char *const words[] = {"no LB step", "an LB step"};
    char *all = NULL;
    const int64_t *answer = self->ranks->sizes;
    int ret = self->ranks->gather(self->ranks, nothing, mine, &all, err);
    plb_free(all);
    for (int r = 0; ret == PLB_OK && r < self->ranks->size; r++) {
        if (answer[r] == FAILED) {
            ret = PLB_FAIL(err, PLB_ERR_CALLBACK, "the trigger has failed on rank %d in step %lld",
                           r, (long long)self->step);
        }
    }
    for (int r = 1; ret == PLB_OK && r < self->ranks->size; r++) {
        if (answer[r] != answer[0]) {
            ret =
                PLB_FAIL(err, PLB_ERR_VALUE,
                         "the trigger answers differently in step %lld: %s on rank 0, %s on "
                         "rank %d; expected the same on all ranks, computed from the cycle alone",
                         (long long)self->step, words[answer[0]], words[answer[r]], r);
        }
    }
    return ret;
}

/* Ask the decider.  If the trigger is a function of the program, also compare the answers of all
 * ranks: ranks with different answers would wait for each other forever.  Collective. */
static int observe(plb_lib_advisor_t *self, plb_ask_t *ask, plb_err_t *err)
{
    int ret = ask_decider(self, ask, err);
    if (!self->asks) {
        return ret;
    }
    const plb_err_t own = *err;
    const int said = same_answer(self,
                                 ret != PLB_OK             ? FAILED
                                 : *ask == PLB_ASK_BALANCE ? LB_STEP
                                                           : GO_ON,
                                 err);
    if (said != PLB_OK) {
        bool done;
        *err = ret != PLB_OK ? own : *err;
        ret = ret != PLB_OK ? ret : said;
        const plb_err_t why = *err;
        PLB_PASS(end(self, err));
        PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
        *err = why;
    }
    return ret;
}

static int wait_for_record(plb_lib_advisor_t *self, bool *have, plb_err_t *err)
{
    PLB_PASS(plb_steps_take(&self->steps, PATIENCE_NS, NULL, NULL, have, err));
    if (!*have && plb_steps_is_due(&self->steps)) {
        fprintf(stderr, "pylb: rank %d has waited 10 s for the other ranks in step %lld\n",
                self->ranks->rank, (long long)self->step);
        PLB_PASS(plb_steps_take(&self->steps, -1, NULL, NULL, have, err));
    }
    return PLB_OK;
}

/* End the steps of this rank, and complete the reductions under way.  Return `failed`, if it is an
 * error of this rank, else the error that ended the steps. */
static int end_steps(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    const plb_err_t own = *err;
    bool done;
    PLB_PASS(end(self, err));
    PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
    *err = own;
    return failed != PLB_OK ? failed : why_broken(self, err);
}

/* Tell the other ranks that this rank has an error, so that all ranks end their steps. */
static int tell_failure(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    plb_stats_t mine;
    const plb_err_t own = *err;
    plb_stats_init(&mine);
    mine.iteration = self->step;
    mine.failed_rank = self->ranks->rank;
    mine.arguments = self->fingerprint;
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    *err = own;
    return end_steps(self, failed, err);
}

static int exchange(plb_lib_advisor_t *self, int64_t n_cells, int failed, plb_ask_t *ask,
                    plb_err_t *err)
{
    plb_stats_t mine;
    bool have = false;
    if (failed == PLB_OK) {
        failed = sample_of(self, n_cells, &mine, err);
    }
    if (failed != PLB_OK) {
        return tell_failure(self, failed, err);
    }
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    PLB_PASS(wait_for_record(self, &have, err));
    if (plb_steps_broken(&self->steps)) {
        return end_steps(self, PLB_OK, err);
    }
    return have ? observe(self, ask, err) : PLB_OK;
}

static int check_step(const plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    PLB_FAIL_IF(self->begun && self->with_cells != with_cells, err, PLB_ERR_STATE,
                "%s was called after steps %s cells: expected the same call in every "
                "step",
                with_cells ? "pylb_advise_cells" : "pylb_advise", with_cells ? "without" : "with");
    PLB_FAIL_IF(self->started != 0 || self->moving != 0, err, PLB_ERR_STATE,
                "%s is still open: expected %s before the step ends",
                self->started != 0 ? "pylb_start" : "pylb_rebalance_begin",
                self->started != 0 ? "pylb_stop" : "pylb_rebalance_end");
    return PLB_OK;
}

/* End a step, without making a plan.  failed: PLB_OK, or an error in this rank's arguments. */
static int step(plb_lib_advisor_t *self, int64_t n_cells, bool with_cells, int failed,
                plb_ask_t *ask, plb_err_t *err)
{
    *ask = PLB_ASK_NOTHING;
    PLB_FAIL_IF(self->over, err, PLB_ERR_STATE,
                "there are no more steps: a rank has failed or left, or "
                "the ranks were in different steps");
    if (failed == PLB_OK) {
        failed = check_step(self, with_cells, err);
    }
    if (!self->begun) {
        const int begun = plb_lib_advisor_begin(self, with_cells, err);
        failed = failed == PLB_OK ? begun : failed;
        if (self->steps.net == NULL) {
            const plb_err_t own = *err;
            PLB_PASS(end(self, err));
            *err = own;
            return failed;
        }
        if (self->ranks->rank == 0 && *self->crowd.words != '\0') {
            fprintf(stderr, "pylb: %s and wait for one another\n", self->crowd.words);
        }
    }
    if (failed == PLB_OK) {
        failed = keep_load(self, self->work, err);
    }
    const int ret = exchange(self, n_cells, failed, ask, err);
    self->step++;
    return ret;
}

int pylb_advise(pylb_advisor *lb, int *rebalance)
{
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    const int failed =
        rebalance == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "rebalance is NULL") : PLB_OK;
    PLB_PASS(step(self, 0, false, failed, &ask, err));
    *rebalance = ask == PLB_ASK_BALANCE;
    forget_step(self);
    return PLB_OK;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Make this rank's part of the plan.  If nothing migrates, there is no plan. */
static int plan_of(plb_lib_advisor_t *self, const pylb_cells *cells, const plb_placed_t *a,
                   plb_err_t *err)
{
    PLB_PASS(plb_advisor_placed(&self->core, &a->placing, a->speed, a->migrations, a->bytes, err));
    if (a->migrations == 0) {
        return PLB_OK;
    }
    PLB_PASS(plb_plan_init(&self->plan, self->ranks, a->rank, cells->n, a->receive, a->migrations,
                           err));
    self->plan.begin = plb_lib_begin_moving;
    self->plan.end = plb_lib_end_moving;
    self->plan.arg = self;
    return remember_exports(self, cells, a->rank, err);
}

/* Make the plan.  If one rank fails, all ranks get an error, and no rank has a plan. */
static int make_plan(plb_lib_advisor_t *self, const pylb_cells *cells, plb_err_t *err)
{
    plb_placed_t a;
    int ret = plb_database_place(self->ranks, &self->decider, cells,
                                 !plb_lib_measures_nothing(self), &a, err);
    if (ret == PLB_OK) { /* on all ranks */
        ret = self->ranks->agree(self->ranks, plan_of(self, cells, &a, err), err);
    }
    if (ret != PLB_OK) {
        plb_advisor_abandon(&self->core);
        plb_plan_free(&self->plan);
        forget_exports(self);
    }
    plb_placed_free(&a);
    return ret;
}

int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan)
{
    if (plan != NULL) {
        *plan = NULL; /* also for a program that goes on after an error */
    }
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    double sum = 0.0;
    plb_plan_free(&self->plan);
    int ret = plan == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "plan is NULL") : PLB_OK;
    PLB_THEN(plb_cells_check(cells, err));
    PLB_THEN(plb_advisor_load(cells->load, cells->n, &sum, err));
    if (ret == PLB_OK) {
        self->work = sum;
        check_exports(self, cells);
    }
    self->cells = cells;
    ret = step(self, ret == PLB_OK ? cells->n : 0, true, ret, &ask, err);
    self->cells = NULL;
    PLB_PASS(ret);
    if (ask == PLB_ASK_BALANCE) {
        ret = make_plan(self, cells, err);
    }
    if (ret == PLB_OK) {
        *plan = self->plan.ranks == NULL ? NULL : &self->plan;
    }
    forget_step(self);
    return ret;
}

/* ---- the end -------------------------------------------------------------------------------- */

int plb_lib_advisor_begin_leaving(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_stats_t mine;
    if (self->leaves) {
        return PLB_OK;
    }
    self->leaves = true;
    plb_stats_init(&mine);
    mine.iteration = self->step;
    mine.arguments = self->fingerprint;
    mine.n_ended = mine.n_ranks = 1;
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    return self->ranks->leave(self->ranks, err);
}

/* Take the next record, although it is not due. */
static int next_record(plb_lib_advisor_t *self, bool *have, plb_err_t *err)
{
    PLB_PASS(plb_steps_next(&self->steps, PATIENCE_NS, NULL, NULL, have, err));
    if (!*have && plb_steps_under_way(&self->steps) > 0) {
        fprintf(stderr,
                "pylb: rank %d has waited 10 s for the other ranks to close an advisor before "
                "step %lld: all ranks must close several advisors in the same order\n",
                self->ranks->rank, (long long)self->step);
        PLB_PASS(plb_steps_next(&self->steps, -1, NULL, NULL, have, err));
    }
    return PLB_OK;
}

int plb_lib_advisor_leave(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_ask_t ask;
    bool have = true, done;
    int ret = PLB_OK;
    PLB_PASS(plb_lib_advisor_begin_leaving(self, err));
    while (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
        PLB_PASS(next_record(self, &have, err));
        if (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
            /* no same_answer(): answers have no effect here, and other ranks may make steps */
            PLB_THEN(ask_decider(self, &ask, err));
            plb_advisor_abandon(&self->core); /* cancel an LB step that is due */
        }
    }
    PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
    return ret == PLB_OK && plb_steps_broken(&self->steps) ? why_broken(self, err) : ret;
}
