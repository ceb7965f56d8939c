#include "consensus_model.h"

#include <assert.h>
#include <string.h>

#include "decide/consensus.c" /* included with the header's definition of PLB_ABLATE */

unsigned model_ablated;

static int n_objects(const model_t *m)
{
    return m->ranks * m->objects;
}

/* Return the last iteration of a rank, which is also that of its objects: they do not migrate if
 * ranks end at different iterations. */
static int64_t last_of(const model_t *m, int rank)
{
    return m->iterations - (rank == 0 ? m->early : 0);
}

static int64_t reach_of(const system_t *s, int g)
{
    return s->rank[s->owner[g]].reach[s->slot[g]];
}

static bool present(const system_t *s, int g)
{
    return s->slot[g] >= 0;
}

static bool at_end(const model_t *m, const system_t *s, int g)
{
    return finished(reach_of(s, g)) >= last_of(m, s->owner[g]);
}

static bool rank_at_end(const model_t *m, const system_t *s, int r)
{
    for (int g = 0; g < n_objects(m); g++) {
        if (s->owner[g] == r && present(s, g) && !at_end(m, s, g)) {
            return false;
        }
    }
    return true;
}

static bool serves(const system_t *s, int r)
{
    return s->serving[r] && !s->rank[r].done;
}

/* ---- what is possible ---- */

static bool has_message(const model_t *m, const system_t *s, int from, int64_t k)
{
    const int n = n_objects(m);
    if (m->ring) {
        from = (from + n) % n;
    }
    return from < 0 || from >= n || !present(s, from) || begun(reach_of(s, from)) >= k ||
           at_end(m, s, from);
}

static bool can_reach(const model_t *m, const system_t *s, int g)
{
    if (!present(s, g) || waits(reach_of(s, g))) {
        return false;
    }
    const int64_t k = begun(reach_of(s, g));
    if (m->blocked) {
        if (s->serving[s->owner[g]]) {
            return false;
        }
        for (int h = 0; h < g; h++) {
            if (s->owner[h] == s->owner[g] && present(s, h) && finished(reach_of(s, h)) < k) {
                return false;
            }
        }
    }
    return has_message(m, s, g - 1, k) && has_message(m, s, g + 1, k);
}

static bool can_go(const model_t *m, const system_t *s, int g)
{
    return present(s, g) && waits(reach_of(s, g)) && !at_end(m, s, g) &&
           plb_consensus_answer(&s->rank[s->owner[g]], s->slot[g]) == PLB_ANSWER_GO;
}

/* Whether, in a `blocked` system, all objects of the rank wait at AtSync and may go on. */
static bool can_start(const model_t *m, const system_t *s, int r)
{
    bool any = false;
    for (int g = 0; s->serving[r] && g < n_objects(m); g++) {
        if (s->owner[g] == r && present(s, g)) {
            if (!can_go(m, s, g)) {
                return false;
            }
            any = true;
        }
    }
    return any;
}

static bool can_enter(const model_t *m, const system_t *s, int r)
{
    for (int g = 0; s->serving[r] && g < n_objects(m); g++) {
        if (s->owner[g] == r && present(s, g) && !waits(reach_of(s, g))) {
            return true;
        }
    }
    return false;
}

static bool complete(const model_t *m, const system_t *s, int64_t iteration)
{
    for (int r = 0; r < m->ranks; r++) {
        if (s->rank[r].contributed < iteration) {
            return false;
        }
    }
    return true;
}

static bool maximum_complete(const model_t *m, const system_t *s, int64_t round)
{
    for (int r = 0; r < m->ranks; r++) {
        if (s->rank[r].round < round) {
            return false;
        }
    }
    return true;
}

/* Whether a rank had ended when it contributed to an iteration.  Two kinds of ranks have
 * contributed to their last iteration as running ranks: those that fail, and those that learn only
 * in this iteration that it is their last one. */
static bool had_ended(const model_t *m, const system_t *s, int r, int64_t iteration)
{
    return iteration > s->failed[r] || iteration >= last_of(m, r) + !m->known_end;
}

static int64_t n_ended(const model_t *m, const system_t *s, int64_t iteration)
{
    int64_t n = 0;
    for (int r = 0; r < m->ranks; r++) {
        n += had_ended(m, s, r, iteration);
    }
    return n;
}

/* Whether all objects of the rank wait at AtSync(`at`) or later, so that it can enter an LB step.
 * With the pause state this holds whenever the ruling comes; system_take checks it. */
static bool enters_balancing(const system_t *s, int r, int64_t at)
{
    return measure(&s->rank[r]).slowest >= at && waits(measure(&s->rank[r]).reach);
}

/* Whether rule 6 of consensus.h applies at these statistics. */
static bool voided(const model_t *m, const system_t *s, int64_t iteration)
{
    return n_ended(m, s, iteration) > 0 && !PLB_ABLATE(ENDED);
}

static bool can_take_stats(const model_t *m, const system_t *s, int r)
{
    const int64_t next = s->rank[r].seen + 1;
    const plb_consensus_root_t *root = &s->root[r];
    return serves(s, r) && !s->rank[r].balancing && complete(m, s, next) &&
           plb_consensus_root_ready(root) &&
           (root->final > next || voided(m, s, next) || enters_balancing(s, r, next));
}

static bool all_balancing(const model_t *m, const system_t *s)
{
    for (int r = 0; r < m->ranks; r++) {
        if (!s->rank[r].balancing) {
            return false;
        }
    }
    return true;
}

static bool can_join(const system_t *s, int g, int ahead)
{
    const plb_consensus_t *rank = &s->rank[s->owner[g]];
    return !present(s, g) && !rank->done && rank->contributed < rank->end &&
           rank->contributed + ahead <= furthest(rank);
}

static bool can_fail(const model_t *m, const system_t *s, int r)
{
    const plb_consensus_t *rank = &s->rank[r];
    return !rank->done && !rank->balancing && s->failed[r] == PLB_NEVER &&
           rank->contributed < last_of(m, r);
}

static void push(step_t *steps, int *n, step_kind_t kind, int who, int wish)
{
    assert(*n < MAX_STEPS);
    steps[(*n)++] = (step_t){(uint8_t)kind, (int8_t)who, (int16_t)wish};
}

enum { WISH_NEVER = MAX_ITERATIONS + 1 };

/* Add the steps in which `who` sees the statistics of iteration i: one for each possible wish, or
 * only one for the wish that another rank has seen already. */
static void push_stats(const model_t *m, const system_t *s, step_kind_t kind, int who, int64_t i,
                       const plb_consensus_root_t *root, step_t *steps, int *n)
{
    if (s->wish[i] != WISH_UNSET) {
        push(steps, n, kind, who, (int)s->wish[i]);
        return;
    }
    if (m->changes == 0) {
        push(steps, n, kind, who, (int)m->script[i]);
        return;
    }
    push(steps, n, kind, who, (int)PLB_WISH_NONE);
    if (s->changes == 0 || n_ended(m, s, i) > 0 || root->final <= i) {
        return;
    }
    /* from i on: also try wishes that are too early */
    for (int64_t t = i; t <= m->iterations + 1; t++) {
        if (t != root->final) {
            push(steps, n, kind, who, (int)t);
        }
    }
    if (root->final != PLB_NEVER) {
        push(steps, n, kind, who, WISH_NEVER);
    }
}

static void push_objects(const model_t *m, const system_t *s, step_t *steps, int *n)
{
    for (int g = 0; g < n_objects(m); g++) {
        if (can_reach(m, s, g)) {
            push(steps, n, STEP_REACH, g, 0);
        }
        if (!m->blocked && can_go(m, s, g)) {
            push(steps, n, STEP_GO, g, 0);
        }
        if (s->churn > 0 && present(s, g) && !s->rank[s->owner[g]].done) {
            push(steps, n, STEP_LEAVE, g, 0);
        }
        for (int ahead = 0; s->churn > 0 && ahead < 2; ahead++) {
            if (can_join(s, g, ahead)) {
                push(steps, n, STEP_JOIN, g, ahead);
            }
        }
    }
}

int system_steps(const model_t *m, const system_t *s, step_t steps[MAX_STEPS])
{
    int n = 0;
    push_objects(m, s, steps, &n);
    for (int r = 0; r < m->ranks; r++) {
        const plb_consensus_root_t *root = &s->root[r];
        if (s->fails > 0 && can_fail(m, s, r)) {
            push(steps, &n, STEP_FAIL, r, 0);
        }
        if (m->blocked && can_start(m, s, r)) {
            push(steps, &n, STEP_START, r, 0);
        }
        if (m->blocked && can_enter(m, s, r)) {
            push(steps, &n, STEP_ENTER, r, 0);
        }
        if (can_take_stats(m, s, r)) {
            push_stats(m, s, STEP_STATS, r, s->rank[r].seen + 1, root, steps, &n);
        }
        if (root->tentative != PLB_NEVER && serves(s, r) && maximum_complete(m, s, root->round)) {
            push(steps, &n, STEP_MAXIMUM, r, 0);
        }
    }
    if (all_balancing(m, s)) {
        push(steps, &n, STEP_BALANCED, 0, 0);
    }
    return n;
}

/* ---- taking a step ---- */

/* Check that all objects on all ranks are at the iteration at which a rank does its LB step. */
static int check_balance(const model_t *m, const system_t *s, int r, int64_t at, plb_err_t *err)
{
    for (int g = 0; g < n_objects(m); g++) {
        if (present(s, g) && reach_of(s, g) != 2 * at) {
            return PLB_FAIL(err, PLB_ERR_STATE,
                            "rank %d balances at %lld, object %d has begun %lld, finished %lld", r,
                            (long long)at, g, (long long)begun(reach_of(s, g)),
                            (long long)finished(reach_of(s, g)));
        }
    }
    for (int q = 0; q < m->ranks; q++) {
        if (s->rank[q].balancing && s->rank[q].final != at) {
            return PLB_FAIL(err, PLB_ERR_STATE, "rank %d balances at %lld, rank %d at %lld", r,
                            (long long)at, q, (long long)s->rank[q].final);
        }
    }
    return PLB_OK;
}

static void contribute_maximum(const model_t *m, system_t *s, int r, const plb_action_t *a)
{
    bool first = true;
    for (int q = 0; q < m->ranks; q++) {
        first = first && (q == r || s->rank[q].round < a->round);
    }
    int64_t *top = &s->top[a->round & 1];
    *top = first || a->first > *top ? a->first : *top;
}

static void say_action(FILE *say, const plb_action_t *a)
{
    switch (a->kind) {
    case PLB_ACT_STATS:
        fprintf(say, "; contributes statistics of %lld", (long long)a->first);
        if (a->last > a->first) {
            fprintf(say, " to %lld", (long long)a->last);
        }
        break;
    case PLB_ACT_MAXIMUM:
        fprintf(say, "; contributes its maximum %lld", (long long)begun(a->first));
        break;
    case PLB_ACT_RESUME:
        fprintf(say, "; objects that wait may ask again");
        break;
    case PLB_ACT_BALANCE:
        fprintf(say, "; balances at %lld", (long long)a->first);
        break;
    case PLB_ACT_DONE:
        fprintf(say, "; all have ended");
        break;
    }
}

/* Return which objects of a rank may go on. */
static uint32_t may_go(const model_t *m, const system_t *s, int r)
{
    uint32_t mask = 0;
    for (int g = 0; g < n_objects(m); g++) {
        mask |= (uint32_t)(s->owner[g] == r && can_go(m, s, g)) << g;
    }
    return mask;
}

/* Carry out the actions of an event, and check them. arrived: the object that has reached AtSync
 * in this event (-1: none); it asks without being told to. */
static int perform(const model_t *m, system_t *s, int r, uint32_t was, int arrived,
                   const plb_actions_t *out, FILE *say, plb_err_t *err)
{
    bool resumed = false;
    int ret = PLB_OK;
    for (int i = 0; i < out->n && ret == PLB_OK; i++) {
        const plb_action_t *a = &out->act[i];
        if (say != NULL) {
            say_action(say, a);
        }
        if (a->kind == PLB_ACT_STATS) {
            for (int64_t k = a->first; k <= a->last; k++) {
                assert(plb_consensus_ended(&s->rank[r], k) == had_ended(m, s, r, k));
            }
        } else if (a->kind == PLB_ACT_MAXIMUM) {
            contribute_maximum(m, s, r, a);
        } else if (a->kind == PLB_ACT_BALANCE) {
            ret = check_balance(m, s, r, a->first, err);
        }
        resumed = resumed || a->kind == PLB_ACT_RESUME;
    }
    uint32_t woken = may_go(m, s, r) & ~was;
    woken &= arrived >= 0 ? ~(UINT32_C(1) << arrived) : ~UINT32_C(0);
    if (ret == PLB_OK && woken != 0 && !resumed) {
        ret = PLB_FAIL(err, PLB_ERR_STATE, "rank %d: an object may go on, but was not told", r);
    }
    return ret;
}

static void say_ruling(FILE *say, const plb_ruling_t *d)
{
    if (say == NULL || d->kind == PLB_RULING_NOTHING || d->kind == PLB_RULING_OVER) {
        return;
    }
    if (d->iteration == PLB_NEVER) {
        fprintf(say, "; no LB step");
        return;
    }
    fprintf(say, "; %s %lld",
            d->kind == PLB_RULING_TENTATIVE ? "tentative iteration"
            : d->kind == PLB_RULING_FINAL   ? "final iteration"
                                            : "an LB step is due at",
            (long long)d->iteration);
}

static int take_reach(const model_t *m, system_t *s, int g, FILE *say, plb_err_t *err)
{
    const int r = s->owner[g];
    plb_actions_t out;
    uint32_t was = may_go(m, s, r);
    int ret = plb_consensus_reached(&s->rank[r], s->slot[g], &out, err);
    s->serving[r] = true;
    if (say != NULL) {
        fprintf(say, "rank %d: object %d reaches AtSync(%lld)", r, g,
                (long long)finished(reach_of(s, g)));
    }
    if (ret == PLB_OK) {
        ret = perform(m, s, r, was, g, &out, say, err);
    }
    if (ret == PLB_OK && !m->known_end && rank_at_end(m, s, r)) {
        was = may_go(m, s, r);
        ret = plb_consensus_end(&s->rank[r], last_of(m, r), &out, err);
        if (ret == PLB_OK) {
            ret = perform(m, s, r, was, -1, &out, say, err);
        }
    }
    return ret;
}

static int take_go(system_t *s, int g, FILE *say, plb_err_t *err)
{
    plb_answer_t answer;
    const int ret = plb_consensus_ask(&s->rank[s->owner[g]], s->slot[g], &answer, err);
    if (say != NULL) {
        fprintf(say, "rank %d: object %d begins %lld", s->owner[g], g,
                (long long)begun(reach_of(s, g)));
    }
    return ret;
}

static int take_start(const model_t *m, system_t *s, int r, FILE *say, plb_err_t *err)
{
    int64_t k = 0;
    for (int g = 0; g < n_objects(m); g++) {
        if (s->owner[g] == r && present(s, g)) {
            const int ret = take_go(s, g, NULL, err);
            if (ret != PLB_OK) {
                return ret;
            }
            k = begun(reach_of(s, g));
        }
    }
    s->serving[r] = false;
    if (say != NULL) {
        fprintf(say, "rank %d: begins %lld, sends, enters its receives", r, (long long)k);
    }
    return PLB_OK;
}

static int64_t fix_wish(system_t *s, int64_t i, int wish)
{
    if (s->wish[i] == WISH_UNSET) {
        s->wish[i] = wish;
        s->changes -= wish != PLB_WISH_NONE && s->changes > 0;
    }
    return wish == WISH_NEVER ? PLB_NEVER : wish;
}

static void say_wish(FILE *say, int64_t wish)
{
    if (wish == PLB_NEVER) {
        fprintf(say, "; the trigger wants no LB step");
    } else if (wish != PLB_WISH_NONE) {
        fprintf(say, "; the trigger wants an LB step at %lld", (long long)wish);
    }
}

static int take_stats(const model_t *m, system_t *s, int r, int wish, FILE *say, plb_err_t *err)
{
    const int64_t i = s->rank[r].seen + 1, want = fix_wish(s, i, wish);
    const uint32_t was = may_go(m, s, r);
    plb_ruling_t ruling;
    plb_actions_t out;
    int ret;
    if (say != NULL) {
        fprintf(say, "rank %d: sees the statistics of %lld", r, (long long)i);
    }
    ret = plb_consensus_root_stats(&s->root[r], i, n_ended(m, s, i), want, &ruling, err);
    if (say != NULL) {
        say_wish(say, want);
        say_ruling(say, &ruling);
    }
    if (ret == PLB_OK) {
        ret = plb_consensus_stats(&s->rank[r], i, &ruling, &out, err);
    }
    return ret == PLB_OK ? perform(m, s, r, was, -1, &out, say, err) : ret;
}

static int take_maximum(const model_t *m, system_t *s, int r, FILE *say, plb_err_t *err)
{
    plb_consensus_root_t *root = &s->root[r];
    plb_ruling_t ruling;
    plb_actions_t out;
    const uint32_t was = may_go(m, s, r);
    const int64_t top = s->top[root->round & 1], tentative = root->tentative;
    if (say != NULL) {
        fprintf(say, "rank %d: sees the maximum %lld", r, (long long)begun(top));
    }
    int ret = plb_consensus_root_maximum(root, root->round, top, &ruling, err);
    if (ret == PLB_OK && ruling.iteration != max_of(tentative, begun(top))) {
        return PLB_FAIL(err, PLB_ERR_STATE, "final iteration %lld of tentative %lld, maximum %lld",
                        (long long)ruling.iteration, (long long)tentative, (long long)begun(top));
    }
    if (ret == PLB_OK) {
        say_ruling(say, &ruling);
        ret = plb_consensus_maximum(&s->rank[r], &ruling, &out, err);
    }
    return ret == PLB_OK ? perform(m, s, r, was, -1, &out, say, err) : ret;
}

static int move_object(const model_t *m, system_t *s, int g, int64_t at, plb_err_t *err)
{
    const int to = (s->owner[g] + 1) % m->ranks;
    plb_actions_t out;
    int64_t slot;
    int ret = plb_consensus_remove(&s->rank[s->owner[g]], s->slot[g], &out, err);
    if (ret == PLB_OK && out.n == 0) {
        ret = plb_consensus_add(&s->rank[to], at, &slot, &out, err);
    }
    if (ret == PLB_OK && out.n > 0) {
        ret = PLB_FAIL(err, PLB_ERR_STATE, "object %d cannot migrate without side effects", g);
    }
    if (ret == PLB_OK) {
        s->owner[g] = (int8_t)to;
        s->slot[g] = (int8_t)slot;
    }
    return ret;
}

static int migrate(const model_t *m, system_t *s, plb_err_t *err)
{
    int first[MAX_RANKS];
    for (int r = 0; r < m->ranks; r++) {
        first[r] = -1;
        for (int g = n_objects(m) - 1; g >= 0; g--) {
            first[r] = s->owner[g] == r && present(s, g) ? g : first[r];
        }
    }
    /* only every second rank gives an object away, so that some ranks end up without objects */
    for (int r = 0; r < m->ranks; r += 2) {
        if (first[r] >= 0 && s->failed[(r + 1) % m->ranks] == PLB_NEVER) {
            const int ret = move_object(m, s, first[r], s->rank[r].final, err);
            if (ret != PLB_OK) {
                return ret;
            }
        }
    }
    return PLB_OK;
}

static int take_balanced(const model_t *m, system_t *s, FILE *say, plb_err_t *err)
{
    int ret = m->migrate ? migrate(m, s, err) : PLB_OK;
    if (say != NULL) {
        fprintf(say, "all ranks: balanced");
    }
    for (int r = 0; r < m->ranks && ret == PLB_OK; r++) {
        const uint32_t was = may_go(m, s, r);
        plb_actions_t out;
        ret = plb_consensus_balanced(&s->rank[r], &out, err);
        if (ret == PLB_OK) {
            ret = perform(m, s, r, was, -1, &out, NULL, err);
        }
    }
    return ret;
}

static int take_churn(const model_t *m, system_t *s, step_t step, FILE *say, plb_err_t *err)
{
    const int g = step.who, r = s->owner[g];
    const uint32_t was = may_go(m, s, r);
    plb_actions_t out;
    int64_t slot = -1;
    int ret;
    s->churn--;
    if (step.kind == STEP_LEAVE) {
        ret = plb_consensus_remove(&s->rank[r], s->slot[g], &out, err);
    } else {
        const int64_t at = s->rank[r].contributed + step.wish;
        ret = plb_consensus_add(&s->rank[r], at, &slot, &out, err);
    }
    s->slot[g] = (int8_t)slot;
    if (say != NULL) {
        fprintf(say, "rank %d: object %d %s", r, g,
                step.kind == STEP_LEAVE ? "leaves" : "joins again");
    }
    return ret == PLB_OK ? perform(m, s, r, was, g, &out, say, err) : ret;
}

static int take_fail(const model_t *m, system_t *s, int r, FILE *say, plb_err_t *err)
{
    const uint32_t was = may_go(m, s, r);
    plb_actions_t out;
    if (say != NULL) {
        fprintf(say, "rank %d: fails", r);
    }
    s->fails--;
    s->serving[r] = true;
    s->failed[r] = s->rank[r].contributed;
    for (int g = 0; g < n_objects(m); g++) {
        s->slot[g] = s->owner[g] == r ? -1 : s->slot[g];
    }
    plb_consensus_fail(&s->rank[r], &out);
    return perform(m, s, r, was, -1, &out, say, err);
}

static int take(const model_t *m, system_t *s, step_t step, FILE *say, plb_err_t *err)
{
    const int who = step.who;
    switch ((step_kind_t)step.kind) {
    case STEP_REACH:
        return take_reach(m, s, who, say, err);
    case STEP_GO:
        return take_go(s, who, say, err);
    case STEP_START:
        return take_start(m, s, who, say, err);
    case STEP_ENTER:
        s->serving[who] = false;
        if (say != NULL) {
            fprintf(say, "rank %d: enters the receives of its next object", who);
        }
        return PLB_OK;
    case STEP_STATS:
        return take_stats(m, s, who, step.wish, say, err);
    case STEP_MAXIMUM:
        return take_maximum(m, s, who, say, err);
    case STEP_BALANCED:
        return take_balanced(m, s, say, err);
    case STEP_LEAVE:
    case STEP_JOIN:
        return take_churn(m, s, step, say, err);
    case STEP_FAIL:
        return take_fail(m, s, who, say, err);
    case N_STEP_KINDS:
        break;
    }
    return PLB_FAIL(err, PLB_ERR_VALUE, "step of kind %d", step.kind);
}

int system_take(const model_t *m, system_t *s, step_t step, FILE *say, plb_err_t *err)
{
    const int ret = take(m, s, step, say, err);
    if (say != NULL) {
        fputc('\n', say);
    }
    return ret;
}

/* ---- begin and end ---- */

void system_copy(system_t *to, const system_t *from)
{
    *to = *from;
    for (int r = 0; r < MAX_RANKS; r++) {
        to->rank[r].reach = to->reach[r];
    }
}

/* Give every rank room for all objects from the start, so that no state machine allocates memory
 * later. */
static void give_storage(const model_t *m, system_t *s, int r)
{
    plb_consensus_t *rank = &s->rank[r];
    rank->reach = s->reach[r];
    rank->capacity = n_objects(m);
    rank->free = 0;
    for (int64_t i = 0; i < rank->capacity; i++) {
        rank->reach[i] = -1 - (i + 1);
    }
}

void system_init(const model_t *m, system_t *s)
{
    *s = (system_t){.changes = m->changes, .churn = m->churn, .fails = m->fails};
    for (int r = 0; r < m->ranks; r++) {
        plb_consensus_root_init(&s->root[r], m->ranks, m->lag);
        plb_consensus_init(&s->rank[r], m->lag, m->known_end ? last_of(m, r) : PLB_NEVER, NULL);
        give_storage(m, s, r);
        s->serving[r] = true;
        s->failed[r] = PLB_NEVER;
    }
    for (int g = 0; g < n_objects(m); g++) {
        plb_actions_t out;
        int64_t slot = -1;
        s->owner[g] = (int8_t)(g / m->objects);
        plb_consensus_add(&s->rank[s->owner[g]], 0, &slot, &out, NULL);
        s->slot[g] = (int8_t)slot;
    }
    if (!m->known_end && last_of(m, 0) == 0) { /* a rank without objects */
        plb_actions_t out;
        plb_consensus_end(&s->rank[0], 0, &out, NULL);
    }
    for (int i = 0; i < MAX_ITERATIONS + 2; i++) {
        s->wish[i] = WISH_UNSET;
    }
}

int system_check_end(const model_t *m, const system_t *s, plb_err_t *err)
{
    for (int r = 0; r < m->ranks; r++) {
        const plb_consensus_t *rank = &s->rank[r];
        if (!rank->done || rank->open || rank->balancing || s->root[r].tentative != PLB_NEVER) {
            return PLB_FAIL(err, PLB_ERR_STATE, "deadlock: rank %d has not ended", r);
        }
        if (rank->seen != s->rank[0].seen || rank->contributed != rank->seen ||
            rank->round != s->rank[0].round) {
            return PLB_FAIL(err, PLB_ERR_STATE, "rank %d ended with other reductions", r);
        }
    }
    return PLB_OK;
}

static void print_period(FILE *out, const char *name, int64_t period)
{
    if (period == PLB_NEVER) {
        fprintf(out, ", %s -", name);
    } else {
        fprintf(out, ", %s %lld", name, (long long)period);
    }
}

void system_print(const model_t *m, const system_t *s, FILE *out)
{
    for (int r = 0; r < m->ranks; r++) {
        const plb_consensus_t *rank = &s->rank[r];
        fprintf(out, "  rank %d:", r);
        for (int g = 0; g < n_objects(m); g++) {
            if (s->owner[g] == r && present(s, g)) {
                const int64_t reach = reach_of(s, g);
                fprintf(out, " object %d %s %lld,", g, waits(reach) ? "waits at" : "runs",
                        (long long)begun(reach));
            }
        }
        fprintf(out, " statistics contributed up to %lld, seen up to %lld",
                (long long)rank->contributed, (long long)rank->seen);
        print_period(out, "limit", rank->limit);
        print_period(out, "final", rank->final);
        fprintf(out, "%s%s%s%s\n", rank->open ? ", round open" : "",
                rank->balancing ? ", balancing" : "", s->serving[r] ? "" : ", in a receive",
                rank->done ? ", done" : "");
    }
}

/* ---- packing ---- */

typedef struct bits {
    uint64_t *word;
    int at;
} bits_t;

static void put(bits_t *b, uint64_t value, int width)
{
    assert(b->at + width <= 64 * STATE_WORDS && value < UINT64_C(1) << width);
    b->word[b->at >> 6] |= value << (b->at & 63);
    if ((b->at & 63) + width > 64) {
        b->word[(b->at >> 6) + 1] |= value >> (64 - (b->at & 63));
    }
    b->at += width;
}

static uint64_t get(bits_t *b, int width)
{
    uint64_t value = b->word[b->at >> 6] >> (b->at & 63);
    if ((b->at & 63) + width > 64) {
        value |= b->word[(b->at >> 6) + 1] << (64 - (b->at & 63));
    }
    b->at += width;
    return value & ((UINT64_C(1) << width) - 1);
}

/* Pack an iteration into 4 bits; 15 stands for PLB_NEVER. A packed model has at most 6
 * iterations. */
static void put_iteration(bits_t *b, int64_t i)
{
    assert(i == PLB_NEVER || (i >= 0 && i < 15));
    put(b, i == PLB_NEVER ? 15 : (uint64_t)i, 4);
}

static int64_t get_iteration(bits_t *b)
{
    const uint64_t i = get(b, 4);
    return i == 15 ? PLB_NEVER : (int64_t)i;
}

/* Whether a wish belongs to the state: some ranks have seen it, but not all. */
static bool wish_matters(const model_t *m, const system_t *s, int64_t i)
{
    for (int r = 0; r < m->ranks; r++) {
        if (s->rank[r].seen < i) {
            return s->wish[i] != WISH_UNSET;
        }
    }
    return false;
}

/* Return the maximum of a round; 0 if it no longer matters, because all ranks have seen it. */
static uint64_t open_top(const model_t *m, const system_t *s, int parity)
{
    int64_t n = 0;
    for (int r = 0; r < m->ranks; r++) {
        n = max_of(n, s->rank[r].round - ((s->rank[r].round & 1) != parity));
    }
    for (int r = 0; r < m->ranks; r++) {
        if (s->rank[r].round < n || (s->rank[r].round == n && s->rank[r].open)) {
            return (uint64_t)s->top[parity];
        }
    }
    return 0;
}

static void pack_rank(const model_t *m, const system_t *s, int r, bits_t *b)
{
    const plb_consensus_t *rank = &s->rank[r];
    put_iteration(b, rank->contributed);
    put_iteration(b, rank->seen);
    put_iteration(b, rank->limit);
    put_iteration(b, rank->final);
    put(b, (uint64_t)rank->round, 3);
    put(b, rank->open, 1);
    put(b, rank->balancing, 1);
    put(b, rank->done, 1);
    put(b, rank->end != PLB_NEVER, 1);
    put(b, s->serving[r], 1);
    if (m->fails > 0) {
        put_iteration(b, s->failed[r]);
    }
}

static void unpack_rank(const model_t *m, system_t *s, int r, bits_t *b)
{
    plb_consensus_t *rank = &s->rank[r];
    *rank = (plb_consensus_t){.lag = m->lag};
    give_storage(m, s, r);
    rank->contributed = get_iteration(b);
    rank->seen = get_iteration(b);
    rank->limit = get_iteration(b);
    rank->final = get_iteration(b);
    rank->round = (int64_t)get(b, 3);
    rank->open = get(b, 1);
    rank->balancing = get(b, 1);
    rank->done = get(b, 1);
    rank->end = get(b, 1) ? last_of(m, r) : PLB_NEVER;
    s->serving[r] = get(b, 1);
    s->failed[r] = m->fails > 0 ? get_iteration(b) : PLB_NEVER;
    rank->end = min_of(rank->end, s->failed[r]);
}

void system_pack(const model_t *m, const system_t *s, uint64_t key[STATE_WORDS])
{
    bits_t b = {key, 0};
    memset(key, 0, STATE_WORDS * sizeof *key);
    for (int r = 0; r < m->ranks; r++) {
        pack_rank(m, s, r, &b);
        put_iteration(&b, s->root[r].tentative);
    }
    for (int g = 0; g < n_objects(m); g++) {
        put(&b, present(s, g) ? (uint64_t)reach_of(s, g) : 15, 4);
        if (m->migrate) {
            put(&b, (uint64_t)s->owner[g], 2);
        }
    }
    for (int64_t i = 1; m->changes > 0 && i <= m->iterations + 1; i++) {
        const int64_t w = wish_matters(m, s, i) ? s->wish[i] : WISH_UNSET;
        put_iteration(&b, w == WISH_NEVER ? PLB_NEVER : w - WISH_UNSET);
    }
    put(&b, open_top(m, s, 0), 4);
    put(&b, open_top(m, s, 1), 4);
    put(&b, (uint64_t)s->changes, 3);
    put(&b, (uint64_t)s->churn, 3);
    put(&b, (uint64_t)s->fails, 3);
}

static void unpack_objects(const model_t *m, system_t *s, bits_t *b)
{
    for (int g = 0; g < n_objects(m); g++) {
        const int64_t reach = (int64_t)get(b, 4);
        s->owner[g] = (int8_t)(m->migrate ? (int)get(b, 2) : g / m->objects);
        s->slot[g] = -1;
        if (reach < 15) {
            plb_consensus_t *rank = &s->rank[s->owner[g]];
            s->slot[g] = (int8_t)rank->free++;
            rank->reach[s->slot[g]] = reach;
            rank->n_objects++;
            rank->n_behind += finished(reach) <= rank->contributed;
        }
    }
}

void system_unpack(const model_t *m, system_t *s, const uint64_t key[STATE_WORDS])
{
    uint64_t word[STATE_WORDS];
    memcpy(word, key, sizeof word);
    bits_t b = {word, 0};
    memset(s, 0, sizeof *s);
    for (int r = 0; r < m->ranks; r++) {
        unpack_rank(m, s, r, &b);
        const plb_consensus_t *rank = &s->rank[r];
        plb_consensus_root_init(&s->root[r], m->ranks, m->lag);
        s->root[r].seen = rank->seen;
        s->root[r].round = rank->round;
        s->root[r].final = rank->balancing ? PLB_NEVER : rank->final;
        s->root[r].tentative = get_iteration(&b);
    }
    unpack_objects(m, s, &b);
    for (int64_t i = 0; i < MAX_ITERATIONS + 2; i++) {
        s->wish[i] = WISH_UNSET;
        if (m->changes > 0 && i >= 1 && i <= m->iterations + 1) {
            const int64_t w = get_iteration(&b);
            s->wish[i] = w == PLB_NEVER ? WISH_NEVER : w + WISH_UNSET;
        }
    }
    s->top[0] = (int64_t)get(&b, 4);
    s->top[1] = (int64_t)get(&b, 4);
    s->changes = (int)get(&b, 3);
    s->churn = (int)get(&b, 3);
    s->fails = (int)get(&b, 3);
}
