#include "decide/consensus.h"

#include <math.h>

#include "base/err.h"
#include "base/mem.h"

static plb_atsync_part_t *part_of(const plb_atsync_t *self, int64_t iteration)
{
    return &self->part[iteration % (self->window + 2)];
}

static int64_t at(const plb_atsync_t *self, int64_t slot)
{
    return self->rank.reach[slot] >> 1;
}

bool plb_atsync_runs(const plb_atsync_t *self, int64_t slot)
{
    return (self->rank.reach[slot] & 1) != 0;
}

/* ---- begin and end -------------------------------------------------------------------------- */

int plb_atsync_init(plb_atsync_t *self, const plb_atsync_options_t *opt,
                    const plb_reduction_t *net, plb_trigger_t *trigger, int64_t now,
                    plb_err_t *err)
{
    const int32_t window = opt->lag > 0 ? opt->lag : PLB_ATSYNC_WINDOW;
    *self = (plb_atsync_t){.opt = *opt,
                           .net = net,
                           .trigger = trigger,
                           .window = window,
                           .mark = now,
                           .complete = true,
                           .whole = true,
                           .failed_rank = INT64_MAX,
                           .wish = {.first = opt->first, .n = opt->n, .lag = opt->lag}};
    int ret;
    PLB_FAIL_IF(opt->n < 1 || opt->lag < 0 || net->depth < window + 2, err, PLB_ERR_VALUE,
                "%lld iterations, lag %d, %d reductions at once: expected 1 iteration or more, a "
                "lag of 0 or more, and %d reductions or more",
                (long long)opt->n, opt->lag, net->depth, window + 2);
    PLB_TRY(plb_consensus_init(&self->rank, opt->lag, opt->n, err));
    plb_consensus_root_init(&self->root, net->size, opt->lag);
    PLB_NEW0(self->part, window + 2);
out:
    if (ret != PLB_OK) {
        plb_atsync_free(self);
    }
    return ret;
}

void plb_atsync_decide(plb_atsync_t *self, plb_decider_t *decider)
{
    self->decider = decider;
}

void plb_atsync_free(plb_atsync_t *self)
{
    plb_consensus_free(&self->rank);
    PLB_FREE(self->part, self->row);
    self->part = NULL;
    self->row = NULL;
    self->n_rows = self->capacity = 0;
}

/* ---- what the consensus asks for ------------------------------------------------------------ */

/* If several iterations are contributed at once, the first one gets the time of all of them. */
static void describe(plb_atsync_t *self, int64_t iteration, int64_t now, plb_stats_t *s)
{
    plb_atsync_part_t *part = part_of(self, iteration);
    /* the clock may have stepped back */
    const double span = fmax(1e-9 * (double)(now - self->mark), 0.0),
                 own = self->busy + self->background;
    const double idle = fmax(span - own, 0.0);
    s->n_ranks = 1;
    s->load_max = s->load_min = part->total = self->background + plb_exact_value(&part->load);
    plb_exact_add(&s->load_sum, part->total);
    s->load_max_rank = self->net->rank;
    plb_exact_add(&s->idle_sum, idle);
    s->utilization_min = plb_utilization(s->load_max, idle);
    s->time_max = fmax(span - self->waited, 0.0);
}

static int contribute(plb_atsync_t *self, int64_t iteration, int64_t now, plb_err_t *err)
{
    plb_stats_t s;
    plb_stats_init(&s);
    s.kind = self->opt.kind;
    s.iteration = self->opt.first + iteration - 1;
    s.n_objects = self->rank.n_objects;
    s.n_ended = plb_consensus_ended(&self->rank, iteration);
    s.failed_rank = self->failed ? self->net->rank : INT64_MAX;
    if (iteration <= self->rank.end) {
        describe(self, iteration, now, &s);
    }
    self->mark = now;
    self->busy = self->waited = 0.0;
    return self->net->begin_stats(self->net->self, &s, err);
}

static int carry_out(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    for (int k = 0; k < self->acts.n; k++) {
        const plb_action_t *a = &self->acts.act[k];
        switch (a->kind) {
        case PLB_ACT_STATS:
            for (int64_t i = a->first; i <= a->last; i++) {
                PLB_PASS(contribute(self, i, now, err));
            }
            break;
        case PLB_ACT_MAXIMUM:
            self->maximum = true;
            PLB_PASS(
                self->net->begin_maximum(self->net->self, (int64_t[PLB_MAXIMA]){a->first}, err));
            break;
        case PLB_ACT_BALANCE:
            self->balance = true;
            break;
        case PLB_ACT_DONE:
            self->done = true;
            break;
        case PLB_ACT_RESUME: /* an object that waits asks again anyway */
            break;
        }
    }
    return PLB_OK;
}

/* ---- results that have arrived -------------------------------------------------------------- */

/* An LB step can take place at iteration `free` or later.  If it is announced for an iteration F
 * (`final`) up to `free`, and the trigger does not want it later, F stays as it is: if each new
 * iteration raised F, the LB step could be postponed forever. */
int64_t plb_wish_of(plb_wish_t *self, const plb_verdict_t *v, int64_t seen, int64_t final)
{
    const int64_t first = self->first - 1, free = seen + (self->lag > 0 ? self->lag : 1);
    int64_t wish = PLB_WISH_NONE;
    if (self->decided) {
        return PLB_WISH_NONE;
    }
    if (v->balance && free < self->n) {
        self->decided = true;
        self->decided_at = first + seen;
        wish = seen;
    } else if (v->next >= (double)(first + self->n)) { /* true also for infinity */
        wish = PLB_NEVER;
    } else if (v->next > (double)(first + seen)) {
        wish = (int64_t)ceil(v->next) - first;
    }
    self->why = *v;
    return wish <= final && final <= free ? PLB_WISH_NONE : wish;
}

static void record(plb_atsync_t *self, const plb_stats_t *all, int64_t iteration)
{
    self->row[self->n_rows++] = (plb_atsync_row_t){
        .time = all->time_max,
        .max = all->load_max,
        .mean = plb_exact_value(&all->load_sum) / (double)all->n_ranks,
        .idle = plb_exact_value(&all->idle_sum) / (double)all->n_ranks,
        .utilization = all->utilization_min,
        .min = all->load_min,
        .messages = (double)all->messages,
        .bytes = (double)all->message_bytes,
        .load = part_of(self, iteration)->total,
    };
}

/* After an error, feed() no longer calls this. */
static int observe(plb_atsync_t *self, const plb_stats_t *all, plb_err_t *err)
{
    const plb_atsync_row_t *row = &self->row[self->n_rows - 1];
    const plb_observation_t o = {all->iteration, row->max, row->mean};
    const plb_iteration_t it = {
        .iteration = all->iteration,
        .time = row->time,
        .max = row->max,
        .mean = row->mean,
        .min = row->min,
        .total = plb_exact_value(&all->load_sum),
        .utilization = row->utilization,
        .messages = all->messages,
        .bytes = all->message_bytes,
    };
    const int ret = self->decider == NULL ? plb_trigger_observe(self->trigger, &o, err)
                                          : plb_decider_observe(self->decider, &it, err);
    self->whole = ret == PLB_OK;
    return ret;
}

enum { YES, NO, NO_ANSWER };

/* Contribute this rank's answer (yes, no, or none after an error) to a reduction of maxima.  The
 * result tells, for each answer, the lowest rank that gave it. */
static int vote(plb_atsync_t *self, plb_err_t *err)
{
    int64_t mine[PLB_MAXIMA] = {0};
    const bool yes = self->trigger->verdict.balance;
    mine[!self->whole ? NO_ANSWER : yes ? YES : NO] = self->net->size - self->net->rank;
    self->votes = true;
    return self->net->begin_maximum(self->net->self, mine, err);
}

/* v: the trigger's verdict on the statistics that have arrived; NULL: there is none. */
static int rule(plb_atsync_t *self, const plb_verdict_t *v, int64_t now, plb_err_t *err)
{
    const int64_t iteration = self->rank.seen + 1;
    int64_t wish = PLB_WISH_NONE;
    plb_ruling_t ruling;
    if (v != NULL && self->opt.balance) {
        wish = plb_wish_of(&self->wish, v, iteration, self->root.final);
    }
    PLB_PASS(plb_consensus_root_stats(&self->root, iteration, self->n_ended, wish, &ruling, err));
    PLB_PASS(plb_consensus_stats(&self->rank, iteration, &ruling, &self->acts, err));
    return carry_out(self, now, err);
}

/* Even if the trigger fails, this rank takes part in the reductions: other ranks wait for it. */
static int feed(plb_atsync_t *self, const plb_stats_t *all, int64_t now, plb_err_t *err)
{
    int asked = PLB_OK;
    const int64_t iteration = self->rank.seen + 1;
    PLB_FAIL_IF(all->flags & PLB_STATS_MIXED || all->iteration != self->opt.first + iteration - 1,
                err, PLB_ERR_STATE,
                "statistics of iteration %lld: ranks contributed to different "
                "iterations, up to %lld",
                (long long)(self->opt.first + iteration - 1), (long long)all->iteration);
    self->n_ended = all->n_ended;
    self->complete = self->complete && all->n_ranks == self->net->size;
    self->whole = self->whole && self->complete;
    if (all->n_ranks > 0) {
        record(self, all, iteration);
    }
    if (self->whole) {
        asked = observe(self, all, err);
    }
    *part_of(self, iteration) = (plb_atsync_part_t){{{0}}, 0.0};
    if (all->failed_rank < self->failed_rank) {
        self->failed_rank = all->failed_rank;
    }
    const int ret = self->complete && self->opt.balance && self->trigger->kind->foreign
                        ? vote(self, err)
                        : rule(self, self->whole ? &self->trigger->verdict : NULL, now, err);
    return ret == PLB_OK ? asked : ret;
}

/* If the answers differ, all ranks stop at the same iteration, as for an LB step, and raise the
 * error there: otherwise other ranks could wait forever for this rank's messages.  A rank whose
 * trigger gave no answer raises its own error. */
static int take_votes(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    int64_t all[PLB_MAXIMA];
    bool done;
    PLB_PASS(self->net->test_maximum(self->net->self, all, &done, err));
    if (!done) {
        return PLB_OK;
    }
    self->votes = false;
    plb_verdict_t verdict = self->trigger->verdict;
    if (all[NO_ANSWER] == 0 && all[YES] > 0 && all[NO] > 0) {
        const int64_t p = self->net->size;
        self->dispute =
            (plb_dispute_t){self->opt.first + self->rank.seen, p - all[YES], p - all[NO]};
        verdict.balance = true;
    }
    return rule(self, all[NO_ANSWER] == 0 ? &verdict : NULL, now, err);
}

static int take_maximum(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    int64_t reach[PLB_MAXIMA];
    bool done;
    plb_ruling_t ruling;
    PLB_PASS(self->net->test_maximum(self->net->self, reach, &done, err));
    if (!done) {
        return PLB_OK;
    }
    self->maximum = false;
    PLB_PASS(plb_consensus_root_maximum(&self->root, self->root.round, reach[0], &ruling, err));
    PLB_PASS(plb_consensus_maximum(&self->rank, &ruling, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_progress(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    bool done = true;
    plb_stats_t all;
    while (done && !plb_atsync_over(self)) {
        if (self->votes) {
            PLB_PASS(take_votes(self, now, err));
        }
        if (self->maximum) {
            PLB_PASS(take_maximum(self, now, err));
        }
        /* one reduction at a time, so that all roots get all results in the same order */
        if (self->votes || self->rank.seen == self->rank.contributed ||
            !plb_consensus_root_ready(&self->root)) {
            return PLB_OK;
        }
        /* before the statistics are taken: without memory, they wait for the next try */
        PLB_PASS_GROW(self->row, self->capacity, self->n_rows + 1);
        PLB_PASS(self->net->test_stats(self->net->self, &all, &done, err));
        if (done) {
            PLB_PASS(feed(self, &all, now, err));
        }
    }
    return PLB_OK;
}

/* ---- what the program does ------------------------------------------------------------------ */

int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err)
{
    PLB_PASS(plb_consensus_add(&self->rank, self->rank.contributed, slot, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    PLB_PASS(plb_consensus_end(&self->rank, self->opt.n, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err)
{
    PLB_PASS(plb_consensus_remove(&self->rank, slot, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err)
{
    for (int64_t i = 0; i < n; i++) {
        PLB_PASS(plb_check(PLB_SECONDS, PLB_FIGURES({"load", load[i]}), err));
    }
    PLB_PASS(plb_consensus_reached(&self->rank, slot, &self->acts, err));
    plb_exact_t *const sum = &part_of(self, at(self, slot))->load;
    for (int64_t i = 0; i < n; i++) {
        plb_exact_add(sum, load[i]);
        self->busy += load[i];
    }
    return carry_out(self, now, err);
}

int plb_atsync_ask(plb_atsync_t *self, int64_t slot, plb_atsync_answer_t *answer, plb_err_t *err)
{
    plb_answer_t reply = PLB_ANSWER_PAUSE;
    if (self->failed_rank != INT64_MAX) {
        *answer = PLB_ATSYNC_FAILED;
    } else if (self->balance && self->dispute.yes != self->dispute.no) {
        return PLB_FAIL(err, PLB_ERR_VALUE,
                        "the trigger answers differently after iteration %lld: rank %lld: an LB "
                        "step; rank %lld: no LB step; expected the same on all ranks, computed "
                        "only from the values of the cycle",
                        (long long)self->dispute.iteration, (long long)self->dispute.yes,
                        (long long)self->dispute.no);
    } else if (self->balance) {
        *answer = PLB_ATSYNC_BALANCE;
    } else if (slot < 0) {
        *answer = self->done ? PLB_ATSYNC_END : PLB_ATSYNC_PAUSE;
    } else {
        if (at(self, slot) - self->window <= self->rank.seen) {
            PLB_PASS(plb_consensus_ask(&self->rank, slot, &reply, err));
        }
        *answer = reply == PLB_ANSWER_GO    ? PLB_ATSYNC_GO
                  : reply == PLB_ANSWER_END ? PLB_ATSYNC_END
                                            : PLB_ATSYNC_PAUSE;
    }
    return PLB_OK;
}

int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    PLB_PASS(plb_consensus_balanced(&self->rank, &self->acts, err));
    self->balance = self->wish.decided = false;
    self->mark = now;
    self->busy = self->waited = 0.0;
    return carry_out(self, now, err);
}

int plb_atsync_give_up(plb_atsync_t *self, bool failed, int64_t now, plb_err_t *err)
{
    self->failed = self->failed || failed;
    if (plb_atsync_over(self)) {
        return PLB_OK;
    }
    plb_consensus_fail(&self->rank, &self->acts);
    return carry_out(self, now, err);
}

bool plb_atsync_over(const plb_atsync_t *self)
{
    return self->done || self->balance;
}
