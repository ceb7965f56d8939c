#include "replay/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* ---- begin and end -------------------------------------------------------------------------- */

static plb_phases_options_t options_of(const plb_replay_opts_t *opts)
{
    const plb_decider_t *d = opts->decider;
    unsigned looks_at = 0;
    for (int32_t i = 0; d != NULL && i < d->opt.n; i++) {
        looks_at |= d->candidates[i].strategy.looks_at;
    }
    return (plb_phases_options_t){
        .n_ranks = opts->n_ranks,
        .as_recorded = opts->as_recorded,
        .own_loads = opts->foresight || opts->advisor != NULL,
        .estimates = d != NULL && opts->advisor == NULL,
        .learns = d != NULL && d->opt.learns && opts->advisor == NULL,
        .one_by_one = opts->lag > 0,
        .edges = (looks_at & PLB_LOOKS_COMM) != 0,
        .crossing = d != NULL && d->opt.selects && plb_network_costs(d->opt.network),
        .network = opts->network,
    };
}

int plb_replay_init(plb_replay_t *self, const plb_replay_opts_t *opts, plb_err_t *err)
{
    *self = (plb_replay_t){.opt = *opts, .moves_at = -1};
    int ret = PLB_OK;
    PLB_FAIL_IF(opts->n_ranks < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more",
                (int)opts->n_ranks);
    const plb_phases_options_t options = options_of(opts);
    PLB_TRY(plb_phases_init(&self->phases, &options, err));
    PLB_NEW(self->speed, opts->n_ranks);
    PLB_NEW(self->late, opts->lag + 1);
    if (opts->advisor != NULL) {
        opts->advisor->price = opts->cost;
        opts->advisor->stays = !opts->moves;
    }
out:
    if (ret != PLB_OK) {
        plb_replay_free(self);
    }
    return ret;
}

void plb_replay_free(plb_replay_t *self)
{
    plb_phases_free(&self->phases);
    PLB_FREE(self->metrics, self->seconds, self->rank, self->times, self->answer, self->speed,
             self->late);
    *self = (plb_replay_t){0};
}

static int make_room(plb_replay_t *self, const plb_trace_t *t, plb_err_t *err)
{
    const int64_t n = self->n - self->first + t->n_phases,
                  tasks = self->tasks + t->task_ptr[t->n_phases];
    if (n > self->room) {
        const int64_t room = n > 2 * self->room ? n : 2 * self->room;
        PLB_PASS_RENEW_EACH(room, self->metrics, self->seconds);
        if (self->opt.keep_times) {
            PLB_PASS_RENEW(self->times, room * self->opt.n_ranks);
        }
        self->room = room;
    }
    if (self->opt.keep_ranks) {
        PLB_PASS_GROW(self->rank, self->room_of_tasks, tasks + 1);
    }
    return PLB_OK;
}

void plb_replay_forget(plb_replay_t *self, int64_t before)
{
    const int64_t gone = before - self->first, left = self->n - before;
    if (self->times == NULL && gone > 0) {
        memmove(self->metrics, self->metrics + gone, (size_t)left * sizeof *self->metrics);
        memmove(self->seconds, self->seconds + gone, (size_t)left * sizeof *self->seconds);
        self->first = before;
    }
}

/* ---- an LB step ----------------------------------------------------------------------------- */

static const plb_measured_step_t *measured_step(const plb_replay_t *self, int32_t strategy,
                                                int64_t migrations)
{
    const int64_t iteration = self->opt.decider->seen.iteration;
    for (int64_t i = 0; i < self->opt.n_steps; i++) {
        const plb_measured_step_t *s = &self->opt.steps[i];
        if (s->iteration == iteration && s->strategy == strategy && s->migrations == migrations) {
            return s;
        }
    }
    return NULL;
}

/* Set the cost of the LB step, by the rule at the top of replay.h. */
static int price(plb_replay_t *self, const plb_snapshot_t *s, plb_placing_t *placing,
                 plb_step_done_t *done, plb_err_t *err)
{
    const plb_decider_t *d = self->opt.decider;
    const int32_t strategy = (int32_t)placing->placed_by;
    for (int64_t k = 0; k < s->n_objects; k++) {
        const bool moves = self->answer[k] != s->rank[k];
        done->migrations += moves;
        done->bytes += moves && s->nbytes != NULL ? s->nbytes[k] : 0;
    }
    const plb_measured_step_t *m = measured_step(self, strategy, done->migrations);
    done->seconds_migration = NAN;
    if (!isnan(self->opt.cost)) {
        done->cost = self->opt.cost;
        done->given = true;
        placing->seconds_statistics = NAN;
        return PLB_OK;
    }
    if (m != NULL) {
        placing->seconds_statistics = m->statistics;
        placing->seconds_strategy = m->placing;
        done->seconds_migration = m->migration;
        done->cost = m->whole;
        done->bytes = m->bytes;
        self->hidden = fmax(m->hidden, 0.0);
        return PLB_OK;
    }
    placing->seconds_statistics = self->opt.model.steps;
    const double hidden = d->late ? d->waited : 0.0;
    placing->seconds_strategy =
        fmax(self->opt.model.pace * placing->seconds_strategy - hidden, 0.0);
    const int ret =
        plb_migration_seconds(&self->opt.model, s, self->answer, &done->seconds_migration, err);
    done->seconds_migration +=
        self->opt.per_move * (double)done->migrations + self->opt.per_byte * (double)done->bytes;
    done->cost = placing->seconds_statistics + placing->seconds_strategy + done->seconds_migration;
    done->given = done->cost > 0.0;
    return ret;
}

static int judge(plb_replay_t *self, plb_err_t *err)
{
    plb_decider_t *d = self->opt.decider;
    double was, now;
    PLB_PASS(plb_phases_sums(&self->phases, &was, &now, err));
    return plb_decider_judge(d, plb_decider_saving(d, was, now), err);
}

/* Move the objects.  Convert load estimates by the new speeds, unless they are work.  A
 * distributed strategy sets all speeds to 0, because no rank knows all of them: then use the given
 * speeds. */
static void move(plb_replay_t *self, bool goes_on)
{
    plb_phases_t *phases = &self->phases;
    const double *speed =
        phases->in_seconds && !(self->speed[0] > 0.0) ? phases->trace_speed : self->speed;
    plb_phases_move(phases, self->answer, plb_phases_pace(phases) == NULL ? speed : NULL, goes_on);
}

static int balance(plb_replay_t *self, const plb_verdict_t *why, plb_err_t *err)
{
    plb_decider_t *d = self->opt.decider;
    plb_phases_t *phases = &self->phases;
    plb_database_t db;
    plb_placing_t placing;
    plb_step_done_t done = {.moved = self->opt.moves};
    const bool goes_on = d->goes_on;
    const plb_ask_t due = self->due;
    self->due = PLB_ASK_NOTHING;
    if (due == PLB_ASK_BEGIN) {
        PLB_PASS(plb_phases_database(phases, &db, err));
        return plb_decider_begin(d, &db, err);
    }
    PLB_PASS_GROW(self->answer, self->room_of_answer, phases->n + 1);
    if (plb_decider_can_judge(d)) {
        PLB_PASS(judge(self, err));
    }
    PLB_PASS(plb_decider_choose(d, why, phases->n, err));
    PLB_PASS(plb_phases_database(phases, &db, err));
    PLB_PASS(plb_decider_place(d, &db, self->answer, self->speed, &placing, err));
    PLB_PASS(price(self, &db.snapshot, &placing, &done, err));
    PLB_PASS(plb_decider_placed(d, &placing, self->speed, err));
    PLB_PASS(plb_decider_balanced(d, &done, err));
    move(self, goes_on);
    return PLB_OK;
}

/* ---- a program that owns its data ----------------------------------------------------------- */

static int cells(plb_replay_t *self, plb_database_t *db, plb_err_t *err)
{
    PLB_PASS(plb_phases_database(&self->phases, db, err));
    db->here = self->opt.decider->opt.learns ? db->snapshot.load : NULL;
    return PLB_OK;
}

/* Place the objects of the phase that has just ended. */
static int plan(plb_replay_t *self, plb_err_t *err)
{
    plb_placing_t placing;
    plb_step_done_t done = {0};
    plb_database_t db;
    PLB_PASS_GROW(self->answer, self->room_of_answer, self->phases.n + 1);
    PLB_PASS(cells(self, &db, err));
    PLB_PASS(plb_decider_place(self->opt.decider, &db, self->answer, self->speed, &placing, err));
    PLB_PASS(price(self, &db.snapshot, &placing, &done, err));
    PLB_PASS(plb_advisor_placed(self->opt.advisor, &placing, self->speed, done.migrations,
                                done.bytes, err));
    self->outcome = (plb_advisor_outcome_t){done.seconds_migration, self->opt.n_ranks};
    self->moves_at = done.migrations > 0 ? self->n - 1 + self->opt.ahead : -1;
    return PLB_OK;
}

/* Let the advisor observe the phases before `end`.  is_over: the loop has ended, so that no LB
 * step follows. */
static int tell(plb_replay_t *self, int64_t end, bool is_over, plb_err_t *err)
{
    plb_advisor_t *advisor = self->opt.advisor;
    const int64_t now = self->n - 1 + self->opt.ahead;
    for (; self->n_told < end; self->n_told++) {
        plb_iteration_t *it = &self->late[self->n_told % (self->opt.lag + 1)];
        plb_ask_t ask;
        if (it->iteration > advisor->at) { /* else it is not observed */
            it->hidden = self->hidden;
            self->hidden = 0.0;
        }
        PLB_PASS(plb_advisor_observe(advisor, it, &self->outcome, now, !is_over, &ask, err));
        if (ask == PLB_ASK_PREVIEW) {
            plb_database_t db;
            double gain;
            PLB_PASS(cells(self, &db, err));
            PLB_PASS(plb_decider_preview(self->opt.decider, &db, &gain, err));
            PLB_PASS(plb_advisor_previewed(advisor, gain, now, &ask, err));
        }
        if (ask == PLB_ASK_BALANCE && is_over) {
            plb_advisor_abandon(advisor);
        } else if (ask == PLB_ASK_BALANCE) {
            PLB_PASS(plan(self, err));
        }
    }
    return PLB_OK;
}

/* ---- decisions ------------------------------------------------------------------------------ */

static int carry_out(plb_replay_t *self, bool asked, bool may_preview, plb_err_t *err)
{
    plb_decider_t *d = self->opt.decider;
    plb_ask_t ask;
    self->due = PLB_ASK_NOTHING;
    PLB_PASS(plb_decider_next(d, asked, may_preview, &ask, err));
    if (ask == PLB_ASK_JUDGE) {
        PLB_PASS(judge(self, err));
        PLB_PASS(plb_decider_next(d, asked, may_preview, &ask, err));
    }
    if (ask == PLB_ASK_PREVIEW) {
        plb_database_t db;
        double gain;
        PLB_PASS(plb_phases_database(&self->phases, &db, err));
        PLB_PASS(plb_decider_preview(d, &db, &gain, err));
        PLB_PASS(plb_decider_previewed(d, gain, &ask, err));
    }
    self->due = ask;
    return PLB_OK;
}

static bool ends(const plb_replay_t *self, int64_t iteration)
{
    return iteration + 1 >= self->loop.first + self->loop.n;
}

/* Let the decider observe the previous phase and decide.  more: whether the loop had more
 * iterations, even if the program left it early. */
static int conclude(plb_replay_t *self, bool more, plb_err_t *err)
{
    plb_decider_t *d = self->opt.decider;
    const int64_t iteration = self->last.iteration;
    bool final = true;
    if (!self->unobserved) {
        return PLB_OK;
    }
    self->unobserved = false;
    PLB_PASS(plb_decider_observe(d, &self->last, err));
    const bool is_last = ends(self, iteration) || !more;
    if (self->opt.lag > 0) { /* the ranks agree on the iteration of an LB step */
        const int64_t k = iteration - self->loop.first + 1;
        const int64_t wish = plb_wish_of(&self->wish, &d->trigger->verdict, k, self->root.final);
        const int64_t ended = k >= self->loop.n ? self->opt.n_ranks : 0;
        plb_ruling_t ruling;
        PLB_PASS(plb_consensus_root_stats(&self->root, k, ended, wish, &ruling, err));
        final = ruling.kind == PLB_RULING_BALANCE;
    }
    const bool asked = self->opt.lag > 0 ? final : d->trigger->verdict.balance;
    self->why = self->opt.lag > 0 ? self->wish.why : d->trigger->verdict;
    if (self->opt.lag == 0 || final) {
        PLB_PASS(carry_out(self, asked, self->opt.lag == 0 && !is_last, err));
    }
    if (is_last && plb_decider_can_judge(d)) {
        PLB_PASS(judge(self, err));
    }
    if (self->opt.lag > 0 && final) {
        self->wish.decided = false;
    }
    return PLB_OK;
}

int plb_replay_loop(plb_replay_t *self, const plb_loop_t *loop, plb_err_t *err)
{
    PLB_FAIL_IF(loop->n < 0 || loop->first != self->n, err, PLB_ERR_STATE,
                "a loop of %lld iterations begins at iteration %lld: expected 0 iterations or "
                "more, beginning at %lld, after the phases so far",
                (long long)loop->n, (long long)loop->first, (long long)self->n);
    self->next = *loop;
    self->begins = true;
    return PLB_OK;
}

static int begin_loop(plb_replay_t *self, plb_err_t *err)
{
    const plb_loop_t *loop = &self->next;
    self->loop = *loop;
    self->begins = false;
    if (self->opt.decider == NULL) {
        return PLB_OK;
    }
    if (self->opt.advisor != NULL) {
        PLB_PASS(tell(self, self->n, true, err));
    }
    plb_consensus_root_init(&self->root, self->opt.n_ranks, self->opt.lag);
    self->wish = (plb_wish_t){.first = loop->first, .n = loop->n, .lag = self->opt.lag};
    if (loop->first == 0 && self->phases.memory_limit != NULL) {
        self->opt.decider->limit = self->phases.memory_limit[0];
    }
    const bool known = loop->first == 0 && loop->n < PLB_LOOP_OPEN;
    return plb_decider_expect(self->opt.decider, known ? loop->n : INT64_MAX, loop->cost,
                              loop->moving, err);
}

/* Go on from one phase to the next.  If a loop was left early, an LB step that was due takes place
 * before the next loop begins. */
static int between(plb_replay_t *self, plb_err_t *err)
{
    const bool over = ends(self, self->n - 1);
    if (self->opt.decider != NULL && self->opt.advisor == NULL) {
        PLB_PASS(conclude(self, !self->begins || !over, err));
    }
    if (self->begins && self->due && !over) {
        PLB_PASS(balance(self, &self->why, err));
    }
    if (self->begins) {
        PLB_PASS(begin_loop(self, err));
    }
    return self->due ? balance(self, &self->why, err) : PLB_OK;
}

/* ---- phases --------------------------------------------------------------------------------- */

static void keep(plb_replay_t *self)
{
    const plb_phases_t *ph = &self->phases;
    const int64_t p = self->opt.n_ranks;
    self->metrics[self->n - self->first] = ph->metrics;
    self->seconds[self->n - self->first] = plb_phases_time(ph);
    if (self->times != NULL) {
        const double *pace = plb_phases_pace(ph);
        double *time = self->times + self->n * p;
        for (int64_t r = 0; r < p; r++) {
            const double own = ph->sum[r] / (pace == NULL ? 1.0 : pace[r]);
            time[r] = ph->trace->background == NULL ? own : ph->trace->background[r] + own;
        }
    }
    if (self->rank != NULL && ph->n > 0) {
        memcpy(self->rank + self->tasks, ph->rank, (size_t)ph->n * sizeof *self->rank);
    }
}

static int run_phase(plb_replay_t *self, int64_t i, plb_err_t *err)
{
    plb_phases_t *ph = &self->phases;
    const bool decides = self->opt.decider != NULL;
    PLB_PASS(plb_phases_enter(ph, i, err));
    PLB_PASS(between(self, err));
    plb_phases_run(ph);
    if (self->opt.foresight && decides) {
        const plb_iteration_t it = plb_phases_statistics(ph, self->n);
        PLB_PASS(plb_decider_observe(self->opt.decider, &it, err));
        PLB_PASS(carry_out(self, self->opt.decider->trigger->verdict.balance, false, err));
        if (self->due) {
            PLB_PASS(balance(self, NULL, err));
            plb_phases_run(ph);
        }
    }
    keep(self);
    if (decides && !self->opt.foresight) {
        self->last = plb_phases_statistics(ph, self->n);
        self->unobserved = true;
        if (self->opt.advisor == NULL) {
            self->last.hidden = self->hidden;
            self->hidden = 0.0;
        }
    }
    self->n++;
    const int64_t tasks = ph->n;
    self->tasks += tasks;
    PLB_PASS(plb_phases_leave(ph, err));
    if (self->opt.advisor != NULL) {
        /* End a step of the program.  If the objects have changed since they were placed, nothing
         * moves, as if the program had ignored the advice: none of its own LB steps was there. */
        self->late[(self->n - 1) % (self->opt.lag + 1)] = self->last;
        PLB_PASS(tell(self, self->n - self->opt.lag, false, err));
        if (self->moves_at == self->n - 1 && (self->opt.ahead == 0 || ph->same_objects)) {
            move(self, false);
        } else if (self->moves_at == self->n - 1) {
            self->outcome.n_rebalanced = 0;
        }
    }
    return plb_interrupted(8 * (tasks + self->opt.n_ranks));
}

/* Return `ret` or, if nothing has failed before, the code of the pause. */
static int pause(plb_replay_t *self, int ret, plb_err_t *err)
{
    const int paused = plb_phases_pause(&self->phases, err);
    return ret != PLB_OK ? ret : paused;
}

int plb_replay_feed(plb_replay_t *self, const plb_trace_t *trace, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_PASS(plb_phases_begin(&self->phases, trace, err));
    if (self->opt.decider != NULL) {
        self->opt.decider->share = plb_sharing_share(&self->phases.sharing);
    }
    if (self->opt.advisor != NULL) {
        self->opt.advisor->share = trace->waits ? self->opt.decider->share : 1.0;
    }
    const plb_loop_t *loop = self->begins ? &self->next : &self->loop;
    PLB_FAIL_IF(self->n + trace->n_phases > loop->first + loop->n, err, PLB_ERR_STATE,
                "%lld phases were given: expected at most %lld, up to the end of the loop",
                (long long)trace->n_phases, (long long)(loop->first + loop->n - self->n));
    PLB_PASS(make_room(self, trace, err));
    for (int64_t i = 0; ret == PLB_OK && i < trace->n_phases; i++) {
        ret = run_phase(self, i, err);
        if (ret != PLB_OK && ret != PLB_ERR_INTERRUPTED) {
            const plb_err_t copy = *err;
            snprintf(err->text, sizeof err->text, "phase %lld of the replay: %.440s",
                     (long long)self->n, copy.text);
        }
    }
    return pause(self, ret, err);
}

static int settle(plb_replay_t *self, bool early, plb_err_t *err)
{
    if (self->unobserved) {
        PLB_PASS(conclude(self, early, err));
    } else if (!early && self->opt.decider->last >= 0 &&
               (self->opt.foresight || plb_decider_can_judge(self->opt.decider))) {
        PLB_PASS(judge(self, err));
    }
    if (early && self->due && !ends(self, self->n - 1)) {
        PLB_PASS(balance(self, &self->why, err));
    }
    return early && plb_decider_can_judge(self->opt.decider) ? judge(self, err) : PLB_OK;
}

int plb_replay_settle(plb_replay_t *self, const plb_trace_t *left, bool early, bool begins,
                      plb_err_t *err)
{
    int ret;
    if (self->opt.decider == NULL || (begins && self->opt.foresight)) {
        return PLB_OK;
    }
    if (self->opt.advisor != NULL) {
        PLB_PASS(tell(self, self->n, true, err));
        return plb_advisor_judge(self->opt.advisor, err);
    }
    if (left == NULL) {
        return settle(self, early, err);
    }
    PLB_TRY(plb_phases_begin(&self->phases, left, err));
    PLB_TRY(plb_phases_enter(&self->phases, 0, err));
    ret = begins ? between(self, err) : settle(self, early, err);
out:
    return pause(self, ret, err);
}
