#include "replay/protocol.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "decide/consensus.h"
#include "replay/calendar.h"

enum {
    MAXIMUM_BYTES = 16,   /* round and reach, or a ruling */
    UNDER_WAY = 8,        /* iterations, to begin with */
    TICK_EVERY = 1 << 14, /* chunks of events */
};

typedef enum state {
    WORK,
    RECEIVE, /* the work is done, a neighbour's data is not here */
    STAND,
    BALANCE,
    END, /* serves on */
    OVER,
} state_t;

typedef enum why { PAUSE, LAG, GATHER, N_WHY } why_t;

enum { LINE = 64 }; /* bytes of a cache line */

/* All of a rank in one place: events come to ranks in no order, and memory is what they cost.
 * The first line is what other ranks look at. */
typedef struct node {
    _Alignas(LINE) double wake; /* earliest event on its way because of messages, or infinity */
    double begun[2];            /* when it began its last two iterations, by parity */
    int64_t iteration;          /* last one begun */
    int64_t up;                 /* next statistics to send up */
    int64_t passed;             /* rulings passed on to the children */
    int32_t n_children;
    uint8_t state, why;
    double due;    /* end of the work or of the balancing */
    double serve;  /* next time that a working rank serves, or infinity */
    double since;  /* when it began to stand or to wait for a neighbour */
    int64_t heard; /* rulings taken by the machine */
    plb_consensus_t machine;
    double max_at; /* latest part of the maximum that is being reduced */
    int64_t max_reach;
    int32_t max_missing;
    double stood[N_WHY], received;
    int64_t bytes, messages;
} node_t;

/* What is under way through a rank: the statistics of an iteration, a ruling. */
typedef struct slot {
    double up_at;    /* latest part of these statistics */
    double down_at;  /* when the ruling arrives, or infinity */
    int32_t missing; /* parts of the statistics that are not there */
} slot_t;

/* What goes down: the ruling on statistics or on a maximum. */
typedef struct word {
    plb_ruling_t ruling;
    int64_t iteration; /* of the statistics, or 0 */
} word_t;

typedef struct sim {
    plb_protocol_t in;
    plb_consensus_root_t root;
    plb_calendar_t calendar;
    node_t *node; /* [p], in `memory` */
    void *memory;
    slot_t *slot;   /* [p, window], by the number of the iteration and of the ruling */
    int64_t window; /* a power of two */
    word_t *word;   /* the rulings so far */
    int64_t n_words, room_words;
    int64_t last_balanced, n_over;
    double end;
    plb_protocol_result_t *out;
    int64_t room_decisions;
    int ret; /* the first failure; the simulation stops there */
    plb_err_t *err;
} sim_t;

static void check(sim_t *s, int ret)
{
    s->ret = s->ret != PLB_OK ? s->ret : ret;
}

static slot_t *slot_of(const sim_t *s, int64_t rank, int64_t number)
{
    return &s->slot[rank * s->window + (number & (s->window - 1))];
}

/* ---- time --------------------------------------------------------------------------------------
 */

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* In [0, 1), of the rank and the iteration alone: the same in whatever order events come. */
static double uniform(const sim_t *s, int64_t rank, int64_t iteration)
{
    const uint64_t a = mix((uint64_t)s->in.seed + 0x9e3779b97f4a7c15u * (uint64_t)(rank + 1));
    return (double)(mix(a + 0x9e3779b97f4a7c15u * (uint64_t)(iteration + 1)) >> 11) * 0x1p-53;
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

static double bytes_time(const sim_t *s, int64_t bytes)
{
    return (double)(bytes > 0 ? bytes - 1 : 0) * s->in.G;
}

static double hop(const sim_t *s, int64_t bytes)
{
    return s->in.o + s->in.L + bytes_time(s, bytes) + s->in.o;
}

static void push(sim_t *s, double time, int64_t rank)
{
    check(s, plb_calendar_push(&s->calendar, time, rank, s->err));
}

/* ---- messages ----------------------------------------------------------------------------------
 */

static bool listens(const sim_t *s, const node_t *n)
{
    return n->state != WORK || s->in.serves == PLB_SERVES_ALWAYS;
}

/* Something for this rank arrives at `time`: one event is on its way for the earliest such time.
 */
static void notice(sim_t *s, int64_t rank, double time)
{
    node_t *n = &s->node[rank];
    if (listens(s, n) && time < n->wake) {
        n->wake = time;
        push(s, time, rank);
    }
}

static double later(double time, double t)
{
    return time > t ? time : INFINITY;
}

/* When its neighbours' data for the iteration that it runs are here; infinity: not known yet. */
static double halo_at(const sim_t *s, int64_t rank)
{
    const int64_t p = s->in.n_ranks, k = s->node[rank].iteration;
    if (!s->in.halo || p == 1) {
        return 0.0;
    }
    const node_t *a = &s->node[rank == 0 ? p - 1 : rank - 1];
    const node_t *b = &s->node[rank == p - 1 ? 0 : rank + 1];
    if (a->iteration < k || b->iteration < k) {
        return INFINITY;
    }
    return fmax(a->begun[k & 1], b->begun[k & 1]) + hop(s, s->in.halo_bytes);
}

/* An event for the earliest of what is under way to a rank and later than t. */
static void arm(sim_t *s, int64_t rank, double t)
{
    const node_t *n = &s->node[rank];
    if (!listens(s, n) || n->state == OVER) {
        return;
    }
    const slot_t *up = slot_of(s, rank, n->up);
    double next = later(slot_of(s, rank, n->passed)->down_at, t);
    if (up->missing == 0) {
        next = fmin(next, later(up->up_at, t));
    }
    if (n->max_missing == 0) {
        next = fmin(next, later(n->max_at, t));
    }
    if (n->state == RECEIVE) {
        next = fmin(next, later(halo_at(s, rank), t));
    }
    if (next < INFINITY) {
        notice(s, rank, next);
    }
}

/* Room for twice as many iterations under way. */
static void widen(sim_t *s)
{
    const sim_t old = *s;
    const int64_t p = s->in.n_ranks, window = 2 * old.window;
    s->slot = plb_malloc((size_t)(p * window), sizeof *s->slot);
    if (s->slot == NULL) {
        s->slot = old.slot;
        check(s, PLB_FAIL(s->err, PLB_ERR_NOMEM, "out of memory: %lld iterations under way",
                          (long long)window));
        return;
    }
    s->window = window;
    for (int64_t r = 0; r < p; r++) {
        const node_t *n = &s->node[r];
        for (int64_t i = 0; i < window; i++) {
            s->slot[r * window + i] = (slot_t){0.0, INFINITY, 1 + n->n_children};
        }
        for (int64_t i = 0; i < old.window; i++) {
            slot_t *up = slot_of(s, r, n->up + i);
            up->up_at = slot_of(&old, r, n->up + i)->up_at;
            up->missing = slot_of(&old, r, n->up + i)->missing;
            slot_of(s, r, n->passed + i)->down_at = slot_of(&old, r, n->passed + i)->down_at;
        }
    }
    plb_free(old.slot);
}

/* A part of the statistics of an iteration is at this rank: its own or a child's. */
static void add_stats(sim_t *s, int64_t rank, int64_t iteration, double at)
{
    while (iteration >= s->node[rank].up + s->window && s->ret == PLB_OK) {
        widen(s);
    }
    slot_t *slot = slot_of(s, rank, iteration);
    slot->up_at = at > slot->up_at ? at : slot->up_at;
    if (--slot->missing == 0) {
        notice(s, rank, slot->up_at);
    }
}

static void add_maximum(sim_t *s, int64_t rank, int64_t reach, double at)
{
    node_t *n = &s->node[rank];
    n->max_at = fmax(n->max_at, at);
    n->max_reach = reach > n->max_reach ? reach : n->max_reach;
    if (--n->max_missing == 0) {
        notice(s, rank, n->max_at);
    }
}

static void count(node_t *n, int64_t messages, int64_t bytes)
{
    n->messages += messages;
    n->bytes += messages * bytes;
}

/* ---- the root ----------------------------------------------------------------------------------
 */

static plb_protocol_decision_t *new_decision(sim_t *s, int64_t asked, double t)
{
    plb_protocol_result_t *out = s->out;
    if (out->n_decisions == s->room_decisions) {
        const int64_t room = 2 * s->room_decisions + 16;
        plb_protocol_decision_t *d = plb_realloc(out->decision, (size_t)room, sizeof *d);
        if (d == NULL) {
            check(s, PLB_FAIL(s->err, PLB_ERR_NOMEM, "out of memory: decisions"));
            return NULL;
        }
        out->decision = d;
        s->room_decisions = room;
    }
    plb_protocol_decision_t *d = &out->decision[out->n_decisions++];
    *d = (plb_protocol_decision_t){.asked = asked, .root = t};
    return d;
}

/* What the root said, into the book and on its way. */
static void say(sim_t *s, const plb_ruling_t *ruling, int64_t iteration, double t)
{
    if (s->n_words == s->room_words) {
        const int64_t room = 2 * s->room_words + 256;
        word_t *word = plb_realloc(s->word, (size_t)room, sizeof *word);
        if (word == NULL) {
            check(s, PLB_FAIL(s->err, PLB_ERR_NOMEM, "out of memory: rulings"));
            return;
        }
        s->word = word;
        s->room_words = room;
    }
    plb_protocol_result_t *out = s->out;
    plb_protocol_decision_t *d = out->n_decisions ? &out->decision[out->n_decisions - 1] : NULL;
    const bool is_new =
        ruling->kind == PLB_RULING_TENTATIVE ||
        (ruling->kind == PLB_RULING_FINAL && iteration > 0 && ruling->iteration != PLB_NEVER);
    if (is_new && (d = new_decision(s, iteration, t)) != NULL) {
        d->tentative = ruling->iteration;
    }
    if (d != NULL && ruling->kind == PLB_RULING_FINAL) {
        d->final = ruling->iteration == PLB_NEVER ? 0 : ruling->iteration;
    }
    if (d != NULL && ruling->kind == PLB_RULING_BALANCE) {
        d->balanced = t;
        s->last_balanced = ruling->iteration;
    }
    while (s->n_words >= s->node[0].passed + s->window && s->ret == PLB_OK) {
        widen(s);
    }
    slot_of(s, 0, s->n_words)->down_at = t;
    s->word[s->n_words++] = (word_t){*ruling, iteration};
}

/* The trigger: a balancing as soon as can be, so many iterations after the last one. */
static int64_t wish(const sim_t *s, int64_t iteration)
{
    const bool is_free = s->root.final == PLB_NEVER && s->root.tentative == PLB_NEVER;
    const bool is_due = iteration - s->last_balanced >= s->in.every;
    return is_free && is_due && iteration + s->in.lag < s->in.iterations ? 1 : PLB_WISH_NONE;
}

static void root_stats(sim_t *s, int64_t iteration, double t)
{
    plb_ruling_t ruling;
    /* Every rank ends at the same iteration: with it all have ended. */
    const int64_t n_ended = iteration >= s->in.iterations ? s->in.n_ranks : 0;
    check(s, plb_consensus_root_stats(&s->root, iteration, n_ended, wish(s, iteration), &ruling,
                                      s->err));
    if (s->ret == PLB_OK) {
        say(s, &ruling, iteration, t);
    }
}

static void root_maximum(sim_t *s, int64_t reach, double t)
{
    plb_ruling_t ruling;
    check(s, plb_consensus_root_maximum(&s->root, s->root.round, reach, &ruling, s->err));
    if (s->ret == PLB_OK) {
        say(s, &ruling, 0, t);
    }
}

/* ---- a rank passes messages on -----------------------------------------------------------------
 */

static void send_stats(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    slot_t *slot = slot_of(s, rank, n->up);
    const int64_t iteration = n->up++;
    slot->up_at = 0.0;
    slot->missing = 1 + n->n_children;
    if (rank == 0) {
        root_stats(s, iteration, t);
        return;
    }
    count(n, 1, s->in.bytes);
    add_stats(s, (rank - 1) / s->in.fanout, iteration, t + hop(s, s->in.bytes));
}

static void send_maximum(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    const int64_t reach = n->max_reach;
    n->max_at = 0.0;
    n->max_reach = 0;
    n->max_missing = 1 + n->n_children;
    if (rank == 0) {
        root_maximum(s, reach, t);
        return;
    }
    count(n, 1, MAXIMUM_BYTES);
    add_maximum(s, (rank - 1) / s->in.fanout, reach, t + hop(s, MAXIMUM_BYTES));
}

static void send_down(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    const int64_t number = n->passed++;
    const int64_t bytes = s->word[number].iteration > 0 ? s->in.bytes : MAXIMUM_BYTES;
    const double gap = fmax(s->in.g, s->in.o + bytes_time(s, bytes));
    slot_of(s, rank, number)->down_at = INFINITY;
    for (int c = 0; c < n->n_children; c++) {
        const int64_t child = rank * s->in.fanout + 1 + c;
        const double at = t + gap * c + hop(s, bytes);
        while (number >= s->node[child].passed + s->window && s->ret == PLB_OK) {
            widen(s);
        }
        slot_of(s, child, number)->down_at = at;
        notice(s, child, at);
    }
    count(n, n->n_children, bytes);
}

/* Whatever is here by t goes on. */
static void relay(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    for (bool more = true; more && s->ret == PLB_OK;) {
        more = false;
        const slot_t *up = slot_of(s, rank, n->up);
        if (n->max_missing == 0 && n->max_at <= t) {
            send_maximum(s, rank, t);
            more = true;
        } else if (up->missing == 0 && up->up_at <= t &&
                   (rank > 0 || plb_consensus_root_ready(&s->root))) {
            send_stats(s, rank, t);
            more = true;
        }
        while (slot_of(s, rank, n->passed)->down_at <= t && s->ret == PLB_OK) {
            send_down(s, rank, t);
            more = true;
        }
    }
}

/* ---- a rank's machine --------------------------------------------------------------------------
 */

/* The time since it began to stand goes to the reason that it had. */
static void account(node_t *n, double t)
{
    n->stood[n->why] += t - n->since;
    n->since = t;
}

static why_t reason(const plb_consensus_t *machine, plb_answer_t answer)
{
    if (answer == PLB_ANSWER_BALANCE) {
        return GATHER;
    }
    return machine->reach[0] / 2 >= machine->limit ? PAUSE : LAG;
}

/* Carry out what the machine asks for; whether the object may ask again. */
static bool carry_out(sim_t *s, int64_t rank, const plb_actions_t *actions, double t)
{
    node_t *n = &s->node[rank];
    bool resumes = false;
    for (int i = 0; i < actions->n && s->ret == PLB_OK; i++) {
        const plb_action_t *a = &actions->act[i];
        switch (a->kind) {
        case PLB_ACT_STATS:
            for (int64_t k = a->first; k <= a->last; k++) {
                add_stats(s, rank, k, t);
            }
            break;
        case PLB_ACT_MAXIMUM:
            add_maximum(s, rank, a->first, t);
            break;
        case PLB_ACT_RESUME:
            resumes = true;
            break;
        case PLB_ACT_BALANCE:
            account(n, t);
            n->state = BALANCE;
            n->due = t + s->in.balancing;
            push(s, n->due, rank);
            break;
        case PLB_ACT_DONE:
            n->state = OVER;
            s->n_over++;
            s->end = fmax(s->end, t);
            break;
        }
    }
    return resumes && n->state == STAND;
}

static void hear(sim_t *s, int64_t rank, const word_t *word, plb_actions_t *actions, double t)
{
    node_t *n = &s->node[rank];
    if (word->iteration > 0) {
        check(s,
              plb_consensus_stats(&n->machine, word->iteration, &word->ruling, actions, s->err));
    } else {
        check(s, plb_consensus_maximum(&n->machine, &word->ruling, actions, s->err));
    }
    if (word->ruling.kind == PLB_RULING_FINAL && s->out->n_decisions > 0) {
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
    push(s, n->due, rank);
    if (s->in.serves > 1) {
        n->serve = t + work / (double)s->in.serves;
        push(s, n->serve, rank);
    }
    if (s->in.halo && p > 1) {
        const int64_t side[2] = {rank == 0 ? p - 1 : rank - 1, rank == p - 1 ? 0 : rank + 1};
        for (int i = 0; i < 2; i++) {
            const node_t *b = &s->node[side[i]];
            if (b->state == RECEIVE && b->iteration == k) {
                notice(s, side[i], t + hop(s, s->in.halo_bytes));
            }
        }
    }
}

static void ask(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_answer_t answer = PLB_ANSWER_PAUSE;
    account(n, t);
    check(s, plb_consensus_ask(&n->machine, 0, &answer, s->err));
    if (s->ret != PLB_OK) {
        return;
    }
    if (answer == PLB_ANSWER_GO) {
        begin_iteration(s, rank, t);
    } else if (answer == PLB_ANSWER_END) {
        n->state = END;
    } else {
        n->why = (uint8_t)reason(&n->machine, answer);
    }
}

/* Pass on and take in what is here by t, until nothing more comes of it. */
static void serve(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    bool resumes = false;
    relay(s, rank, t);
    while (n->heard < n->passed && s->ret == PLB_OK) {
        plb_actions_t actions = {0};
        const word_t word = s->word[n->heard++];
        hear(s, rank, &word, &actions, t);
        resumes = carry_out(s, rank, &actions, t) || resumes;
        relay(s, rank, t);
    }
    if (n->state == STAND && s->ret == PLB_OK) {
        if (resumes) {
            ask(s, rank, t);
        } else {
            account(n, t);
            n->why = (uint8_t)reason(&n->machine, plb_consensus_answer(&n->machine, 0));
        }
    }
}

static void at_sync(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_actions_t actions = {0};
    n->received += t - n->since;
    n->state = STAND;
    n->since = t;
    check(s, plb_consensus_reached(&n->machine, 0, &actions, s->err));
    carry_out(s, rank, &actions, t);
    serve(s, rank, t);
    if (n->state == STAND && s->ret == PLB_OK) {
        ask(s, rank, t);
    }
}

static void balanced(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    plb_actions_t actions = {0};
    n->state = STAND;
    n->since = t;
    check(s, plb_consensus_balanced(&n->machine, &actions, s->err));
    carry_out(s, rank, &actions, t);
    serve(s, rank, t);
    if (n->state == STAND && s->ret == PLB_OK) {
        ask(s, rank, t);
    }
}

/* ---- events ------------------------------------------------------------------------------------
 */

static void work_event(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    if (t >= n->due) {
        n->state = RECEIVE;
        n->since = t;
        n->serve = INFINITY;
    } else if (t >= n->serve) {
        n->serve += (n->due - n->begun[n->iteration & 1]) / (double)s->in.serves;
        if (n->serve < n->due) {
            push(s, n->serve, rank);
        }
        relay(s, rank, t);
    } else if (s->in.serves == PLB_SERVES_ALWAYS) {
        relay(s, rank, t);
    }
}

/* Whether an earlier event of the same rank waits in the same bucket. */
static bool is_early(const node_t *n, double t)
{
    const bool is_busy = n->state == WORK || n->state == BALANCE;
    return n->wake < t || n->serve < t || (is_busy && n->due < t);
}

static void event(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    if (is_early(n, t)) {
        push(s, t, rank);
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
            relay(s, rank, t);
        }
        break;
    case STAND:
    case END:
        serve(s, rank, t);
        break;
    case RECEIVE:
    case OVER:
        break;
    }
    if (n->state == RECEIVE && s->ret == PLB_OK) {
        if (halo_at(s, rank) <= t) {
            at_sync(s, rank, t);
        } else if (s->in.blocked) {
            relay(s, rank, t);
        } else {
            serve(s, rank, t);
        }
    }
    arm(s, rank, t);
}

static void touch(const void *memory)
{
    __builtin_prefetch(memory, 1);
}

/* What the next events need of memory, asked for all at once instead of one behind the other:
 * first what a rank is, then what that points to. */
static void prefetch(const sim_t *s, const plb_event_t *e, int n)
{
    for (int i = 0; i < n; i++) {
        const char *node = (const char *)&s->node[e[i].owner];
        for (size_t at = 0; at < sizeof(node_t); at += LINE) {
            touch(node + at);
        }
    }
    for (int i = 0; i < n; i++) {
        const int64_t rank = e[i].owner, p = s->in.n_ranks;
        const int64_t parent = rank > 0 ? (rank - 1) / s->in.fanout : 0;
        const int64_t child = rank * s->in.fanout + 1;
        const node_t *node = &s->node[rank];
        touch(node->machine.reach);
        touch(slot_of(s, rank, node->up));
        touch(slot_of(s, rank, node->passed));
        touch(&s->node[rank == 0 ? p - 1 : rank - 1]);
        touch(&s->node[rank == p - 1 ? 0 : rank + 1]);
        touch(&s->node[parent]);
        touch(slot_of(s, parent, node->up));
        for (int c = 0; c < node->n_children && c < 2; c++) {
            touch(&s->node[child + c]);
            touch(slot_of(s, child + c, node->passed));
        }
    }
}

static void simulate(sim_t *s)
{
    plb_event_t e[PLB_CHUNK_EVENTS];
    int n = 1;
    for (int64_t turn = 0; n > 0 && s->ret == PLB_OK; turn++) {
        check(s, plb_calendar_take(&s->calendar, e, &n, s->err));
        prefetch(s, e, n);
        for (int i = 0; i < n && s->ret == PLB_OK; i++) {
            event(s, e[i].owner, e[i].time);
        }
        s->out->events += n;
        if (turn % TICK_EVERY == 0 && s->in.tick != NULL) {
            check(s, s->in.tick(s->in.tick_arg));
        }
    }
    if (s->ret == PLB_OK && s->n_over < s->in.n_ranks) {
        check(s,
              PLB_FAIL(s->err, PLB_ERR_STATE,
                       "no rank can go on: %lld of %lld have ended, statistics are known up to "
                       "%lld",
                       (long long)s->n_over, (long long)s->in.n_ranks, (long long)s->root.seen));
    }
}

/* ---- a run -------------------------------------------------------------------------------------
 */

static int check_params(const plb_protocol_t *in, plb_err_t *err)
{
    const struct {
        const char *name;
        int64_t value, least, most;
    } whole[] = {
        {"n_ranks", in->n_ranks, 1, INT64_C(1) << 26},
        {"iterations", in->iterations, 1, INT64_C(1) << 40},
        {"every", in->every, 1, INT64_C(1) << 40},
        {"lag", in->lag, 0, 1 << 16},
        {"fanout", in->fanout, 1, 1 << 16},
        {"serves", in->serves, 0, 1 << 16},
        {"halo", in->halo, 0, 1},
        {"blocked", in->blocked, 0, 1},
        {"bytes", in->bytes, 0, INT64_C(1) << 40},
        {"halo_bytes", in->halo_bytes, 0, INT64_C(1) << 40},
    };
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        if (whole[i].value < whole[i].least || whole[i].value > whole[i].most) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %lld: expected %lld ... %lld",
                            whole[i].name, (long long)whole[i].value, (long long)whole[i].least,
                            (long long)whole[i].most);
        }
    }
    const struct {
        const char *name;
        double value;
        bool positive;
    } real[] = {{"work", in->work, true},    {"spread", in->spread, false},
                {"noise", in->noise, false}, {"balancing", in->balancing, false},
                {"L", in->L, true},          {"o", in->o, false},
                {"g", in->g, false},         {"G", in->G, false},
                {"bucket", in->bucket, true}};
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        if (!(real[i].value >= 0.0 && real[i].value <= 1e9) ||
            (real[i].positive && real[i].value <= 0.0)) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %g: expected a number %s zero",
                            real[i].name, real[i].value, real[i].positive ? "above" : "not below");
        }
    }
    return PLB_OK;
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
    const double width = s->in.bucket * (s->in.L + 2.0 * s->in.o);
    const double horizon = 2.0 * s->in.work * (1.0 + s->in.spread + s->in.noise);
    s->window = UNDER_WAY;
    plb_consensus_root_init(&s->root, p, (int32_t)s->in.lag);
    char *memory = NULL;
    PLB_NEW(memory, (p + 1) * (int64_t)sizeof *s->node);
    s->memory = memory;
    memset(memory, 0, (size_t)(p + 1) * sizeof *s->node);
    s->node = (node_t *)(memory + LINE - (uintptr_t)memory % LINE);
    PLB_NEW(s->slot, p * s->window);
    ret = plb_calendar_init(&s->calendar, width,
                            power_of_two(fmin(fmax(horizon / width, 1024.0), 0x1p22)), err);
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
        out->pause += n->stood[PAUSE] / p;
        out->pause_max = fmax(out->pause_max, n->stood[PAUSE]);
        out->lagged += n->stood[LAG] / p;
        out->gathered += n->stood[GATHER] / p;
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
    plb_free(s->memory);
    plb_free(s->slot);
    plb_free(s->word);
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
        s.node[r].state = STAND;
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
