#include "lib/advisor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ints.h"
#include "base/mem.h"
#include "lib/database.h"
#include "lib/record.h"

static const int64_t PATIENCE_NS = 10000000000; /* then say that this rank waits */

/* ---- begin ---------------------------------------------------------------------------------- */

int plb_lib_advisor_open(plb_ranks_t *ranks, pylb_advisor **out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_handle_t *handle = NULL;
    plb_lib_advisor_t *self = NULL;
    PLB_NEW0(self, 1);
    self->ranks = ranks;
    self->mark = plb_clock_real_ns(PLB_CLOCK_WALL);
    PLB_TRY(plb_settings_init(&self->settings, err));
    PLB_TRY(plb_handle_open(PLB_HANDLE_ADVISOR, self, &handle, err));
    *out = (pylb_advisor *)handle;
out:
    if (ret != PLB_OK) {
        ranks->free(ranks);
        plb_free(self);
    }
    return ret;
}

int pylb_advisor_create(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    plb_ranks_t *ranks;
    if (lb == NULL) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "lb is NULL");
    }
    *lb = NULL;
    PLB_PASS(plb_ranks_alone(&ranks, err));
    return plb_lib_advisor_open(ranks, lb, err);
}

static plb_lib_advisor_t *content_of(const pylb_advisor *lb, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)lb, PLB_HANDLE_ADVISOR, err);
}

int pylb_advisor_set(pylb_advisor *lb, const char *word, const char *value)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (word == NULL || value == NULL) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "%s is NULL", word == NULL ? "word" : "value");
    }
    return self->ready
               ? PLB_FAIL(err, PLB_ERR_STATE,
                          "%.100s is set after the first step began: expected before it", word)
               : plb_settings_set(&self->settings, word, value, err);
}

int pylb_advisor_rank(const pylb_advisor *lb, int *rank, int *n_ranks)
{
    plb_err_t *err = plb_lib_error();
    const plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (rank != NULL) {
        *rank = self->ranks->rank;
    }
    if (n_ranks != NULL) {
        *n_ranks = self->ranks->size;
    }
    return PLB_OK;
}

/* The decider of these settings, whose strategy is the code's own where there are no cells. */
static int make_decider(plb_lib_advisor_t *self, plb_err_t *err)
{
    double selection[PLB_N_SELECTION], ledger[PLB_N_LEDGER];
    const plb_settings_t *s = &self->settings;
    const plb_candidate_strategy_t candidate = {self->with_cells ? *s->strategy : plb_own_strategy,
                                                s->strategy_params};
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        selection[i] = plb_selection_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        ledger[i] = plb_ledger_params[i].fallback;
    }
    const plb_decider_options_t opt = {
        .n_ranks = self->ranks->size,
        .candidates = &candidate,
        .n = 1,
        .selection = selection,
        .ledger = ledger,
        .gives_up = plb_settings_gives_up(s),
        .seed = (uint64_t)s->seed,
    };
    PLB_PASS(plb_trigger_init(&self->trigger, s->trigger, s->trigger_params, err));
    PLB_PASS(plb_decider_init(&self->decider, &opt, &self->trigger, err));
    plb_advisor_init(&self->core, &self->decider, self->with_cells);
    return s->steps < 0 ? PLB_OK : plb_decider_expect(&self->decider, s->steps, NAN, err);
}

/* The first call that measures or ends a step. */
static int get_ready(plb_lib_advisor_t *self, plb_err_t *err)
{
    if (self->ready) {
        return PLB_OK;
    }
    self->ready = true;
    return plb_settings_environment(&self->settings, err);
}

/* The first step.  The collective part comes in any case, so that no rank waits for another that
 * has an error. */
static int begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    self->begun = true;
    self->with_cells = with_cells;
    int ret = get_ready(self, err);
    PLB_THEN(plb_settings_close(&self->settings, err));
    PLB_THEN(make_decider(self, err));
    if (ret == PLB_OK) {
        self->fingerprint = plb_settings_fingerprint(&self->settings) ^ (with_cells ? 1 : 0);
    }
    const int lag = (int)self->settings.lag;
    PLB_PASS(self->ranks->reserve(self->ranks, lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, lag, err));
    return ret;
}

/* ---- the seconds of this rank --------------------------------------------------------------- */

/* Never 0. */
static int64_t now_of(const plb_lib_advisor_t *self)
{
    if (self->settings.clock == PLB_TIMES_NONE) {
        return 1;
    }
    return plb_clock_real_ns(self->settings.clock == PLB_TIMES_CPU ? PLB_CLOCK_CPU
                                                                   : PLB_CLOCK_WALL);
}

static bool measures_nothing(const plb_lib_advisor_t *self)
{
    return self->settings.clock == PLB_TIMES_NONE;
}

int pylb_start(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (self->started != 0) {
        return PLB_FAIL(err, PLB_ERR_STATE, "pylb_start within pylb_start: expected pylb_stop");
    }
    PLB_PASS(get_ready(self, err));
    if (self->step == 0 && self->work == 0.0) {
        self->mark = plb_clock_real_ns(PLB_CLOCK_WALL); /* what came before is no step */
    }
    self->started = now_of(self);
    return PLB_OK;
}

int pylb_stop(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (self->started == 0) {
        return PLB_FAIL(err, PLB_ERR_STATE, "pylb_stop without pylb_start");
    }
    const int64_t ns = now_of(self) - self->started;
    self->work += ns > 0 ? 1e-9 * (double)ns : 0.0; /* the clock may have been set back */
    self->started = 0;
    return PLB_OK;
}

int pylb_work(pylb_advisor *lb, double seconds)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (!(seconds >= 0.0 && seconds <= 1e30)) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "seconds is %g: expected 0 ... 1e30", seconds);
    }
    self->work += seconds;
    return PLB_OK;
}

/* ---- the redistribution --------------------------------------------------------------------- */

static void begin_moving(void *arg)
{
    plb_lib_advisor_t *self = arg;
    self->moving = self->moving == 0 ? plb_clock_real_ns(PLB_CLOCK_WALL) : self->moving;
}

static void add_cost(plb_lib_advisor_t *self, int64_t ns)
{
    self->rebalanced = true;
    self->moved_ns += ns > 0 ? ns : 0;
    self->cost += ns > 0 && !measures_nothing(self) ? 1e-9 * (double)ns : 0.0;
    self->moving = 0;
}

static void end_moving(void *arg)
{
    plb_lib_advisor_t *self = arg;
    add_cost(self, plb_clock_real_ns(PLB_CLOCK_WALL) - self->moving);
}

/* A migration within pylb_rebalance_begin and _end is timed there. */
static void no_clock(void *arg)
{
    ((plb_lib_advisor_t *)arg)->rebalanced = true;
}

int pylb_rebalance_begin(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (self->moving != 0) {
        return PLB_FAIL(err, PLB_ERR_STATE,
                        "pylb_rebalance_begin within pylb_rebalance_begin: "
                        "expected pylb_rebalance_end");
    }
    begin_moving(self);
    self->plan.begin = self->plan.end = no_clock;
    return PLB_OK;
}

int pylb_rebalance_end(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (self->moving == 0) {
        return PLB_FAIL(err, PLB_ERR_STATE, "pylb_rebalance_end without pylb_rebalance_begin");
    }
    end_moving(self);
    self->plan.begin = begin_moving;
    self->plan.end = end_moving;
    return PLB_OK;
}

int pylb_rebalanced(pylb_advisor *lb, double seconds)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (!(seconds >= 0.0 && seconds <= 1e30)) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "seconds is %g: expected 0 ... 1e30", seconds);
    }
    self->rebalanced = true;
    self->cost += seconds;
    return PLB_OK;
}

/* ---- was the plan carried out? -------------------------------------------------------------- */

static bool was_exported(const plb_lib_advisor_t *self, int64_t key)
{
    const int64_t low = plb_lower_bound(self->exported, self->n_exported, key);
    return low < self->n_exported && self->exported[low] == key;
}

/* Where most cells that the plan sends away are still here, it was not carried out; where they are
 * gone, it was, also if nobody said so. */
static void look_for_exports(plb_lib_advisor_t *self, const pylb_cells *cells)
{
    int64_t here = 0;
    if (self->n_exported == 0 || cells->key == NULL) {
        return;
    }
    for (int64_t i = 0; i < cells->n; i++) {
        here += was_exported(self, cells->key[i]);
    }
    self->rebalanced = 2 * here <= self->n_exported;
    self->n_exported = 0;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static int remember_exports(plb_lib_advisor_t *self, const pylb_cells *cells, const int32_t *rank,
                            plb_err_t *err)
{
    int ret = PLB_OK;
    plb_free(self->exported);
    self->exported = NULL;
    self->n_exported = 0;
    if (cells->key != NULL) {
        PLB_NEW(self->exported, cells->n);
        for (int64_t i = 0; i < cells->n; i++) {
            if (rank[i] != self->ranks->rank) {
                self->exported[self->n_exported++] = cells->key[i];
            }
        }
        qsort(self->exported, (size_t)self->n_exported, sizeof *self->exported, by_value);
    }
out:
    return ret;
}

/* ---- a step --------------------------------------------------------------------------------- */

static void forget_step(plb_lib_advisor_t *self)
{
    self->work = self->cost = 0.0;
    self->moved_ns = 0;
    self->rebalanced = false;
}

static int sample_of(plb_lib_advisor_t *self, int64_t n_cells, plb_stats_t *out, plb_err_t *err)
{
    const int64_t now = measures_nothing(self) ? 0 : plb_clock_real_ns(PLB_CLOCK_WALL);
    const int64_t ns = now - self->mark - self->moved_ns;
    const plb_advisor_sample_t sample = {
        .iteration = self->step,
        .n_cells = n_cells,
        .seconds = self->work,
        .time = measures_nothing(self) || ns < 0 ? 0.0 : 1e-9 * (double)ns,
        .cost = self->cost,
        .rebalanced = self->rebalanced,
    };
    self->mark = now;
    PLB_PASS(plb_advisor_record(&sample, self->ranks->rank, out, err));
    out->arguments = self->fingerprint;
    return PLB_OK;
}

/* Why there are no more steps. */
static int why_broken(const plb_lib_advisor_t *self, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    if (all->failed_rank != INT64_MAX) {
        return PLB_FAIL(err, PLB_ERR_STATE, "rank %lld failed in step %lld",
                        (long long)all->failed_rank, (long long)all->iteration);
    }
    if (all->n_ended > 0) {
        return PLB_FAIL(err, PLB_ERR_STATE,
                        "%lld of %d ranks closed their advisor before step %lld of this rank",
                        (long long)all->n_ended, self->ranks->size, (long long)self->step);
    }
    return PLB_FAIL(err, PLB_ERR_STATE,
                    "the ranks are in different steps (this one in step %lld, others up to %lld), "
                    "or were told different words",
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

/* The load of this rank in a step whose record comes later. */
static int keep_load(plb_lib_advisor_t *self, double load, plb_err_t *err)
{
    int ret = PLB_OK;
    if (self->settings.record != NULL) {
        PLB_GROW(self->row, self->room, self->step + 1);
        self->row[self->step] = (plb_step_row_t){.load = load};
    }
out:
    return ret;
}

static int observe(plb_lib_advisor_t *self, plb_ask_t *ask, plb_err_t *err)
{
    const plb_stats_t *all = &self->steps.all;
    plb_iteration_t it;
    plb_advisor_iteration(all, &it);
    keep_row(self, &it, plb_exact_value(&all->idle_sum) / (double)all->n_ranks);
    const plb_advisor_outcome_t outcome = {all->cost_max, all->n_rebalanced};
    return self->settings.off
               ? PLB_OK
               : plb_advisor_observe(&self->core, &it, &outcome, self->step, false, ask, err);
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

/* No more steps: take the records that are under way.  A rank's own error comes first. */
static int end_steps(plb_lib_advisor_t *self, int failed, plb_err_t *err)
{
    const plb_err_t own = *err;
    bool done;
    self->over = true;
    PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
    *err = own;
    return failed != PLB_OK ? failed : why_broken(self, err);
}

/* Tell the others that this rank has an error: all ranks end. */
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

/* Contribute to the step and learn the record that is due. */
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
    if (self->begun && self->with_cells != with_cells) {
        return PLB_FAIL(err, PLB_ERR_STATE,
                        "%s after steps %s cells: expected the same in every "
                        "step",
                        with_cells ? "pylb_advise_cells" : "pylb_advise",
                        with_cells ? "without" : "with");
    }
    if (self->started != 0 || self->moving != 0) {
        return PLB_FAIL(err, PLB_ERR_STATE, "%s is still open: expected %s before the step ends",
                        self->started != 0 ? "pylb_start" : "pylb_rebalance_begin",
                        self->started != 0 ? "pylb_stop" : "pylb_rebalance_end");
    }
    return PLB_OK;
}

/* All but the plan.  `failed`: the code of an error that this rank had in its arguments. */
static int step(plb_lib_advisor_t *self, int64_t n_cells, bool with_cells, int failed,
                plb_ask_t *ask, plb_err_t *err)
{
    *ask = PLB_ASK_NOTHING;
    if (self->over) {
        return PLB_FAIL(err, PLB_ERR_STATE,
                        "there are no more steps: a rank has failed, left or "
                        "was elsewhere");
    }
    if (failed == PLB_OK) {
        failed = check_step(self, with_cells, err);
    }
    if (!self->begun) {
        const int begun = begin(self, with_cells, err);
        failed = failed == PLB_OK ? begun : failed;
        if (self->steps.net == NULL) {
            self->over = true;
            return failed;
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
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    plb_ask_t ask;
    if (self == NULL) {
        return err->code;
    }
    const int failed =
        rebalance == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "rebalance is NULL") : PLB_OK;
    PLB_PASS(step(self, 0, false, failed, &ask, err));
    *rebalance = ask == PLB_ASK_BALANCE;
    forget_step(self);
    return PLB_OK;
}

/* ---- where to ------------------------------------------------------------------------------- */

static int make_plan(plb_lib_advisor_t *self, const pylb_cells *cells, plb_err_t *err)
{
    plb_answer_t a;
    int ret =
        plb_database_place(self->ranks, &self->decider, cells, !measures_nothing(self), &a, err);
    PLB_THEN(plb_advisor_placed(&self->core, &a.placing, a.speed, a.migrations, a.bytes, err));
    if (ret != PLB_OK) {
        plb_advisor_abandon(&self->core);
    } else if (a.migrations > 0) {
        ret = plb_plan_init(&self->plan, self->ranks, a.rank, cells->n, a.receive, a.migrations,
                            err);
        PLB_THEN(remember_exports(self, cells, a.rank, err));
        self->plan.begin = begin_moving;
        self->plan.end = end_moving;
        self->plan.arg = self;
    }
    plb_answer_free(&a);
    return ret;
}

int pylb_advise_cells(pylb_advisor *lb, const pylb_cells *cells, pylb_plan **plan)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    plb_ask_t ask;
    double sum = 0.0;
    if (self == NULL) {
        return err->code;
    }
    plb_plan_free(&self->plan);
    int ret = plan == NULL ? PLB_FAIL(err, PLB_ERR_VALUE, "plan is NULL") : PLB_OK;
    PLB_THEN(plb_cells_check(cells, err));
    PLB_THEN(plb_advisor_load(cells->load, cells->n, &sum, err));
    if (ret == PLB_OK) {
        self->work = sum;
        look_for_exports(self, cells);
    }
    PLB_PASS(step(self, ret == PLB_OK ? cells->n : 0, true, ret, &ask, err));
    *plan = NULL;
    if (ask == PLB_ASK_BALANCE) {
        ret = make_plan(self, cells, err);
        *plan = self->plan.ranks == NULL ? NULL : &self->plan;
    }
    forget_step(self);
    return ret;
}

/* ---- what was decided ----------------------------------------------------------------------- */

int pylb_advisor_counts(const pylb_advisor *lb, int64_t *decisions, int64_t *lb_steps)
{
    plb_err_t *err = plb_lib_error();
    const plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (decisions != NULL) {
        *decisions = self->decider.n_receipts;
    }
    if (lb_steps != NULL) {
        *lb_steps = self->decider.n_balancings;
    }
    return PLB_OK;
}

int pylb_advisor_receipt(pylb_advisor *lb, int64_t i, pylb_receipt *receipt)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = content_of(lb, err);
    if (self == NULL) {
        return err->code;
    }
    if (receipt == NULL || i < 0 || i >= self->decider.n_receipts) {
        return PLB_FAIL(err, receipt == NULL ? PLB_ERR_VALUE : PLB_ERR_RANGE,
                        receipt == NULL ? "receipt is NULL" : "i is %lld: expected 0 ... %lld",
                        (long long)i, (long long)self->decider.n_receipts - 1);
    }
    PLB_PASS(plb_advisor_weigh(&self->core, err));
    const plb_receipt_t *r = &self->decider.receipts[i];
    const bool done = r->kind == PLB_DECISION_BALANCE || r->kind == PLB_DECISION_SPEEDS;
    *receipt = (pylb_receipt){
        .iteration = r->iteration,
        .rebalanced = done,
        .strategy = r->strategy < 0 ? "" : self->decider.candidates[r->strategy].strategy.name,
        .reason = r->kind == PLB_DECISION_OFF ? "LB steps have cost more than they saved lately"
                                              : plb_reason_words(r->verdict.reason),
        .max = r->max,
        .mean = r->mean,
        .before = r->placing.before,
        .predicted = r->placing.predicted,
        .cost = r->cost,
        .gain = r->gain,
        .migrations = r->migrations,
    };
    return PLB_OK;
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Contribute for the last time; take the records that are still under way. */
static int leave(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_stats_t mine;
    plb_ask_t ask;
    bool have = true, done;
    plb_stats_init(&mine);
    mine.iteration = self->step;
    mine.arguments = self->fingerprint;
    mine.n_ended = mine.n_ranks = 1;
    PLB_PASS(plb_steps_begin(&self->steps, &mine, err));
    while (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
        PLB_PASS(plb_steps_next(&self->steps, -1, NULL, NULL, &have, err));
        if (have && !plb_steps_broken(&self->steps) && self->steps.all.n_ended == 0) {
            PLB_PASS(observe(self, &ask, err));
            plb_advisor_abandon(&self->core); /* no LB step comes of it */
        }
    }
    const bool broken = plb_steps_broken(&self->steps);
    PLB_PASS(plb_steps_leave(&self->steps, NULL, -1, NULL, NULL, &done, err));
    return broken ? why_broken(self, err) : PLB_OK;
}

static void free_content(plb_lib_advisor_t *self)
{
    plb_plan_free(&self->plan);
    plb_decider_free(&self->decider);
    plb_trigger_free(&self->trigger);
    plb_settings_free(&self->settings);
    PLB_FREE(self->exported, self->row);
    self->ranks->free(self->ranks);
    plb_free(self);
}

int plb_lib_advisor_close(plb_handle_t *handle, plb_err_t *err)
{
    plb_lib_advisor_t *self = handle->content;
    int ret = PLB_OK;
    if (self->begun && !self->over) {
        ret = leave(self, err);
        PLB_THEN(plb_lib_record_write(self, err));
    }
    plb_handle_close(handle);
    free_content(self);
    return ret;
}

int pylb_advisor_close(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    if (lb == NULL || *lb == NULL) {
        return PLB_OK;
    }
    if (content_of(*lb, err) == NULL) {
        return err->code;
    }
    const int ret = plb_lib_advisor_close((plb_handle_t *)*lb, err);
    *lb = NULL;
    return ret;
}
