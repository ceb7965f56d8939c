#include "whatif/whatif.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/ints.h"
#include "base/mem.h"

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
    enum { NONE, SENT, RECEIVE, COLLECTIVE } is;
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

static bool moves_to(const plb_path_query_t *query, int32_t target)
{
    return query->change == PLB_PATH_MOVED && (query->to < 0 || query->to == target);
}

static void send(path_t *p, int32_t rank, const plb_op_t *op)
{
    walk_t *w = &p->rank[rank];
    const bool moves = moves_to(p->query, op->peer);
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

static bool has_one_source(const plb_op_t *op)
{
    return op->what == PLB_BCAST || op->what == PLB_SCATTER;
}

static int collective_of(path_t *p, int32_t comm, int64_t number, plb_err_t *err)
{
    collectives_t *all = &p->collective[comm];
    if (number < all->n) {
        return PLB_OK;
    }
    PLB_PASS_GROW(all->at, all->room, all->n + 1);
    collective_t *m = &all->at[all->n++];
    *m = (collective_t){.size = (int32_t)(p->s->comms.start[comm + 1] - p->s->comms.start[comm]),
                        .top = -1};
    PLB_PASS_NEW(m->longest, m->size);
    PLB_PASS_NEW(m->op, m->size);
    memset(m->longest, -1, (size_t)m->size * sizeof *m->longest);
    return PLB_OK;
}

/* Members that call different collectives would wait for different things, as no path does. */
static int check_like(const collective_t *m, int32_t rank, int64_t at, const plb_op_t *op,
                      plb_err_t *err)
{
#define X(name) #name,
    static const char *const words[] = {PLB_COLLECTIVES(X)};
#undef X
    const plb_op_t *first = m->first;
    PLB_FAIL_IF(
        op->what != first->what || (has_one_source(op) && op->peer != first->peer), err,
        PLB_ERR_FORMAT,
        "operation %lld of rank %d is %s with root %d, but another rank calls %s with root "
        "%d at this point: expected the same",
        (long long)at, rank, words[op->what], op->peer, words[first->what], first->peer);
    return PLB_OK;
}

static int enter(path_t *p, int32_t rank, const plb_op_t *op, int64_t *number, plb_err_t *err)
{
    walk_t *w = &p->rank[rank];
    const int64_t start = p->s->comms.start[op->comm];
    *number = p->n_entered[start + op->tag]++;
    PLB_PASS(collective_of(p, op->comm, *number, err));
    collective_t *m = &p->collective[op->comm].at[*number];
    m->first = m->first == NULL ? op : m->first;
    PLB_PASS(check_like(m, rank, w->at, op, err));
    m->longest[op->tag] = w->longest;
    m->op[op->tag] = w->at;
    if (w->longest > m->top || (w->longest == m->top && op->tag < m->top_member)) {
        m->top = w->longest;
        m->top_member = op->tag;
    }
    m->entered++;
    const bool one_is_enough =
        has_one_source(op) || op->what == PLB_SCAN || op->what == PLB_EXSCAN;
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
    *member = -1;
    switch ((plb_collective_t)op->what) {
    case PLB_BCAST:
    case PLB_SCATTER:
        *member = op->peer == op->tag ? -1 : op->peer;
        return *member < 0 ? 0 : m->longest[*member];
    case PLB_GATHER:
    case PLB_REDUCE:
        if (op->peer != op->tag) {
            return 0;
        }
        break;
    case PLB_SCAN:
    case PLB_EXSCAN: {
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
    default:
        break;
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
    /* no rank waits for itself: its path may have become shorter since it entered */
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

static void add_time(path_t *p, int32_t rank, const plb_op_t *op)
{
    const plb_path_query_t *query = p->query;
    walk_t *w = &p->rank[rank];
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
}

static int begin(path_t *p, int32_t rank, const plb_op_t *op, plb_err_t *err)
{
    walk_t *w = &p->rank[rank];
    add_time(p, rank, op);
    switch ((plb_op_kind_t)op->kind) {
    case PLB_OP_SEND:
        send(p, rank, op);
        break;
    case PLB_OP_ISEND:
        send(p, rank, op);
        w->request[op->request].is = SENT;
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
        int ret = plb_interrupted(8);
        if (ret == PLB_OK && !w->begun) {
            ret = begin(p, rank, op, err);
        }
        if (ret != PLB_OK) {
            return ret;
        }
        w->begun = true;
        if (!complete(p, rank, op)) {
            return PLB_OK;
        }
    }
    return PLB_OK;
}

static int make(path_t *p, plb_err_t *err)
{
    const plb_streams_t *s = p->s;
    const int64_t sends = p->pairs->send_start[s->n_ranks];
    PLB_PASS_NEW0(p->rank, s->n_ranks);
    PLB_PASS_NEW(p->message, sends);
    PLB_PASS_NEW0(p->collective, s->comms.n);
    PLB_PASS_NEW0(p->n_entered, s->comms.n ? s->comms.start[s->comms.n] : 0);
    PLB_PASS_NEW(p->runnable, s->n_ranks);
    PLB_PASS_NEW0(p->queued, s->n_ranks);
    for (int64_t i = 0; i < sends; i++) {
        p->message[i].longest = -1;
    }
    for (int32_t r = 0; r < s->n_ranks; r++) {
        p->rank[r].send = p->pairs->send_start[r];
        p->rank[r].receive = p->pairs->receive_start[r];
        PLB_PASS_NEW0(p->rank[r].request, p->pairs->requests[r] + 1);
    }
    return PLB_OK;
}

static void unmake(path_t *p)
{
    for (int32_t r = 0; p->rank != NULL && r < p->s->n_ranks; r++) {
        plb_free(p->rank[r].request);
    }
    for (int32_t c = 0; p->collective != NULL && c < p->s->comms.n; c++) {
        for (int64_t i = 0; i < p->collective[c].n; i++) {
            PLB_FREE(p->collective[c].at[i].longest, p->collective[c].at[i].op);
        }
        plb_free(p->collective[c].at);
    }
    PLB_FREE(p->rank, p->message, p->collective, p->n_entered, p->runnable, p->queued);
}

int plb_path_lengths(const plb_streams_t *streams, const plb_pairing_t *pairing,
                     const plb_path_query_t *query, int64_t *longest, plb_path_hop_t *const *hop,
                     int32_t *stuck, plb_err_t *err)
{
    path_t p = {.s = streams, .pairs = pairing, .query = query, .hop = hop};
    int ret = make(&p, err);
    for (int32_t r = streams->n_ranks; ret == PLB_OK && r-- > 0;) {
        wake(&p, r);
    }
    while (ret == PLB_OK && p.n_runnable > 0) {
        const int32_t r = p.runnable[--p.n_runnable];
        p.queued[r] = false;
        ret = run(&p, r, err);
    }
    *stuck = 0;
    for (int32_t r = 0; ret == PLB_OK && r < streams->n_ranks; r++) {
        longest[r] = p.rank[r].longest;
        *stuck += p.rank[r].at < streams->n[r];
    }
    unmake(&p);
    return ret;
}

/* --- what the path consists of --------------------------------------------------------------- */

int plb_path_walk(const plb_streams_t *streams, plb_path_hop_t *const *hop, int32_t rank,
                  plb_stretch_t **out, int64_t *n, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t room = 0, at = streams->n[rank] - 1, found = 0;
    plb_stretch_t *list = NULL;
    while (at >= 0) {
        PLB_GROW(list, room, found + 1);
        plb_stretch_t *s = &list[found++];
        *s = (plb_stretch_t){.rank = rank, .last = at};
        /* stop where the path comes from another rank: earlier time of `rank` is not part of it */
        for (; at >= 0 && hop[rank][at].rank < 0; at--) {
            const plb_op_t *op = &streams->op[rank][at];
            s->ns += op->compute + (op->kind == PLB_OP_PAUSE ? op->bytes : 0);
        }
        s->first = at + 1;
        if (at >= 0) {
            const plb_path_hop_t from = hop[rank][at];
            rank = from.rank;
            at = from.op;
        }
    }
    for (int64_t i = 0; i < found / 2; i++) {
        const plb_stretch_t swap = list[i];
        list[i] = list[found - 1 - i];
        list[found - 1 - i] = swap;
    }
    *out = list;
    *n = found;
out:
    if (ret != PLB_OK) {
        plb_free(list);
    }
    return ret;
}

/* Add the time of a rank's path segments to the procedures: always to the innermost open one. */
static int share(const plb_streams_t *streams, int32_t rank, const plb_stretch_t *stretch,
                 const int64_t *mine, int64_t n, int32_t n_procedures, int64_t *by_procedure,
                 int32_t *stack, plb_err_t *err)
{
    const plb_op_t *op = streams->op[rank];
    int64_t depth = 0, k = 0;
    for (int64_t i = 0; i < streams->n[rank] && k < n; i++) {
        const plb_stretch_t *s = &stretch[mine[k]];
        if (i >= s->first) {
            const int32_t inner = depth > 0 ? stack[depth - 1] : n_procedures;
            by_procedure[inner] += op[i].compute + (op[i].kind == PLB_OP_PAUSE ? op[i].bytes : 0);
        }
        k += i >= s->last;
        if (op[i].kind == PLB_OP_ENTER) {
            PLB_FAIL_IF(op[i].tag < 0 || op[i].tag >= n_procedures, err, PLB_ERR_FORMAT,
                        "operation %lld of rank %d enters procedure %d: expected one of the %d "
                        "procedures of the recording, numbered from 0",
                        (long long)i, rank, op[i].tag, n_procedures);
            stack[depth++] = op[i].tag;
        } else if (op[i].kind == PLB_OP_LEAVE && depth > 0) {
            depth--;
        }
    }
    return PLB_OK;
}

int plb_path_shares(const plb_streams_t *streams, const plb_stretch_t *stretch, int64_t n,
                    int32_t n_procedures, int64_t *by_rank, int64_t *by_procedure, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *mine = NULL, *start = NULL;
    int32_t *stack = NULL;
    int64_t room = 0;
    memset(by_rank, 0, (size_t)streams->n_ranks * sizeof *by_rank);
    memset(by_procedure, 0, (size_t)(n_procedures + 1) * sizeof *by_procedure);
    PLB_NEW(mine, n);
    PLB_NEW0(start, streams->n_ranks + 2);
    for (int64_t i = 0; i < n; i++) {
        by_rank[stretch[i].rank] += stretch[i].ns;
        start[stretch[i].rank + 2]++;
    }
    for (int32_t r = 0; r < streams->n_ranks; r++) {
        start[r + 2] += start[r + 1];
        room = larger(room, streams->n[r]);
    }
    for (int64_t i = 0; i < n; i++) {
        mine[start[stretch[i].rank + 1]++] = i;
    }
    PLB_NEW(stack, room);
    for (int32_t r = 0; ret == PLB_OK && r < streams->n_ranks; r++) {
        ret = share(streams, r, stretch, mine + start[r], start[r + 1] - start[r], n_procedures,
                    by_procedure, stack, err);
    }
out:
    PLB_FREE(mine, start, stack);
    return ret;
}
