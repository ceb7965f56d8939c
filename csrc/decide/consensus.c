#include "decide/consensus.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* tests/c/interleave.c disables each rule of consensus.h, to show that the rule is needed. */
#ifndef PLB_ABLATE
#define PLB_ABLATE(part) false
#endif

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The last iteration that an object with this reach (consensus.h) has finished. */
static int64_t finished(int64_t reach)
{
    return reach >> 1;
}

static int64_t begun(int64_t reach)
{
    return (reach + 1) >> 1;
}

static bool waits(int64_t reach)
{
    return (reach & 1) == 0;
}

/* ---- the root ------------------------------------------------------------------------------- */

void plb_consensus_root_init(plb_consensus_root_t *self, int64_t n_ranks, int32_t lag)
{
    *self = (plb_consensus_root_t){
        .n_ranks = n_ranks, .lag = lag, .tentative = PLB_NEVER, .final = PLB_NEVER};
}

/* Whether the root takes statistics.  False: it waits for the maximum of its open round. */
static bool consensus_root_ready(const plb_consensus_root_t *self)
{
    return self->tentative == PLB_NEVER || PLB_ABLATE(HOLD);
}

/* Take the trigger's wish by rules 4 and 5 of consensus.h. */
static void take_wish(plb_consensus_root_t *self, int64_t wish, plb_ruling_t *out)
{
    const int64_t first = self->seen + max_of(self->lag, 1);
    const int64_t period = max_of(wish, first);
    if (period == self->final) {
        return;
    }
    if (self->lag > 0 || period > self->final) {
        self->final = period;
        *out = (plb_ruling_t){PLB_RULING_FINAL, self->round, period};
    } else {
        self->tentative = period;
        *out = (plb_ruling_t){PLB_RULING_TENTATIVE, ++self->round, period};
    }
}

int plb_consensus_root_stats(plb_consensus_root_t *self, int64_t iteration, int64_t n_ended,
                             int64_t wish, plb_ruling_t *out, plb_err_t *err)
{
    *out = (plb_ruling_t){.kind = PLB_RULING_NOTHING};
    PLB_FAIL_IF(!consensus_root_ready(self) || iteration != self->seen + 1, err, PLB_ERR_STATE,
                "statistics of iteration %lld came after those of %lld, round %lld is %s: "
                "expected the statistics of the next iteration, while no round is open",
                (long long)iteration, (long long)self->seen, (long long)self->round,
                consensus_root_ready(self) ? "closed" : "open");
    PLB_FAIL_IF(wish < 1 && wish != PLB_WISH_NONE, err, PLB_ERR_VALUE,
                "wish is %lld: expected an iteration, 1 or later", (long long)wish);
    self->seen = iteration;
    const bool due = PLB_ABLATE(EQUAL) ? self->final == iteration : self->final <= iteration;
    if (n_ended > 0 && !(due && PLB_ABLATE(ENDED))) { /* rule 6 (docs/consensus.md) */
        if (n_ended >= self->n_ranks) {
            *out = (plb_ruling_t){PLB_RULING_OVER, self->round, iteration};
        } else if (self->final != PLB_NEVER && !PLB_ABLATE(ENDED)) {
            *out = (plb_ruling_t){PLB_RULING_FINAL, self->round, PLB_NEVER};
            self->final = PLB_NEVER;
        }
    } else if (due) { /* rule 3 */
        *out = (plb_ruling_t){PLB_RULING_BALANCE, self->round, self->final};
        self->final = PLB_NEVER;
    } else if (wish != PLB_WISH_NONE && self->tentative == PLB_NEVER) {
        take_wish(self, wish, out);
    }
    return PLB_OK;
}

/* Take the reduced maximum of a round.  reach: greatest `reach` (consensus.h) of all objects. */
static int consensus_root_maximum(plb_consensus_root_t *self, int64_t round, int64_t reach,
                                  plb_ruling_t *out, plb_err_t *err)
{
    *out = (plb_ruling_t){.kind = PLB_RULING_NOTHING};
    PLB_FAIL_IF(self->tentative == PLB_NEVER || round != self->round, err, PLB_ERR_STATE,
                "maximum of round %lld: round %lld is %s, expected the maximum of the open round",
                (long long)round, (long long)self->round,
                self->tentative == PLB_NEVER ? "closed" : "open");
    /* Rule 1.  This does not raise an old F: no object has passed the old F, and T is below it. */
    self->final = max_of(self->tentative, begun(reach));
    self->tentative = PLB_NEVER;
    *out = (plb_ruling_t){PLB_RULING_FINAL, round, self->final};
    return PLB_OK;
}

/* ---- a rank --------------------------------------------------------------------------------- */

static const plb_actions_t NO_ACTION = {.first = 1, .last = 0, .maximum = -1};

typedef enum plb_answer {
    PLB_ANSWER_GO,      /* begin the next iteration */
    PLB_ANSWER_PAUSE,   /* wait, make progress, and ask again */
    PLB_ANSWER_BALANCE, /* pause at the final iteration F, which may still be raised */
    PLB_ANSWER_END,     /* the iteration that ended was the last one of the run */
} plb_answer_t;

/* slowest: the last iteration that all objects of a rank have finished; n_slowest: number of
 * objects that have finished no later one; reach: the objects' greatest `reach` (consensus.h). */
typedef struct extent {
    int64_t slowest, n_slowest, reach;
} extent_t;

static extent_t measure(const plb_consensus_t *self)
{
    extent_t x = {.slowest = PLB_NEVER, .n_slowest = 0, .reach = 2 * self->contributed};
    for (int64_t i = 0; i < self->capacity; i++) {
        const int64_t reach = self->reach[i];
        if (reach < 0) {
            continue;
        }
        x.reach = max_of(x.reach, reach);
        if (finished(reach) < x.slowest) {
            x.slowest = finished(reach);
            x.n_slowest = 0;
        }
        x.n_slowest += finished(reach) == x.slowest;
    }
    return x;
}

/* Contribute the statistics of all iterations that all objects have finished.  The objects are
 * scanned only once per iteration.  A rank without objects, or one that has ended, contributes
 * iteration i + 1 when the statistics of i are known, but no iteration after `limit`: an LB step
 * there may bring objects to this rank. */
static void contribute(plb_consensus_t *self, plb_actions_t *out)
{
    int64_t upto = self->contributed;
    if (self->n_objects > 0 && self->n_behind == 0) {
        const extent_t x = measure(self);
        upto = x.slowest;
        self->n_behind = x.n_slowest;
    }
    if ((self->n_objects == 0 || upto >= self->end) && !self->done) {
        upto = max_of(upto, min_of(self->seen + 1, self->limit));
    }
    if (upto > self->contributed) {
        out->first = self->contributed + 1;
        out->last = self->contributed = upto;
    }
}

static int check_slot(const plb_consensus_t *self, int64_t slot, plb_err_t *err)
{
    PLB_FAIL_IF(slot < 0 || slot >= self->capacity || self->reach[slot] < 0, err, PLB_ERR_KEY,
                "slot %lld is none of the %lld objects on this rank", (long long)slot,
                (long long)self->n_objects);
    return PLB_OK;
}

/* Begin before iteration 1.  end: the last iteration of this rank. */
static int consensus_init(plb_consensus_t *self, int32_t lag, int64_t end, plb_err_t *err)
{
    *self = (plb_consensus_t){.lag = lag, .limit = PLB_NEVER, .final = PLB_NEVER, .end = end};
    PLB_FAIL_IF(lag < 0 || end < 0, err, PLB_ERR_VALUE, "lag %d, end %lld: expected 0 or more",
                lag, (long long)end);
    return PLB_OK;
}

static void consensus_free(plb_consensus_t *self)
{
    plb_free(self->reach);
    self->reach = NULL;
    self->capacity = self->n_objects = 0;
}

static int grow(plb_consensus_t *self, plb_err_t *err)
{
    const int64_t capacity = max_of(4, 2 * self->capacity);
    int64_t *reach = plb_realloc(self->reach, (size_t)capacity, sizeof *reach);
    PLB_FAIL_IF(reach == NULL, err, PLB_ERR_NOMEM, "out of memory: %lld objects in the consensus",
                (long long)capacity);
    for (int64_t i = self->capacity; i < capacity; i++) {
        reach[i] = -1 - (i + 1);
    }
    self->free = self->capacity;
    self->reach = reach;
    self->capacity = capacity;
    return PLB_OK;
}

/* Add an object that has finished the last iteration whose statistics this rank has contributed
 * (at first 0); *slot identifies it. */
static int consensus_add(plb_consensus_t *self, int64_t *slot, plb_actions_t *out, plb_err_t *err)
{
    *out = NO_ACTION;
    if (self->free == self->capacity) {
        PLB_PASS(grow(self, err));
    }
    *slot = self->free;
    self->free = -1 - self->reach[*slot];
    self->reach[*slot] = 2 * self->contributed;
    self->n_objects++;
    self->n_behind++;
    contribute(self, out);
    return PLB_OK;
}

static int consensus_remove(plb_consensus_t *self, int64_t slot, plb_actions_t *out,
                            plb_err_t *err)
{
    *out = NO_ACTION;
    PLB_PASS(check_slot(self, slot, err));
    self->n_objects--;
    self->n_behind -= finished(self->reach[slot]) <= self->contributed;
    self->reach[slot] = -1 - self->free;
    self->free = slot;
    contribute(self, out);
    return PLB_OK;
}

/* Report that a running object waits at AtSync now.  Then it asks. */
static int consensus_reached(plb_consensus_t *self, int64_t slot, plb_actions_t *out,
                             plb_err_t *err)
{
    *out = NO_ACTION;
    PLB_PASS(check_slot(self, slot, err));
    PLB_FAIL_IF(waits(self->reach[slot]), err, PLB_ERR_STATE,
                "slot %lld waits at AtSync(%lld) already", (long long)slot,
                (long long)finished(self->reach[slot]));
    self->n_behind -= finished(self->reach[slot]++) <= self->contributed;
    contribute(self, out);
    return PLB_OK;
}

/* The answer that consensus_ask would give; PLB_ANSWER_GO for an object that runs. */
static plb_answer_t consensus_answer(const plb_consensus_t *self, int64_t slot)
{
    const int64_t reach = self->reach[slot], at = finished(reach);
    if (!waits(reach)) {
        return PLB_ANSWER_GO;
    }
    if (at >= self->end) {
        return PLB_ANSWER_END;
    }
    if (at >= self->limit) {
        return at < self->final ? PLB_ANSWER_PAUSE : PLB_ANSWER_BALANCE;
    }
    const bool lags = self->lag > 0 && at - self->lag > self->seen;
    return lags ? PLB_ANSWER_PAUSE : PLB_ANSWER_GO;
}

/* Ask whether a waiting object may go on; after PLB_ANSWER_GO it runs its next iteration. */
static int consensus_ask(plb_consensus_t *self, int64_t slot, plb_answer_t *answer, plb_err_t *err)
{
    PLB_PASS(check_slot(self, slot, err));
    PLB_FAIL_IF(!waits(self->reach[slot]), err, PLB_ERR_STATE,
                "slot %lld runs iteration %lld: it does not wait", (long long)slot,
                (long long)begun(self->reach[slot]));
    *answer = consensus_answer(self, slot);
    self->reach[slot] += *answer == PLB_ANSWER_GO;
    return PLB_OK;
}

/* This rank has failed: its objects are gone, and it counts as ended, but it still takes part in
 * reductions.  If it has contributed its statistics of the final iteration already, the LB step
 * still takes place; the step must not give this rank objects. */
static void consensus_fail(plb_consensus_t *self, plb_actions_t *out)
{
    *out = NO_ACTION;
    for (int64_t i = 0; i < self->capacity; i++) {
        self->reach[i] = -1 - (i + 1);
    }
    self->free = self->n_objects = self->n_behind = 0;
    self->end = min_of(self->end, self->contributed);
    contribute(self, out);
}

/* Whether this rank counts as ended in its statistics of `iteration`. */
static bool consensus_ended(const plb_consensus_t *self, int64_t iteration)
{
    return iteration >= self->end;
}

/* Follow a ruling of the root. */
static int consensus_follow(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                            plb_err_t *err)
{
    const int64_t at = ruling->iteration;
    extent_t x = {0};
    *out = NO_ACTION;
    if (ruling->kind != PLB_RULING_NOTHING) {
        x = measure(self);
    }
    switch (ruling->kind) {
    case PLB_RULING_TENTATIVE: /* a round opens: objects pause as in rule 2 */
        PLB_FAIL_IF(self->open || ruling->round != self->round + 1, err, PLB_ERR_STATE,
                    "round %lld opens while round %lld is %s", (long long)ruling->round,
                    (long long)self->round, self->open ? "open" : "closed");
        self->round = ruling->round;
        self->open = true;
        if (!PLB_ABLATE(PAUSE)) {
            self->limit = max_of(at, begun(x.reach));
        }
        out->maximum = x.reach;
        break;
    case PLB_RULING_FINAL:
        PLB_FAIL_IF(begun(x.reach) > at && !PLB_ABLATE(PAUSE), err, PLB_ERR_STATE,
                    "iteration %lld has begun, but the final iteration is %lld",
                    (long long)begun(x.reach), (long long)at);
        self->final = self->limit = at;
        self->open = false;
        break;
    case PLB_RULING_BALANCE:
        PLB_FAIL_IF(self->final != at || self->contributed < at ||
                        ((x.slowest < at || x.reach > 2 * at) && !PLB_ABLATE(PAUSE)),
                    err, PLB_ERR_STATE,
                    "an LB step at iteration %lld, but this rank does not wait at the end of it",
                    (long long)at);
        self->balancing = out->balance = true;
        break;
    case PLB_RULING_OVER:
        self->done = out->done = true;
        break;
    case PLB_RULING_NOTHING:
        break;
    }
    contribute(self, out);
    return PLB_OK;
}

/* Take the root's ruling on the statistics of `iteration`, whose reduction is complete. */
static int consensus_stats(plb_consensus_t *self, int64_t iteration, const plb_ruling_t *ruling,
                           plb_actions_t *out, plb_err_t *err)
{
    PLB_FAIL_IF(iteration != self->seen + 1 || iteration > self->contributed, err, PLB_ERR_STATE,
                "statistics of iteration %lld: the last ones are of %lld, this rank's own of %lld",
                (long long)iteration, (long long)self->seen, (long long)self->contributed);
    self->seen = iteration;
    return consensus_follow(self, ruling, out, err);
}

/* End the LB step, after the objects that migrate have been removed and added. */
static int consensus_balanced(plb_consensus_t *self, plb_actions_t *out, plb_err_t *err)
{
    *out = NO_ACTION;
    PLB_FAIL_IF(!self->balancing, err, PLB_ERR_STATE, "no LB step was asked for");
    self->balancing = false;
    self->final = self->limit = PLB_NEVER;
    contribute(self, out);
    return PLB_OK;
}

/* ---- a rank in a loop without barriers ------------------------------------------------------ */

static plb_atsync_part_t *part_of(const plb_atsync_t *self, int64_t iteration)
{
    return &self->part[iteration % (self->window + 2)];
}

static int64_t at(const plb_atsync_t *self, int64_t slot)
{
    return self->rank.reach[slot] >> 1;
}

/* --- begin and end --- */

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
    PLB_TRY(consensus_init(&self->rank, opt->lag, opt->n, err));
    plb_consensus_root_init(&self->root, net->size, opt->lag);
    PLB_NEW0(self->part, window + 2);
out:
    if (ret != PLB_OK) {
        plb_atsync_free(self);
    }
    return ret;
}

void plb_atsync_free(plb_atsync_t *self)
{
    consensus_free(&self->rank);
    PLB_FREE(self->part, self->row);
    self->part = NULL;
    self->row = NULL;
    self->n_rows = self->capacity = 0;
}

/* --- what the consensus asks for --- */

/* If several iterations are contributed at once, the first one gets the time of all of them. */
static int atsync_contribute(plb_atsync_t *self, int64_t iteration, int64_t now, plb_err_t *err)
{
    plb_stats_t s;
    plb_stats_init(&s);
    s.kind = self->opt.kind;
    s.iteration = self->opt.first + iteration - 1;
    s.n_objects = self->rank.n_objects;
    s.n_ended = consensus_ended(&self->rank, iteration);
    s.failed_rank = self->failed ? self->net->rank : INT64_MAX;
    if (iteration <= self->rank.end) {
        plb_atsync_part_t *part = part_of(self, iteration);
        /* the clock may have stepped back */
        const double span = fmax(1e-9 * (double)(now - self->mark), 0.0);
        const double idle = fmax(span - (self->busy + self->background), 0.0);
        s.n_ranks = 1;
        s.load_max = s.load_min = part->total = self->background + plb_exact_value(&part->load);
        plb_exact_add(&s.load_sum, part->total);
        s.load_max_rank = self->net->rank;
        plb_exact_add(&s.idle_sum, idle);
        s.utilization_min = plb_utilization(s.load_max, idle);
        s.time_max = fmax(span - self->waited, 0.0);
        s.arguments = self->arguments;
        plb_stats_set_phases(&s, part->phase, self->n_phases);
    }
    self->mark = now;
    self->busy = self->waited = 0.0;
    return self->net->begin_stats(self->net->self, &s, err);
}

static int carry_out(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    const plb_actions_t *acts = &self->acts;
    self->balance = self->balance || acts->balance;
    self->done = self->done || acts->done;
    if (acts->maximum >= 0) {
        self->maximum = true;
        PLB_PASS(
            self->net->begin_maximum(self->net->self, (int64_t[PLB_MAXIMA]){acts->maximum}, err));
    }
    for (int64_t i = acts->first; i <= acts->last; i++) {
        PLB_PASS(atsync_contribute(self, i, now, err));
    }
    return PLB_OK;
}

/* --- results that have arrived --- */

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
    plb_atsync_row_t *row = &self->row[self->n_rows++];
    *row = (plb_atsync_row_t){
        .time = all->time_max,
        .max = plb_stats_max(all),
        .mean = plb_exact_value(&all->load_sum) / (double)all->n_ranks,
        .idle = plb_exact_value(&all->idle_sum) / (double)all->n_ranks,
        .utilization = all->utilization_min,
        .min = all->load_min,
        .messages = (double)all->messages,
        .bytes = (double)all->message_bytes,
        .load = part_of(self, iteration)->total,
    };
    for (int64_t k = 0; k < all->n_phases; k++) {
        row->phase[k] = all->phase_max[k];
        row->phase[all->n_phases + k] = plb_exact_value(&all->phase_sum[k]) / (double)all->n_ranks;
    }
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
        .idle = row->idle,
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
    PLB_PASS(consensus_stats(&self->rank, iteration, &ruling, &self->acts, err));
    return carry_out(self, now, err);
}

/* Even if the trigger fails, this rank takes part in the reductions: other ranks wait for it. */
static int feed(plb_atsync_t *self, const plb_stats_t *all, int64_t now, plb_err_t *err)
{
    int asked = PLB_OK;
    const int64_t iteration = self->rank.seen + 1;
    PLB_FAIL_IF(all->kind != self->opt.kind || all->iteration != self->opt.first + iteration - 1,
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
    *part_of(self, iteration) = (plb_atsync_part_t){{{0}}, 0.0, {0}};
    if (all->failed_rank < self->failed_rank) {
        self->failed_rank = all->failed_rank;
    }
    /* The phases differ between ranks.  A rank that has ended its loop names none. */
    if (all->flags & PLB_STATS_MIXED && all->n_ended == 0) {
        self->failed_rank = 0;
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

static int atsync_take_maximum(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    int64_t reach[PLB_MAXIMA];
    bool done;
    plb_ruling_t ruling;
    PLB_PASS(self->net->test_maximum(self->net->self, reach, &done, err));
    if (!done) {
        return PLB_OK;
    }
    self->maximum = false;
    PLB_PASS(consensus_root_maximum(&self->root, self->root.round, reach[0], &ruling, err));
    PLB_PASS(consensus_follow(&self->rank, &ruling, &self->acts, err));
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
            PLB_PASS(atsync_take_maximum(self, now, err));
        }
        /* one reduction at a time, so that all roots get all results in the same order */
        if (self->votes || self->rank.seen == self->rank.contributed ||
            !consensus_root_ready(&self->root)) {
            return PLB_OK;
        }
        /* allocated before the statistics are taken: if it fails, they wait for the next try */
        PLB_PASS_GROW(self->row, self->capacity, self->n_rows + 1);
        PLB_PASS(self->net->test_stats(self->net->self, &all, &done, err));
        if (done) {
            PLB_PASS(feed(self, &all, now, err));
        }
    }
    return PLB_OK;
}

/* --- what the program does --- */

int plb_atsync_join(plb_atsync_t *self, int64_t *slot, int64_t now, plb_err_t *err)
{
    PLB_PASS(consensus_add(&self->rank, slot, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_begin(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    self->acts = NO_ACTION;
    contribute(&self->rank, &self->acts);
    return carry_out(self, now, err);
}

int plb_atsync_leave(plb_atsync_t *self, int64_t slot, int64_t now, plb_err_t *err)
{
    PLB_PASS(consensus_remove(&self->rank, slot, &self->acts, err));
    return carry_out(self, now, err);
}

int plb_atsync_reached(plb_atsync_t *self, int64_t slot, const double *load, int64_t n,
                       int64_t now, plb_err_t *err)
{
    for (int64_t i = 0; i < n; i++) {
        PLB_PASS(plb_check(PLB_SECONDS, PLB_FIGURES({"load", load[i]}), err));
    }
    PLB_PASS(consensus_reached(&self->rank, slot, &self->acts, err));
    plb_atsync_part_t *const part = part_of(self, at(self, slot));
    plb_exact_t *const sum = &part->load;
    memcpy(part->phase, self->phase, sizeof part->phase);
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
                        "the trigger answers differently after iteration %lld: an LB step on rank "
                        "%lld, none on rank %lld; expected the same on all ranks, computed only "
                        "from the values of the cycle",
                        (long long)self->dispute.iteration, (long long)self->dispute.yes,
                        (long long)self->dispute.no);
    } else if (self->balance) {
        *answer = PLB_ATSYNC_BALANCE;
    } else if (slot < 0) {
        *answer = self->done ? PLB_ATSYNC_END : PLB_ATSYNC_PAUSE;
    } else {
        if (at(self, slot) - self->window <= self->rank.seen) {
            PLB_PASS(consensus_ask(&self->rank, slot, &reply, err));
        }
        *answer = reply == PLB_ANSWER_GO    ? PLB_ATSYNC_GO
                  : reply == PLB_ANSWER_END ? PLB_ATSYNC_END
                                            : PLB_ATSYNC_PAUSE;
    }
    return PLB_OK;
}

int plb_atsync_balanced(plb_atsync_t *self, int64_t now, plb_err_t *err)
{
    PLB_PASS(consensus_balanced(&self->rank, &self->acts, err));
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
    consensus_fail(&self->rank, &self->acts);
    return carry_out(self, now, err);
}
