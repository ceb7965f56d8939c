#include "decide/consensus.h"

#include <stdio.h>

#include "base/mem.h"

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

#define MOST_ITERATIONS (INT64_C(1) << 61) /* twice this number fits in 64 bits */

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

bool plb_consensus_root_ready(const plb_consensus_root_t *self)
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
    PLB_FAIL_IF(!plb_consensus_root_ready(self) || iteration != self->seen + 1, err, PLB_ERR_STATE,
                "statistics of iteration %lld came after those of %lld, round %lld is %s: "
                "expected the statistics of the next iteration, while no round is open",
                (long long)iteration, (long long)self->seen, (long long)self->round,
                plb_consensus_root_ready(self) ? "closed" : "open");
    PLB_FAIL_IF(wish < 1 && wish != PLB_WISH_NONE, err, PLB_ERR_VALUE,
                "wish is %lld: expected an iteration, 1 or later", (long long)wish);
    self->seen = iteration;
    const bool due = PLB_ABLATE(EQUAL) ? self->final == iteration : self->final <= iteration;
    if (n_ended > 0 && !(due && PLB_ABLATE(ENDED))) { /* rule 6 of consensus.h */
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

int plb_consensus_root_maximum(plb_consensus_root_t *self, int64_t round, int64_t reach,
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

static plb_action_t *act(plb_actions_t *out, plb_action_kind_t kind, int64_t first)
{
    plb_action_t *a = &out->act[out->n++];
    *a = (plb_action_t){.kind = kind, .first = first, .last = first};
    return a;
}

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
        act(out, PLB_ACT_STATS, self->contributed + 1)->last = upto;
        self->contributed = upto;
    }
}

static int check_slot(const plb_consensus_t *self, int64_t slot, plb_err_t *err)
{
    PLB_FAIL_IF(slot < 0 || slot >= self->capacity || self->reach[slot] < 0, err, PLB_ERR_KEY,
                "slot %lld is none of the %lld objects on this rank", (long long)slot,
                (long long)self->n_objects);
    return PLB_OK;
}

int plb_consensus_init(plb_consensus_t *self, int32_t lag, int64_t end, plb_err_t *err)
{
    *self = (plb_consensus_t){.lag = lag, .limit = PLB_NEVER, .final = PLB_NEVER, .end = end};
    PLB_FAIL_IF(lag < 0 || end < 0, err, PLB_ERR_VALUE, "lag %d, end %lld: expected 0 or more",
                lag, (long long)end);
    return PLB_OK;
}

void plb_consensus_free(plb_consensus_t *self)
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

static int64_t furthest(const plb_consensus_t *self)
{
    const int64_t most = min_of(min_of(self->limit, self->end), MOST_ITERATIONS);
    return self->lag > 0 ? min_of(most, self->seen + 1 + self->lag) : most;
}

int plb_consensus_add(plb_consensus_t *self, int64_t iteration, int64_t *slot, plb_actions_t *out,
                      plb_err_t *err)
{
    out->n = 0;
    PLB_FAIL_IF(iteration < self->contributed || iteration > furthest(self), err, PLB_ERR_STATE,
                "an object at iteration %lld cannot join: expected an iteration from %lld "
                "(statistics are contributed up to it) to %lld",
                (long long)iteration, (long long)self->contributed, (long long)furthest(self));
    if (self->free == self->capacity) {
        PLB_PASS(grow(self, err));
    }
    *slot = self->free;
    self->free = -1 - self->reach[*slot];
    self->reach[*slot] = 2 * iteration;
    self->n_objects++;
    self->n_behind += iteration <= self->contributed;
    contribute(self, out);
    return PLB_OK;
}

int plb_consensus_remove(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err)
{
    out->n = 0;
    PLB_PASS(check_slot(self, slot, err));
    self->n_objects--;
    self->n_behind -= finished(self->reach[slot]) <= self->contributed;
    self->reach[slot] = -1 - self->free;
    self->free = slot;
    contribute(self, out);
    return PLB_OK;
}

int plb_consensus_reached(plb_consensus_t *self, int64_t slot, plb_actions_t *out, plb_err_t *err)
{
    out->n = 0;
    PLB_PASS(check_slot(self, slot, err));
    PLB_FAIL_IF(waits(self->reach[slot]), err, PLB_ERR_STATE,
                "slot %lld waits at AtSync(%lld) already", (long long)slot,
                (long long)finished(self->reach[slot]));
    self->n_behind -= finished(self->reach[slot]++) <= self->contributed;
    contribute(self, out);
    return PLB_OK;
}

plb_answer_t plb_consensus_answer(const plb_consensus_t *self, int64_t slot)
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

int plb_consensus_ask(plb_consensus_t *self, int64_t slot, plb_answer_t *answer, plb_err_t *err)
{
    PLB_PASS(check_slot(self, slot, err));
    PLB_FAIL_IF(!waits(self->reach[slot]), err, PLB_ERR_STATE,
                "slot %lld runs iteration %lld: it does not wait", (long long)slot,
                (long long)begun(self->reach[slot]));
    *answer = plb_consensus_answer(self, slot);
    self->reach[slot] += *answer == PLB_ANSWER_GO;
    return PLB_OK;
}

int plb_consensus_end(plb_consensus_t *self, int64_t iteration, plb_actions_t *out, plb_err_t *err)
{
    out->n = 0;
    const int64_t past = max_of(self->contributed, begun(measure(self).reach));
    PLB_FAIL_IF(iteration < past, err, PLB_ERR_STATE,
                "this rank cannot end at iteration %lld: it has begun iteration %lld",
                (long long)iteration, (long long)past);
    PLB_FAIL_IF(iteration > self->end && self->contributed >= self->end, err, PLB_ERR_STATE,
                "this rank cannot go on to iteration %lld: it has ended at iteration %lld",
                (long long)iteration, (long long)self->end);
    self->end = iteration;
    contribute(self, out);
    return PLB_OK;
}

void plb_consensus_fail(plb_consensus_t *self, plb_actions_t *out)
{
    out->n = 0;
    for (int64_t i = 0; i < self->capacity; i++) {
        self->reach[i] = -1 - (i + 1);
    }
    self->free = self->n_objects = self->n_behind = 0;
    self->end = min_of(self->end, self->contributed);
    contribute(self, out);
}

bool plb_consensus_ended(const plb_consensus_t *self, int64_t iteration)
{
    return iteration >= self->end;
}

/* Open a round: objects pause as in rule 2. */
static int take_tentative(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                          plb_err_t *err)
{
    PLB_FAIL_IF(self->open || ruling->round != self->round + 1, err, PLB_ERR_STATE,
                "round %lld opens while round %lld is %s", (long long)ruling->round,
                (long long)self->round, self->open ? "open" : "closed");
    const int64_t reach = measure(self).reach;
    self->round = ruling->round;
    self->open = true;
    if (!PLB_ABLATE(PAUSE)) {
        self->limit = max_of(ruling->iteration, begun(reach));
    }
    act(out, PLB_ACT_MAXIMUM, reach)->round = self->round;
    return PLB_OK;
}

static int take_final(plb_consensus_t *self, const plb_ruling_t *ruling, bool *more,
                      plb_err_t *err)
{
    const int64_t most = begun(measure(self).reach);
    PLB_FAIL_IF(most > ruling->iteration && !PLB_ABLATE(PAUSE), err, PLB_ERR_STATE,
                "iteration %lld has begun, but the final iteration is %lld", (long long)most,
                (long long)ruling->iteration);
    *more = *more || ruling->iteration > self->limit;
    self->final = self->limit = ruling->iteration;
    self->open = false;
    return PLB_OK;
}

static int take_balance(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                        plb_err_t *err)
{
    const extent_t x = measure(self);
    const int64_t at = ruling->iteration;
    char final[96] = "no final iteration is known", slowest[96] = "this rank has no objects";
    if (self->final != PLB_NEVER) {
        snprintf(final, sizeof final, "the final iteration is %lld", (long long)self->final);
    }
    if (x.slowest != PLB_NEVER) {
        snprintf(slowest, sizeof slowest, "all objects of this rank have finished iteration %lld",
                 (long long)x.slowest);
    }
    PLB_FAIL_IF(self->final != at || self->contributed < at ||
                    ((x.slowest < at || x.reach > 2 * at) && !PLB_ABLATE(PAUSE)),
                err, PLB_ERR_STATE,
                "an LB step at iteration %lld, but %s, %s, and iteration %lld has begun: expected "
                "the same iteration",
                (long long)at, final, slowest, (long long)begun(x.reach));
    self->balancing = true;
    act(out, PLB_ACT_BALANCE, at);
    return PLB_OK;
}

static int follow_ruling(plb_consensus_t *self, const plb_ruling_t *ruling, bool *more,
                         plb_actions_t *out, plb_err_t *err)
{
    switch (ruling->kind) {
    case PLB_RULING_TENTATIVE:
        return take_tentative(self, ruling, out, err);
    case PLB_RULING_FINAL:
        return take_final(self, ruling, more, err);
    case PLB_RULING_BALANCE:
        return take_balance(self, ruling, out, err);
    case PLB_RULING_OVER:
        self->done = true;
        act(out, PLB_ACT_DONE, ruling->iteration);
        break;
    case PLB_RULING_NOTHING:
        break;
    }
    return PLB_OK;
}

int plb_consensus_stats(plb_consensus_t *self, int64_t iteration, const plb_ruling_t *ruling,
                        plb_actions_t *out, plb_err_t *err)
{
    out->n = 0;
    PLB_FAIL_IF(iteration != self->seen + 1 || iteration > self->contributed, err, PLB_ERR_STATE,
                "statistics of iteration %lld: known up to %lld, contributed up to %lld",
                (long long)iteration, (long long)self->seen, (long long)self->contributed);
    self->seen = iteration;
    bool more = self->lag > 0;
    /* follow the ruling first: it may stop objects that the statistics would let go on */
    PLB_PASS(follow_ruling(self, ruling, &more, out, err));
    contribute(self, out);
    if (more && !self->done) {
        act(out, PLB_ACT_RESUME, self->limit);
    }
    return PLB_OK;
}

int plb_consensus_maximum(plb_consensus_t *self, const plb_ruling_t *ruling, plb_actions_t *out,
                          plb_err_t *err)
{
    out->n = 0;
    bool more = false;
    PLB_PASS(follow_ruling(self, ruling, &more, out, err));
    contribute(self, out);
    if (more) {
        act(out, PLB_ACT_RESUME, self->limit);
    }
    return PLB_OK;
}

int plb_consensus_balanced(plb_consensus_t *self, plb_actions_t *out, plb_err_t *err)
{
    out->n = 0;
    PLB_FAIL_IF(!self->balancing, err, PLB_ERR_STATE, "no LB step was asked for");
    self->balancing = false;
    self->final = self->limit = PLB_NEVER;
    contribute(self, out);
    act(out, PLB_ACT_RESUME, PLB_NEVER);
    return PLB_OK;
}
