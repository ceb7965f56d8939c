#include "decide/advisor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static int refuse(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                  int32_t *out, plb_err_t *err)
{
    (void)in;
    (void)opts;
    (void)out;
    return PLB_FAIL(err, PLB_ERR_STATE,
                    "strategy %s places no objects: the program itself redistributes its data",
                    self->name);
}

const plb_strategy_t plb_own_strategy = {
    .name = "own",
    .help = "the program redistributes its data in its own way",
    .source = "",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD,
    .run = refuse,
};

void plb_advisor_init(plb_advisor_t *self, plb_decider_t *decider, bool places)
{
    *self = (plb_advisor_t){.decider = decider,
                            .places = places,
                            .at = -1,
                            .share = 1.0,
                            .with_move = NAN,
                            .price = NAN};
}

/* ---- the record of a rank ------------------------------------------------------------------- */

static const double MOST = 1e30; /* largest load in seconds, as in snapshots */

int plb_advisor_load(const double *load, int64_t n, double *sum, plb_err_t *err)
{
    plb_exact_t exact = {{0}};
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(!(load[i] >= 0.0 && load[i] <= MOST), err, PLB_ERR_VALUE,
                    "loads[%lld] is %g: expected 0 ... 1e30 seconds", (long long)i, load[i]);
        plb_exact_add(&exact, load[i]);
    }
    *sum = plb_exact_value(&exact);
    PLB_FAIL_IF(*sum > MOST, err, PLB_ERR_VALUE,
                "the sum of the loads is %g: expected at most 1e30 seconds", *sum);
    return PLB_OK;
}

int plb_advisor_record(const plb_advisor_sample_t *sample, int32_t rank, plb_stats_t *out,
                       plb_err_t *err)
{
    int ret = plb_check(PLB_AMOUNT,
                        PLB_FIGURES(PLB_FIGURE(sample, seconds), PLB_FIGURE(sample, time),
                                    PLB_FIGURE(sample, cost), PLB_FIGURE(sample, hidden),
                                    PLB_FIGURE(sample, delay)),
                        err);
    plb_stats_init(out);
    if (ret != PLB_OK) {
        return ret;
    }
    const double idle = fmax(sample->time - sample->seconds - sample->delay, 0.0);
    out->iteration = sample->iteration;
    out->n_ranks = 1;
    out->n_objects = sample->n_cells;
    plb_exact_add(&out->load_sum, sample->seconds);
    out->load_max = out->load_min = sample->seconds;
    out->load_max_rank = rank;
    plb_exact_add(&out->idle_sum, idle);
    out->utilization_min = plb_utilization(sample->seconds, idle);
    out->time_max = sample->time;
    out->cost_max = sample->cost;
    out->hidden_max = sample->hidden;
    out->n_rebalanced = sample->rebalanced;
    return PLB_OK;
}

void plb_advisor_iteration(const plb_stats_t *all, plb_iteration_t *out)
{
    const double total = plb_exact_value(&all->load_sum);
    *out = (plb_iteration_t){
        .iteration = all->iteration,
        .time = all->time_max,
        .max = plb_stats_max(all),
        .mean = total / (double)all->n_ranks,
        .min = all->load_min,
        .total = total,
        .utilization = all->utilization_min,
        .messages = all->messages,
        .bytes = all->message_bytes,
        .hidden = all->hidden_max,
        .idle = plb_exact_value(&all->idle_sum) / (double)all->n_ranks,
    };
    if (out->time == 0.0) {
        out->time = out->max;
        out->utilization = out->max > 0.0 ? fmin(out->min / out->max, 1.0) : 1.0;
    }
}

/* ---- the end of an LB step ------------------------------------------------------------------ */

static double ratio_of(const plb_iteration_t *it)
{
    return it->mean > 0.0 ? fmax(it->max / it->mean, 1.0) : 1.0;
}

/* moving: seconds in which the slowest rank moved its data, without the time to plan */
static int end_step(plb_advisor_t *self, double moving, bool goes_on, plb_err_t *err)
{
    const plb_placing_t *p = &self->decider->next.placing;
    const double planning = self->places ? p->seconds_statistics + p->seconds_strategy : 0.0;
    const bool given = !isnan(self->price);
    const plb_step_done_t done = {
        .migrations = self->migrations,
        .bytes = self->bytes,
        .seconds_migration = self->places && !given ? moving : NAN,
        .cost = given ? self->price : moving + planning,
        .moved = !self->stays,
        .given = given,
        .goes_on = goes_on,
    };
    const bool first = !self->decider->goes_on;
    const int ret = plb_decider_balanced(self->decider, &done, err);
    if (ret == PLB_OK) {
        self->due = self->placed = false;
        self->moved = self->moved || !self->places || self->migrations > 0;
        self->ratio = first ? self->usual : self->ratio;
        self->balanced = true;
        self->growth[0] *= self->decider->ledger.params[PLB_LEDGER_fade];
        self->growth[1] *= self->decider->ledger.params[PLB_LEDGER_fade];
        self->n = 0;
        self->max = self->kept = 0.0;
    }
    return ret;
}

/* Take the imbalance after the code's own redistribution from the first iteration after it. */
static int place_own(plb_advisor_t *self, const plb_iteration_t *it, plb_err_t *err)
{
    const plb_iteration_t *was = &self->decider->seen;
    plb_placing_t placing = plb_placing_unknown();
    placing.before = placing.before_with_messages = self->before;
    placing.predicted = placing.predicted_with_messages = ratio_of(it);
    placing.idle_mean = was->max - was->mean;
    placing.idle_max = was->max - was->min;
    placing.predicted_idle_mean = it->max - it->mean;
    placing.predicted_idle_max = it->max - it->min;
    return plb_decider_placed(self->decider, &placing, NULL, err);
}

/* Return an iteration's time over that of a balanced one, from max/mean; ranks may share cores. */
static double above(const plb_advisor_t *self, double ratio)
{
    return fmax(ratio / plb_decider_stretch(self->decider), 1.0);
}

/* Whether a partial LB step, after which the first iteration is `it`, should be followed by
 * another one, which is expected to remove as large a fraction of the imbalance as the last ones
 * (several, because of noise). */
static bool goes_on(const plb_advisor_t *self, const plb_iteration_t *it, double cost)
{
    const plb_trigger_t *t = self->decider->trigger;
    const int n = self->n_partial < PLB_FEW ? self->n_partial : PLB_FEW;
    const double before = self->earlier[n - 1], now = above(self, ratio_of(it));
    const double removed = (before - now) / n;
    const double left =
        t->end == INT64_MAX ? fmax((double)t->n, PLB_LONG) : (double)(t->end - it->iteration - 1);
    return self->partial && removed > PLB_NOISE &&
           removed / (before - 1.0) * (now - 1.0) * self->decider->even * left > cost;
}

static int settle(plb_advisor_t *self, const plb_iteration_t *it,
                  const plb_advisor_outcome_t *outcome, plb_err_t *err)
{
    if (outcome->n_rebalanced == 0 && !isnan(self->with_move)) {
        const double cost = fmax(self->with_move - it->time, 0.0);
        PLB_PASS(place_own(self, it, err));
        return end_step(self, cost, goes_on(self, it, cost), err);
    }
    if (outcome->n_rebalanced == 0) {
        plb_advisor_abandon(self);
        self->n_ignored++;
        return PLB_OK;
    }
    if (!self->placed) {
        PLB_PASS(place_own(self, it, err));
        self->placed = true;
    }
    return end_step(self, outcome->cost, !self->places && goes_on(self, it, outcome->cost), err);
}

/* ---- what the user should know -------------------------------------------------------------- */

enum { WAITS = 1, IGNORES = 2, UNMEASURED = 4, STANDS = 8 }; /* bits: what plb_advisor_word says */

static const char *amount(double seconds, char text[32])
{
    snprintf(text, 32, isnan(seconds) ? "an unknown time" : "%.3g s", seconds);
    return text;
}

/* Write why no LB step has moved data.  excess: how much longer the slowest rank takes than the
 * mean, as a fraction. */
static void say_why(plb_advisor_t *self, double excess)
{
    const plb_trigger_t *t = self->decider->trigger;
    const plb_verdict_t *v = &t->verdict;
    char cost[32], gain[32];
    if (self->balanced) {
        snprintf(self->word, sizeof self->word,
                 "%lld LB step%s moved nothing, although the slowest rank takes %.1f %% longer "
                 "than the mean: the strategy finds no better placement.  If a cell takes longer "
                 "than the mean rank, only smaller cells help; else try another strategy, e.g. "
                 "strategy=GreedyLB",
                 (long long)self->decider->n_lb_steps, self->decider->n_lb_steps == 1 ? "" : "s",
                 100.0 * excess);
    } else {
        snprintf(self->word, sizeof self->word,
                 "no LB step in %lld steps, although the slowest rank takes %.1f %% longer than "
                 "the mean: %s; an LB step is expected to cost %s and to save %s.  A short run "
                 "with every=100 tries LB steps, and its report shows what they cost and save",
                 (long long)t->n, 100.0 * excess, plb_reason_words[v->reason],
                 amount(v->cost, cost), amount(v->gain, gain));
    }
}

const char *plb_advisor_word(plb_advisor_t *self)
{
    static const char *const texts[] = {
        [WAITS] =
            "all ranks report nearly the same seconds of work in every step, and these are as "
            "long as the whole step.  If the timed part calls MPI, it contains the waiting for "
            "slower ranks, and pylb cannot see any imbalance: start the program by `pylb run`, "
            "whose clock leaves out the waiting within MPI, or time only the computation "
            "(docs/your_code.md, \"Waiting is not work\")",
        [IGNORES] =
            "it seems that the advice to rebalance was not carried out, so its cost is not "
            "learned: expected `with lb.rebalancing()`, lb.rebalanced(seconds) or "
            "plan.migrate(...); in C pylb_rebalance_begin and _end, pylb_rebalanced or "
            "pylb_plan_migrate",
        [UNMEASURED] =
            "no rank has measured any work, so pylb cannot see any imbalance: expected pylb_start "
            "and pylb_stop or pylb_work in each step, or a program started by `pylb run`",
    };
    const plb_trigger_t *t = self->decider->trigger;
    const double balanced = (double)t->cycle.n * t->loads / (double)t->n; /* NAN: no step yet */
    const double excess = t->cycle.U / balanced;
    const bool stands = t->cycle.n >= PLB_WINDOW && t->n >= PLB_LONG && !self->moved &&
                        self->n_ignored == 0 && !self->due &&
                        (self->balanced || !isnan(t->verdict.excess)) && excess > PLB_NOTABLE;
    const int now =
        ((self->waiting.noticed ? WAITS : 0) | (self->n_ignored > 0 ? IGNORES : 0) |
         (stands ? STANDS : 0) | (t->n >= PLB_WINDOW && t->loads <= 0.0 ? UNMEASURED : 0)) &
        ~self->said;
    const int word = now & -now; /* the lowest bit */
    self->said |= word;
    if (word == STANDS) {
        say_why(self, excess);
        return self->word;
    }
    return texts[word];
}

/* ---- a step --------------------------------------------------------------------------------- */

static void add(plb_advisor_t *self, const plb_iteration_t *it)
{
    double *recent = self->recent[self->n++ % PLB_ADVISOR_SPAN];
    /* loads in virtual seconds, which can exceed the time that has elapsed, contain no waits */
    const double share = it->time > it->max ? self->share : 1.0;
    const double max = self->decider->span, mean = fmin(self->decider->even, share * max);
    recent[0] = max;
    recent[1] = mean;
    self->max += max;
    if (!self->balanced) {
        return; /* the first placement is the program's: its growth says nothing about LB steps */
    }
    if (self->n == 1) {
        self->young = mean > 0.0 ? max / mean : 1.0;
    }
    const double older = (double)self->n - 1.0;
    self->growth[0] += older * (max - self->young * mean);
    self->growth[1] += older * older * mean;
    const double slope = self->growth[1] > 0.0 ? self->growth[0] / self->growth[1] : 0.0;
    self->kept += mean * (self->ratio + fmax(slope, 0.0) * (double)self->n);
}

/* max/mean of the last quarter of the iterations since the LB step, at most PLB_ADVISOR_SPAN */
static double usual_of(const plb_advisor_t *self)
{
    const int64_t quarter = self->n / 4;
    const int64_t k = quarter < 1 ? 1 : quarter > PLB_ADVISOR_SPAN ? PLB_ADVISOR_SPAN : quarter;
    double max = 0.0, mean = 0.0;
    for (int64_t i = self->n - k; i < self->n; i++) {
        max += self->recent[i % PLB_ADVISOR_SPAN][0];
        mean += self->recent[i % PLB_ADVISOR_SPAN][1];
    }
    return mean > 0.0 ? fmax(max / mean, 1.0) : 1.0;
}

static int begin_step(plb_advisor_t *self, int64_t now, plb_err_t *err)
{
    PLB_PASS(plb_advisor_judge(self, err));
    PLB_PASS(plb_decider_choose(self->decider, NULL, 0, err));
    self->due = true;
    self->placed = false;
    self->at = now;
    self->migrations = self->bytes = 0;
    self->with_move = NAN;
    self->before = ratio_of(&self->decider->seen);
    self->usual = usual_of(self);
    self->n_partial = self->decider->goes_on ? self->n_partial + 1 : 1;
    memmove(&self->earlier[1], self->earlier, (PLB_FEW - 1) * sizeof *self->earlier);
    self->earlier[0] = above(self, self->before);
    return PLB_OK;
}

int plb_advisor_observe(plb_advisor_t *self, const plb_iteration_t *it,
                        const plb_advisor_outcome_t *outcome, int64_t now, bool may_preview,
                        plb_ask_t *ask, plb_err_t *err)
{
    plb_decider_t *d = self->decider;
    *ask = PLB_ASK_NOTHING;
    if (it->iteration <= self->at) {
        return PLB_OK; /* it ran before the last advised LB step */
    }
    if (self->due && self->untold && !self->places && outcome->n_rebalanced == 0 &&
        isnan(self->with_move)) {
        self->with_move = it->time;
        return PLB_OK;
    }
    if (self->due) {
        PLB_PASS(settle(self, it, outcome, err));
    } else if (d->trigger->n == 0 && outcome->n_rebalanced > 0) {
        /* The program has begun with an LB step of its own: no trial is needed any more. */
        const double left = ratio_of(it); /* as in `place_own` */
        PLB_PASS(plb_trigger_balanced(d->trigger, it->iteration - 1, outcome->cost, left, err));
    }
    PLB_PASS(plb_decider_observe(d, it, err));
    add(self, it);
    const bool asked = d->trigger->verdict.balance;
    PLB_PASS(plb_decider_next(d, asked, may_preview, ask, err));
    if (*ask == PLB_ASK_JUDGE) {
        PLB_PASS(plb_decider_judge(d, self->kept - self->max, err));
        PLB_PASS(plb_decider_next(d, asked, may_preview, ask, err));
    }
    return *ask == PLB_ASK_BALANCE ? begin_step(self, now, err) : PLB_OK;
}

int plb_advisor_previewed(plb_advisor_t *self, double gain, int64_t now, plb_ask_t *ask,
                          plb_err_t *err)
{
    PLB_PASS(plb_decider_previewed(self->decider, gain, ask, err));
    return *ask == PLB_ASK_BALANCE ? begin_step(self, now, err) : PLB_OK;
}

int plb_advisor_placed(plb_advisor_t *self, const plb_placing_t *placing, const double *speed,
                       int64_t migrations, int64_t bytes, plb_err_t *err)
{
    PLB_FAIL_IF(!self->due || self->placed, err, PLB_ERR_STATE,
                "a plan was set, but no LB step is waiting for one");
    PLB_PASS(plb_decider_placed(self->decider, placing, speed, err));
    self->placed = true;
    self->migrations = migrations;
    self->bytes = bytes;
    return migrations > 0 ? PLB_OK : end_step(self, 0.0, false, err);
}

void plb_advisor_abandon(plb_advisor_t *self)
{
    plb_decider_abandon(self->decider);
    self->due = self->placed = false;
}

int plb_advisor_judge(plb_advisor_t *self, plb_err_t *err)
{
    return plb_decider_can_judge(self->decider)
               ? plb_decider_judge(self->decider, self->kept - self->max, err)
               : PLB_OK;
}

/* ---- the reductions of the steps ------------------------------------------------------------ */

int plb_steps_init(plb_steps_t *self, const plb_reduction_t *net, int32_t lag, plb_err_t *err)
{
    *self = (plb_steps_t){.net = net, .lag = lag, .last = INT64_MAX};
    PLB_FAIL_IF(lag < 0 || net->depth < lag + 2, err, PLB_ERR_VALUE,
                "lag is %d: expected 0 ... %d steps", (int)lag, net->depth - 2);
    return PLB_OK;
}

static int steps_begin(plb_steps_t *self, const plb_stats_t *mine, plb_err_t *err)
{
    PLB_PASS(self->net->begin_stats(self->net->self, mine, err));
    self->begun++;
    return PLB_OK;
}

int plb_steps_begin(plb_steps_t *self, const plb_stats_t *mine, plb_err_t *err)
{
    PLB_FAIL_IF(plb_steps_broken(self), err, PLB_ERR_STATE,
                "there are no more steps: a rank has failed or left, or "
                "the ranks were in different steps");
    return steps_begin(self, mine, err);
}

/* If the oldest record ends the steps, ranks may already have begun up to `lag` later reductions,
 * which all ranks must complete. */
static int steps_take(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg,
                      bool *have, plb_err_t *err)
{
    plb_stats_t later; /* a record after the one that ended the steps */
    const bool broken = plb_steps_broken(self);
    plb_stats_t *into = broken ? &later : &self->all;
    plb_wait_t wait;
    plb_wait_begin(&wait, tick, arg);
    PLB_PASS(self->net->test_stats(self->net->self, into, have, err));
    while (!*have && (timeout_ns < 0 || plb_clock_ns(PLB_CLOCK_WALL) - wait.start < timeout_ns)) {
        PLB_PASS(plb_wait_pause(&wait));
        PLB_PASS(self->net->test_stats(self->net->self, into, have, err));
    }
    if (*have) {
        const plb_stats_t *all = &self->all;
        if (!broken &&
            (all->flags & PLB_STATS_MIXED || (all->failed_rank != INT64_MAX && self->lag > 0) ||
             (all->n_ended > 0 && all->n_ended < self->net->size))) {
            self->last = self->taken + self->lag;
        }
        self->taken++;
    }
    return PLB_OK;
}

int plb_steps_take(plb_steps_t *self, bool due, int64_t timeout_ns, plb_tick_fn tick, void *arg,
                   bool *have, plb_err_t *err)
{
    const bool any = due ? plb_steps_is_due(self) : plb_steps_under_way(self) > 0;
    *have = false;
    return any ? steps_take(self, timeout_ns, tick, arg, have, err) : PLB_OK;
}

int plb_steps_leave(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *done,
                    plb_err_t *err)
{
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    *done = false;
    for (;;) {
        while (plb_steps_broken(self) && self->begun <= self->last) {
            plb_stats_t none;
            plb_stats_init(&none);
            PLB_PASS(steps_begin(self, &none, err));
        }
        if (self->taken == self->begun) {
            *done = true;
            return PLB_OK;
        }
        bool have = false;
        const int64_t left = start + timeout_ns - plb_clock_ns(PLB_CLOCK_WALL);
        PLB_PASS(steps_take(self,
                            timeout_ns < 0 ? -1
                            : left > 0     ? left
                                           : 0,
                            tick, arg, &have, err));
        if (!have) {
            return PLB_OK;
        }
    }
}
