/* k-way local search on connectivity - 1 (plb_hypergraph_refine).
 *
 * Fiduccia and Mattheyses 1982, localized as in Sanders and Schulz 2011 ("multi-try"): each search
 * starts at one vertex of the boundary, makes the moves of best gain, even if this is negative,
 * spreads to the neighbours of moved vertices, and ends after a number of moves without a better
 * state; its moves up to the best state are kept.  A vertex moves at most once per round.  A net
 * lists only the parts that it touches: its memory does not grow with the number of parts. */

#include <math.h>

#include "base/base.h"
#include "partition/partition.h"

/* A search ends after this many moves without a better state, and the searches after as many
 * rounds.  tuned: moves; with 10 or 100, the sum of the cuts of eight grids is 0.1 or 0.8 % larger
 */
enum { PATIENCE = 30 };

/* ---- the state ------------------------------------------------------------------------------ */

typedef struct slot {
    int32_t part, count;
} slot_t;

/* A net as the searches see it.  Its data lie together, because in large hypergraphs each access
 * to another net is a cache miss. */
typedef struct net {
    int64_t weight;
    int32_t id, n_slots; /* n_slots: number of parts that the net touches */
    slot_t slot[];       /* these parts, with their numbers of pins */
} net_t;

_Static_assert(sizeof(net_t) == 2 * sizeof(int64_t) && sizeof(slot_t) == sizeof(int64_t),
               "a net takes two words, and each of its slots one");

typedef struct move {
    int32_t vertex, from;
} move_t;

typedef struct search {
    const plb_hypergraph_t *hg;
    int32_t k, d;          /* numbers of parts, and of weights of each vertex */
    const int32_t *weight; /* [n_vertices * d] */
    const int64_t *limit;  /* [k * d] */
    int64_t *load;         /* [k * d] */
    double *scale;         /* [d] makes excesses of different weights comparable; 1 if d is 1 */
    int32_t *part;
    int64_t *words;     /* the nets in a row, each with memory for all parts that it can touch */
    uint32_t *net_word; /* [n_nets] first word of each net */
    uint32_t *vertex_word; /* like net[] of the hypergraph, but with the first word of each net */
    plb_queue_t queue;     /* vertices; the key is -gain */
    int64_t *conn;         /* [k] total weight of the current vertex's nets that touch each part */
    int32_t *touched, n_touched;
    /* stamp: its high half is the number of the round, the low half that of the move.  seen[v]:
     * the stamp at which v was woken last; after v has moved in this round, the last stamp of the
     * round */
    int64_t stamp, *seen;
    int32_t *woken, n_woken;
    move_t *moves;
    int32_t n_moves;
    plb_rng_t *rng;
    int64_t work; /* steps since the last call of stopped() */
} search_t;

/* Report the steps; return whether a signal ends the search. */
static bool stopped(search_t *s)
{
    const int64_t steps = 32 + s->work;
    s->work = 0;
    return plb_interrupted(steps) != PLB_OK;
}

static net_t *net_at(const search_t *s, uint32_t word)
{
    return (net_t *)(s->words + word);
}

static slot_t *find_slot(net_t *net, int32_t part)
{
    for (int32_t i = 0; i < net->n_slots; i++) {
        if (net->slot[i].part == part) {
            return &net->slot[i];
        }
    }
    return NULL;
}

/* Return the number of pins that the net now has in the part. */
static int32_t add_pin(net_t *net, int32_t part)
{
    slot_t *slot = find_slot(net, part);
    if (slot != NULL) {
        return ++slot->count;
    }
    net->slot[net->n_slots++] = (slot_t){part, 1};
    return 1;
}

/* Say whether part p can take vertex v within its limits. */
static inline bool takes(const search_t *s, int32_t p, int32_t v)
{
    if (s->d == 1) {
        return s->load[p] + s->weight[v] <= s->limit[p];
    }
    for (int32_t c = 0; c < s->d; c++) {
        if (s->load[p * s->d + c] + s->weight[v * s->d + c] > s->limit[p * s->d + c]) {
            return false;
        }
    }
    return true;
}

/* Return the largest excess of part p over its limits. */
static double excess(const search_t *s, int32_t p)
{
    double most = -INFINITY;
    for (int32_t c = 0; c < s->d; c++) {
        const int64_t over = s->load[p * s->d + c] - s->limit[p * s->d + c];
        most = fmax(most, (double)over * s->scale[c]);
    }
    return most;
}

/* Return the gain of the best move of v; *to: its target; -1: no adjacent part can take v.  Ties:
 * the part with the lowest load, then the lowest number. */
static int64_t best_move(search_t *s, int32_t v, int32_t *to)
{
    const plb_hypergraph_t *hg = s->hg;
    const int32_t from = s->part[v];
    int64_t freed = 0, all = 0, best = INT64_MIN;
    s->n_touched = 0;
    s->work += plb_nets_of(hg, v);
    for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
        const net_t *net = net_at(s, s->vertex_word[j]);
        const int64_t w = net->weight;
        all += w;
        if (net->n_slots == 1) { /* true for most nets */
            continue;
        }
        s->work += net->n_slots;
        for (const slot_t *slot = net->slot; slot < net->slot + net->n_slots; slot++) {
            if (slot->part == from) {
                freed += slot->count == 1 ? w : 0;
            } else {
                if (s->conn[slot->part] == 0) {
                    s->touched[s->n_touched++] = slot->part;
                }
                s->conn[slot->part] += w;
            }
        }
    }
    *to = -1;
    for (int32_t i = 0; i < s->n_touched; i++) {
        const int32_t p = s->touched[i];
        const int64_t gain = freed + s->conn[p] - all;
        s->conn[p] = 0;
        if (!takes(s, p, v)) {
            continue;
        }
        const int64_t load = s->load[p * s->d];
        if (gain > best || (gain == best && (load < s->load[*to * s->d] ||
                                             (load == s->load[*to * s->d] && p < *to)))) {
            best = gain;
            *to = p;
        }
    }
    return best;
}

static void next_round(search_t *s)
{
    s->stamp = ((s->stamp >> 32) + 1) << 32;
}

/* The last stamp of this round. */
static int64_t round_end(const search_t *s)
{
    return s->stamp | UINT32_MAX;
}

/* List in woken[] the pins of net e that are in `part` (-1: all its pins). */
static void wake_pins(search_t *s, int32_t e, int32_t part)
{
    const plb_hypergraph_t *hg = s->hg;
    if (plb_pins_of(hg, e) > PLB_LARGE_NET) {
        return;
    }
    s->work += plb_pins_of(hg, e);
    for (int32_t i = hg->net_start[e]; i < hg->net_start[e + 1]; i++) {
        const int32_t u = hg->pin[i];
        if ((part < 0 || s->part[u] == part) && s->seen[u] < s->stamp) {
            s->seen[u] = s->stamp;
            s->woken[s->n_woken++] = u;
            __builtin_prefetch(&hg->vertex_start[u]);
        }
    }
}

/* Move v to another part, and, if this is asked for, list in woken[] the vertices whose gains
 * rise.  Gains that fall are corrected when their vertices leave the queue. */
static inline void transfer(search_t *s, int32_t v, int32_t to, bool wakes)
{
    const plb_hypergraph_t *hg = s->hg;
    const int32_t from = s->part[v];
    s->work += 4 * plb_nets_of(hg, v);
    s->part[v] = to;
    for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
        net_t *net = net_at(s, s->vertex_word[j]);
        slot_t *slot = find_slot(net, from);
        const int32_t left = --slot->count; /* pins that the net still has in this part */
        if (left == 0) {
            *slot = net->slot[--net->n_slots];
        }
        const int32_t there = add_pin(net, to);
        if (wakes && there == 1) {
            wake_pins(s, net->id, -1); /* the net's other pins can follow without loss */
        } else if (wakes && left == 1) {
            /* if the net's last pin in `from` moves, too, the net no longer touches `from` */
            wake_pins(s, net->id, from);
        }
    }
    for (int32_t c = 0; c < s->d; c++) {
        s->load[from * s->d + c] -= s->weight[v * s->d + c];
        s->load[to * s->d + c] += s->weight[v * s->d + c];
    }
}

static void move(search_t *s, int32_t v, int32_t to)
{
    s->n_woken = 0;
    s->stamp++;
    transfer(s, v, to, true);
}

static void queue_vertex(search_t *s, int32_t v)
{
    int32_t to;
    if (s->hg->fixed != NULL && s->hg->fixed[v] >= 0) {
        return;
    }
    const int64_t gain = best_move(s, v, &to);
    if (to >= 0) {
        plb_queue_set(&s->queue, v, -(double)gain);
    } else if (s->queue.at[v] >= 0) {
        plb_queue_drop(&s->queue, v);
    }
}

/* Queue the woken vertices.  The nets of the next one are fetched meanwhile. */
static void queue_woken(search_t *s)
{
    const plb_hypergraph_t *hg = s->hg;
    for (int32_t i = 0; i < s->n_woken; i++) {
        const int32_t next = s->woken[i + 1 < s->n_woken ? i + 1 : i];
        for (int32_t j = hg->vertex_start[next]; j < hg->vertex_start[next + 1]; j++) {
            __builtin_prefetch(net_at(s, s->vertex_word[j]));
        }
        queue_vertex(s, s->woken[i]);
    }
}

/* ---- one search ----------------------------------------------------------------------------- */

/* Search from the queued vertices; return the total gain. */
static int64_t search(search_t *s)
{
    int64_t gained = 0, best = 0;
    int32_t kept = s->n_moves, idle = 0;
    while (s->queue.n > 0 && idle < PATIENCE && !stopped(s)) {
        const int32_t v = s->queue.item[0].id;
        int32_t to;
        /* loads and gains may have changed since v was queued */
        const int64_t gain = best_move(s, v, &to);
        if (to < 0) {
            plb_queue_drop(&s->queue, v);
            continue;
        }
        if (-(double)gain > s->queue.item[0].key) {
            plb_queue_set(&s->queue, v, -(double)gain);
            continue;
        }
        plb_queue_drop(&s->queue, v);
        s->moves[s->n_moves++] = (move_t){v, s->part[v]};
        s->seen[v] = round_end(s);
        move(s, v, to);
        queue_woken(s);
        gained += gain;
        idle++;
        if (gained > best) {
            best = gained;
            kept = s->n_moves;
            idle = 0;
        }
    }
    plb_queue_clear(&s->queue);
    while (s->n_moves > kept) {
        const move_t undo = s->moves[--s->n_moves];
        transfer(s, undo.vertex, undo.from, false);
    }
    return best;
}

static bool at_boundary(const search_t *s, int32_t v)
{
    const plb_hypergraph_t *hg = s->hg;
    for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
        if (net_at(s, s->vertex_word[j])->n_slots > 1) {
            return true;
        }
    }
    return false;
}

/* Search from every vertex of the boundary, in random order. */
static int64_t search_round(search_t *s, int32_t *seed)
{
    int64_t won = 0;
    int32_t n = 0;
    next_round(s);
    s->n_moves = 0;
    for (int32_t v = 0; v < s->hg->n_vertices && !plb_interrupted(plb_nets_of(s->hg, v)); v++) {
        if (at_boundary(s, v)) {
            seed[n++] = v;
        }
    }
    for (int32_t i = 0; i < n && !stopped(s); i++) {
        const int32_t j = i + (int32_t)plb_rng_below(s->rng, (uint64_t)(n - i)), v = seed[j];
        seed[j] = seed[i];
        if (s->seen[v] == round_end(s) || !at_boundary(s, v)) {
            continue;
        }
        queue_vertex(s, v);
        won += search(s);
    }
    return won;
}

/* Move vertices from part 1 to part 0, best gain first, until part 0 weighs `target` or more. */
static void grow(search_t *s, int32_t start, int64_t target)
{
    const int32_t n = s->hg->n_vertices;
    int32_t next = start, tried = 0;
    next_round(s);
    while (s->load[0] < target && tried < n && !stopped(s)) {
        int32_t v = next;
        if (s->queue.n > 0) {
            v = s->queue.item[0].id;
            plb_queue_drop(&s->queue, v);
        } else { /* happens at the start, and when a component has no more vertices */
            next = next + 1 == n ? 0 : next + 1;
            tried++;
        }
        if (s->part[v] == 0 || (s->hg->fixed != NULL && s->hg->fixed[v] >= 0)) {
            continue;
        }
        s->seen[v] = round_end(s);
        move(s, v, 0);
        queue_woken(s);
    }
    plb_queue_clear(&s->queue);
}

/* ---- balance -------------------------------------------------------------------------------- */

/* A vertex that no adjacent part can take leaves a part later than all others. */
static const int64_t LAST = -((int64_t)1 << 40);

/* Return the gain of the best move of v to an adjacent part; if none can take v, LAST, and try the
 * part `roomiest`.  *to: the target; -1: there is none. */
static int64_t escape(search_t *s, int32_t v, int32_t roomiest, int32_t *to)
{
    const int64_t gain = best_move(s, v, to);
    if (*to >= 0) {
        return gain;
    }
    if (takes(s, roomiest, v)) {
        *to = roomiest;
    }
    return LAST;
}

static int32_t find_roomiest(const search_t *s)
{
    int32_t best = 0;
    for (int32_t p = 1; p < s->k; p++) {
        best = excess(s, p) < excess(s, best) ? p : best;
    }
    return best;
}

/* Say whether v, if it leaves part p, lowers a weight that exceeds its limit. */
static bool relieves(const search_t *s, int32_t p, int32_t v)
{
    bool helps = false;
    for (int32_t c = 0; c < s->d; c++) {
        helps = helps ||
                (s->weight[v * s->d + c] > 0 && s->load[p * s->d + c] > s->limit[p * s->d + c]);
    }
    return helps;
}

/* Move vertices out of part p, smallest loss first, until p keeps its limits. */
static void relieve(search_t *s, int32_t p)
{
    const plb_hypergraph_t *hg = s->hg;
    int32_t to, roomiest = find_roomiest(s);
    next_round(s);
    for (int32_t v = 0; v < hg->n_vertices && !plb_interrupted(s->part[v] == p ? s->k : 1); v++) {
        if (s->part[v] == p && relieves(s, p, v) && !(hg->fixed != NULL && hg->fixed[v] >= 0)) {
            plb_queue_set(&s->queue, v, -(double)escape(s, v, roomiest, &to));
        }
    }
    while (s->queue.n > 0 && excess(s, p) > 0.0 && !plb_interrupted(32 + s->k)) {
        const int32_t v = s->queue.item[0].id;
        const int64_t gain = escape(s, v, roomiest, &to);
        if (to >= 0 && -(double)gain > s->queue.item[0].key) {
            plb_queue_set(&s->queue, v, -(double)gain);
            continue;
        }
        plb_queue_drop(&s->queue, v);
        if (to < 0 || !relieves(s, p, v)) {
            continue;
        }
        move(s, v, to);
        roomiest = find_roomiest(s);
        for (int32_t i = 0; i < s->n_woken; i++) {
            const int32_t u = s->woken[i];
            if (s->queue.at[u] >= 0) {
                plb_queue_set(&s->queue, u, -(double)escape(s, u, roomiest, &to));
            }
        }
    }
    plb_queue_clear(&s->queue);
}

/* ---- the call ------------------------------------------------------------------------------- */

static void search_free(search_t *s)
{
    PLB_FREE(s->load, s->scale, s->words, s->net_word, s->vertex_word, s->queue.item, s->queue.at,
             s->conn, s->touched, s->seen, s->woken, s->moves);
}

/* Lay out the nets, without pins.  A net has at least two pins, so that it takes at most two words
 * per pin, and 32 bits number all words. */
static int nets_init(search_t *s, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_hypergraph_t *hg = s->hg;
    uint32_t n_words = 0;
    PLB_NEW(s->net_word, hg->n_nets);
    PLB_NEW(s->vertex_word, hg->net_start[hg->n_nets]);
    for (int32_t e = 0; e < hg->n_nets; e++) {
        const int32_t pins = plb_pins_of(hg, e);
        s->net_word[e] = n_words;
        n_words += 2 + (uint32_t)(pins < s->k ? pins : s->k);
    }
    PLB_NEW(s->words, n_words);
    for (int32_t e = 0; e < hg->n_nets; e++) {
        *net_at(s, s->net_word[e]) = (net_t){.weight = hg->net_weight[e], .id = e};
        PLB_TRY(plb_interrupted(2));
    }
    for (int32_t v = 0; v < hg->n_vertices; v++) {
        for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
            s->vertex_word[j] = s->net_word[hg->net[j]];
        }
        PLB_TRY(plb_interrupted(plb_nets_of(hg, v)));
    }
out:
    return ret;
}

/* Sum the loads of the parts. */
static int loads_init(search_t *s, plb_err_t *err)
{
    const int64_t cells = (int64_t)s->k * s->d;
    PLB_PASS_NEW0(s->load, cells);
    PLB_PASS_NEW0(s->scale, s->d);
    for (int32_t v = 0; v < s->hg->n_vertices; v++) {
        for (int32_t c = 0; c < s->d; c++) {
            s->load[s->part[v] * s->d + c] += s->weight[v * s->d + c];
        }
    }
    for (int64_t i = 0; i < cells; i++) {
        s->scale[i % s->d] += (double)s->load[i];
    }
    for (int32_t c = 0; c < s->d; c++) {
        s->scale[c] = s->d > 1 && s->scale[c] > 0.0 ? 1.0 / s->scale[c] : 1.0;
    }
    return PLB_OK;
}

static int search_init(search_t *s, const plb_hypergraph_t *hg, const plb_limits_t *limits,
                       int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = hg->n_vertices;
    const bool several = limits->weight != NULL;
    *s = (search_t){.hg = hg,
                    .k = limits->n_parts,
                    .d = several ? limits->n_weights : 1,
                    .weight = several ? limits->weight : hg->weight,
                    .limit = limits->limit,
                    .part = part};
    PLB_TRY(loads_init(s, err));
    PLB_TRY(nets_init(s, err));
    PLB_NEW_EACH(n, s->queue.item, s->queue.at, s->woken, s->moves);
    PLB_NEW0(s->conn, s->k);
    PLB_NEW(s->touched, s->k);
    PLB_NEW0(s->seen, n);
    for (int32_t v = 0; v < n; v++) {
        PLB_TRY(plb_interrupted(2 * plb_nets_of(hg, v)));
        s->queue.at[v] = -1;
        for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
            add_pin(net_at(s, s->vertex_word[j]), s->part[v]);
        }
    }
out:
    return ret;
}

int plb_hypergraph_refine(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                          int32_t *part, plb_quality_t *after, plb_err_t *err)
{
    search_t s;
    int32_t *seed = NULL;
    int ret = search_init(&s, self, limits, part, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(seed, self->n_vertices);
    s.rng = rng;
    for (int32_t p = 0; p < s.k; p++) {
        if (excess(&s, p) > 0.0) {
            relieve(&s, p);
        }
    }
    for (int n = 0; rng != NULL && n < PATIENCE && search_round(&s, seed) > 0; n++) {
    }
    PLB_TRY(plb_interrupted(0)); /* an interrupt ends the searches early */
    *after = (plb_quality_t){0, true};
    for (int32_t e = 0; e < self->n_nets; e++) {
        after->connectivity += self->net_weight[e] * (net_at(&s, s.net_word[e])->n_slots - 1);
    }
    for (int32_t p = 0; p < s.k; p++) {
        after->keeps = after->keeps && excess(&s, p) <= 0.0;
    }
out:
    plb_free(seed);
    search_free(&s);
    return ret;
}

int plb_hypergraph_grow(const plb_hypergraph_t *self, int32_t start, int64_t target, int32_t *part,
                        plb_err_t *err)
{
    const int64_t limit[2] = {INT64_MAX / 2, INT64_MAX / 2};
    const plb_limits_t none = {.n_parts = 2, .limit = limit};
    search_t s;
    for (int32_t v = 0; v < self->n_vertices; v++) {
        part[v] = self->fixed != NULL && self->fixed[v] == 0 ? 0 : 1;
    }
    int ret = search_init(&s, self, &none, part, err);
    if (ret == PLB_OK) {
        grow(&s, start, target);
        ret = plb_interrupted(0);
    }
    search_free(&s);
    return ret;
}
