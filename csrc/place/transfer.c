/* A rank above the limit is a donor, and its load above the limit is its excess.  The other ranks
 * are partners, and the load that a partner can still take is its gap.  The most loaded donor
 * gives to the partner with the largest gap, as in a transportation problem.
 *
 * Moves and swaps.  The donor gives its heaviest objects, so that few migrate, until one object
 * can end its excess or fill the gap.  This last one should fit: all ranks together have only a
 * little more room than they need, and a rank should leave no more of it unused than its share.
 * If no object fits, a swap may; if none does, the nearest object goes.
 *
 * Sets.  For donors that are left, the subsets of a few objects of each of the two ranks are
 * listed by load; one pass through both lists finds the pairs of subsets that fit.  If no partner
 * can take the whole excess, the exchange that leaves the least of it is made.  The excess shrinks
 * in this way as it goes from rank to rank, until an exchange removes it.  The more partners have
 * been tried, the more an exchange may leave.
 *
 * Ties: the largest gap, the lowest rank, the set whose objects have already left their rank in
 * the snapshot, the lightest set of the partner, and of the donor. */
#include "place/internal.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

enum {
    /* Objects that are tried for a move or a swap: with 16, a search within tight memory limits
     * makes 20 % more migrations. */
    PROBES = 4 * PLB_TRIES,
    /* Objects of each rank in sets; in the sets for the first PLB_TRIES / 2 partners, FEW.
     * tuned: objects; with 8 for all, searches with few objects per rank take twice as long; with
     * 5 or 6 for all, ten ranks of 15 objects end 5 to 17 % above the bound instead of at most
     * 0.5 % */
    MOST = 8,
    FEW = MOST / 2 + 1,
    /* Partners that are tried for an exchange of sets: with 32, a search within tight memory
     * limits ends at 1.08 instead of 1.004. */
    FRONT = 4 * PROBES,
};

/* PLB_PART of the excess: an exchange of sets must not leave more of it, and less the fewer of
 * PLB_TRIES partners have been tried; exchanges end if they hardly reduce the sum of all excesses
 * below it; and a swap that is too small must transfer at least the rest. */

/* The objects of a rank that may migrate and have a load, in ascending order of load. */
typedef struct line {
    int64_t start, room; /* start: index of the first object in item[]; room: number of objects for
                            which there is, or will be, memory */
    int32_t n;           /* -1 until the rank's objects are listed */
    bool sorted;
} line_t;

/* A set of objects.  Mask and cost are one whole number below 2^53, so that one addition of
 * vectors adds an object. */
typedef struct set {
    double load, bits; /* bits: mask + cost * COST */
} set_t;

enum { COST = 1 << MOST };

static inline int32_t mask_of(const set_t *set)
{
    return (int32_t)set->bits % COST; /* bit k: the set contains object k of its side */
}

static inline int32_t cost_of(const set_t *set)
{
    return (int32_t)set->bits /
           COST; /* number of objects that are on their rank in the snapshot */
}

/* Some objects of a rank, and all subsets of them, sorted by load.  A set of infinite load ends
 * the list. */
typedef struct side {
    int32_t r, n, n_sets;
    plb_item_t object[MOST];
    set_t set[(1 << MOST) + 1];
} side_t;

typedef struct partner {
    plb_item_t item; /* its item in the heap `partner` */
    side_t *side;
} partner_t;

typedef struct search {
    plb_state_t *on;
    double limit, share; /* share: seconds by which a rank may end below the limit */
    line_t *line;        /* [p] those of the donors are listed first, the others when needed */
    plb_item_t *item;    /* [n_items <= room] items of all lines */
    int64_t n_items, room, longest;
    plb_item_t *spare; /* [longest] to sort a line */
    uint32_t *bin;
    plb_heap_t donor;            /* key: -seconds above the limit */
    plb_heap_t partner;          /* key: -gap */
    plb_item_t aside[PLB_TRIES]; /* partners that cannot take anything from this donor */
    partner_t *front; /* [n_front] partners in the order of the heap; kept, because most donors try
                         the same ones */
    side_t *side;     /* storage for the sides of these partners */
    side_t **free_side;
    int32_t n_front, n_free;
    int64_t turn;            /* number of times that objects were chosen for sets */
    double excess;           /* seconds above the limit, sum of all donors */
    side_t from;             /* the sets of the donor */
    plb_item_t chosen[MOST]; /* the donor's objects in the best exchange */
    double *work;
} search_t;

static double gap_of(const search_t *self, int32_t r)
{
    return (self->limit - self->on->t[r]) / self->on->pace[r];
}

/* Put each rank into its heap. */
static void sort_in(search_t *self, int32_t r)
{
    const double over = self->on->t[r] - self->limit;
    if (over > PLB_ROUNDING * self->limit) {
        self->excess += over;
        plb_heap_push(&self->donor, (plb_item_t){-over, r});
    } else {
        plb_heap_push(&self->partner, (plb_item_t){-gap_of(self, r), r});
    }
}

static void sort_all(search_t *self)
{
    self->donor.n = self->partner.n = 0;
    self->excess = 0.0;
    for (int32_t r = 0; r < self->on->p; r++) {
        sort_in(self, r);
    }
}

/* ---- the objects of a rank ------------------------------------------------------------------ */

/* Write the objects of ranks to their lines.  Each one is written to the next place of its rank,
 * but this place advances only if the object may be given away: an unpredictable branch would take
 * longer.  Objects of other ranks are all written to item[behind]. */
static void fill_lines(search_t *self, int64_t *next, int64_t behind)
{
    const plb_snapshot_t *in = self->on->in;
    const int32_t *rank = self->on->rank;
    for (int64_t i = 0; i < in->n_objects;) { /* successive objects are often on one rank */
        const int32_t r = rank[i];
        int64_t k = next[r];
        for (; i < in->n_objects && rank[i] == r; i++) {
            const double load = in->load[i];
            self->item[k] = (plb_item_t){load, (int32_t)i};
            k += (k != behind) & (load > 0.0) & plb_may_migrate(in, i);
        }
        next[r] = k;
    }
}

/* List the objects of the donors, or of all ranks that have no line yet. */
static int list_ranks(search_t *self, bool all, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_state_t *on = self->on;
    int64_t *next = NULL, end = self->n_items;
    PLB_NEW(next, on->p);
    for (int32_t r = 0; r < on->p; r++) {
        line_t *line = &self->line[r];
        if (line->n < 0 && (all || on->t[r] > self->limit)) {
            line->start = end;
            line->n = 0;
            line->room += line->room / 8 + 8; /* so that few lines move to the end, see enter() */
            self->longest = line->room > self->longest ? line->room : self->longest;
            end += line->room;
        }
    }
    PLB_GROW(self->item, self->room, end + 1);
    for (int32_t r = 0; r < on->p; r++) {
        next[r] = self->line[r].n == 0 && !self->line[r].sorted ? self->line[r].start : end;
    }
    fill_lines(self, next, end);
    for (int32_t r = 0; r < on->p; r++) {
        if (self->line[r].n == 0 && !self->line[r].sorted) {
            self->line[r].n = (int32_t)(next[r] - self->line[r].start);
        }
    }
    self->n_items = end;
    PLB_RENEW(self->spare, self->longest);
    PLB_RENEW(self->bin, PLB_SORT_BINS(self->longest));
out:
    plb_free(next);
    return ret;
}

/* Make sure that the line of a rank is listed and sorted. */
static int sort_line(search_t *self, int32_t r, plb_err_t *err)
{
    line_t *line = &self->line[r];
    double low = INFINITY, high = 0.0;
    PLB_PASS(line->n < 0 ? list_ranks(self, true, err) : PLB_OK);
    if (line->sorted) {
        return PLB_OK;
    }
    plb_item_t *item = self->item + line->start;
    for (int32_t k = 0; k < line->n; k++) {
        low = item[k].key < low ? item[k].key : low;
        high = item[k].key > high ? item[k].key : high;
    }
    plb_sort_items(item, line->n, low, high, self->spare, self->bin);
    line->sorted = true;
    return plb_interrupted(4 * (int64_t)line->n);
}

static const plb_item_t *items_of(const search_t *self, int32_t r)
{
    return self->item + self->line[r].start;
}

/* Return the first index of a line with at least this load. */
static int64_t first_from(const search_t *self, int32_t r, double load)
{
    const plb_item_t *item = items_of(self, r);
    int64_t low = 0;
    PLB_BISECT(low, self->line[r].n, k, item[k].key >= load)
    return low;
}

/* Take the object at index `at` of a line from its rank. */
static plb_item_t take(search_t *self, int32_t r, int64_t at)
{
    plb_state_t *on = self->on;
    line_t *line = &self->line[r];
    plb_item_t *item = self->item + line->start;
    const plb_item_t object = item[at];
    line->n--;
    if (line->sorted) {
        memmove(item + at, item + at + 1, (size_t)(line->n - at) * sizeof *item);
    } else {
        item[at] = item[line->n];
    }
    on->t[r] -= object.key * on->pace[r];
    if (on->left != NULL && on->in->memory != NULL) {
        on->left[r] += on->in->memory[object.id];
    }
    return object;
}

static int enter(search_t *self, int32_t r, plb_item_t object, plb_err_t *err)
{
    line_t *line = &self->line[r];
    if (line->n < 0) { /* it will be listed with the rank's objects */
        line->room++;
        return PLB_OK;
    }
    if (line->n == line->room) { /* the line moves to the end */
        const int64_t room = 2 * line->room + 4;
        PLB_PASS_GROW(self->item, self->room, self->n_items + room);
        memcpy(self->item + self->n_items, self->item + line->start,
               (size_t)line->n * sizeof *self->item);
        line->start = self->n_items;
        line->room = room;
        self->n_items += room;
    }
    plb_item_t *item = self->item + line->start;
    int64_t at = line->n;
    if (line->sorted) {
        at = 0;
        PLB_BISECT(at, line->n, k, !plb_item_before(item[k], object))
        memmove(item + at + 1, item + at, (size_t)(line->n - at) * sizeof *item);
    }
    line->n++;
    item[at] = object;
    if (!line->sorted && line->n > self->longest) {
        self->longest = 2 * (int64_t)line->n;
        PLB_PASS_RENEW(self->spare, self->longest);
        PLB_PASS_RENEW(self->bin, PLB_SORT_BINS(self->longest));
    }
    return PLB_OK;
}

/* Put an object that was taken on rank r. */
static int put(search_t *self, int32_t r, plb_item_t object, plb_err_t *err)
{
    plb_state_t *on = self->on;
    on->t[r] += object.key * on->pace[r];
    on->rank[object.id] = r;
    if (on->left != NULL && on->in->memory != NULL) {
        on->left[r] -= on->in->memory[object.id];
    }
    return enter(self, r, object, err);
}

/* ---- moves and swaps ------------------------------------------------------------------------ */

/* What goes from the donor, and what comes back: indices in the two lines; -1: nothing. */
typedef struct step {
    int64_t give, back;
    double load; /* the load that is transferred; 0: no step */
} step_t;

/* The load that should be transferred is in low ... high; the partner can take up to `most`. */
typedef struct window {
    double low, high, most;
    bool ends; /* true: such a load ends the donor's excess; false: it fills the gap */
} window_t;

static window_t window_of(const search_t *self, int32_t from, int32_t to)
{
    const double excess = -gap_of(self, from), gap = gap_of(self, to);
    if (excess <= gap) {
        const double high = excess + self->share / self->on->pace[from];
        return (window_t){excess, high < gap ? high : gap, gap, true};
    }
    const double low = gap - self->share / self->on->pace[to];
    return (window_t){low > 0.5 * gap ? low : 0.5 * gap, gap, gap, false};
}

/* Return the heaviest object of the donor up to index `at` that the partner has memory for. */
static step_t heaviest(const search_t *self, int32_t from, int32_t to, int64_t at)
{
    const plb_item_t *item = items_of(self, from);
    for (int64_t k = at; k >= 0 && k > at - PROBES; k--) {
        if (plb_state_has_room(self->on, item[k].id, to)) {
            return (step_t){k, -1, item[k].key};
        }
    }
    return (step_t){-1, -1, 0.0};
}

/* Find an object for the donor to give.  exact: its load is in the window, or far below it. */
static step_t find_move(const search_t *self, int32_t from, int32_t to, const window_t *window,
                        bool exact)
{
    const plb_item_t *item = items_of(self, from);
    const int64_t n = self->line[from].n;
    if (n == 0 || item[n - 1].key <= window->low) {
        return heaviest(self, from, to, n - 1);
    }
    const int64_t first = first_from(self, from, window->low);
    const double high = exact ? window->high : window->most;
    step_t more = {-1, -1, 0.0};
    for (int64_t k = first; window->ends && k < n && item[k].key <= high && k < first + PROBES;
         k++) {
        if (plb_state_has_room(self->on, item[k].id, to)) {
            more = (step_t){k, -1, item[k].key};
            break;
        }
    }
    if (exact && window->ends) {
        return more;
    }
    step_t less = heaviest(
        self, from, to, (exact ? first_from(self, from, nextafter(high, INFINITY)) : first) - 1);
    if (exact) {
        return less.load >= window->low ? less : (step_t){-1, -1, 0.0};
    }
    double next = 0.0; /* a light object is worth a migration if it and the lighter ones suffice */
    for (int64_t k = less.give; k >= 0 && next < 0.5 * window->low; k--) {
        next += item[k].key;
    }
    less = next < 0.5 * window->low ? (step_t){-1, -1, 0.0} : less;
    return more.give >= 0 && more.load - window->low <= window->low - less.load ? more : less;
}

static int64_t memory_of(const search_t *self, int32_t i)
{
    return self->on->in->memory == NULL ? 0 : self->on->in->memory[i];
}

/* Whether both ranks have the memory if `more` bytes go from one to the other. */
static bool has_room(const search_t *self, int32_t from, int32_t to, int64_t more)
{
    const int64_t *left = self->on->left;
    return left == NULL || (left[to] >= more && left[from] >= -more);
}

/* Find a swap in the window, else the one that transfers the most load below it.  The partner's
 * objects are tried in any order, because to sort them would take longer. */
static step_t find_swap(search_t *self, int32_t from, int32_t to, const window_t *window)
{
    step_t best = {-1, -1, 0.0};
    const plb_item_t *mine = items_of(self, from), *its = items_of(self, to);
    const int32_t n = self->line[from].n, m = self->line[to].n;
    const int32_t each = m > PROBES ? m / PROBES : 1;
    int64_t b = 0;
    for (int probe = 0; probe < PROBES && b < m && best.load < window->low; probe++, b += each) {
        const double most = window->high + its[b].key;
        const plb_item_t *at = mine; /* the last object with at most this load, without branches */
        for (int64_t left = n, half; left > 1; left -= half) {
            half = left / 2;
            at += half & -(int64_t)(at[half].key <= most);
        }
        const double load = n > 0 ? at->key - its[b].key : 0.0;
        if (load > best.load && load <= window->high &&
            has_room(self, from, to, memory_of(self, at->id) - memory_of(self, its[b].id))) {
            best = (step_t){at - mine, b, load};
        }
    }
    return best;
}

/* Choose a step from the donor to the partner: moves that fit, swaps that fit, then others. */
static int choose(search_t *self, int32_t from, int32_t to, bool swaps, step_t *out,
                  plb_err_t *err)
{
    const window_t window = window_of(self, from, to);
    step_t swap = {-1, -1, 0.0};
    *out = window.most > 0.0 ? find_move(self, from, to, &window, true) : swap;
    if (out->give >= 0 || window.most <= 0.0) {
        return PLB_OK;
    }
    if (swaps) {
        PLB_PASS(self->line[to].n < 0 ? list_ranks(self, true, err) : PLB_OK);
        swap = find_swap(self, from, to, &window);
    }
    if (swap.load < window.low) {
        *out = find_move(self, from, to, &window, false);
    }
    if (out->give < 0 && swap.load >= (1.0 - PLB_PART) * window.low) {
        *out = swap;
    }
    return PLB_OK;
}

/* Make one step from the donor on top; *made: whether there is one. */
static int serve(search_t *self, bool swaps, bool *made, plb_err_t *err)
{
    const int32_t from = self->donor.item[0].id;
    /* with 16 at 10^6 objects, BestFitLB takes a quarter longer */
    const int32_t most = self->on->left == NULL ? PLB_TRIES / 4 : PLB_TRIES;
    int32_t n = 0;
    *made = false;
    PLB_PASS(sort_line(self, from, err));
    while (!*made && n < most && self->partner.n > 0) {
        const int32_t to = self->partner.item[0].id;
        step_t step;
        PLB_PASS(choose(self, from, to, swaps, &step, err));
        if (step.give < 0) {
            self->aside[n++] = plb_heap_pop(&self->partner);
            continue;
        }
        const plb_item_t give = take(self, from, step.give);
        if (step.back >= 0) {
            PLB_PASS(put(self, from, take(self, to, step.back), err));
        }
        PLB_PASS(put(self, to, give, err));
        plb_heap_rekey(&self->partner, -gap_of(self, to));
        *made = true;
    }
    while (n > 0) {
        plb_heap_push(&self->partner, self->aside[--n]);
    }
    return plb_interrupted(16);
}

/* Make moves and swaps until no donor has one. */
static int move_all(search_t *self, bool swaps, plb_err_t *err)
{
    bool made;
    while (self->donor.n > 0 && *self->work > 0.0) {
        const int32_t from = self->donor.item[0].id;
        PLB_PASS(serve(self, swaps, &made, err));
        const double over = self->on->t[from] - self->limit;
        *self->work -= 4.0;
        if (made && over > PLB_ROUNDING * self->limit) {
            plb_heap_rekey(&self->donor, -over);
            continue;
        }
        plb_heap_pop(&self->donor);
        if (made) {
            plb_heap_push(&self->partner, (plb_item_t){-gap_of(self, from), from});
        }
    }
    return PLB_OK;
}

/* ---- the sets of a rank --------------------------------------------------------------------- */

/* Merge two lists of n sets into out[2 n], without unpredictable branches.  The processor runs the
 * comparisons from both ends in parallel.  Of equally heavy sets, those of x come first. */
static void merge(const set_t *x, const set_t *y, int32_t n, set_t *restrict out)
{
    const set_t *x_end = x + n - 1, *y_end = y + n - 1;
    set_t *out_end = out + 2 * n - 1;
    for (const set_t *half = out + n; out < half; out++, out_end--) {
        const ptrdiff_t first = y->load < x->load, last = y_end->load < x_end->load;
        *out = x[(y - x) & -first];
        *out_end = y_end[(x_end - y_end) & -last];
        y += first;
        x += 1 - first;
        x_end -= last;
        y_end -= 1 - last;
    }
}

/* List the subsets of up to `most` objects of the side's rank.  If the rank has more objects, the
 * chosen ones are spread over its line, and differ from call to call. */
static int list_sets(search_t *self, side_t *side, int32_t most, plb_err_t *err)
{
    set_t list[1 << MOST];
    const int32_t r = side->r;
    PLB_PASS(sort_line(self, r, err));
    const int32_t all = self->line[r].n, want = all < most ? all : most;
    if (side->n == want) {
        return PLB_OK;
    }
    const int64_t shift = all > most ? self->turn++ % all : 0;
    side->n = want;
    side->n_sets = 1;
    side->set[0] = (set_t){0.0, 0.0};
    for (int32_t k = 0; k < want; k++) {
        const plb_item_t it = items_of(self, r)[((int64_t)k * all + shift) / want];
        const double bits = (1 << k) + (self->on->in->rank[it.id] == r) * COST;
        const int32_t n = side->n_sets;
        side->object[k] = it;
        for (int32_t m = 0; m < n; m++) { /* each set without the object, then with it */
            list[m] = side->set[m];
            list[n + m] = (set_t){list[m].load + it.key, list[m].bits + bits};
        }
        merge(list, list + n, n, side->set);
        side->n_sets = 2 * n;
    }
    side->set[side->n_sets].load = INFINITY;
    return PLB_OK;
}

/* Return the bytes of the objects of a set. */
static int64_t memory_in(const search_t *self, const side_t *side, int32_t mask)
{
    int64_t sum = 0;
    for (; mask != 0; mask &= mask - 1) {
        sum += memory_of(self, side->object[__builtin_ctz((unsigned)mask)].id);
    }
    return sum;
}

/* ---- the best exchange of two ranks --------------------------------------------------------- */

/* An exchange; give, back: bit masks over the objects of the donor and of the partner. */
typedef struct exchange {
    int32_t at; /* the partner is front[at]; -1: no exchange has been found */
    int32_t give, back, cost;
    double over; /* seconds above the limit that remain on the worse of the two ranks */
} exchange_t;

typedef struct demand {
    double excess, gap;        /* load that the donor must lose; load that the partner can take */
    double pace_from, pace_to; /* seconds per load */
    int32_t at;                /* the partner is front[at] */
} demand_t;

static inline void consider(const search_t *self, const side_t *to, const demand_t *of,
                            const set_t *give, const set_t *back, exchange_t *best)
{
    const double sum = give->load - back->load;
    const double here = (of->excess - sum) * of->pace_from, there = (sum - of->gap) * of->pace_to;
    const double worse = here > there ? here : there, left = worse > 0.0 ? worse : 0.0;
    const int32_t cost = cost_of(give) + cost_of(back);
    if ((left < best->over || (left == best->over && cost < best->cost)) &&
        (self->on->left == NULL || has_room(self, self->from.r, to->r,
                                            memory_in(self, &self->from, mask_of(give)) -
                                                memory_in(self, to, mask_of(back))))) {
        *best = (exchange_t){of->at, mask_of(give), mask_of(back), cost, left};
    }
}

/* Find the best exchange of the donor with front[at], if it is better than `best`. */
static void look(search_t *self, int32_t at, exchange_t *best)
{
    const side_t *from = &self->from, *to = self->front[at].side;
    const demand_t of = {-gap_of(self, from->r), gap_of(self, to->r), self->on->pace[from->r],
                         self->on->pace[to->r], at};
    const double middle = 0.5 * (of.excess + of.gap);
    const double low = of.excess < of.gap ? of.excess : middle;
    const set_t *give = from->set, *end = from->set + from->n_sets;
    const double all = (end - 1)->load + to->set[to->n_sets - 1].load;
    const double slack = PLB_ROUNDING * (all + of.excess + fabs(of.gap));
    exchange_t found = *best;
    for (const set_t *back = to->set;
         back < to->set + to->n_sets && (found.over > 0.0 || found.cost > 0); back++) {
        while (give->load < low + back->load) {
            give++;
        }
        if (give == end &&
            (of.excess - ((end - 1)->load - back->load)) * of.pace_from > found.over) {
            break; /* the partner's next sets are even heavier */
        }
        /* smaller and larger loads leave more than found.over on one of the ranks */
        const double least = of.excess - found.over / of.pace_from - slack;
        const double most = of.gap + found.over / of.pace_to + slack;
        if (give > from->set && give[-1].load >= least + back->load) {
            consider(self, to, &of, give - 1, back, &found);
        }
        if (give < end && give->load <= most + back->load) {
            consider(self, to, &of, give, back, &found);
        }
    }
    *best = found;
    *self->work -= from->n_sets + to->n_sets;
}

/* ---- one donor ------------------------------------------------------------------------------ */

/* Make front[n] the partner after front[n - 1], by key.  Return false if there is none. */
static bool next_partner(search_t *self, int32_t n)
{
    if (self->partner.n > 0 &&
        (n == self->n_front || plb_item_before(self->partner.item[0], self->front[n].item))) {
        if (self->n_free == 0) {
            const partner_t last = self->front[--self->n_front];
            plb_heap_push(&self->partner, last.item);
            self->free_side[self->n_free++] = last.side;
        }
        partner_t *at = self->front + n;
        memmove(at + 1, at, (size_t)(self->n_front - n) * sizeof *at);
        *at = (partner_t){plb_heap_pop(&self->partner), self->free_side[--self->n_free]};
        at->side->r = at->item.id;
        at->side->n = -1;
        self->n_front++;
    }
    return n < self->n_front;
}

static int find_exchange(search_t *self, int32_t donor, double over, exchange_t *best,
                         plb_err_t *err)
{
    *best = (exchange_t){.at = -1, .over = PLB_PART * over};
    self->from.r = donor;
    self->from.n = -1;
    for (int32_t n = 0; n < FRONT && next_partner(self, n); n++) {
        if (best->at >= 0 && best->over <= over * PLB_PART * n / PLB_TRIES) {
            break;
        }
        const int32_t most = n < PLB_TRIES / 2 ? FEW : MOST;
        PLB_PASS(list_sets(self, &self->from, most, err));
        PLB_PASS(list_sets(self, self->front[n].side, most, err));
        look(self, n, best);
        if (best->at == n) { /* a longer list of the donor's objects may follow */
            memcpy(self->chosen, self->from.object, sizeof self->chosen);
        }
    }
    memcpy(self->from.object, self->chosen, sizeof self->chosen);
    return PLB_OK;
}

static int hand_over(search_t *self, const side_t *from, int32_t mask, int32_t to, plb_err_t *err)
{
    for (; mask != 0; mask &= mask - 1) {
        const plb_item_t object = from->object[__builtin_ctz((unsigned)mask)];
        const plb_item_t *item = items_of(self, from->r);
        int64_t at = 0;
        PLB_BISECT(at, self->line[from->r].n, k, !plb_item_before(item[k], object))
        PLB_PASS(put(self, to, take(self, from->r, at), err));
    }
    return PLB_OK;
}

/* Reduce the load of the most loaded rank by one exchange.  *helps: whether there is one. */
static int relieve(search_t *self, bool *helps, plb_err_t *err)
{
    const plb_item_t worst = plb_heap_pop(&self->donor);
    exchange_t best;
    PLB_PASS(find_exchange(self, worst.id, -worst.key, &best, err));
    self->excess += worst.key;
    *helps = best.at >= 0;
    if (*helps) {
        partner_t *at = self->front + best.at;
        const side_t *to = at->side;
        PLB_PASS(hand_over(self, &self->from, best.give, to->r, err));
        PLB_PASS(hand_over(self, to, best.back, worst.id, err));
        self->free_side[self->n_free++] = at->side;
        const int32_t partner = to->r;
        memmove(at, at + 1, (size_t)(--self->n_front - best.at) * sizeof *at);
        sort_in(self, partner);
    }
    sort_in(self, worst.id);
    return plb_interrupted(64);
}

/* Exchange sets until no donor is left, until the most loaded one finds no exchange, or until they
 * are not worth their time. */
static int exchange_all(search_t *self, plb_err_t *err)
{
    bool helps = true;
    double check = *self->work, goal = INFINITY;
    sort_all(self);
    while (helps && self->donor.n > 0 && *self->work > 0.0) {
        if (*self->work <= check) { /* until the next check, one donor can try all partners, and
                                       each other donor one partner */
            helps = self->excess <= goal;
            goal = PLB_PART * self->excess;
            check = *self->work - (FRONT + self->donor.n) * 2.0 * (1 << MOST);
        }
        if (helps) {
            PLB_PASS(relieve(self, &helps, err));
        }
    }
    return PLB_OK;
}

int plb_transfer(plb_state_t *on, double limit, unsigned families, double *work, plb_err_t *err)
{
    search_t self = {.on = on, .limit = limit, .work = work};
    const int64_t n = on->in->n_objects;
    int ret = PLB_OK;
    PLB_NEW_EACH(on->p, self.line, self.donor.item, self.partner.item);
    for (int32_t r = 0; r < on->p; r++) {
        self.line[r] = (line_t){.n = -1};
    }
    for (int64_t i = 0, begin; i < n; self.line[on->rank[begin]].room += i - begin) {
        for (begin = i; i < n && on->rank[i] == on->rank[begin]; i++) {
        }
    }
    self.share = fmax(0.0, limit - plb_state_mean(on));
    PLB_TRY(list_ranks(&self, false, err));
    if (families & (PLB_MOVES | PLB_SWAPS)) {
        sort_all(&self);
        PLB_TRY(move_all(&self, families & PLB_SWAPS, err));
        sort_all(&self);
    }
    if (families & PLB_SETS && self.donor.n > 0) {
        self.n_free = on->p < FRONT ? on->p : FRONT;
        PLB_NEW_EACH(self.n_free, self.front, self.side, self.free_side);
        for (int32_t k = 0; k < self.n_free; k++) {
            self.free_side[k] = &self.side[self.n_free - 1 - k];
        }
        ret = exchange_all(&self, err);
    }
out:
    PLB_FREE(self.line, self.item, self.spare, self.bin, self.donor.item, self.partner.item);
    PLB_FREE(self.front, self.side, self.free_side);
    return ret;
}
