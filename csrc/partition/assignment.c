#include "partition/partition.h"

#include <math.h>

#include "base/heap.h"
#include "base/mem.h"

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

/* The end of the cheapest path so far: a place that can take one more item (`item` is NONE), or an
 * item that is left without a place (`place` is NONE). */
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
