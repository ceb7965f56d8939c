#include "replay/protocol_relay.h"

#include <math.h>

#include "base/mem.h"

enum { MAXIMUM_BYTES = 16 }; /* bytes of a message with the maximum or the ruling of a round */

static double bytes_time(const sim_t *s, int64_t bytes)
{
    return (double)(bytes > 0 ? bytes - 1 : 0) * s->in.G;
}

double plb_sim_hop(const sim_t *s, int64_t bytes)
{
    return s->in.o + s->in.L + bytes_time(s, bytes) + s->in.o;
}

void plb_sim_push(sim_t *s, double time, int64_t rank)
{
    plb_sim_check(s, plb_calendar_push(&s->calendar, time, rank, s->err));
}

static bool listens(const sim_t *s, const node_t *n)
{
    return n->state != WORK || s->in.serves == PLB_SERVES_ALWAYS;
}

void plb_sim_wake(sim_t *s, int64_t rank, double time)
{
    node_t *n = &s->node[rank];
    if (listens(s, n) && time < n->wake) {
        n->wake = time;
        plb_sim_push(s, time, rank);
    }
}

static double later(double time, double t)
{
    return time > t ? time : INFINITY;
}

double plb_sim_halo(const sim_t *s, int64_t rank)
{
    const int64_t k = s->node[rank].iteration;
    if (!s->in.halo || s->in.n_ranks == 1) {
        return 0.0;
    }
    const node_t *a = &s->node[plb_sim_neighbour(s, rank, 0)];
    const node_t *b = &s->node[plb_sim_neighbour(s, rank, 1)];
    if (a->iteration < k || b->iteration < k) {
        return INFINITY;
    }
    return fmax(a->begun[k & 1], b->begun[k & 1]) + plb_sim_hop(s, s->in.halo_bytes);
}

void plb_sim_wake_next(sim_t *s, int64_t rank, double t)
{
    const node_t *n = &s->node[rank];
    if (!listens(s, n) || n->state == DONE) {
        return;
    }
    const slot_t *up = plb_sim_slot(s, rank, n->up);
    double next = later(plb_sim_slot(s, rank, n->n_relayed)->down_at, t);
    if (up->missing == 0) {
        next = fmin(next, later(up->up_at, t));
    }
    if (n->max_missing == 0) {
        next = fmin(next, later(n->max_at, t));
    }
    if (n->state == RECEIVE) {
        next = fmin(next, later(plb_sim_halo(s, rank), t));
    }
    if (next < INFINITY) {
        plb_sim_wake(s, rank, next);
    }
}

static void widen(sim_t *s)
{
    const sim_t old = *s;
    const int64_t p = s->in.n_ranks, window = 2 * old.window;
    s->slot = plb_malloc((size_t)(p * window), sizeof *s->slot);
    if (s->slot == NULL) {
        s->slot = old.slot;
        plb_sim_check(s, PLB_FAIL(s->err, PLB_ERR_NOMEM,
                                  "out of memory: %lld iterations under way", (long long)window));
        return;
    }
    s->window = window;
    for (int64_t r = 0; r < p; r++) {
        const node_t *n = &s->node[r];
        for (int64_t i = 0; i < window; i++) {
            s->slot[r * window + i] = (slot_t){0.0, INFINITY, 1 + n->n_children};
        }
        for (int64_t i = 0; i < old.window; i++) {
            slot_t *up = plb_sim_slot(s, r, n->up + i);
            up->up_at = plb_sim_slot(&old, r, n->up + i)->up_at;
            up->missing = plb_sim_slot(&old, r, n->up + i)->missing;
            plb_sim_slot(s, r, n->n_relayed + i)->down_at =
                plb_sim_slot(&old, r, n->n_relayed + i)->down_at;
        }
    }
    plb_free(old.slot);
}

void plb_sim_add_stats(sim_t *s, int64_t rank, int64_t iteration, double at)
{
    while (iteration >= s->node[rank].up + s->window && s->ret == PLB_OK) {
        widen(s);
    }
    slot_t *slot = plb_sim_slot(s, rank, iteration);
    slot->up_at = at > slot->up_at ? at : slot->up_at;
    if (--slot->missing == 0) {
        plb_sim_wake(s, rank, slot->up_at);
    }
}

void plb_sim_add_maximum(sim_t *s, int64_t rank, int64_t reach, double at)
{
    node_t *n = &s->node[rank];
    n->max_at = fmax(n->max_at, at);
    n->max_reach = reach > n->max_reach ? reach : n->max_reach;
    if (--n->max_missing == 0) {
        plb_sim_wake(s, rank, n->max_at);
    }
}

static void count(node_t *n, int64_t messages, int64_t bytes)
{
    n->messages += messages;
    n->bytes += messages * bytes;
}

/* ---- the root ------------------------------------------------------------------------------- */

/* Record a ruling, and send it down the tree; iteration: see sent_ruling_t. */
static int send_ruling(sim_t *s, const plb_ruling_t *ruling, int64_t iteration, double t,
                       plb_err_t *err)
{
    int ret = PLB_OK;
    plb_protocol_result_t *out = s->out;
    const bool is_new =
        ruling->kind == PLB_RULING_TENTATIVE ||
        (ruling->kind == PLB_RULING_FINAL && iteration > 0 && ruling->iteration != PLB_NEVER);
    PLB_GROW(s->ruling, s->room_rulings, s->n_rulings + 1);
    PLB_GROW(out->decision, s->room_decisions, out->n_decisions + 1);
    if (is_new) {
        out->decision[out->n_decisions++] = (plb_protocol_decision_t){
            .asked = iteration, .root = t, .tentative = ruling->iteration};
    }
    plb_protocol_decision_t *d = out->n_decisions ? &out->decision[out->n_decisions - 1] : NULL;
    if (d != NULL && ruling->kind == PLB_RULING_FINAL) {
        d->final = ruling->iteration == PLB_NEVER ? 0 : ruling->iteration;
    }
    if (d != NULL && ruling->kind == PLB_RULING_BALANCE) {
        d->balanced = t;
        s->last_balanced = ruling->iteration;
    }
    while (s->n_rulings >= s->node[0].n_relayed + s->window && s->ret == PLB_OK) {
        widen(s);
    }
    plb_sim_slot(s, 0, s->n_rulings)->down_at = t;
    s->ruling[s->n_rulings++] = (sent_ruling_t){*ruling, iteration};
out:
    return ret;
}

/* Return the wish (plb_consensus_root_stats): from `every` iterations after the last LB step on,
 * an LB step as early as possible. */
static int64_t wish(const sim_t *s, int64_t iteration)
{
    const bool is_free = s->root.final == PLB_NEVER && s->root.tentative == PLB_NEVER;
    const bool is_due = iteration - s->last_balanced >= s->in.every;
    return is_free && is_due && iteration + s->in.lag < s->in.iterations ? 1 : PLB_WISH_NONE;
}

static void root_stats(sim_t *s, int64_t iteration, double t)
{
    plb_ruling_t ruling;
    /* all ranks end at the same iteration */
    const int64_t n_ended = iteration >= s->in.iterations ? s->in.n_ranks : 0;
    plb_sim_check(s, plb_consensus_root_stats(&s->root, iteration, n_ended, wish(s, iteration),
                                              &ruling, s->err));
    if (s->ret == PLB_OK) {
        plb_sim_check(s, send_ruling(s, &ruling, iteration, t, s->err));
    }
}

static void root_maximum(sim_t *s, int64_t reach, double t)
{
    plb_ruling_t ruling;
    plb_sim_check(s, plb_consensus_root_maximum(&s->root, s->root.round, reach, &ruling, s->err));
    if (s->ret == PLB_OK) {
        plb_sim_check(s, send_ruling(s, &ruling, 0, t, s->err));
    }
}

/* ---- a rank passes messages on -------------------------------------------------------------- */

static void send_stats(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    slot_t *slot = plb_sim_slot(s, rank, n->up);
    const int64_t iteration = n->up++;
    slot->up_at = 0.0;
    slot->missing = 1 + n->n_children;
    if (rank == 0) {
        root_stats(s, iteration, t);
        return;
    }
    count(n, 1, s->in.bytes);
    plb_sim_add_stats(s, (rank - 1) / s->in.fanout, iteration, t + plb_sim_hop(s, s->in.bytes));
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
    plb_sim_add_maximum(s, (rank - 1) / s->in.fanout, reach, t + plb_sim_hop(s, MAXIMUM_BYTES));
}

static void send_down(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    const int64_t number = n->n_relayed++;
    const int64_t bytes = s->ruling[number].iteration > 0 ? s->in.bytes : MAXIMUM_BYTES;
    const double gap = fmax(s->in.g, s->in.o + bytes_time(s, bytes));
    plb_sim_slot(s, rank, number)->down_at = INFINITY;
    for (int c = 0; c < n->n_children; c++) {
        const int64_t child = rank * s->in.fanout + 1 + c;
        const double at = t + gap * c + plb_sim_hop(s, bytes);
        while (number >= s->node[child].n_relayed + s->window && s->ret == PLB_OK) {
            widen(s);
        }
        plb_sim_slot(s, child, number)->down_at = at;
        plb_sim_wake(s, child, at);
    }
    count(n, n->n_children, bytes);
}

void plb_sim_relay(sim_t *s, int64_t rank, double t)
{
    node_t *n = &s->node[rank];
    for (bool more = true; more && s->ret == PLB_OK;) {
        more = false;
        const slot_t *up = plb_sim_slot(s, rank, n->up);
        if (n->max_missing == 0 && n->max_at <= t) {
            send_maximum(s, rank, t);
            more = true;
        } else if (up->missing == 0 && up->up_at <= t &&
                   (rank > 0 || plb_consensus_root_ready(&s->root))) {
            send_stats(s, rank, t);
            more = true;
        }
        while (plb_sim_slot(s, rank, n->n_relayed)->down_at <= t && s->ret == PLB_OK) {
            send_down(s, rank, t);
            more = true;
        }
    }
}
