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
           consensus_answer(&s->rank[s->owner[g]], s->slot[g]) == PLB_ANSWER_GO;
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

/* Whether a rank had ended when it contributed to an iteration.  A rank that fails has contributed
 * to its last iteration as a running rank. */
static bool had_ended(const model_t *m, const system_t *s, int r, int64_t iteration)
{
    return iteration > s->failed[r] || iteration >= last_of(m, r);
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

/* Whether rule 6 (docs/consensus.md) applies at these statistics. */
static bool voided(const model_t *m, const system_t *s, int64_t iteration)
{
    return n_ended(m, s, iteration) > 0 && !PLB_ABLATE(ENDED);
}

static bool can_take_stats(const model_t *m, const system_t *s, int r)
{
    const int64_t next = s->rank[r].seen + 1;
    const plb_consensus_root_t *root = &s->root[r];
    return serves(s, r) && !s->rank[r].balancing && complete(m, s, next) &&
           consensus_root_ready(root) &&
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

static bool can_join(const system_t *s, int g)
{
    const plb_consensus_t *rank = &s->rank[s->owner[g]];
    return !present(s, g) && !rank->done && rank->contributed < rank->end;
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
        if (s->churn > 0 && can_join(s, g)) {
            push(steps, n, STEP_JOIN, g, 0);
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

static void contribute_maximum(const model_t *m, system_t *s, int r, int64_t reach)
{
    const int64_t round = s->rank[r].round;
    bool first = true;
    for (int q = 0; q < m->ranks; q++) {
        first = first && (q == r || s->rank[q].round < round);
    }
    int64_t *top = &s->top[round & 1];
    *top = first || reach > *top ? reach : *top;
}

/* Carry out the actions of an event, and check them. */
static int perform(const model_t *m, system_t *s, int r, const plb_actions_t *out, plb_err_t *err)
{
    for (int64_t k = out->first; k <= out->last; k++) {
        assert(consensus_ended(&s->rank[r], k) == had_ended(m, s, r, k));
    }
    if (out->maximum >= 0) {
        contribute_maximum(m, s, r, out->maximum);
    }
    return out->balance ? check_balance(m, s, r, s->rank[r].final, err) : PLB_OK;
}

static int take_reach(const model_t *m, system_t *s, int g, plb_err_t *err)
{
    const int r = s->owner[g];
    plb_actions_t out;
    int ret = consensus_reached(&s->rank[r], s->slot[g], &out, err);
    s->serving[r] = true;
    if (ret == PLB_OK) {
        ret = perform(m, s, r, &out, err);
    }
    return ret;
}

static int take_go(system_t *s, int g, plb_err_t *err)
{
    plb_answer_t answer;
    return consensus_ask(&s->rank[s->owner[g]], s->slot[g], &answer, err);
}

static int take_start(const model_t *m, system_t *s, int r, plb_err_t *err)
{
    for (int g = 0; g < n_objects(m); g++) {
        if (s->owner[g] == r && present(s, g)) {
            const int ret = take_go(s, g, err);
            if (ret != PLB_OK) {
                return ret;
            }
        }
    }
    s->serving[r] = false;
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

static int take_stats(const model_t *m, system_t *s, int r, int wish, plb_err_t *err)
{
    const int64_t i = s->rank[r].seen + 1, want = fix_wish(s, i, wish);
    plb_ruling_t ruling;
    plb_actions_t out;
    int ret = plb_consensus_root_stats(&s->root[r], i, n_ended(m, s, i), want, &ruling, err);
    if (ret == PLB_OK) {
        ret = consensus_stats(&s->rank[r], i, &ruling, &out, err);
    }
    return ret == PLB_OK ? perform(m, s, r, &out, err) : ret;
}

static int take_maximum(const model_t *m, system_t *s, int r, plb_err_t *err)
{
    plb_consensus_root_t *root = &s->root[r];
    plb_ruling_t ruling;
    plb_actions_t out;
    const int64_t top = s->top[root->round & 1], tentative = root->tentative;
    int ret = consensus_root_maximum(root, root->round, top, &ruling, err);
    if (ret == PLB_OK && ruling.iteration != max_of(tentative, begun(top))) {
        return PLB_FAIL(err, PLB_ERR_STATE, "final iteration %lld of tentative %lld, maximum %lld",
                        (long long)ruling.iteration, (long long)tentative, (long long)begun(top));
    }
    if (ret == PLB_OK) {
        ret = consensus_follow(&s->rank[r], &ruling, &out, err);
    }
    return ret == PLB_OK ? perform(m, s, r, &out, err) : ret;
}

static int move_object(const model_t *m, system_t *s, int g, plb_err_t *err)
{
    const int to = (s->owner[g] + 1) % m->ranks;
    plb_actions_t out;
    int64_t slot;
    int ret = consensus_remove(&s->rank[s->owner[g]], s->slot[g], &out, err);
    if (ret == PLB_OK && out.last < out.first) {
        ret = consensus_add(&s->rank[to], &slot, &out, err);
    }
    if (ret == PLB_OK && out.last >= out.first) {
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
            const int ret = move_object(m, s, first[r], err);
            if (ret != PLB_OK) {
                return ret;
            }
        }
    }
    return PLB_OK;
}

static int take_balanced(const model_t *m, system_t *s, plb_err_t *err)
{
    int ret = m->migrate ? migrate(m, s, err) : PLB_OK;
    for (int r = 0; r < m->ranks && ret == PLB_OK; r++) {
        plb_actions_t out;
        ret = consensus_balanced(&s->rank[r], &out, err);
        if (ret == PLB_OK) {
            ret = perform(m, s, r, &out, err);
        }
    }
    return ret;
}

static int take_churn(const model_t *m, system_t *s, step_t step, plb_err_t *err)
{
    const int g = step.who, r = s->owner[g];
    plb_actions_t out;
    int64_t slot = -1;
    int ret;
    s->churn--;
    if (step.kind == STEP_LEAVE) {
        ret = consensus_remove(&s->rank[r], s->slot[g], &out, err);
    } else {
        ret = consensus_add(&s->rank[r], &slot, &out, err);
    }
    s->slot[g] = (int8_t)slot;
    return ret == PLB_OK ? perform(m, s, r, &out, err) : ret;
}

static int take_fail(const model_t *m, system_t *s, int r, plb_err_t *err)
{
    plb_actions_t out;
    s->fails--;
    s->serving[r] = true;
    s->failed[r] = s->rank[r].contributed;
    for (int g = 0; g < n_objects(m); g++) {
        s->slot[g] = s->owner[g] == r ? -1 : s->slot[g];
    }
    consensus_fail(&s->rank[r], &out);
    return perform(m, s, r, &out, err);
}

int system_take(const model_t *m, system_t *s, step_t step, plb_err_t *err)
{
    const int who = step.who;
    switch ((step_kind_t)step.kind) {
    case STEP_REACH:
        return take_reach(m, s, who, err);
    case STEP_GO:
        return take_go(s, who, err);
    case STEP_START:
        return take_start(m, s, who, err);
    case STEP_ENTER:
        s->serving[who] = false;
        return PLB_OK;
    case STEP_STATS:
        return take_stats(m, s, who, step.wish, err);
    case STEP_MAXIMUM:
        return take_maximum(m, s, who, err);
    case STEP_BALANCED:
        return take_balanced(m, s, err);
    case STEP_LEAVE:
    case STEP_JOIN:
        return take_churn(m, s, step, err);
    case STEP_FAIL:
        return take_fail(m, s, who, err);
    case N_STEP_KINDS:
        break;
    }
    return PLB_FAIL(err, PLB_ERR_VALUE, "step of kind %d", step.kind);
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
        consensus_init(&s->rank[r], m->lag, last_of(m, r), NULL);
        give_storage(m, s, r);
        s->serving[r] = true;
        s->failed[r] = PLB_NEVER;
    }
    for (int g = 0; g < n_objects(m); g++) {
        plb_actions_t out;
        int64_t slot = -1;
        s->owner[g] = (int8_t)(g / m->objects);
        consensus_add(&s->rank[s->owner[g]], &slot, &out, NULL);
        s->slot[g] = (int8_t)slot;
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
    bool reads; /* false: numbers go into the words; true: they come from them */
} bits_t;

/* Pass a number of `width` bits. */
static uint64_t bits(bits_t *b, uint64_t value, int width)
{
    const int word = b->at >> 6, at = b->at & 63;
    const bool splits = at + width > 64;
    b->at += width;
    if (b->reads) {
        value = b->word[word] >> at | (splits ? b->word[word + 1] << (64 - at) : 0);
        return value & ((UINT64_C(1) << width) - 1);
    }
    assert(b->at <= 64 * STATE_WORDS && value < UINT64_C(1) << width);
    b->word[word] |= value << at;
    if (splits) {
        b->word[word + 1] |= value >> (64 - at);
    }
    return value;
}

/* Pass an iteration as 4 bits; 15 stands for PLB_NEVER.  A packed model has at most 6 iterations.
 */
static void pass(bits_t *b, int64_t *i)
{
    const uint64_t packed = bits(b, *i == PLB_NEVER ? 15 : (uint64_t)*i, 4);
    *i = packed == 15 ? PLB_NEVER : (int64_t)packed;
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
static int64_t open_top(const model_t *m, const system_t *s, int parity)
{
    int64_t n = 0;
    for (int r = 0; r < m->ranks; r++) {
        n = max_of(n, s->rank[r].round - ((s->rank[r].round & 1) != parity));
    }
    for (int r = 0; r < m->ranks; r++) {
        if (s->rank[r].round < n || (s->rank[r].round == n && s->rank[r].open)) {
            return s->top[parity];
        }
    }
    return 0;
}

static void pass_rank(const model_t *m, system_t *s, int r, bits_t *b)
{
    plb_consensus_t *rank = &s->rank[r];
    pass(b, &rank->contributed);
    pass(b, &rank->seen);
    pass(b, &rank->limit);
    pass(b, &rank->final);
    rank->round = (int64_t)bits(b, (uint64_t)rank->round, 3);
    rank->open = bits(b, rank->open, 1);
    rank->balancing = bits(b, rank->balancing, 1);
    rank->done = bits(b, rank->done, 1);
    s->serving[r] = bits(b, s->serving[r], 1);
    if (m->fails > 0) {
        pass(b, &s->failed[r]);
    }
    pass(b, &s->root[r].tentative);
    if (b->reads) {
        rank->end = min_of(last_of(m, r), s->failed[r]);
    }
}

static void pass_object(const model_t *m, system_t *s, int g, bits_t *b)
{
    const int64_t reach = (int64_t)bits(b, present(s, g) ? (uint64_t)reach_of(s, g) : 15, 4);
    if (m->migrate) {
        s->owner[g] = (int8_t)bits(b, (uint64_t)s->owner[g], 2);
    }
    if (b->reads && reach < 15) {
        plb_consensus_t *rank = &s->rank[s->owner[g]];
        s->slot[g] = (int8_t)rank->free++;
        rank->reach[s->slot[g]] = reach;
        rank->n_objects++;
        rank->n_behind += finished(reach) <= rank->contributed;
    }
}

static void pass_system(const model_t *m, system_t *s, bits_t *b)
{
    for (int r = 0; r < m->ranks; r++) {
        pass_rank(m, s, r, b);
    }
    for (int g = 0; g < n_objects(m); g++) {
        pass_object(m, s, g, b);
    }
    for (int64_t i = 1; m->changes > 0 && i <= m->iterations + 1; i++) {
        int64_t w = !b->reads && !wish_matters(m, s, i) ? WISH_UNSET : s->wish[i];
        w = w == WISH_NEVER ? PLB_NEVER : w - WISH_UNSET;
        pass(b, &w);
        s->wish[i] = w == PLB_NEVER ? WISH_NEVER : w + WISH_UNSET;
    }
    for (int parity = 0; parity < 2; parity++) {
        s->top[parity] = (int64_t)bits(b, (uint64_t)open_top(m, s, parity), 4);
    }
    s->changes = (int)bits(b, (uint64_t)s->changes, 3);
    s->churn = (int)bits(b, (uint64_t)s->churn, 3);
    s->fails = (int)bits(b, (uint64_t)s->fails, 3);
}

void system_pack(const model_t *m, const system_t *s, uint64_t key[STATE_WORDS])
{
    system_t copy;
    bits_t b = {.word = key};
    memset(key, 0, STATE_WORDS * sizeof *key);
    system_copy(&copy, s);
    pass_system(m, &copy, &b);
}

void system_unpack(const model_t *m, system_t *s, const uint64_t key[STATE_WORDS])
{
    uint64_t word[STATE_WORDS];
    memcpy(word, key, sizeof word);
    bits_t b = {.word = word, .reads = true};
    memset(s, 0, sizeof *s);
    for (int r = 0; r < m->ranks; r++) {
        s->rank[r].lag = m->lag;
        give_storage(m, s, r);
        s->failed[r] = PLB_NEVER;
    }
    for (int g = 0; g < n_objects(m); g++) {
        s->owner[g] = (int8_t)(g / m->objects);
        s->slot[g] = -1;
    }
    for (int i = 0; i < MAX_ITERATIONS + 2; i++) {
        s->wish[i] = WISH_UNSET;
    }
    pass_system(m, s, &b);
    for (int r = 0; r < m->ranks; r++) {
        const plb_consensus_t *rank = &s->rank[r];
        const int64_t tentative = s->root[r].tentative;
        plb_consensus_root_init(&s->root[r], m->ranks, m->lag);
        s->root[r].seen = rank->seen;
        s->root[r].round = rank->round;
        s->root[r].final = rank->balancing ? PLB_NEVER : rank->final;
        s->root[r].tentative = tentative;
    }
}
