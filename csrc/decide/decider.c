#include "decide/decider.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "measure/measure.h"
#include "model/model.h"

/* ---- ledger --------------------------------------------------------------------------------- */

const plb_param_t plb_ledger_params[] = {PLB_LEDGER(PLB_PARAM_ROW)};

static int ledger_init(plb_ledger_t *self, int32_t n, const double *params, plb_err_t *err)
{
    *self = (plb_ledger_t){.n = n, .strategy = -1, .warm_up = NAN};
    PLB_PASS(plb_params_check(plb_ledger_params, PLB_N_LEDGER, params, err));
    memcpy(self->params, params, sizeof self->params);
    PLB_PASS_NEW0(self->accounts, n);
    return PLB_OK;
}

/* Return x; 0 if it was not reported: NaN, zero or negative. */
static double reported(double x)
{
    return x > 0.0 ? x : 0.0;
}

static double halfway(double known, double measured, bool first)
{
    return first ? measured : 0.5 * (known + measured);
}

/* Expected seconds of an LB step with this strategy; NAN: it never ran. */
static double ledger_theta(const plb_ledger_t *self, int32_t strategy)
{
    if (strategy < 0 || strategy >= self->n || self->accounts[strategy].n == 0) {
        return NAN;
    }
    /* `cost` includes the expected warm-up, and `warm_up` may be that of earlier LB steps */
    return fmax(self->accounts[strategy].cost + self->accounts[strategy].warm_up, 0.0);
}

/* Compare with the longest later iteration (decider.h), so that noise does not count as warm-up.
 */
static void ledger_warm_up(plb_ledger_t *self)
{
    const double *t = self->times;
    double beyond = 0.0, later = 0.0;
    for (int i = 0; i < PLB_FEW; i++) {
        beyond += t[i];
        later = fmax(later, t[PLB_FEW + i]);
    }
    beyond -= PLB_FEW * later;
    plb_account_t *account = &self->accounts[self->strategy];
    self->warm_up = fmax(beyond, 0.0);
    const double more = self->warm_up - self->felt;
    self->cost += self->open ? more : 0.0;
    account->warm_up = halfway(account->warm_up, more, account->n == 1);
}

static void ledger_observe(plb_ledger_t *self, double time, double max, double mean)
{
    self->mean = mean;
    self->excess = fmax(max - mean, 0.0);
    self->high = self->excess > self->params[PLB_LEDGER_rise] * self->beaten ? self->high + 1 : 0;
    if (self->strategy >= 0 && self->n_times < 2 * PLB_FEW) {
        self->times[self->n_times++] = time;
        if (self->n_times == 2 * PLB_FEW) {
            ledger_warm_up(self);
        }
    }
}

static void ledger_balanced(plb_ledger_t *self, int64_t iteration, int32_t strategy,
                            const plb_costs_t *costs)
{
    plb_account_t *account = &self->accounts[costs->goes_on ? self->strategy : strategy];
    const double parts =
        reported(costs->statistics) + reported(costs->strategy) + reported(costs->migration);
    const double sum =
        (costs->given ? costs->whole : fmax(parts, reported(costs->whole))) + costs->felt;
    const double cost = sum > 0.0 || costs->given ? sum
                        : account->n > 0          ? account->cost
                                                  : self->mean;
    self->felt = costs->felt;
    self->last = iteration;
    self->n_times = 0;
    if (costs->goes_on) { /* as if the cost of all slices had been known at once */
        self->cost += cost;
        account->cost += account->n == 1 ? cost : 0.5 * cost;
        return;
    }
    self->cost = cost;
    account->cost = halfway(account->cost, self->cost, account->n == 0);
    account->n++;
    self->open = true;
    self->strategy = strategy;
    self->warm_up = NAN;
    self->excess_before = self->excess;
    self->trial = self->off;
    if (self->trial) {
        self->until = iteration + self->pause;
    }
}

static void switch_off(plb_ledger_t *self, int64_t iteration, double pause)
{
    self->off = true;
    self->trial = false;
    self->pause = pause < 1e15 ? (int64_t)ceil(pause) : (int64_t)1e15;
    self->until = iteration + self->pause;
    self->beaten = fmax(self->beaten, self->excess_before);
    self->high = 0;
}

/* Whether the last LB step must be judged now.  asked: the trigger wants an LB step. */
static bool ledger_judges(const plb_ledger_t *self, int64_t iteration, bool asked)
{
    return self->open && (self->trial ? iteration >= self->until : asked);
}

/* The last LB step, which is not judged yet, has saved `gain` seconds (negative: lost) up to and
 * including `iteration`. */
static void ledger_judge(plb_ledger_t *self, int64_t iteration, double gain)
{
    const double fade = self->params[PLB_LEDGER_fade];
    const bool pays = gain >= self->cost;
    const bool trial = self->trial;
    self->open = false;
    if (trial && !pays) {
        switch_off(self, iteration, 2.0 * (double)self->pause);
        return;
    }
    if (trial) {
        self->off = self->trial = false;
        self->paid = self->gained = self->beaten = 0.0;
        self->judged = 0;
    }
    self->paid = fade * self->paid + self->cost;
    self->gained = fade * self->gained + gain;
    self->judged++;
    if (!pays) {
        self->beaten = fmax(self->beaten, self->excess_before);
    }
    if ((double)self->judged >= self->params[PLB_LEDGER_tries] && self->gained < self->paid) {
        const double *p = self->params, time = p[PLB_LEDGER_share] * self->mean;
        switch_off(self, iteration,
                   fmax(p[PLB_LEDGER_pause], time > 0.0 ? self->cost / time : 0.0));
    }
}

/* Whether an LB step that is due may take place. */
static bool ledger_allows(const plb_ledger_t *self, int64_t iteration)
{
    const bool ended = iteration >= self->until || self->high >= PLB_FEW;
    return !self->off || (ended && !(self->trial && self->open));
}

/* ---- promise -------------------------------------------------------------------------------- */

/* A preview may cost this part of the lost time. */
static const double PREVIEW = 2.0 * PLB_NOTABLE;

static const plb_promise_t NO_PROMISE = {.predicted = INFINITY, .last = 1.0, .level = INFINITY};

/* Observe an iteration's largest and mean load, in seconds; return whether a preview is due. */
static bool promise_observe(plb_promise_t *self, double max, double mean)
{
    const double ratio = mean > 0.0 ? max / mean : 1.0;
    self->since += 1.0;
    if (isfinite(self->predicted)) {
        self->lost += fmax(max - self->predicted * mean, 0.0);
    }
    const double now = fmin(ratio, self->last); /* the lower one: a spike does not count */
    self->last = ratio;
    if (self->since < PLB_FEW) {
        return false;
    }
    if (now <= (1.0 + PLB_NOTABLE) * self->predicted) {
        self->n_previews = 0.0;
        return false;
    }
    if (now > (1.0 + 2.0 * PLB_NOTABLE) * self->level) { /* it has become worse: no pause */
        self->n_previews = 0.0;
    }
    const double pause = PLB_FEW * exp2(self->n_previews - 1.0);
    if ((self->n_previews > 0.0 && self->since < pause) || PREVIEW * self->lost < self->price) {
        return false;
    }
    self->n_previews += 1.0;
    self->level = now;
    self->since = self->lost = 0.0;
    return true;
}

plb_placing_t plb_placing_unknown(void)
{
    plb_placing_t out;
#define X(name) out.name = NAN;
    PLB_PLACING(X)
#undef X
    return out;
}

static void receipt_free(plb_receipt_t *self)
{
    PLB_FREE(self->alternatives, self->speed);
    self->alternatives = NULL;
    self->speed = NULL;
}

/* iterations after an LB step until the ledger knows the warm-up */
enum { WARMED_UP = 2 * PLB_FEW };
static const int64_t LAST = (int64_t)1 << 53; /* largest iteration number */

static int check_iteration(const plb_iteration_t *it, plb_err_t *err)
{
    PLB_FAIL_IF(it->iteration < 0 || it->iteration > LAST, err, PLB_ERR_VALUE,
                "iteration is %lld: expected 0 ... %lld", (long long)it->iteration,
                (long long)LAST);
    PLB_PASS(plb_check(PLB_FRACTION, PLB_FIGURES(PLB_FIGURE(it, utilization)), err));
    return plb_check(PLB_AMOUNT,
                     PLB_FIGURES(PLB_FIGURE(it, time), PLB_FIGURE(it, max), PLB_FIGURE(it, mean),
                                 PLB_FIGURE(it, min), PLB_FIGURE(it, total),
                                 PLB_FIGURE(it, messages), PLB_FIGURE(it, bytes),
                                 PLB_FIGURE(it, hidden)),
                     err);
}

/* ---- begin and end -------------------------------------------------------------------------- */

static int copy_candidates(plb_decider_t *self, plb_err_t *err)
{
    const plb_decider_options_t *opt = &self->opt;
    PLB_PASS_NEW0(self->candidates, opt->n);
    PLB_PASS_NEW(self->left, opt->n);
    for (int32_t i = 0; i < opt->n; i++) {
        const plb_candidate_strategy_t *from = &opt->candidates[i];
        double *params = NULL;
        PLB_PASS_NEW(params, from->strategy.n_params);
        if (from->strategy.n_params > 0) {
            memcpy(params, from->params, (size_t)from->strategy.n_params * sizeof *params);
        }
        self->candidates[i] = (plb_candidate_strategy_t){from->strategy, params};
        self->left[i] = NAN;
    }
    return PLB_OK;
}

/* Give the cost of messages to the strategies, as their parameters alpha and beta. */
static void tell_network(plb_decider_t *self)
{
    const plb_network_t *net = &self->opt.network;
    for (int32_t i = 0; i < self->opt.n && plb_network_costs(*net); i++) {
        plb_candidate_strategy_t *c = &self->candidates[i];
        for (int k = 0; k < c->strategy.n_params; k++) {
            const plb_param_t *p = &c->strategy.params[k];
            const double value = strcmp(p->name, "alpha") == 0  ? net->alpha
                                 : strcmp(p->name, "beta") == 0 ? net->beta
                                                                : c->params[k];
            ((double *)c->params)[k] = fmin(fmax(value, p->least), p->most);
        }
    }
}

static int check_network(const plb_network_t *network, plb_err_t *err)
{
    return plb_check(PLB_AMOUNT,
                     PLB_FIGURES(PLB_FIGURE(network, alpha), PLB_FIGURE(network, beta)), err);
}

int plb_decider_init(plb_decider_t *self, const plb_decider_options_t *opt, plb_trigger_t *trigger,
                     plb_err_t *err)
{
    *self = (plb_decider_t){.opt = *opt,
                            .trigger = trigger,
                            .promise = NO_PROMISE,
                            .found = NAN,
                            .foreseen = NAN,
                            .moving = NAN,
                            .per_byte = NAN,
                            .fastest = INFINITY,
                            .chosen = -1,
                            .instead = -1,
                            .limit = -1,
                            .share = 1.0,
                            .last = -1};
    int ret = PLB_OK;
    PLB_FAIL_IF(opt->n < 1 || (!opt->selects && opt->n != 1) || opt->n_ranks < 1, err,
                PLB_ERR_VALUE,
                "%d strategies for %d ranks: expected one or more strategies (exactly one, if the "
                "decider does not select) and one or more ranks",
                (int)opt->n, (int)opt->n_ranks);
    PLB_FAIL_IF(opt->keep < 0 || (opt->keep > 0 && opt->keep < 8), err, PLB_ERR_VALUE,
                "keep is %lld: expected 0, or 8 receipts or more", (long long)opt->keep);
    PLB_TRY(check_network(&opt->network, err));
    PLB_TRY(copy_candidates(self, err));
    PLB_TRY(ledger_init(&self->ledger, opt->n, opt->ledger, err));
    if (opt->selects) { /* else the parameters are what the user set */
        tell_network(self);
        PLB_TRY(plb_selector_init(&self->selector, self->candidates, opt->n, opt->network,
                                  opt->selection, err));
    }
out:
    self->opt.candidates = NULL; /* these arrays are the caller's; they have been copied */
    self->opt.ledger = self->opt.selection = NULL;
    if (ret != PLB_OK) {
        plb_decider_free(self);
    }
    return ret;
}

void plb_decider_free(plb_decider_t *self)
{
    for (int32_t i = 0; self->candidates != NULL && i < self->opt.n; i++) {
        plb_free((double *)self->candidates[i].params);
    }
    for (int64_t i = 0; i < self->n_receipts; i++) {
        receipt_free(&self->receipts[i]);
    }
    receipt_free(&self->next);
    PLB_FREE(self->receipts, self->candidates, self->left, self->target, self->target_key,
             self->ledger.accounts, self->selector.records);
    for (int k = 0; k <= PLB_MOST_PHASES && self->learner[k].p > 0; k++) {
        plb_learner_free(&self->learner[k]);
    }
    *self = (plb_decider_t){0};
}

int plb_decider_network(plb_decider_t *self, plb_network_t network, plb_err_t *err)
{
    PLB_FAIL_IF(self->started || self->phase >= PLB_DECIDER_PLACES || self->n_lb_steps > 0, err,
                PLB_ERR_STATE,
                "the network was set after an iteration or LB step: expected an earlier call");
    PLB_PASS(check_network(&network, err));
    self->opt.network = self->selector.network = network;
    tell_network(self);
    return PLB_OK;
}

int plb_decider_expect(plb_decider_t *self, int64_t end, double cost, double moving,
                       plb_err_t *err)
{
    PLB_FAIL_IF(end < 0, err, PLB_ERR_VALUE, "end is %lld: expected 0 or more", (long long)end);
    PLB_PASS(plb_check_known(PLB_SECONDS, "moving", moving, err));
    PLB_FAIL_IF(moving > cost, err, PLB_ERR_VALUE,
                "moving is %g: expected at most the cost, %g seconds", moving, cost);
    PLB_PASS(plb_trigger_expect(self->trigger, end, cost, err));
    if (!isnan(cost)) {
        self->foreseen = cost;
        self->moving = moving;
    }
    return PLB_OK;
}

/* ---- receipts ------------------------------------------------------------------------------- */

static plb_receipt_t *last_of(const plb_decider_t *self)
{
    return self->last < 0 ? NULL : &self->receipts[self->last];
}

/* A strategy is expected to leave the max/mean that it predicted last.  If it has never run, the
 * trigger's estimate (verdict.residual) is used, or 1 if there is none.  Its gain is not more than
 * the imbalance that the trigger expects to persist (verdict.level), except in a trial, which does
 * not rely on that. */
static void estimate_alternatives(const plb_decider_t *self, const plb_verdict_t *v,
                                  plb_alternative_t *out)
{
    for (int32_t i = 0; i < self->opt.n; i++) {
        double left = isnan(self->left[i]) ? v->residual : self->left[i];
        left = isnan(left) ? 1.0 : left;
        double gain = fmax(self->span - left * self->even, 0.0);
        if (v->reason != PLB_REASON_FIRST) {
            gain = fmin(gain, v->level); /* ignores NAN */
        }
        out[i] = (plb_alternative_t){gain, ledger_theta(&self->ledger, i)};
    }
}

static int fill_receipt(const plb_decider_t *self, plb_decision_kind_t kind,
                        const plb_verdict_t *verdict, plb_receipt_t *out, plb_err_t *err)
{
    const int64_t at = self->seen.iteration, left = self->trigger->end - at - 1;
    *out = (plb_receipt_t){.kind = kind, .strategy = -1, .times = 1};
    out->placing = plb_placing_unknown();
#define X(name) out->name = NAN;
    PLB_RECEIPT(X)
#undef X
    out->cost = 0.0;
    out->verdict = *verdict;
    out->iteration = out->until = at;
    out->max = self->seen.max;
    out->mean = self->seen.mean;
    out->left = self->trigger->end == INT64_MAX ? INFINITY : left > 0 ? (double)left : 0.0;
    PLB_PASS_NEW(out->alternatives, self->opt.n);
    estimate_alternatives(self, verdict, out->alternatives);
    return PLB_OK;
}

/* Make room for a receipt.  If there are opt.keep receipts, drop all but the first quarter and the
 * last half of that number, and add the dropped ones to self->dropped. */
static int make_room(plb_decider_t *self, plb_err_t *err)
{
    const int64_t keep = self->opt.keep, n = self->n_receipts;
    const int64_t from = keep / 4, to = n - keep / 2;
    /* the receipt of the last LB step is still needed: wait until it is among the newest */
    if (keep > 0 && n >= keep && self->last >= to) {
        plb_dropped_t *dropped = &self->dropped;
        dropped->from = from;
        dropped->n += to - from;
        for (plb_receipt_t *r = &self->receipts[from]; r < &self->receipts[to]; r++) {
            if (r->kind >= PLB_DECISION_BALANCE) {
                const double warm_up = isnan(r->seconds_warm_up) ? 0.0 : r->seconds_warm_up;
                dropped->n_lb_steps++;
                dropped->cost += r->cost;
                dropped->step_seconds += r->cost - warm_up;
            }
            dropped->migrations += r->migrations;
            dropped->nbytes += r->nbytes;
            receipt_free(r);
        }
        memmove(&self->receipts[from], &self->receipts[to],
                (size_t)(n - to) * sizeof *self->receipts);
        self->n_receipts -= to - from;
        self->last -= to - from;
        self->cycle -= to - from;
    }
    PLB_PASS_GROW(self->receipts, self->capacity, self->n_receipts + 1);
    return PLB_OK;
}

/* Record a decision against an LB step.  Between two LB steps, each reason has one receipt. */
static int hold(plb_decider_t *self, plb_decision_kind_t kind, plb_err_t *err)
{
    for (int64_t i = self->cycle; i < self->n_receipts; i++) {
        plb_receipt_t *held = &self->receipts[i];
        const bool same = kind == PLB_DECISION_OFF
                              ? held->off_until == self->ledger.until
                              : held->verdict.reason == self->trigger->verdict.reason;
        if (held->kind == kind && same) {
            self->held_before = held->until;
            held->until = self->seen.iteration;
            held->times++;
            return PLB_OK;
        }
    }
    plb_receipt_t r;
    PLB_PASS(make_room(self, err));
    PLB_PASS(fill_receipt(self, kind, &self->trigger->verdict, &r, err));
    if (kind == PLB_DECISION_OFF) {
        r.paid = self->ledger.paid;
        r.saved = self->ledger.gained;
        r.off_until = self->ledger.until;
    }
    self->receipts[self->n_receipts++] = r;
    return PLB_OK;
}

/* ---- an iteration --------------------------------------------------------------------------- */

/* Set `span` and `even`.  On shared cores, an iteration takes at least as long as the cores need
 * for all loads (plb_sharing_t), so balance can only remove what is above this.  But work may need
 * no core, e.g. on a GPU; then ranks that have done less are idle, and a balanced iteration takes
 * at most as long as this one without the mean idle time. */
static void use_cores(plb_decider_t *self, const plb_iteration_t *it)
{
    self->span = it->max;
    self->even = it->mean;
    if (self->share < 1.0 && it->time > it->max) { /* else: virtual seconds */
        const double busy = fmin(it->mean / self->share, it->time - it->idle);
        self->even = fmax(it->mean, busy);
        self->span = fmax(it->max, self->even);
    }
}

/* Objects may have moved while the iteration ran: learn what this cost, from the time that it took
 * beyond the loads, compared with an iteration without moves. */
static void feel_moves(plb_decider_t *self, const plb_iteration_t *it)
{
    const double beyond = it->time - it->max;
    if (self->n_since > 0.0) {
        self->rest = beyond;
    } else if (self->last >= 0 && self->most_bytes > 0.0) {
        if (self->felt_bytes == 0.0) { /* what was expected counts like one measurement */
            self->felt_bytes = self->most_bytes;
            self->felt = self->per_byte * self->most_bytes;
        }
        self->felt += reported(last_of(self)->seconds_migration) + beyond - self->rest;
        self->felt_bytes += self->most_bytes;
    }
}

int plb_decider_observe(plb_decider_t *self, const plb_iteration_t *it, plb_err_t *err)
{
    PLB_FAIL_IF(self->phase != PLB_DECIDER_OBSERVES, err, PLB_ERR_STATE,
                "iteration %lld was observed while the decider waits for an answer",
                (long long)it->iteration);
    const plb_trigger_t *t = self->trigger;
    PLB_FAIL_IF(t->started && it->iteration <= t->seen, err, PLB_ERR_STATE,
                "iteration is %lld: expected more than %lld, the last one observed",
                (long long)it->iteration, (long long)t->seen);
    PLB_PASS(check_iteration(it, err));
    const double before = self->span - self->even;
    use_cores(self, it);
    ledger_observe(&self->ledger, it->time, self->span, self->even);
    const double u = self->span - self->even;
    self->grown = self->n_since > 0.0 ? u - before : 0.0;
    /* The loads have jumped if the imbalance (max - mean) grows by more than each of these:
     * PLB_NOTABLE times the mean load; half of it; PLB_SPREADS times the usual change. */
    const double most = fmax(fmax(PLB_NOTABLE * self->even, 0.5 * u), PLB_SPREADS * self->usual);
    self->sudden = self->grown > most;
    self->jumps += self->sudden ? 1.0 : 0.0;
    self->observed += 1.0;
    self->usual += PLB_NEWEST * (fabs(self->grown) - self->usual);
    self->started = true;
    self->seen = *it;
    self->waited += it->time > 0.0 ? it->time : INFINITY; /* 0: it was not measured */
    feel_moves(self, it);
    if (self->last >= 0 && it->hidden > 0.0) {
        last_of(self)->seconds_hidden = it->hidden;
    }
    self->n_since += 1.0;
    self->sum_max += it->max;
    self->sum_mean += it->mean;
    self->sum_min += it->min;
    self->sum_even += self->even;
    if (self->last >= 0 && self->n_since == WARMED_UP) {
        last_of(self)->seconds_warm_up = self->ledger.warm_up;
        last_of(self)->cost += self->ledger.warm_up;
        PLB_PASS(plb_trigger_expect(self->trigger, self->trigger->end,
                                    ledger_theta(&self->ledger, self->ledger.strategy), err));
    }
    /* The first LB step is expected to move only the slowest rank's load above the mean, and to
     * cost less accordingly.  The first iteration does not count: the program may be starting up.
     */
    if (self->last < 0 && self->observed > 1.0 && self->moving > 0.0 && it->max > 0.0) {
        const double share = fmax(it->max - it->mean, 0.0) / it->max;
        self->trigger->cost = self->foreseen - self->moving * (1.0 - share);
    }
    const plb_observation_t o = {it->iteration, self->span, self->even};
    PLB_PASS(plb_trigger_observe(self->trigger, &o, err));
    const plb_reason_t reason = self->trigger->verdict.reason;
    return reason >= PLB_REASON_SUSPECT && reason < PLB_REASON_EVERY
               ? hold(self, PLB_DECISION_HOLD, err)
               : PLB_OK;
}

int plb_decider_see(plb_decider_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    plb_metrics_t m;
    plb_evaluation_t e;
    const double alike[] = {1.0, 1.0}, *near = in->near == NULL ? alike : in->near;
    PLB_PASS(plb_evaluate(in, NULL, &e, err));
    PLB_PASS(plb_snapshot_metrics(in, NULL, &m, err));
    const plb_iteration_t now = {.time = m.max,
                                 .max = m.max,
                                 .mean = m.mean,
                                 .min = m.min,
                                 .total = m.mean * in->n_ranks,
                                 .utilization = m.max > 0.0 ? m.min / m.max : 1.0,
                                 .messages =
                                     plb_whole(near[0] * e.messages_node + e.messages_network),
                                 .bytes = plb_whole(near[1] * e.bytes_node + e.bytes_network)};
    return plb_decider_observe(self, &now, err);
}

/* A strategy takes long if all its calls took longer than this, and than PLB_NOTABLE of an
 * iteration (docs/inside.md). */
static const double SLOW = 0.05;

/* An LB step is due: return PLB_ASK_BALANCE, or PLB_ASK_BEGIN if its strategy takes long and may
 * run beside the next iterations. */
static plb_ask_t ask_for_step(plb_decider_t *self, bool may_wait)
{
    const double t = self->fastest;
    if (!self->opt.beside || self->late || !may_wait || isinf(t) ||
        t <= fmax(SLOW, PLB_NOTABLE * self->seen.time)) {
        return PLB_ASK_BALANCE;
    }
    self->late = true;
    self->waited = 0.0;
    self->why_late = self->trigger->verdict.reason;
    return PLB_ASK_BEGIN;
}

int plb_decider_next(plb_decider_t *self, bool asked, bool may_preview, plb_ask_t *ask,
                     plb_err_t *err)
{
    const plb_receipt_t *last = last_of(self);
    *ask = PLB_ASK_NOTHING;
    PLB_FAIL_IF(self->phase != PLB_DECIDER_OBSERVES, err, PLB_ERR_STATE,
                "the decider waits for an answer");
    /* after a distributed LB step a preview would cost too much: it gathers all loads */
    may_preview = may_preview && !(last != NULL && plb_decider_in_rounds(self, last->strategy));
    if (self->goes_on || (self->late && self->waited < self->fastest)) { /* it still places */
        *ask = self->goes_on ? PLB_ASK_BALANCE : PLB_ASK_NOTHING;
        return PLB_OK;
    }
    asked |= self->late;
    if (self->opt.gives_up && ledger_judges(&self->ledger, self->seen.iteration, asked)) {
        self->phase = PLB_DECIDER_JUDGES;
        *ask = PLB_ASK_JUDGE;
        return PLB_OK;
    }
    if (asked && !self->late && self->opt.gives_up &&
        !ledger_allows(&self->ledger, self->seen.iteration)) {
        PLB_PASS(hold(self, PLB_DECISION_OFF, err));
        asked = false;
    }
    if (asked) {
        *ask = ask_for_step(self, may_preview);
    } else if (self->opt.watches && may_preview &&
               promise_observe(&self->promise, self->span, self->even)) {
        self->phase = PLB_DECIDER_PREVIEWS;
        *ask = PLB_ASK_PREVIEW;
    }
    return PLB_OK;
}

int plb_decider_previewed(plb_decider_t *self, double gain, plb_ask_t *ask, plb_err_t *err)
{
    PLB_FAIL_IF(self->phase != PLB_DECIDER_PREVIEWS, err, PLB_ERR_STATE,
                "an answer was given, but no preview is due");
    if (!(fabs(gain) <= 1e30)) { /* true also for NaN */
        return PLB_FAIL(err, PLB_ERR_VALUE, "gain is %g: expected a finite number of seconds",
                        gain);
    }
    const int64_t at = self->seen.iteration;
    const double left =
        self->trigger->end == INT64_MAX ? (double)at + 1.0 : (double)(self->trigger->end - at - 1);
    self->phase = PLB_DECIDER_OBSERVES;
    *ask = PLB_ASK_NOTHING;
    if (self->last >= 0 && gain * left > self->receipts[self->last].cost) {
        self->found = gain;
        *ask = ask_for_step(self, true);
    }
    return PLB_OK;
}

bool plb_decider_can_judge(const plb_decider_t *self)
{
    const plb_receipt_t *last = last_of(self);
    return last != NULL && self->seen.iteration - last->iteration != last->iterations;
}

int plb_decider_judge(plb_decider_t *self, double gain, plb_err_t *err)
{
    plb_receipt_t *last = last_of(self);
    PLB_FAIL_IF(last == NULL, err, PLB_ERR_STATE,
                "there was no LB step whose gain could be judged");
    PLB_PASS(plb_check(PLB_FINITE, PLB_FIGURES({"gain", gain}), err));
    last->gain = gain;
    last->iterations = self->seen.iteration - last->iteration;
    if (self->phase != PLB_DECIDER_JUDGES) {
        return PLB_OK;
    }
    self->phase = PLB_DECIDER_OBSERVES;
    ledger_judge(&self->ledger, self->seen.iteration, gain);
    return PLB_OK;
}

/* ---- an LB step ----------------------------------------------------------------------------- */

int plb_decider_choose(plb_decider_t *self, const plb_verdict_t *why, int64_t n_objects,
                       plb_err_t *err)
{
    PLB_FAIL_IF(self->phase != PLB_DECIDER_OBSERVES, err, PLB_ERR_STATE,
                "an LB step begins while the decider waits for an answer");
    const plb_decision_kind_t kind =
        isnan(self->found) ? PLB_DECISION_BALANCE : PLB_DECISION_SPEEDS;
    receipt_free(&self->next);
    PLB_PASS(make_room(self, err)); /* now, because plb_decider_balanced must not allocate */
    PLB_PASS(fill_receipt(self, kind, &self->trigger->verdict, &self->next, err));
    if (self->goes_on) {
        self->next.verdict.reason = PLB_REASON_SLICE;
    } else if (self->late) {
        self->next.verdict.reason = self->why_late;
    } else if (why != NULL) {
        self->next.verdict.reason = why->reason;
    }
    self->next.found = self->found;
    self->chosen = self->goes_on ? last_of(self)->strategy : 0;
    self->instead = -1;
    self->n_objects = n_objects;
    self->most_bytes = 0.0;
    if (self->opt.selects && !self->goes_on) {
        plb_decider_select(self);
    }
    self->next.strategy = self->chosen;
    self->found = NAN;
    self->phase = PLB_DECIDER_PLACES;
    return PLB_OK;
}

int plb_decider_placed(plb_decider_t *self, const plb_placing_t *placing, const double *speed,
                       plb_err_t *err)
{
    const bool knows = speed != NULL && speed[0] > 0.0;
    PLB_FAIL_IF(self->phase != PLB_DECIDER_PLACES, err, PLB_ERR_STATE,
                "no LB step has begun that waits for a placement");
    PLB_PASS(plb_check(
        PLB_RATIO, PLB_FIGURES(PLB_FIGURE(placing, before), PLB_FIGURE(placing, predicted)), err));
    for (int32_t r = 0; knows && r < self->opt.n_ranks; r++) {
        PLB_FAIL_IF(!(speed[r] > 0.0 && speed[r] <= 1e30), err, PLB_ERR_VALUE,
                    "speed[%d] is %g: expected a finite number above zero", (int)r, speed[r]);
    }
    if (knows) {
        PLB_PASS_NEW(self->next.speed, self->opt.n_ranks);
        memcpy(self->next.speed, speed, (size_t)self->opt.n_ranks * sizeof *speed);
    }
    self->next.placing = *placing;
    const double by = placing->placed_by; /* NAN: `chosen` */
    self->next.strategy = by >= 0.0 && by < (double)self->opt.n ? (int32_t)by : self->chosen;
    self->fastest = self->late ? self->fastest : fmin(self->fastest, placing->seconds_strategy);
    self->phase = PLB_DECIDER_MOVES;
    return PLB_OK;
}

/* after: the max/mean that the strategy predicts */
static void remember(plb_decider_t *self, int32_t strategy, double after)
{
    if (self->opt.selects && !self->goes_on && !plb_decider_in_rounds(self, strategy)) {
        plb_selector_balanced(&self->selector, strategy, fmax(after, 1.0), self->next.cost);
    }
}

typedef struct words {
    char text[24];
} words_t;

/* Seconds with their unit, e.g. "1.2 s" or "345 ms". */
static words_t in_words(double seconds)
{
    words_t out;
    const bool is_long = seconds >= 1.0;
    snprintf(out.text, sizeof out.text, "%.3g %s", is_long ? seconds : 1e3 * seconds,
             is_long ? "s" : "ms");
    return out;
}

/* Say in the receipt if the objects were not placed for the best balance of the present loads. */
static void say_ahead(plb_decider_t *self)
{
    const plb_placing_t *p = &self->next.placing;
    const double losses[] = {p->loss_1, p->loss_2, p->loss_4, p->loss_8};
    double least = fmin(p->loss_0, p->loss_tolerant);
    char how[128] = "";
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        least = fmin(least, losses[k]); /* NAN: not tried; fmin ignores NAN */
    }
    if (p->tolerance > 0.0) {
        snprintf(how, sizeof how,
                 "up to %.0f %% of imbalance may be left, so that fewer objects move",
                 100.0 * p->tolerance);
    } else if (p->loss_scattered < least) {
        least = p->loss_scattered;
        snprintf(
            how, sizeof how,
            "heavy objects that are neighbours went to different ranks: when the heavy region "
            "moves on, it then reaches all ranks alike");
    } else if (p->ahead > 0.0) {
        snprintf(how, sizeof how, "placed for the loads expected %.0f iteration%s ahead", p->ahead,
                 p->ahead == 1.0 ? "" : "s");
    } else {
        return;
    }
    plb_decider_say(self,
                    "; %s, which loses %s per iteration until the next LB step, instead of %s",
                    how, in_words(least).text, in_words(p->loss_0).text);
}

/* An LB step for better speeds takes place, although the trigger has said "not yet" at this
 * iteration: take the iteration out of the receipt of "not yet". */
static void take_back_hold(plb_decider_t *self)
{
    plb_receipt_t *held = &self->receipts[self->cycle], *end = &self->receipts[self->n_receipts];
    while (held < end &&
           !(held->kind == PLB_DECISION_HOLD && held->until == self->next.iteration)) {
        held++;
    }
    if (held < end && --held->times > 0) {
        held->until = self->held_before;
    } else if (held < end) {
        receipt_free(held);
        memmove(held, held + 1, (size_t)(end - held - 1) * sizeof *held);
        self->n_receipts--;
    }
}

int plb_decider_balanced(plb_decider_t *self, const plb_step_done_t *done, plb_err_t *err)
{
    PLB_FAIL_IF(self->phase != PLB_DECIDER_MOVES, err, PLB_ERR_STATE,
                "no LB step with a placement is under way");
    PLB_PASS(plb_check(
        PLB_AMOUNT,
        PLB_FIGURES(PLB_FIGURE(done, migrations), PLB_FIGURE(done, bytes), PLB_FIGURE(done, cost)),
        err));
    PLB_PASS(plb_check_known(PLB_AMOUNT, "seconds_migration", done->seconds_migration, err));
    plb_decider_settle(self);
    plb_receipt_t *r = &self->next;
    const plb_placing_t *p = &r->placing;
    const int32_t chosen = self->chosen;
    const bool goes_on = done->goes_on || p->moves_left > 0.0;
    r->migrations = done->migrations;
    r->nbytes = done->bytes;
    r->seconds_migration = done->seconds_migration;
    r->seconds = done->cost;
    r->moved = done->moved;
    const char *name = self->candidates[r->strategy].strategy.name;
    if (r->strategy != chosen && r->strategy == self->instead) {
        plb_decider_say(self, ", but %s balances about as well as %s and moves fewer objects",
                        name, self->candidates[chosen].strategy.name);
    } else if (p->compared > 1.0) {
        plb_decider_say(self, "; with distances, %s is the fastest of %.0f strategies", name,
                        p->compared);
    }
    say_ahead(self);
    if (p->by_sum > 0.0) {
        plb_decider_say(self,
                        "; VectorLB then placed the phases: by their sum, max/mean would be %.3f",
                        p->by_sum);
    }
    self->trigger->misled = self->sudden;
    const double before = self->goes_on ? self->ledger.cost : 0.0;
    const double moving = isnan(done->seconds_migration) ? 0.0 : done->seconds_migration;
    const double left = fmax(p->predicted / plb_decider_stretch(self), 1.0); /* of `even` */
    const double felt = isnan(p->felt) ? 0.0 : fmax(p->felt - moving, 0.0);
    const plb_costs_t costs = {
        p->seconds_statistics, p->seconds_strategy, done->seconds_migration, done->cost,
        done->given,           .felt = felt,        .goes_on = self->goes_on};
    ledger_balanced(&self->ledger, r->iteration, r->strategy, &costs);
    r->cost = self->ledger.cost - before - felt;
    if (r->strategy != chosen) {
        remember(self, chosen, p->passed_over);
    }
    remember(self, r->strategy, isnan(p->present) ? p->predicted_with_messages : p->present);
    if (self->goes_on) { /* the trigger adds up the costs of slices, and expects their sum */
        self->trigger->cost = NAN;
    }
    PLB_PASS(
        plb_trigger_balanced(self->trigger, r->iteration, self->ledger.cost - before, left, err));
    if (self->goes_on) {
        self->trigger->cost = ledger_theta(&self->ledger, self->ledger.strategy);
    }
    self->left[r->strategy] = left;
    if (self->most_bytes > 0.0 && self->opt.move_at_most == 0.0) {
        self->per_byte = moving / self->most_bytes;
    }
    self->promise.predicted = fmax(left, 1.0);
    self->promise.price = done->cost - moving;
    self->promise.last = 1.0; /* the first iteration may be warm-up */
    self->promise.since = self->promise.lost = 0.0;
    if (r->kind == PLB_DECISION_SPEEDS || self->goes_on || self->late) {
        take_back_hold(self);
    }
    r->slice = self->goes_on ? last_of(self)->slice + 1.0 : goes_on ? 1.0 : NAN;
    self->goes_on = goes_on;
    self->receipts[self->n_receipts++] = *r;
    *r = (plb_receipt_t){0}; /* self->receipts now owns the arrays of *r */
    self->last = self->n_receipts - 1;
    self->cycle = self->n_receipts;
    self->n_lb_steps++;
    self->n_since = self->sum_max = self->sum_mean = self->sum_min = self->sum_even = 0.0;
    self->late = false;
    self->phase = PLB_DECIDER_OBSERVES;
    return PLB_OK;
}

void plb_decider_abandon(plb_decider_t *self)
{
    self->goes_on &= self->phase < PLB_DECIDER_PLACES; /* after a failed placement, no slices
                                                          follow */
    self->late &= self->phase < PLB_DECIDER_PLACES;
    self->phase = PLB_DECIDER_OBSERVES;
}

void plb_decider_settle(plb_decider_t *self)
{
    plb_receipt_t *last = last_of(self);
    if (last == NULL || self->n_since == 0.0) {
        return;
    }
    if (self->sum_mean > 0.0) {
        last->realised = self->sum_max / self->sum_mean;
    }
    last->realised_idle_mean = (self->sum_max - self->sum_mean) / self->n_since;
    last->realised_idle_max = (self->sum_max - self->sum_min) / self->n_since;
}
