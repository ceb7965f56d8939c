#include "partition/partition.h"

#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/mem.h"

/* ---- assignment -------------------------------------------------------------------------------- */

enum { NONE = -1 };

/* The dual problem: profit[i] >= gain - price[p] for each gain of item i at place p, with equality
 * if item i is at place p.  A place that could take more items has price 0; an item without a
 * place has profit 0. */
typedef struct search {
    const plb_gains_t *in;
    int32_t *room, *place;
    double *profit, *price; /* [n_items], [n_places] the dual variables */
    int32_t *first, *next;  /* [n_places], [n_items] lists of the items at each place */
    double *distance;       /* [n_places] from the start of this search; INFINITY: not reached */
    int32_t *from;          /* [n_places] the item from which a place was reached */
    int32_t *reached, n_reached;
    plb_heap_t heap; /* places by distance; a place may occur several times */
} search_t;

/* The end of the cheapest path so far: a place that can take one more item (`item` is
 * NONE), or an item that is left without a place (`place` is NONE). */
typedef struct end {
    double distance;
    int32_t place, item;
} end_t;

static double positive(double x)
{
    return x > 0.0 ? x : 0.0; /* negative only because of rounding */
}

/* Extend the search from an item to the places where it has a gain. */
static void spread(search_t *s, int32_t item, double distance)
{
    const plb_gains_t *in = s->in;
    for (int64_t e = in->start[item]; e < in->start[item + 1]; e++) {
        const int32_t p = in->place[e];
        const double d = distance + positive(s->profit[item] - (in->gain[e] - s->price[p]));
        if (d < s->distance[p]) {
            if (isinf(s->distance[p])) {
                s->reached[s->n_reached++] = p;
            }
            s->distance[p] = d;
            s->from[p] = item;
            plb_heap_push(&s->heap, (plb_item_t){d, p});
        }
    }
}

/* Return the end of the cheapest path from an item (Dijkstra's search). */
static end_t find(search_t *s, int32_t item)
{
    end_t end = {s->profit[item], NONE, item};
    s->heap.n = s->n_reached = 0;
    spread(s, item, 0.0);
    while (s->heap.n > 0) {
        const plb_item_t top = plb_heap_pop(&s->heap);
        if (top.key >= end.distance) {
            break;
        }
        if (top.key > s->distance[top.id]) {
            continue; /* an outdated entry: a cheaper path was found since */
        }
        if (s->room[top.id] > 0) {
            return (end_t){top.key, top.id, NONE};
        }
        for (int32_t other = s->first[top.id]; other != NONE; other = s->next[other]) {
            if (top.key + s->profit[other] < end.distance) {
                end = (end_t){top.key + s->profit[other], NONE, other};
            }
            spread(s, other, top.key);
        }
    }
    return end;
}

/* Update prices and profits so that the found path costs nothing; reset the distances. */
static void settle(search_t *s, int32_t item, double distance)
{
    s->profit[item] -= distance;
    for (int32_t i = 0; i < s->n_reached; i++) {
        const int32_t p = s->reached[i];
        const double less = distance - s->distance[p];
        s->distance[p] = INFINITY;
        if (less > 0.0) {
            s->price[p] += less;
            for (int32_t other = s->first[p]; other != NONE; other = s->next[other]) {
                s->profit[other] -= less;
            }
        }
    }
}

static void leave(search_t *s, int32_t item)
{
    int32_t *link = &s->first[s->place[item]];
    while (*link != item) {
        link = &s->next[*link];
    }
    *link = s->next[item];
}

static void enter(search_t *s, int32_t item, int32_t place)
{
    s->place[item] = place;
    s->next[item] = s->first[place];
    s->first[place] = item;
}

/* Move each item on the path to the path's next place. */
static void follow(search_t *s, int32_t item, end_t end)
{
    int32_t to = end.place;
    if (to != NONE) {
        s->room[to]--;
    } else if (end.item == item) {
        return;
    } else {
        to = s->place[end.item];
        leave(s, end.item);
        s->place[end.item] = NONE;
    }
    for (;;) {
        const int32_t mover = s->from[to], was = s->place[mover];
        if (mover != item) {
            leave(s, mover);
        }
        enter(s, mover, to);
        if (mover == item) {
            return;
        }
        to = was;
    }
}

static double most(const search_t *s, int32_t item)
{
    double out = 0.0;
    for (int64_t e = s->in->start[item]; e < s->in->start[item + 1]; e++) {
        out = fmax(out, s->in->gain[e] - s->price[s->in->place[e]]);
    }
    return out;
}

int plb_assign(const plb_gains_t *in, int32_t *room, int32_t *place, plb_err_t *err)
{
    int ret = PLB_OK;
    search_t s = {.in = in, .room = room, .place = place};
    PLB_NEW_EACH(in->n_items, s.profit, s.next);
    PLB_NEW0(s.price, in->n_places);
    PLB_NEW_EACH(in->n_places, s.first, s.distance, s.from, s.reached);
    PLB_NEW(s.heap.item, in->start[in->n_items]);
    for (int32_t p = 0; p < in->n_places; p++) {
        s.first[p] = NONE;
        s.distance[p] = INFINITY;
    }
    for (int32_t i = 0; i < in->n_items; i++) {
        place[i] = NONE;
        s.profit[i] = most(&s, i);
        const end_t end = find(&s, i);
        settle(&s, i, end.distance);
        follow(&s, i, end);
    }
out:
    PLB_FREE(s.profit, s.next, s.price, s.first, s.distance, s.from, s.reached, s.heap.item);
    return ret;
}

/* ---- moves ------------------------------------------------------------------------------------- */

static int32_t present(const plb_new_parts_t *in, int64_t v)
{
    return in->old == NULL || in->old[v] < 0 ? in->home : in->old[v];
}

static int moves_find(plb_moves_t *self, const plb_new_parts_t *in, const int32_t *rank,
                      plb_err_t *err)
{
    for (int64_t v = 0; v < in->n; v++) {
        const int32_t p = in->part[v];
        PLB_FAIL_IF(p < 0 || p >= in->n_parts, err, PLB_ERR_RANGE,
                    "part[%lld] is %d: expected 0 ... %d", (long long)v, p, in->n_parts - 1);
        self->where[v] = rank[p];
        if (p != present(in, v)) {
            self->count[p]++;
            self->n++;
        }
    }
    return PLB_OK;
}

/* Fill the lists.  next[n_parts]: index in packed[] for the next object of each part. */
static void list(plb_moves_t *self, const plb_new_parts_t *in, int64_t *next)
{
    int64_t i = 0, at = 0;
    for (int32_t p = 0; p < in->n_parts; p++) {
        next[p] = at;
        at += self->count[p];
    }
    for (int64_t v = 0; v < in->n; v++) {
        if (in->part[v] == present(in, v)) {
            continue;
        }
        self->row[i] = v;
        self->id[i] = in->ids == NULL ? in->first + v : in->ids[v];
        self->rank[i] = self->where[v];
        self->part[i++] = in->part[v];
        self->packed[next[in->part[v]]++] = (int32_t)v;
    }
}

int plb_moves_init(plb_moves_t *self, const plb_new_parts_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *rank = NULL;
    int64_t *next = NULL;
    *self = (plb_moves_t){0};
    PLB_NEW_EACH(in->n_parts, rank, next);
    PLB_NEW(self->where, in->n);
    PLB_NEW0(self->count, in->n_parts);
    for (int32_t p = 0; p < in->n_parts; p++) {
        rank[p] = plb_rank_of(p, in->n_ranks, in->n_parts);
    }
    PLB_TRY(moves_find(self, in, rank, err));
    PLB_NEW_EACH(self->n, self->row, self->id, self->rank, self->part, self->packed);
    list(self, in, next);
out:
    PLB_FREE(rank, next);
    if (ret != PLB_OK) {
        plb_moves_free(self);
    }
    return ret;
}

void plb_moves_free(plb_moves_t *self)
{
    PLB_FREE(self->where, self->row, self->id, self->rank, self->part, self->packed, self->count);
    *self = (plb_moves_t){0};
}


typedef struct namer {
    const plb_new_names_t *in;
    int32_t *name;  /* [n_parts] the new number of each part; NONE: not yet */
    bool *taken;    /* [n_parts] whether a part has this name */
    int32_t *room;  /* [n_parts] how many parts each place may take */
    int32_t *place; /* [n_parts] result of plb_assign */
    int64_t *start; /* start, to, gain: as in plb_gains_t */
    int32_t *to;
    double *gain;
} namer_t;

static int32_t rank_of(const plb_new_names_t *in, int32_t name)
{
    return plb_rank_of(name, in->n_ranks, in->n_parts);
}

static bool fits(const namer_t *s, int32_t part, int32_t name)
{
    const double *share = s->in->share;
    return !s->taken[name] && (share == NULL || share[part] == share[name]);
}

static void call(namer_t *s, int32_t part, int32_t name)
{
    s->name[part] = name;
    s->taken[name] = true;
}

static int assign(namer_t *s, plb_err_t *err)
{
    const int32_t k = s->in->n_parts;
    const plb_gains_t gains = {k, k, s->start, s->to, s->gain};
    return plb_assign(&gains, s->room, s->place, err);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static int check(const plb_new_names_t *in, plb_err_t *err)
{
    const int32_t k = in->n_parts;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i], q = in->old[i];
        const bool after =
            i == 0 || p > in->part[i - 1] || (p == in->part[i - 1] && q > in->old[i - 1]);
        PLB_FAIL_IF(
            p < 0 || p >= k || q < 0 || q >= k || !after, err, PLB_ERR_RANGE,
            "kept[%lld] is the pair of parts (%d, %d): expected 0 ... %d, in ascending order",
            (long long)i, p, q, k - 1);
    }
    return PLB_OK;
}

/* Make the total size of the objects that stay in their part largest. */
static int by_parts(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    int64_t n = 0, i = 0;
    for (int32_t p = 0; p < in->n_parts; p++) {
        s->start[p] = n;
        for (; i < in->n_kept && in->part[i] == p; i++) {
            if (s->name[p] == NONE && in->kept[i] > 0.0 && fits(s, p, in->old[i])) {
                s->to[n] = in->old[i];
                s->gain[n++] = in->kept[i];
            }
        }
        s->room[p] = 1;
    }
    s->start[in->n_parts] = n;
    const int ret = assign(s, err);
    for (int32_t p = 0; ret == PLB_OK && p < in->n_parts; p++) {
        if (s->place[p] != NONE) {
            call(s, p, s->place[p]);
        }
    }
    return ret;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Return the first free name on a rank that the part may get: all are equally good. */
static int32_t free_on(const namer_t *s, int32_t rank, int32_t part)
{
    const int32_t end = plb_first_on(rank + 1, s->in->n_ranks, s->in->n_parts);
    for (int32_t q = plb_first_on(rank, s->in->n_ranks, s->in->n_parts); q < end; q++) {
        if (fits(s, part, q)) {
            return q;
        }
    }
    return NONE;
}

/* Name the remaining parts: make the total size of the objects that stay on their rank largest. */
static int by_ranks(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    const int32_t k = in->n_parts;
    int64_t n = 0;
    memset(s->room, 0, (size_t)k * sizeof *s->room);
    for (int32_t q = 0; q < k; q++) {
        if (!s->taken[q]) {
            s->room[free_on(s, rank_of(in, q), q)]++;
        }
    }
    for (int32_t p = 0; p < k; p++) {
        s->start[p] = n;
        for (int32_t r = 0; s->name[p] == NONE && r < in->n_ranks; r++) {
            const double size = in->on_rank[(int64_t)r * k + p];
            const int32_t q = size > 0.0 ? free_on(s, r, p) : NONE;
            if (q != NONE) {
                s->to[n] = q;
                s->gain[n++] = size;
            }
        }
    }
    s->start[k] = n;
    const int ret = assign(s, err);
    for (int32_t p = 0; ret == PLB_OK && p < k; p++) {
        if (s->place[p] != NONE) {
            call(s, p, free_on(s, rank_of(in, s->place[p]), p));
        }
    }
    return ret;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* A part without a name keeps its number; if that is taken, it gets the first free number of a
 * part with an equal share. */
static void fill(namer_t *s)
{
    const int32_t k = s->in->n_parts;
    for (int32_t p = 0; p < k; p++) {
        if (s->name[p] == NONE && fits(s, p, p)) {
            call(s, p, p);
        }
    }
    for (int32_t p = 0, q = 0; p < k; p++) {
        if (s->name[p] == NONE) {
            for (q = s->in->share == NULL ? q : 0; !fits(s, p, q); q++) {
            }
            call(s, p, q);
        }
    }
}

/* Compute the total size of the objects that stay in their part (out[0]) and on their rank
 * (out[1]); name NULL: each part keeps its number. */
static void worth(const plb_new_names_t *in, const int32_t *name, double out[2])
{
    out[0] = out[1] = 0.0;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i];
        out[0] += in->old[i] == (name == NULL ? p : name[p]) ? in->kept[i] : 0.0;
    }
    for (int32_t p = 0; in->on_rank != NULL && p < in->n_parts; p++) {
        const int32_t rank = rank_of(in, name == NULL ? p : name[p]);
        out[1] += in->on_rank[(int64_t)rank * in->n_parts + p];
    }
}

static bool wins(const plb_new_names_t *in, const int32_t *name)
{
    double now[2], own[2];
    worth(in, name, now);
    worth(in, NULL, own);
    return now[0] > own[0] || (now[0] == own[0] && now[1] > own[1]);
}

int plb_remap(const plb_new_names_t *in, int32_t *name, plb_err_t *err)
{
    const int32_t k = in->n_parts;
    const bool ranks = in->on_rank != NULL && k <= PLB_REMAP_MOST;
    const int64_t by_rank = ranks ? (int64_t)k * in->n_ranks : 0;
    const int64_t most = in->n_kept > by_rank ? in->n_kept : by_rank;
    namer_t s = {.in = in, .name = name};
    int ret = check(in, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW0(s.taken, k);
    PLB_NEW_EACH(k, s.room, s.place);
    PLB_NEW(s.start, (int64_t)k + 1);
    PLB_NEW_EACH(most, s.to, s.gain);
    for (int32_t p = 0; p < k; p++) {
        name[p] = NONE;
        if (in->fixed != NULL && in->fixed[p]) {
            call(&s, p, p);
        }
    }
    ret = in->n_kept > 0 ? by_parts(&s, err) : PLB_OK;
    if (ret == PLB_OK && ranks) {
        ret = by_ranks(&s, err);
    }
    if (ret == PLB_OK) {
        fill(&s);
    }
    if (ret == PLB_OK && !wins(in, name)) {
        for (int32_t p = 0; p < k; p++) {
            name[p] = p;
        }
    }
out:
    PLB_FREE(s.taken, s.room, s.place, s.start, s.to, s.gain);
    return ret;
}
