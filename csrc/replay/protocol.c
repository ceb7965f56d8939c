#include "replay/protocol.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/param.h"
#include "replay/protocol_relay.h"

enum {
    UNDER_WAY = 8, /* initial sim_t.window: iterations whose messages can be under way */
    LEAST_BUCKETS = 1024,
    MOST_BUCKETS = 1 << 22,
    SPARSE = 64, /* more buckets for each rank would only make a sweep over empty buckets longer */
};

/* The largest width of a bucket, as a fraction of the time of a message.  With 1, a message could
 * arrive by rounding in the bucket in which it was sent. */
static const double WIDEST = 63.0 / 64.0;

/* Return a random number in [0, 1) that depends only on the seed, the rank and the iteration. */
static double uniform(const sim_t *s, int64_t rank, int64_t iteration)
{
    const uint64_t a =
        plb_mix64((uint64_t)s->in.seed + 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1));
    return (double)(plb_mix64(a + 0x9e3779b97f4a7c15u * (uint64_t)(iteration + 1)) >> 11) *
           0x1p-53;
}

static double work_of(const sim_t *s, int64_t rank, int64_t iteration)
{
    double parts = 1.0;
    if (s->in.spread > 0.0) {
        parts += s->in.spread * uniform(s, rank, 0);
    }
    if (s->in.noise > 0.0) {
        parts -= s->in.noise * log1p(-uniform(s, rank, iteration));
    }
    return parts * s->in.work;
}

/* ---- a rank's state machine ----------------------------------------------------------------- */

/* Add the seconds since n->since to the rank's waiting time. */
static void account(node_t *n, double t)
{
    n->waited[n->wait] += t - n->since;
    n->since = t;
}

static wait_t reason(const plb_consensus_t *machine, plb_answer_t answer)
{
    if (answer == PLB_ANSWER_BALANCE) {
        return GATHER;
    }
    return machine->reach[0] / 2 >= machine->limit ? PAUSE : LAG;
}

/* Carry out the actions that a rank's state machine asks for.  Returns whether the rank waits at
 * AtSync and can ask again whether it may go on. */
static bool carry_out(sim_t *s, int64_t rank, const plb_actions_t *actions, double t)
{
    node_t *n = &s->node[rank];
    bool resumes = false;
    for (int i = 0; i < actions->n && s->ret == PLB_OK; i++) {
        const plb_action_t *a = &actions->act[i];
        switch (a->kind) {
        case PLB_ACT_STATS:
            for (int64_t k = a->first; k <= a->last; k++) {
                plb_sim_add_stats(s, rank, k, t);
            }
            break;
        case PLB_ACT_MAXIMUM:
            plb_sim_add_maximum(s, rank, a->first, t);
            break;
        case PLB_ACT_RESUME:
            resumes = true;
            break;
        case PLB_ACT_BALANCE:
            account(n, t);
            n->state = BALANCE;
            n->due = t + s->in.balancing;
            plb_sim_push(s, n->due, rank);
            break;
        case PLB_ACT_DONE:
            n->state = DONE;
            s->n_done++;
            s->end = fmax(s->end, t);
            break;
        }
    }
    return resumes && n->state == AT_SYNC;
}

static void take_ruling(sim_t *s, int64_t rank, const sent_ruling_t *sent, plb_actions_t *actions,
                        double t)
{
    node_t *n = &s->node[rank];
    if (sent->iteration > 0) {
        plb_sim_check(
            s, plb_consensus_stats(&n->machine, sent->iteration, &sent->ruling, actions, s->err));
    } else {
        plb_sim_check(s, plb_consensus_maximum(&n->machine, &sent->ruling, actions, s->err));
    }
    if (sent->ruling.kind == PLB_RULING_FINAL && s->out->n_decisions > 0) {
        plb_protocol_decision_t *d = &s->out->decision[s->out->n_decisions - 1];
        d->known = fmax(d->known, t);
    }
}

static void begin_iteration(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    const int64_t k = ++n->iteration, p = s->in.n_ranks;
    const double work = work_of(s, rank, k);
    n->state = WORK;
    n->begun[k & 1] = t;
    n->due = t + work;
    plb_sim_push(s, n->due, rank);
    if (s->in.serves > 1) {
        n->serve = t + work / (double)s->in.serves;
        plb_sim_push(s, n->serve, rank);
    }
    for (int i = 0; s->in.halo && p > 1 && i < 2; i++) {
        const int64_t side = plb_sim_neighbour(s, rank, i);
        const node_t *b = &s->node[side];
        if (b->state == RECEIVE && b->iteration == k) {
            plb_sim_wake(s, side, t + plb_sim_hop(s, s->in.halo_bytes));
        }
    }
}

static void ask(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_answer_t answer = PLB_ANSWER_PAUSE;
    account(n, t);
    plb_sim_check(s, plb_consensus_ask(&n->machine, 0, &answer, s->err));
    if (s->ret != PLB_OK) {
        return;
    }
    if (answer == PLB_ANSWER_GO) {
        begin_iteration(s, rank, t);
    } else if (answer == PLB_ANSWER_END) {
        n->state = ENDED;
    } else {
        n->wait = (uint8_t)reason(&n->machine, answer);
    }
}

/* Pass on and process a rank's messages that have arrived by t, and the messages they cause. */
static void serve(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    bool resumes = false;
    plb_sim_relay(s, rank, t);
    while (n->n_taken < n->n_relayed && s->ret == PLB_OK) {
        plb_actions_t actions = {0};
        const sent_ruling_t sent = s->ruling[n->n_taken++];
        take_ruling(s, rank, &sent, &actions, t);
        resumes = carry_out(s, rank, &actions, t) || resumes;
        plb_sim_relay(s, rank, t);
    }
    if (n->state == AT_SYNC && s->ret == PLB_OK) {
        if (resumes) {
            ask(s, rank, t);
        } else {
            account(n, t);
            n->wait = (uint8_t)reason(&n->machine, plb_consensus_answer(&n->machine, 0));
        }
    }
}

static void act_and_ask(sim_t *s, int64_t rank, const plb_actions_t *actions, double t)
{
    carry_out(s, rank, actions, t);
    serve(s, rank, t);
    if (s->node[rank].state == AT_SYNC && s->ret == PLB_OK) {
        ask(s, rank, t);
    }
}

static void at_sync(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_actions_t actions = {0};
    n->received += t - n->since;
    n->state = AT_SYNC;
    n->since = t;
    plb_sim_check(s, plb_consensus_reached(&n->machine, 0, &actions, s->err));
    act_and_ask(s, rank, &actions, t);
}

static void balanced(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_actions_t actions = {0};
    n->state = AT_SYNC;
    n->since = t;
    plb_sim_check(s, plb_consensus_balanced(&n->machine, &actions, s->err));
    act_and_ask(s, rank, &actions, t);
}

/* ---- events --------------------------------------------------------------------------------- */

static void work_event(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    if (t >= n->due) {
        n->state = RECEIVE;
        n->since = t;
        n->serve = INFINITY;
    } else if (t >= n->serve) {
        const double last = n->serve;
        n->serve += (n->due - n->begun[n->iteration & 1]) / (double)s->in.serves;
        if (n->serve > last && n->serve < n->due) { /* not if it is `last` again by rounding */
            plb_sim_push(s, n->serve, rank);
        } else {
            n->serve = INFINITY;
        }
        plb_sim_relay(s, rank, t);
    } else if (s->in.serves == PLB_SERVES_ALWAYS) {
        plb_sim_relay(s, rank, t);
    }
}

/* Whether this rank has an event before t: the events in a bucket are not sorted. */
static bool is_early(const node_t *n, double t)
{
    const bool is_busy = n->state == WORK || n->state == BALANCE;
    return n->wake < t || n->serve < t || (is_busy && n->due < t);
}

static void event(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    if (is_early(n, t)) {
        plb_sim_push(s, t, rank);
        return;
    }
    if (t >= n->wake) {
        n->wake = INFINITY;
    }
    switch (n->state) {
    case WORK:
        work_event(s, rank, t);
        break;
    case BALANCE:
        if (t >= n->due) {
            balanced(s, rank, t);
        } else {
            plb_sim_relay(s, rank, t);
        }
        break;
    case AT_SYNC:
    case ENDED:
        serve(s, rank, t);
        break;
    case RECEIVE:
    case DONE:
        break;
    }
    if (n->state == RECEIVE && s->ret == PLB_OK) {
        if (plb_sim_halo(s, rank) <= t) {
            at_sync(s, rank, t);
        } else if (s->in.blocked) {
            plb_sim_relay(s, rank, t);
        } else {
            serve(s, rank, t);
        }
    }
    plb_sim_wake_next(s, rank, t);
}

static void touch(const void *memory)
{
    __builtin_prefetch(memory, 1);
}

/* Prefetch the states of the events' ranks, then the memory to which these states point. */
static void prefetch(const sim_t *s, const plb_event_t *e, int n)
{
    for (int i = 0; i < n; i++) {
        const char *node = (const char *)&s->node[e[i].owner];
        for (size_t at = 0; at < sizeof(node_t); at += LINE) {
            touch(node + at);
        }
    }
    for (int i = 0; i < n; i++) {
        const int64_t rank = e[i].owner;
        const int64_t parent = rank > 0 ? (rank - 1) / s->in.fanout : 0;
        const int64_t child = rank * s->in.fanout + 1;
        const node_t *node = &s->node[rank];
        touch(node->machine.reach);
        touch(plb_sim_slot(s, rank, node->up));
        touch(plb_sim_slot(s, rank, node->n_relayed));
        touch(&s->node[plb_sim_neighbour(s, rank, 0)]);
        touch(&s->node[plb_sim_neighbour(s, rank, 1)]);
        touch(&s->node[parent]);
        touch(plb_sim_slot(s, parent, node->up));
        for (int c = 0; c < node->n_children && c < 2; c++) {
            touch(&s->node[child + c]);
            touch(plb_sim_slot(s, child + c, node->n_relayed));
        }
    }
}

static void simulate(sim_t *s)
{
    plb_event_t e[PLB_CHUNK_EVENTS];
    int n = 1;
    for (int64_t turn = 0; n > 0 && s->ret == PLB_OK; turn++) {
        plb_sim_check(s, plb_calendar_take(&s->calendar, e, &n, s->err));
        prefetch(s, e, n);
        for (int i = 0; i < n && s->ret == PLB_OK; i++) {
            event(s, e[i].owner, e[i].time);
        }
        s->out->events += n;
        plb_sim_check(s, plb_interrupted(4 * n));
    }
    if (s->ret == PLB_OK && s->n_done < s->in.n_ranks) {
        plb_sim_check(s, PLB_FAIL(s->err, PLB_ERR_STATE,
                                  "no rank can go on: %lld of %lld have ended, statistics are "
                                  "known up to iteration %lld",
                                  (long long)s->n_done, (long long)s->in.n_ranks,
                                  (long long)s->root.seen));
    }
}

/* ---- a run ---------------------------------------------------------------------------------- */

/* X(name, least, most): the ranges of the parameters. */
/* clang-format off */
#define RANGES(X) \
    X(n_ranks, 1, 0x1p26) X(iterations, 1, 0x1p40) X(every, 1, 0x1p40) X(lag, 0, 0x1p16) \
    X(fanout, 1, 0x1p16) X(serves, 0, 0x1p16) X(halo, 0, 1) X(blocked, 0, 1) \
    X(work, 1e-15, 1e9) X(spread, 0, 1e9) X(noise, 0, 1e9) X(balancing, 0, 1e9) \
    X(L, 1e-15, 1e9) X(o, 0, 1e9) X(g, 0, 1e9) X(G, 0, 1e9) \
    X(bytes, 0, 0x1p40) X(halo_bytes, 0, 0x1p40) X(bucket, 1e-9, 1e9)
/* clang-format on */

static int check_params(const plb_protocol_t *in, plb_err_t *err)
{
#define X(name, least, most) {#name, "", "", 0.0, least, most},
    static const plb_param_t ranges[] = {RANGES(X)};
#undef X
#define X(name, least, most) (double)in->name,
    const double value[] = {RANGES(X)};
#undef X
    return plb_params_check(ranges, sizeof ranges / sizeof *ranges, value, err);
}

static int64_t power_of_two(double least)
{
    int64_t n = 1;
    while ((double)n < least) {
        n *= 2;
    }
    return n;
}

static int init(sim_t *s, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t p = s->in.n_ranks;
    const double width = WIDEST * s->in.bucket * (s->in.L + 2.0 * s->in.o);
    const double horizon = 2.0 * s->in.work * (1.0 + s->in.spread + s->in.noise);
    s->window = UNDER_WAY;
    plb_consensus_root_init(&s->root, p, (int32_t)s->in.lag);
    char *memory = NULL;
    PLB_NEW(memory, (p + 1) * (int64_t)sizeof *s->node);
    s->memory = memory;
    memset(memory, 0, (size_t)(p + 1) * sizeof *s->node);
    s->node = (node_t *)(memory + LINE - (uintptr_t)memory % LINE);
    PLB_NEW(s->slot, p * s->window);
    const double most = fmin(fmax(SPARSE * (double)p, LEAST_BUCKETS), MOST_BUCKETS);
    ret = plb_calendar_init(&s->calendar, width,
                            power_of_two(fmin(fmax(horizon / width, LEAST_BUCKETS), most)), err);
    for (int64_t r = 0; r < p && ret == PLB_OK; r++) {
        node_t *n = &s->node[r];
        const int64_t child = r * s->in.fanout + 1, left = p - child;
        n->n_children = (int32_t)(left < 0 ? 0 : left < s->in.fanout ? left : s->in.fanout);
        n->max_missing = 1 + n->n_children;
        n->up = 1;
        n->wake = n->serve = INFINITY;
        for (int64_t i = r * s->window; i < (r + 1) * s->window; i++) {
            s->slot[i] = (slot_t){0.0, INFINITY, 1 + n->n_children};
        }
        int64_t slot;
        plb_actions_t actions = {0};
        if ((ret = plb_consensus_init(&n->machine, (int32_t)s->in.lag, s->in.iterations, err)) ==
            PLB_OK) {
            ret = plb_consensus_add(&n->machine, 0, &slot, &actions, err);
        }
    }
out:
    return ret;
}

static void sum_up(const sim_t *s)
{
    plb_protocol_result_t *out = s->out;
    const double p = (double)s->in.n_ranks;
    for (int64_t r = 0; r < s->in.n_ranks; r++) {
        const node_t *n = &s->node[r];
        out->pause += n->waited[PAUSE] / p;
        out->pause_max = fmax(out->pause_max, n->waited[PAUSE]);
        out->lagged += n->waited[LAG] / p;
        out->gathered += n->waited[GATHER] / p;
        out->received += n->received / p;
        out->bytes_sent += (double)n->bytes / p;
        out->bytes_sent_max = fmax(out->bytes_sent_max, (double)n->bytes);
        out->messages_sent += (double)n->messages / p;
    }
    out->seconds = s->end;
}

static void release(sim_t *s)
{
    for (int64_t r = 0; s->node != NULL && r < s->in.n_ranks; r++) {
        plb_consensus_free(&s->node[r].machine);
    }
    plb_calendar_free(&s->calendar);
    PLB_FREE(s->memory, s->slot, s->ruling);
}

void plb_protocol_defaults(plb_protocol_t *self)
{
#define X(name, type, value, unit, help) .name = (value),
    *self = (plb_protocol_t){PLB_PROTOCOL_PARAMS(X).bucket = 1.0};
#undef X
}

int plb_protocol_run(const plb_protocol_t *in, plb_protocol_result_t *out, plb_err_t *err)
{
    *out = (plb_protocol_result_t){0};
    int ret = check_params(in, err);
    if (ret != PLB_OK) {
        return ret;
    }
    sim_t s = {.in = *in, .out = out, .err = err};
    s.ret = init(&s, err);
    for (int64_t r = 0; r < in->n_ranks && s.ret == PLB_OK; r++) {
        s.node[r].state = AT_SYNC;
        ask(&s, r, 0.0);
    }
    if (s.ret == PLB_OK) {
        simulate(&s);
    }
    if (s.ret == PLB_OK) {
        sum_up(&s);
    }
    ret = s.ret;
    release(&s);
    return ret;
}

void plb_protocol_result_free(plb_protocol_result_t *self)
{
    plb_free(self->decision);
    *self = (plb_protocol_result_t){0};
}
