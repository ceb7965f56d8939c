#include "whatif/whatif.h"

#include <string.h>

#include "base/base.h"

enum { MOST_REQUESTS = 1 << 24 }; /* largest number of open requests of a rank */
/* Largest number of nanoseconds (104 days) and of bytes (9 PB): a double holds it exactly. */
static const int64_t MOST = INT64_C(1) << 53;

static bool op_has_request(const plb_op_t *op)
{
    return op->kind == PLB_OP_ISEND || op->kind == PLB_OP_IRECV || op->kind == PLB_OP_WAIT ||
           op->kind == PLB_OP_ICOLL;
}

const char *const plb_one_sided_names[PLB_N_ONE_SIDED] = {
#define X(name) #name,
    PLB_ONE_SIDED_CALLS(X)
#undef X
};

#define EXPECT(what, value, most)                                                                 \
    do {                                                                                          \
        const long long is_ = (value), most_ = (most);                                            \
        PLB_FAIL_IF(!(0 <= is_ && is_ <= most_), err, PLB_ERR_FORMAT,                             \
                    "operation %lld of rank %d: %s is %lld: expected 0 ... %lld", (long long)at,  \
                    rank, (what), is_, most_);                                                    \
    } while (0)

int plb_op_check(const plb_op_t *op, int32_t rank, int64_t at, int32_t n_ranks,
                 const plb_comms_t *comms, plb_err_t *err)
{
    EXPECT("kind", op->kind, PLB_N_OPS - 1);
    if (op->kind == PLB_OP_ONE_SIDED) {
        EXPECT("one-sided call", op->what, PLB_N_ONE_SIDED - 1);
        return PLB_FAIL(err, PLB_ERR_VALUE,
                        "operation %lld of rank %d is MPI_%s: one-sided calls are not simulated",
                        (long long)at, rank, plb_one_sided_names[op->what]);
    }
    EXPECT("processor time in ns", op->compute, MOST);
    EXPECT("number of bytes", op->bytes, MOST);
    EXPECT("communicator", op->comm, comms->n - 1);
    if (op_has_request(op)) {
        EXPECT("request", op->request, MOST_REQUESTS - 1);
    }
    const bool takes = plb_op_is_receive(op) || op->kind == PLB_OP_PROBE;
    const bool unknown = (op->flags & PLB_OP_ANY_SOURCE) && op->peer == -1;
    if (plb_op_is_send(op) || (takes && !unknown)) {
        EXPECT("peer", op->peer, n_ranks - 1);
    }
    if (op->kind == PLB_OP_COLL || op->kind == PLB_OP_ICOLL) {
        const int64_t first = comms->start[op->comm], size = comms->start[op->comm + 1] - first;
        EXPECT("collective", op->what, PLB_N_COLLECTIVES - 1);
        EXPECT("root", op->peer, size - 1);
        EXPECT("own rank in the communicator", op->tag, size - 1);
        PLB_FAIL_IF(comms->member[first + op->tag] != rank, err, PLB_ERR_FORMAT,
                    "operation %lld of rank %d: own rank in the communicator is %d, which is rank "
                    "%d of MPI_COMM_WORLD: expected rank %d",
                    (long long)at, rank, op->tag, comms->member[first + op->tag], rank);
    }
    return PLB_OK;
}

int plb_comms_check(const plb_comms_t *comms, int32_t n_ranks, plb_err_t *err)
{
    for (int64_t i = 0; i < comms->start[comms->n]; i++) {
        PLB_FAIL_IF(comms->member[i] < 0 || comms->member[i] >= n_ranks, err, PLB_ERR_RANGE,
                    "a member of a communicator is rank %d: expected 0 ... %d", comms->member[i],
                    n_ranks - 1);
    }
    return PLB_OK;
}

/* ---- the send of each receive --------------------------------------------------------------- */

/* A channel: the messages with the same sender, receiver, communicator and tag. */
typedef struct channel {
    int32_t source, target, comm, tag;
} channel_t;

typedef struct channels {
    /* ends: numbers of the pairs (source, target); what: numbers of the pairs (communicator, tag);
     * both: numbers of the channels, which are pairs of these two numbers */
    plb_keys_t ends, what, both;
} channels_t;

static int64_t join(int32_t a, int32_t b)
{
    return (int64_t)((uint64_t)(uint32_t)a << 32 | (uint32_t)b);
}

/* The channel of a receive's message, as far as it is known from the operations so far. */
typedef struct wanted {
    channel_t channel;
    uint8_t flags; /* flags of the receive's operation */
} wanted_t;

/* Find the channel of each send and of each receive.  If a nonblocking receive has a wildcard, its
 * WAIT has the source or the tag. */
static int find_channels(const plb_streams_t *s, const plb_pairing_t *p, channels_t *table,
                         int32_t *channel, wanted_t *wanted, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *pending = NULL;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int64_t send = p->send_start[r], receive = p->receive_start[r];
        plb_free(pending);
        PLB_NEW(pending, p->requests[r]);
        memset(pending, -1, (size_t)p->requests[r] * sizeof *pending);
        for (int64_t i = 0; i < s->n[r]; i++) {
            const plb_op_t *op = &s->op[r][i];
            PLB_TRY(plb_interrupted(8));
            if (plb_op_is_send(op)) {
                const channel_t c = {r, op->peer, op->comm, op->tag};
                int32_t *const number = &channel[send++];
                int32_t ends, what;
                PLB_TRY(plb_keys_add(&table->ends, join(c.source, c.target), &ends, err));
                PLB_TRY(plb_keys_add(&table->what, join(c.comm, c.tag), &what, err));
                PLB_TRY(plb_keys_add(&table->both, join(ends, what), number, err));
            } else if (plb_op_is_receive(op)) {
                wanted[receive] = (wanted_t){{op->peer, r, op->comm, op->tag}, op->flags};
            }
            if (op->kind == PLB_OP_IRECV) {
                pending[op->request] = receive;
            } else if (op->kind == PLB_OP_ISEND || op->kind == PLB_OP_ICOLL) {
                pending[op->request] = -1;
            } else if (op->kind == PLB_OP_WAIT && pending[op->request] >= 0) {
                const uint8_t flags = wanted[pending[op->request]].flags;
                channel_t *c = &wanted[pending[op->request]].channel;
                c->source = op->flags & PLB_OP_CANCELLED ? -1
                            : flags & PLB_OP_ANY_SOURCE  ? op->peer
                                                         : c->source;
                c->tag = flags & PLB_OP_ANY_TAG ? op->tag : c->tag;
                pending[op->request] = -1;
            }
            receive += plb_op_is_receive(op);
        }
    }
out:
    plb_free(pending);
    return ret;
}

static int pair(plb_pairing_t *p, const channels_t *table, const int32_t *channel,
                const wanted_t *wanted, int64_t sends, int64_t receives, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_groups_t sent = {0};
    int64_t *taken = NULL; /* number of sends of each channel that are paired already */
    PLB_NEW0(taken, table->both.n);
    PLB_TRY(plb_groups_init(&sent, channel, sends, (int32_t)table->both.n, err));
    p->unreceived = sends;
    for (int64_t i = 0; i < receives; i++) {
        PLB_TRY(plb_interrupted(16));
        const channel_t *its = &wanted[i].channel;
        const int32_t ends = plb_keys_find(&table->ends, join(its->source, its->target));
        const int32_t what = plb_keys_find(&table->what, join(its->comm, its->tag));
        const bool known = its->source >= 0 && ends >= 0 && what >= 0;
        const int32_t c = known ? plb_keys_find(&table->both, join(ends, what)) : -1;
        const bool found = c >= 0 && sent.start[c] + taken[c] < sent.start[c + 1];
        p->send_of[i] = found ? sent.item[sent.start[c] + taken[c]++] : -1;
        p->unreceived -= found;
        p->unsent += !found;
    }
out:
    plb_groups_free(&sent);
    plb_free(taken);
    return ret;
}

int plb_pairing_make(const plb_streams_t *streams, plb_pairing_t *out, plb_err_t *err)
{
    int32_t *channel = NULL;
    wanted_t *wanted = NULL;
    channels_t table = {0};
    memset(out, 0, sizeof *out);
    int ret;
    PLB_TRY(plb_comms_check(&streams->comms, streams->n_ranks, err));
    PLB_NEW0_EACH(streams->n_ranks + 1, out->send_start, out->receive_start);
    PLB_NEW0(out->requests, streams->n_ranks);
    for (int32_t r = 0; r < streams->n_ranks; r++) {
        int64_t sends = 0, receives = 0;
        for (int64_t i = 0; i < streams->n[r]; i++) {
            const plb_op_t *op = &streams->op[r][i];
            PLB_TRY(plb_interrupted(4));
            PLB_TRY(plb_op_check(op, r, i, streams->n_ranks, &streams->comms, err));
            sends += plb_op_is_send(op);
            receives += plb_op_is_receive(op);
            if (op_has_request(op) && op->request >= out->requests[r]) {
                out->requests[r] = op->request + 1;
            }
        }
        out->send_start[r + 1] = out->send_start[r] + sends;
        out->receive_start[r + 1] = out->receive_start[r] + receives;
    }
    const int64_t sends = out->send_start[streams->n_ranks];
    const int64_t receives = out->receive_start[streams->n_ranks];
    PLB_NEW_EACH(receives, out->send_of, wanted);
    PLB_NEW(channel, sends);
    PLB_TRY(find_channels(streams, out, &table, channel, wanted, err));
    PLB_TRY(pair(out, &table, channel, wanted, sends, receives, err));
out:
    plb_keys_free(&table.ends);
    plb_keys_free(&table.what);
    plb_keys_free(&table.both);
    PLB_FREE(channel, wanted);
    return ret;
}

void plb_pairing_free(plb_pairing_t *self)
{
    PLB_FREE(self->send_start, self->receive_start, self->send_of, self->requests);
}

/* ---- the critical path ---------------------------------------------------------------------- */

typedef struct message {
    /* ns.  longest: the sender's path length plus the transfer time, < 0: not sent yet; work,
     * gain: see whatif.h */
    int64_t longest, work, gain;
    int64_t op; /* index, on the sender, of the operation that sends the message */
} message_t;

/* One collective.  A member is a rank, numbered as in the communicator. */
typedef struct collective {
    int64_t *longest; /* [size] ns: path length of each member at its entry; < 0: not entered */
    int64_t *op;      /* [size] index of the operation by which each member entered */
    int64_t top;      /* largest path length of the members that have entered, ns */
    const plb_op_t *first;                   /* operation of the member that entered first */
    int32_t top_member, entered, left, size; /* member whose path is `top`; number of members that
                                                have entered, that have left, and of all */
} collective_t;

typedef struct collectives {
    collective_t *at;
    int64_t n, room;
} collectives_t;

/* What the next WAIT of a request waits for. */
typedef struct request {
    enum { NONE, RECEIVE, COLLECTIVE } is;
    int64_t number; /* number of the receive; or of the collective in its communicator */
    int64_t op;     /* index of the operation that began the collective */
} request_t;

/* How far the operations of a rank have been processed. */
typedef struct walk {
    int64_t at;                  /* index of the present operation */
    int64_t longest, work, gain; /* ns.  longest: path length; work, gain: see whatif.h */
    int64_t send, receive;       /* numbers of the next send and receive */
    int32_t depth;               /* number of open calls of the procedure */
    bool begun;                  /* whether begin() was called for operation `at` */
    request_t *request;          /* [requests] by the request's number in the operations */
} walk_t;

typedef struct path {
    const plb_streams_t *s;
    const plb_pairing_t *pairs;
    const plb_path_query_t *query;
    plb_path_hop_t *const *hop;
    walk_t *rank;
    message_t *message; /* [sends] the message of each send, by its number (plb_pairing_t) */
    collectives_t *collective; /* [communicators] the collectives of each communicator */
    int64_t *n_entered; /* [like comms.member] number of collectives that the member has entered */
    int32_t *runnable, n_runnable; /* stack of the ranks to process next */
    bool *queued;                  /* [n_ranks] whether the rank is on this stack */
} path_t;

static void wake(path_t *p, int32_t rank)
{
    if (!p->queued[rank]) {
        p->queued[rank] = true;
        p->runnable[p->n_runnable++] = rank;
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Set `work` and `gain` to 0, as the paper does at each message.  With `kept`, only limit the gain
 * to `slack`: the time by which the rank's path is longer than the path for which it waits.
 * Removing the procedure cannot shorten the path by more. */
static void reset_work(const path_t *p, walk_t *w, int64_t slack)
{
    if (!p->query->kept) {
        w->work = w->gain = 0;
    } else if (w->gain > slack) {
        w->gain = larger(slack, 0);
    }
}

static void hop(path_t *p, int32_t rank, int32_t from, int64_t op)
{
    if (p->hop != NULL) {
        p->hop[rank][p->rank[rank].at] = (plb_path_hop_t){op, from, 0};
    }
}

static void send(path_t *p, int32_t rank, const plb_op_t *op)
{
    walk_t *w = &p->rank[rank];
    const bool moves =
        p->query->change == PLB_PATH_MOVED && (p->query->to < 0 || p->query->to == op->peer);
    const double seconds = p->query->alpha + p->query->beta * (double)op->bytes;
    p->message[w->send++] = (message_t){w->longest + (int64_t)(seconds * 1e9 + 0.5),
                                        moves ? w->work : 0, moves ? w->gain : 0, w->at};
    if (moves) {
        w->longest -= w->gain;
        w->work = w->gain = 0;
    } else {
        reset_work(p, w, INT64_MAX);
    }
    wake(p, op->peer);
}

/* Returns false if the message has not been sent yet. */
static bool receive(path_t *p, int32_t rank, int64_t number)
{
    const int64_t sent = p->pairs->send_of[number];
    if (sent < 0 || p->message[sent].longest < 0) {
        return false;
    }
    const message_t *m = &p->message[sent];
    walk_t *w = &p->rank[rank];
    const int64_t Cs = m->longest - m->gain;
    const int64_t Cr = w->longest + m->work;
    reset_work(p, w, Cr - Cs);
    w->longest = larger(Cs, Cr);
    if (Cs > Cr && p->hop != NULL) {
        const int64_t next = plb_lower_bound(p->pairs->send_start, p->s->n_ranks, sent + 1);
        hop(p, rank, (int32_t)next - 1, m->op); /* `next` - 1 is the sender's rank */
    }
    return true;
}

/* --- collectives ----------------------------------------------------------------------------- */

static int enter(path_t *p, int32_t rank, const plb_op_t *op, int64_t *number, plb_err_t *err)
{
    walk_t *w = &p->rank[rank];
    const int64_t start = p->s->comms.start[op->comm];
    *number = p->n_entered[start + op->tag]++;
    collectives_t *all = &p->collective[op->comm];
    if (*number == all->n) {
        PLB_PASS_GROW(all->at, all->room, all->n + 1);
        collective_t *fresh = &all->at[all->n++];
        *fresh =
            (collective_t){.size = (int32_t)(p->s->comms.start[op->comm + 1] - start), .top = -1};
        PLB_PASS_NEW_EACH(fresh->size, fresh->longest, fresh->op);
        memset(fresh->longest, -1, (size_t)fresh->size * sizeof *fresh->longest);
    }
    collective_t *m = &all->at[*number];
    m->first = m->first == NULL ? op : m->first;
    /* If members call different collectives, no path exists: they would wait for different ranks.
     */
#define X(name) #name,
    static const char *const words[] = {PLB_COLLECTIVES(X)};
#undef X
    const plb_op_t *first = m->first;
    PLB_FAIL_IF(
        op->what != first->what ||
            (plb_awaits_of(op, false) == PLB_AWAITS_ROOT && op->peer != first->peer),
        err, PLB_ERR_FORMAT,
        "operation %lld of rank %d is %s with root %d, but another rank calls %s with root "
        "%d at this point: expected the same collective and root",
        (long long)w->at, rank, words[op->what], op->peer, words[first->what], first->peer);
    m->longest[op->tag] = w->longest;
    m->op[op->tag] = w->at;
    if (w->longest > m->top || (w->longest == m->top && op->tag < m->top_member)) {
        m->top = w->longest;
        m->top_member = op->tag;
    }
    m->entered++;
    const bool one_is_enough = plb_awaits_of(op, false) == PLB_AWAITS_ROOT ||
                               op->what == PLB_SCAN || op->what == PLB_EXSCAN;
    if (one_is_enough || m->entered == m->size) {
        for (int32_t i = 0; i < m->size; i++) {
            wake(p, p->s->comms.member[start + i]);
        }
    }
    return PLB_OK;
}

/* Find the *member with the longest path for which the caller of `op` waits; -1: none.  Returns
 * the length of this path; 0: no member; -1: a member that the caller needs has not entered. */
static int64_t awaited(const collective_t *m, const plb_op_t *op, int32_t *member)
{
    const plb_awaits_t awaits = plb_awaits_of(op, op->peer == op->tag);
    *member = -1;
    if (awaits == PLB_AWAITS_NOBODY) {
        return 0;
    }
    if (awaits == PLB_AWAITS_ROOT) {
        *member = op->peer;
        return m->longest[op->peer];
    }
    if (op->what == PLB_SCAN || op->what == PLB_EXSCAN) {
        int64_t top = 0;
        for (int32_t i = 0; i < op->tag; i++) {
            if (m->longest[i] < 0) {
                return -1;
            }
            if (m->longest[i] > top) {
                top = m->longest[i];
                *member = i;
            }
        }
        return top;
    }
    if (m->entered < m->size) {
        return -1;
    }
    *member = m->top_member;
    return m->top;
}

/* Like `awaited`, of all members except `self`. */
static int64_t others(const collective_t *m, int32_t self, int32_t *member)
{
    int64_t top = 0;
    *member = -1;
    for (int32_t i = 0; i < m->size; i++) {
        if (i != self && m->longest[i] >= top) {
            top = m->longest[i];
            *member = i;
        }
    }
    return top;
}

/* Leave the collective that `op` entered.  Returns false if the rank must still wait. */
static bool leave(path_t *p, int32_t rank, const plb_op_t *op, int64_t number)
{
    collective_t *m = &p->collective[op->comm].at[number];
    walk_t *w = &p->rank[rank];
    int32_t member;
    int64_t Cs = awaited(m, op, &member);
    if (Cs < 0) {
        return false;
    }
    /* a rank does not wait for itself; its path may have become shorter since it entered */
    if (member == op->tag && (w->gain > 0 || Cs > w->longest)) {
        Cs = others(m, op->tag, &member);
    }
    reset_work(p, w, member < 0 ? INT64_MAX : w->longest - Cs);
    if (member >= 0 && Cs > w->longest) {
        w->longest = Cs;
        hop(p, rank, p->s->comms.member[p->s->comms.start[op->comm] + member], m->op[member]);
    }
    if (++m->left == m->size) {
        PLB_FREE(m->longest, m->op);
        m->longest = m->op = NULL;
    }
    return true;
}

/* --- a rank ---------------------------------------------------------------------------------- */

static int begin(path_t *p, int32_t rank, const plb_op_t *op, plb_err_t *err)
{
    walk_t *w = &p->rank[rank];
    const plb_path_query_t *query = p->query;
    const bool active = w->depth > 0;
    hop(p, rank, -1, 0);
    if (!active || query->change != PLB_PATH_ZEROED) {
        w->longest += op->compute;
    }
    if (active && query->change == PLB_PATH_MOVED && (query->from < 0 || query->from == rank)) {
        w->work += op->compute;
        w->gain += op->compute;
    }
    if (op->kind == PLB_OP_PAUSE) {
        w->longest += op->bytes;
    }
    switch ((plb_op_kind_t)op->kind) {
    case PLB_OP_ISEND:
        w->request[op->request].is = NONE; /* the WAIT of a send waits for nothing */
        send(p, rank, op);
        break;
    case PLB_OP_SEND:
        send(p, rank, op);
        break;
    case PLB_OP_IRECV:
        w->request[op->request] = (request_t){RECEIVE, w->receive++, 0};
        break;
    case PLB_OP_COLL:
    case PLB_OP_ICOLL: {
        int64_t number;
        PLB_PASS(enter(p, rank, op, &number, err));
        if (op->kind == PLB_OP_ICOLL) {
            w->request[op->request] = (request_t){COLLECTIVE, number, w->at};
        }
        break;
    }
    case PLB_OP_ENTER:
        w->depth += op->tag == p->query->procedure;
        break;
    case PLB_OP_LEAVE:
        w->depth -= op->tag == p->query->procedure && w->depth > 0;
        break;
    default:
        break;
    }
    return PLB_OK;
}

/* Complete the operation that has begun.  Returns false if the rank must still wait. */
static bool complete(path_t *p, int32_t rank, const plb_op_t *op)
{
    walk_t *w = &p->rank[rank];
    const plb_op_t *ops = p->s->op[rank];
    if (op->kind == PLB_OP_RECV) {
        if (!receive(p, rank, w->receive)) {
            return false;
        }
        w->receive++;
    } else if (op->kind == PLB_OP_COLL) {
        return leave(p, rank, op, p->n_entered[p->s->comms.start[op->comm] + op->tag] - 1);
    } else if (op->kind == PLB_OP_WAIT) {
        request_t *request = &w->request[op->request];
        const bool open = (op->flags & PLB_OP_CANCELLED) == 0;
        if (open && request->is == RECEIVE && !receive(p, rank, request->number)) {
            return false;
        }
        if (request->is == COLLECTIVE && !leave(p, rank, &ops[request->op], request->number)) {
            return false;
        }
        request->is = NONE;
    }
    return true;
}

static int run(path_t *p, int32_t rank, plb_err_t *err)
{
    walk_t *w = &p->rank[rank];
    for (; w->at < p->s->n[rank]; w->at++, w->begun = false) {
        const plb_op_t *op = &p->s->op[rank][w->at];
        PLB_PASS(plb_interrupted(8));
        if (!w->begun) {
            PLB_PASS(begin(p, rank, op, err));
        }
        w->begun = true;
        if (!complete(p, rank, op)) {
            return PLB_OK;
        }
    }
    return PLB_OK;
}

int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_query_t *query, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err)
{
    path_t p = {.s = streams, .pairs = pairing, .query = query, .hop = hop};
    const int32_t n_ranks = streams->n_ranks;
    const int64_t sends = pairing->send_start[n_ranks];
    int ret = PLB_OK;
    PLB_NEW0_EACH(n_ranks, p.rank, p.queued);
    PLB_NEW(p.message, sends);
    PLB_NEW0(p.collective, streams->comms.n);
    PLB_NEW0(p.n_entered, streams->comms.n ? streams->comms.start[streams->comms.n] : 0);
    PLB_NEW(p.runnable, n_ranks);
    for (int64_t i = 0; i < sends; i++) {
        p.message[i].longest = -1;
    }
    for (int32_t r = n_ranks; r-- > 0;) {
        p.rank[r].send = pairing->send_start[r];
        p.rank[r].receive = pairing->receive_start[r];
        PLB_NEW0(p.rank[r].request, pairing->requests[r] + 1);
        wake(&p, r);
    }
    while (p.n_runnable > 0) {
        const int32_t r = p.runnable[--p.n_runnable];
        p.queued[r] = false;
        PLB_TRY(run(&p, r, err));
    }
    *stuck = 0;
    for (int32_t r = 0; r < n_ranks; r++) {
        longest[r] = p.rank[r].longest;
        *stuck += p.rank[r].at < streams->n[r];
    }
out:
    for (int32_t r = 0; p.rank != NULL && r < n_ranks; r++) {
        plb_free(p.rank[r].request);
    }
    for (int32_t c = 0; p.collective != NULL && c < streams->comms.n; c++) {
        for (int64_t i = 0; i < p.collective[c].n; i++) {
            PLB_FREE(p.collective[c].at[i].longest, p.collective[c].at[i].op);
        }
        plb_free(p.collective[c].at);
    }
    PLB_FREE(p.rank, p.message, p.collective, p.n_entered, p.runnable, p.queued);
    return ret;
}
