/* The end of a step: all ranks reduce their statistics to one record, and learn what to do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ints.h"
#include "base/mem.h"
#include "lib/internal.h"

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

/* Return whether this rank has carried out the plan, by the cells' keys: see pylb_rebalanced.  A
 * rank that had nothing to send does not know it. */
static bool has_exported(const plb_lib_advisor_t *self, const pylb_cells *cells)
{
    int64_t here = 0;
    if (self->exported == NULL || cells == NULL || !has_keys(cells)) {
        return self->rebalanced;
    }
    for (int64_t i = 0; i < cells->n; i++) {
        here += was_exported(self, cells->key[i]);
    }
    return self->n_exported > 0 && 2 * here <= self->n_exported;
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
    plb_plan_free(&self->plan);
    return self->ranks->leave(self->ranks, err);
}

/* What was measured in a step belongs to it once all ranks have ended it. */
static void forget_step(plb_lib_advisor_t *self)
{
    self->step++;
    self->mark = self->now;
    self->work = self->cost = 0.0;
    self->moved_ns = 0;
    self->rebalanced = self->told = false;
}

/* Make this rank's record of the step, whose load is `work` seconds.  Changes only self->now, and
 * the row of this step. */
static int sample_of(plb_lib_advisor_t *self, double work, plb_stats_t *out, plb_err_t *err)
{
    const pylb_cells *cells = self->cells;
    self->now = plb_lib_measures_nothing(self) ? 0 : plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t ns = self->now - self->mark - self->moved_ns;
    const plb_advisor_sample_t sample = {
        .iteration = self->step,
        .n_cells = cells == NULL ? 0 : cells->n,
        .seconds = work,
        .time = plb_lib_measures_nothing(self) || ns < 0 ? 0.0 : 1e-9 * (double)ns,
        .cost = self->cost,
        .rebalanced = has_exported(self, cells),
    };
    PLB_PASS(plb_advisor_record(&sample, self->ranks->rank, out, err));
    out->arguments = self->fingerprint;
    if (self->settings.record != NULL) {
        PLB_PASS_GROW(self->row, self->room, self->step + 1);
        self->row[self->step] = (plb_step_row_t){.load = work};
    }
    return PLB_OK;
}

void plb_lib_say_late(void *arg)
{
    const plb_lib_advisor_t *self = arg;
    fprintf(stderr, "pylb: rank %d has waited 10 s for the other ranks in step %lld\n",
            self->ranks->rank, (long long)self->step);
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

/* Complete the reductions under way. */
static int complete(plb_lib_advisor_t *self, plb_err_t *err)
{
    bool done;
    PLB_PASS(plb_steps_leave(&self->steps, NULL, PLB_WAIT_PATIENCE_NS, NULL, NULL, &done, err));
    if (!done) {
        plb_lib_say_late(self);
        PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
    }
    return PLB_OK;
}

/* End the steps of this rank, and complete the reductions under way.  Return `failed`, if it is an
 * error of this rank, else the error that ended the steps. */
static int end_steps(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    const plb_err_t own = *err;
    PLB_PASS(end(self, err));
    PLB_PASS(complete(self, err));
    *err = own;
    return failed != PLB_OK ? failed : why_broken(self, err);
}

static void keep_row(plb_lib_advisor_t *self, const plb_iteration_t *it, double idle)
{
    if (self->settings.record != NULL) {
        plb_step_row_t *row = &self->row[self->n_rows++];
        *row = (plb_step_row_t){it->time,        it->max, it->mean, idle,
                                it->utilization, it->min, row->load};
    }
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
    const int ret = self->ranks->gather(self->ranks, nothing, mine, &all, err);
    plb_free(all);
    PLB_PASS(ret);
    for (int r = 0; r < self->ranks->size; r++) {
        PLB_FAIL_IF(answer[r] == FAILED, err, PLB_ERR_CALLBACK,
                    "the trigger has failed on rank %d in step %lld", r, (long long)self->step);
    }
    for (int r = 1; r < self->ranks->size; r++) {
        PLB_FAIL_IF(answer[r] != answer[0], err, PLB_ERR_VALUE,
                    "the trigger answers differently in step %lld: %s on rank 0, %s on "
                    "rank %d; expected the same on all ranks, computed from the cycle alone",
                    (long long)self->step, words[answer[0]], words[answer[r]], r);
    }
    return PLB_OK;
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
        *err = ret != PLB_OK ? own : *err;
        ret = end_steps(self, ret != PLB_OK ? ret : said, err);
    }
    return ret;
}

static int wait_for_record(plb_lib_advisor_t *self, bool *have, plb_err_t *err)
{
    PLB_PASS(plb_steps_take(&self->steps, PLB_WAIT_PATIENCE_NS, NULL, NULL, have, err));
    if (!*have && plb_steps_is_due(&self->steps)) {
        plb_lib_say_late(self);
        PLB_PASS(plb_steps_take(&self->steps, -1, NULL, NULL, have, err));
    }
    return PLB_OK;
}

/* Reduce the records of all ranks.  failed: PLB_OK, or an error of this rank in this step; then
 * all ranks get an error, and the step has not ended.  With a lag, the steps are over instead,
 * because the other ranks are already in later ones. */
static int exchange(plb_lib_advisor_t *self, double work, int failed, bool *have, plb_err_t *err)
{
    plb_stats_t mine;
    failed = failed == PLB_OK ? sample_of(self, work, &mine, err) : failed;
    const plb_err_t own = *err;
    if (failed != PLB_OK) {
        plb_stats_init(&mine);
        mine.iteration = self->step;
        mine.failed_rank = self->ranks->rank;
        mine.arguments = self->fingerprint;
        mine.n_ended = self->over;
    }
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    if (failed == PLB_OK || self->steps.lag == 0) { /* with a lag, end_steps waits */
        PLB_PASS(wait_for_record(self, have, err));
    }
    *err = own;
    const bool fatal = self->over || self->steps.lag > 0;
    if (plb_steps_broken(&self->steps) || (failed != PLB_OK && fatal)) {
        return end_steps(self, failed, err);
    }
    PLB_FAIL_IF(failed == PLB_OK && *have && self->steps.all.failed_rank != INT64_MAX, err,
                PLB_ERR_VALUE, "rank %lld failed in step %lld: expected no error on any rank",
                (long long)self->steps.all.failed_rank, (long long)self->step);
    return failed;
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

/* ---- the calls that end a step -------------------------------------------------------------- */

/* End a step, and make the plan if one is due.  self->cells: the cells of this rank; work: its
 * seconds; failed: PLB_OK, or an error in its arguments.  If this fails before all ranks have
 * ended the step, nothing has changed. */
static int step(plb_lib_advisor_t *self, double work, bool with_cells, int failed, plb_ask_t *ask,
                plb_err_t *err)
{
    bool have = false;
    *ask = PLB_ASK_NOTHING;
    PLB_FAIL_IF(self->over, err, PLB_ERR_STATE,
                "there are no more steps: a rank has failed or left, or "
                "the ranks were in different steps");
    if (failed == PLB_OK) {
        failed = check_step(self, with_cells, err);
    }
    const bool measures = self->begun && plb_lib_measures_work(self);
    const int64_t now = plb_clock_real_ns(measures ? self->clock : PLB_CLOCK_MPI);
    if (!self->begun) {
        const plb_err_t own = *err;
        const int begun = plb_lib_advisor_begin(self, with_cells, err);
        self->over = begun != PLB_OK;
        if (self->steps.net == NULL) {
            const plb_err_t why = *err;
            PLB_PASS(end(self, err));
            *err = why;
            return begun;
        }
        *err = begun == PLB_OK ? own : *err;
        failed = begun == PLB_OK ? failed : begun;
        if (self->ranks->rank == 0 && *self->crowd.words != '\0') {
            fprintf(stderr, "pylb: %s and wait for one another\n", self->crowd.words);
        }
    }
    if (!with_cells && !self->told && plb_lib_measures_work(self)) {
        work = 1e-9 * (double)(now - self->worked);
    }
    PLB_PASS(exchange(self, work, failed, &have, err));
    forget_exports(self);
    plb_plan_free(&self->plan);
    int ret = have ? observe(self, ask, err) : PLB_OK;
    if (ret == PLB_OK && *ask == PLB_ASK_BALANCE && with_cells) {
        ret = make_plan(self, self->cells, err);
    }
    forget_step(self);
    plb_lib_begin_work(self);
    return ret;
}

int pylb_advise(pylb_advisor *lb, int *rebalance)
{
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    const int failed =
        rebalance == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "rebalance is NULL") : PLB_OK;
    PLB_PASS(step(self, self->work, false, failed, &ask, err));
    *rebalance = ask == PLB_ASK_BALANCE;
    return PLB_OK;
}

static int check_cells(const pylb_cells *cells, pylb_plan **plan, double *sum, plb_err_t *err)
{
    PLB_FAIL_IF(plan == NULL, err, PLB_ERR_VALUE, "plan is NULL");
    PLB_PASS(plb_cells_check(cells, err));
    return plb_advisor_load(cells->load, cells->n, sum, err);
}

int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan)
{
    if (plan != NULL) {
        *plan = NULL; /* also for a program that goes on after an error */
    }
    PLB_LIB_BEGIN(self, err, lb);
    plb_ask_t ask;
    double sum = 0.0;
    int ret = check_cells(cells, plan, &sum, err);
    self->cells = ret == PLB_OK ? cells : NULL;
    ret = step(self, sum, true, ret, &ask, err);
    self->cells = NULL;
    if (ret == PLB_OK) {
        *plan = self->plan.ranks == NULL ? NULL : &self->plan;
    }
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
    PLB_PASS(plb_steps_next(&self->steps, PLB_WAIT_PATIENCE_NS, NULL, NULL, have, err));
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
    bool have = true;
    int ret = PLB_OK;
    PLB_PASS(plb_lib_advisor_begin_leaving(self, err));
    while (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
        PLB_PASS(next_record(self, &have, err));
        if (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
            /* no same_answer(): answers have no effect here, and other ranks may make steps */
            ret = ret != PLB_OK ? ret : ask_decider(self, &ask, err);
            plb_advisor_abandon(&self->core); /* cancel an LB step that is due */
        }
    }
    PLB_PASS(complete(self, err));
    return ret == PLB_OK && plb_steps_broken(&self->steps) ? why_broken(self, err) : ret;
}
