/* Pairs of ranks exchange sets of objects.
 *
 * The most loaded rank, the donor, exchanges a set of its objects for a set of objects of another
 * rank, the partner; one of the sets may be empty.  Partners are tried in turn, those that can
 * take the most load first:
 *   - If a partner can take the donor's whole excess and stay within the limit, the search ends.
 *     Of the exchanges with this partner that do this, one with few migrations is made (CHEAP).
 *   - Until then, the best exchange so far leaves some excess on one of the two ranks.  It is made
 *     if it leaves little; the more partners were tried, the more it may leave.  An excess shrinks
 *     in this way as it goes from rank to rank, until a set of objects removes it.
 *
 * If no exchange reduces the excess, the limit cannot be met.  Then bisection finds a higher
 * limit, as in the multifit method for bins (Coffman, Garey, Johnson 1978).
 *
 * For each rank, the subsets of a few of its objects are listed by load.  One pass through two
 * such lists finds the pairs of subsets that fit.
 *
 * Ties: the partner that can take the most load, then the lowest rank; then the lightest set of
 * the partner, then the lightest set of the donor, then the set without the object that came to
 * its rank first. */
#include "place/kit/pairs.h"

#include <math.h>

#include "base/csr.h"
#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "place/kit/journal.h"
#include "place/kit/members.h"

enum {
    EASY = 8, /* number of partners that are tried with at most FEW objects of each rank */
    FEW = 5,
    MOST = 8,    /* largest number of objects of each rank in an exchange with a later partner */
    TRIES = 256, /* largest number of partners that are tried for one donor */
    SCAN = 4,    /* number of the donor's sets that are compared for each set of the partner */
    KNOWN = 8,   /* after 1 / KNOWN of the allowed moves, the number still needed is estimated */
    CHEAP = 2,   /* an exchange that removes the excess with this many migrations is good enough */
};
/* After an exchange, at most this fraction of the excess may remain. */
static const double PART = 0.9;
/* After n tried partners, an exchange is made if the remaining excess is at most n times this
 * fraction of the whole excess. */
static const double SOON = 0.9 / 16;
/* An excess below this fraction of the limit is due to rounding. */
static const double ROUNDING = 1e-12;

/* Largest number of sets that are examined: WORK, and WORK_PER_RANK more for each rank. */
static const double WORK = 1e6, WORK_PER_RANK = 300.0;

/* A limit is given up if the sum of all excesses does not fall to FALL times its value while
 * ENOUGH sets, and ENOUGH_PER_RANK more for each rank, are examined. */
static const double FALL = 0.9, ENOUGH = 5e4, ENOUGH_PER_RANK = 20.0;

/* An object that may migrate.  Things are stored rank by rank, because a search through a rank's
 * objects mostly waits for memory. */
typedef struct thing {
    double load;
    int32_t object, home; /* index in the snapshot; rank in the snapshot's placement */
} thing_t;

/* Mask and cost are one whole number, below 2^53 and in a double.  So a set with one more object
 * takes one addition of vectors. */
typedef struct set {
    double load, bits; /* bits: mask + cost * COST */
} set_t;

enum { COST = 1 << MOST };

/* Bit k: whether the set contains thing[k] of its side. */
static inline int32_t mask_of(const set_t *set)
{
    return (int32_t)set->bits % COST;
}

/* Number of objects in the set that are still on their rank in the snapshot. */
static inline int32_t cost_of(const set_t *set)
{
    return (int32_t)set->bits / COST;
}

/* Some objects of a rank, and all subsets of them, sorted by load.  A set of infinite load ends
 * the list. */
typedef struct side {
    int32_t r;
    int32_t n_things, n_sets;
    int32_t after; /* the rank's next thing, which is not in thing[] yet; -1: none */
    int32_t thing[MOST];
    int64_t memory[MOST]; /* bytes of each thing; set only with memory limits */
    set_t set[(1 << MOST) + 1];
} side_t;

/* A partner: its heap item, and its sets, which are listed when they are first needed. */
typedef struct partner {
    plb_item_t item;
    side_t *side;
} partner_t;

typedef struct pairs {
    plb_ranks_t *ranks;
    thing_t *thing;     /* [problem->n] all objects that may migrate, rank by rank */
    plb_members_t on;   /* the things on each rank, without those of load 0 */
    plb_heap_t donor;   /* ranks above the limit; key: -seconds above the limit */
    plb_heap_t partner; /* the other ranks; key: -gap (load that the rank can take) */
    partner_t *front;   /* [n_front <= TRIES] partners that were taken from the heap, in the same
                           order: most donors try the same ones */
    int32_t n_front;
    side_t *side;       /* [min(p, TRIES)] storage for the sides of the partners in `front` */
    side_t **free_side; /* [n_free] entries of side[] that no partner in `front` uses */
    int32_t n_free;
    plb_journal_t journal; /* migrations since the maximum was last reduced by much */
    double work;           /* number of sets that may still be examined */
    int64_t away;          /* number of objects that are not on their rank in the snapshot */
    int64_t most_away;     /* the search ends if `away` is larger than this */
    double excess;         /* seconds above the limit, sum of all donors */
    int64_t away_before;   /* `away` and `excess` when the search for this limit began */
    double excess_before;
    double check, goal; /* when `work` has fallen to `check`, `excess` must be at most `goal` */
    side_t from;        /* the sets of the donor */
} pairs_t;

/* An exchange; give, back: bit masks over the things of the donor and of the partner. */
typedef struct exchange {
    int32_t at; /* the partner is front[at]; -1: no exchange has been found */
    int32_t give, back, cost;
    double over; /* seconds above the limit that remain on the worse of the two ranks */
} exchange_t;

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

/* Add an object: list each subset without it and with it. */
static void add_object(side_t *self, int32_t i, double load, int32_t cost)
{
    set_t list[1 << MOST]; /* without the object, then with it */
    const int32_t n = self->n_sets;
    const double bits = (1 << self->n_things) + cost * COST;
    for (int32_t k = 0; k < n; k++) {
        const set_t set = self->set[k];
        list[k] = set;
        list[n + k] = (set_t){set.load + load, set.bits + bits};
    }
    merge(list, list + n, n, self->set);
    self->thing[self->n_things++] = i;
    self->n_sets = 2 * n;
}

static void list_nothing(const pairs_t *self, side_t *side, int32_t r)
{
    side->r = r;
    side->n_things = 0;
    side->n_sets = 1;
    side->after = self->on.head[r];
    side->set[0] = (set_t){0.0, 0.0};
}

/* Load the first objects of a rank into the cache. */
static void prefetch(const pairs_t *self, int32_t r)
{
    int32_t i = self->on.head[r];
    for (int32_t k = 0; k < FEW && i >= 0; k++) {
        __builtin_prefetch(&self->thing[i]);
        i = self->on.next[i];
    }
}

/* List the sets of the first `most` objects of a rank.  This continues the list of the previous
 * call: the rank's objects must not have changed since list_nothing. */
static void list_sets(const pairs_t *self, side_t *side, int32_t most)
{
    if (side->n_things > most) {
        list_nothing(self, side, side->r);
    }
    while (side->after >= 0 && side->n_things < most) {
        const thing_t *it = &self->thing[side->after];
        if (self->ranks->room != NULL) {
            side->memory[side->n_things] = self->ranks->in->memory[it->object];
        }
        add_object(side, side->after, it->load, it->home == side->r);
        side->after = self->on.next[side->after];
    }
    side->set[side->n_sets].load = INFINITY;
}

static int64_t memory_of(const side_t *side, int32_t mask)
{
    int64_t sum = 0;
    for (; mask != 0; mask &= mask - 1) {
        sum += side->memory[__builtin_ctz((unsigned)mask)];
    }
    return sum;
}

static bool has_room(const pairs_t *self, const side_t *to, int32_t give, int32_t back)
{
    const int64_t *room = self->ranks->room;
    if (room == NULL) {
        return true;
    }
    const int64_t more = memory_of(&self->from, give) - memory_of(to, back);
    return room[to->r] >= more && room[self->from.r] >= -more;
}

/* ---- the best exchange of two ranks --------------------------------------------------------- */

typedef struct demand {
    double excess, gap;        /* load that the donor must lose; load that the partner can take */
    double slow_from, slow_to; /* seconds per load */
    int32_t at;                /* the partner is front[at] */
} demand_t;

static inline void consider(const pairs_t *self, const side_t *to, const demand_t *of,
                            const set_t *give, const set_t *back, exchange_t *best)
{
    const double sum = give->load - back->load;
    const double here = (of->excess - sum) * of->slow_from, there = (sum - of->gap) * of->slow_to;
    const double worse = here > there ? here : there, left = worse > 0.0 ? worse : 0.0;
    const int32_t cost = cost_of(give) + cost_of(back);
    if ((left < best->over || (left == best->over && cost < best->cost)) &&
        has_room(self, to, mask_of(give), mask_of(back))) {
        best->at = of->at;
        best->give = mask_of(give);
        best->back = mask_of(back);
        best->cost = cost;
        best->over = left;
    }
}

/* An exchange of a smaller or larger load leaves more than `over` on a rank.  Most pairs of sets
 * are left out by comparing with these two.  Each is moved outwards by `slack`, the rounding. */
typedef struct window {
    double low, high;
} window_t;

static inline window_t window_of(const demand_t *of, double over, double slack)
{
    return (window_t){of->excess - over / of->slow_from - slack,
                      of->gap + over / of->slow_to + slack};
}

/* Find the best exchange of the donor with front[at], if it is better than `best`. */
static void look(pairs_t *self, int32_t at, exchange_t *best)
{
    const plb_ranks_t *ranks = self->ranks;
    const side_t *from = &self->from, *to = self->front[at].side;
    const demand_t of = {-plb_ranks_gap(ranks, from->r), plb_ranks_gap(ranks, to->r),
                         1.0 / plb_speed(ranks->in, from->r), 1.0 / plb_speed(ranks->in, to->r),
                         at};
    const double middle = 0.5 * (of.excess + of.gap);
    const double low = of.excess < of.gap ? of.excess : middle;
    const double high = of.excess < of.gap ? of.gap : middle;
    const set_t *give = from->set, *end = from->set + from->n_sets;
    const double heaviest = (end - 1)->load + to->set[to->n_sets - 1].load;
    const double slack = ROUNDING * (heaviest + of.excess + fabs(of.gap));
    exchange_t found = *best;
    window_t window = window_of(&of, found.over, slack);
    for (const set_t *back = to->set;
         back < to->set + to->n_sets && (found.over > 0.0 || found.cost > CHEAP); back++) {
        while (give->load < low + back->load) {
            give++;
        }
        if (give == end &&
            (of.excess - ((end - 1)->load - back->load)) * of.slow_from > found.over) {
            break; /* the partner's next sets are even heavier */
        }
        const bool light = give > from->set && give[-1].load >= window.low + back->load;
        const bool heavy = give->load <= window.high + back->load;
        if (!light && !heavy) {
            continue;
        }
        if (light) {
            consider(self, to, &of, give - 1, back, &found);
        }
        for (const set_t *k = give; heavy && k < end && k < give + SCAN; k++) {
            consider(self, to, &of, k, back, &found);
            if (k->load > high + back->load) {
                break;
            }
        }
        window = window_of(&of, found.over, slack);
    }
    *best = found;
    self->work -= from->n_sets + to->n_sets;
}

/* ---- one donor ------------------------------------------------------------------------------ */

static double seconds_over(const pairs_t *self, int32_t r)
{
    return -plb_ranks_gap(self->ranks, r) / plb_speed(self->ranks->in, r);
}

static void sort_in(pairs_t *self, int32_t r)
{
    const double over = seconds_over(self, r);
    if (over > ROUNDING * self->ranks->limit) {
        self->excess += over;
        plb_heap_push(&self->donor, (plb_item_t){-over, r});
    } else {
        plb_heap_push(&self->partner, (plb_item_t){-plb_ranks_gap(self->ranks, r), r});
    }
}

/* Make front[n] the partner after front[n - 1], by key.  Return false if there is none. */
static bool next_partner(pairs_t *self, int32_t n)
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
        list_nothing(self, at->side, at->item.id);
        self->n_front++;
    }
    return n < self->n_front;
}

/* Remove front[at], whose load has changed. */
static void leave_front(pairs_t *self, int32_t at)
{
    partner_t *item = self->front + at;
    self->free_side[self->n_free++] = item->side;
    memmove(item, item + 1, (size_t)(--self->n_front - at) * sizeof *item);
}

static void empty_front(pairs_t *self)
{
    while (self->n_front > 0) {
        self->free_side[self->n_free++] = self->front[--self->n_front].side;
    }
}

static exchange_t find(pairs_t *self, int32_t donor)
{
    const double over = seconds_over(self, donor);
    exchange_t best = {.at = -1, .over = PART * over};
    list_nothing(self, &self->from, donor);

    prefetch(self, donor);
    if (self->partner.n > 0) {
        prefetch(self, self->partner.item[0].id);
    }
    if (self->donor.n > 0) {
        prefetch(self, self->donor.item[0].id);
    }
    for (int32_t n = 0; n < TRIES && next_partner(self, n); n++) {
        if (best.at >= 0 && best.over <= over * SOON * n) {
            break;
        }
        const int32_t most = n < EASY ? FEW : MOST;
        if (n == 0 || n == EASY) {
            list_sets(self, &self->from, most);
        }
        list_sets(self, self->front[n].side, most);
        look(self, n, &best);
    }
    return best;
}

static void move(pairs_t *self, int32_t thing, int32_t from, int32_t to)
{
    const thing_t *it = &self->thing[thing];
    self->away += (to != it->home) - (from != it->home);
    plb_members_leave(&self->on, thing, from);
    plb_members_enter(&self->on, thing, to);
    plb_ranks_move_known(self->ranks, it->object, it->load, from, to);
}

static int hand_over(pairs_t *self, const int32_t *thing, int32_t mask, int32_t from, int32_t to,
                     plb_err_t *err)
{
    for (int32_t k = 0; mask >> k != 0; k++) {
        if (mask >> k & 1) {
            PLB_PASS(plb_journal_add(&self->journal, thing[k], from, err));
            move(self, thing[k], from, to);
        }
    }
    return PLB_OK;
}

static void undo(pairs_t *self)
{
    while (self->journal.n > 0) {
        const plb_migration_t last = plb_journal_pop(&self->journal);
        move(self, last.object, self->ranks->rank[self->thing[last.object].object], last.from);
    }
}

/* Return the seconds of the slowest rank, or the limit if no rank exceeds it. */
static double longest(const pairs_t *self)
{
    return self->ranks->limit - (self->donor.n > 0 ? self->donor.item[0].key : 0.0);
}

/* Reduce the load of the most loaded rank by one exchange.  *helps: whether there is one. */
static int relieve(pairs_t *self, bool *helps, plb_err_t *err)
{
    const plb_item_t worst = plb_heap_pop(&self->donor);
    const int32_t donor = worst.id;
    const exchange_t best = find(self, donor);
    self->excess += worst.key;
    *helps = best.at >= 0;
    if (*helps) {
        const side_t *to = self->front[best.at].side;
        const int32_t partner = to->r;
        PLB_PASS(hand_over(self, self->from.thing, best.give, donor, partner, err));
        PLB_PASS(hand_over(self, to->thing, best.back, partner, donor, err));
        leave_front(self, best.at);
        sort_in(self, partner);
    }
    sort_in(self, donor);
    return PLB_OK;
}

/* ---- all donors ----------------------------------------------------------------------------- */

/* Whether a check is due, and the sum of the excesses has hardly fallen since the last one. */
static bool stalls(pairs_t *self)
{
    if (self->work > self->check) {
        return false;
    }
    const bool hardly = self->excess > self->goal;
    self->check = self->work - ENOUGH - ENOUGH_PER_RANK * self->ranks->in->n_ranks;
    self->goal = FALL * self->excess;
    return hardly;
}

/* Whether too many objects will migrate.  Each donor must still give away an object.  A second of
 * the remaining excess is assumed to need as many migrations as a second of the excess removed. */
static bool too_many(const pairs_t *self)
{
    const int64_t moves = self->away - self->away_before;
    const double reduced = self->excess_before - self->excess;
    const bool known = reduced > 0.0 && moves > self->most_away / KNOWN;
    const double ahead = known ? (double)moves * self->excess / reduced : 0.0;
    return self->away + self->donor.n > self->most_away ||
           (double)self->away + ahead > (double)self->most_away;
}

static bool may_go_on(pairs_t *self)
{
    self->work = too_many(self) ? 0.0 : self->work;
    return self->work > 0.0 && !stalls(self);
}

/* Try to bring all ranks below the limit; *met: whether the slowest rank now takes at most
 * `enough` seconds.  If not, undo the last migrations, which have hardly reduced the maximum. */
static int meet(pairs_t *self, double limit, double enough, bool *met, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_ranks_allow(self->ranks, limit);
    self->donor.n = self->partner.n = 0;
    empty_front(self);
    self->excess = 0.0;
    for (int32_t r = 0; r < self->ranks->in->n_ranks; r++) {
        sort_in(self, r);
    }
    self->check = self->work;
    self->goal = INFINITY;
    self->away_before = self->away;
    self->excess_before = self->excess;
    bool helps = true;
    self->journal.before = longest(self);
    while (ret == PLB_OK && helps && longest(self) > enough && may_go_on(self)) {
        ret = relieve(self, &helps, err);
        plb_journal_keep(&self->journal, longest(self), 1.0 - PLB_JOURNAL_NEAR);
        PLB_THEN(plb_interrupted(64));
    }
    *met = longest(self) <= enough;
    if (!*met) {
        undo(self);
    }
    self->journal.n = 0;
    return ret;
}

/* Meet the limit; if that fails, search by bisection for the lowest limit that can be met, until
 * `work` is used up.  Before all this, try to meet aim->useless; if that fails, end. */
static int search(pairs_t *self, const plb_pairs_aim_t *aim, plb_err_t *err)
{
    bool met = true;
    const double limit = aim->limit;
    double low = limit, before = INFINITY;
    int ret = PLB_OK;
    if (plb_ranks_max(self->ranks) > aim->useless) {
        ret = meet(self, aim->useless, aim->useless, &met, err);
        if (!met) {
            return ret;
        }
    }
    PLB_THEN(meet(self, limit, limit, &met, err));
    if (met) {
        return ret;
    }
    while (ret == PLB_OK && self->work > 0.0) {
        const double most = plb_ranks_max(self->ranks), middle = 0.5 * (low + most);
        /* end if the gain would be too small, or if rounding keeps low ... most from shrinking */
        if (most - low <= 2.0 * PLB_JOURNAL_NEAR * limit || !(most - low < before)) {
            break;
        }
        before = most - low;
        ret = meet(self, middle, (1.0 + 0.5 * PLB_JOURNAL_NEAR) * middle, &met, err);
        low = met ? low : middle;
    }
    return ret;
}

/* Store the things rank by rank; list those of each rank that have a load, in the same order. */
static int list_things(pairs_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_problem_t *problem = self->ranks->problem;
    const plb_snapshot_t *in = problem->in;
    int32_t *rank = NULL;
    plb_groups_t by = {0};
    PLB_NEW(rank, problem->n);
    PLB_NEW(self->thing, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        rank[k] = self->ranks->rank[plb_problem_object(problem, k)];
    }
    PLB_TRY(plb_groups_init(&by, rank, problem->n, in->n_ranks, err));
    PLB_TRY(plb_members_init(&self->on, in->n_ranks, problem->n, err));
    for (int64_t k = problem->n - 1; k >= 0; k--) {
        const int32_t i = plb_problem_object(problem, by.item[k]);
        self->away += rank[by.item[k]] != in->rank[i];
        self->thing[k] = (thing_t){in->load[i], i, in->rank[i]};
        if (in->load[i] > 0.0) {
            plb_members_enter(&self->on, (int32_t)k, rank[by.item[k]]);
        }
    }
out:
    plb_groups_free(&by);
    plb_free(rank);
    return ret;
}

int plb_pairs(plb_ranks_t *ranks, const plb_pairs_aim_t *aim, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = ranks->in->n_ranks;
    pairs_t *self = NULL;
    PLB_NEW0(self, 1);
    self->ranks = ranks;
    self->work = WORK + WORK_PER_RANK * p;
    self->most_away = aim->most_moves;
    PLB_NEW_EACH(p, self->donor.item, self->partner.item);
    self->n_free = p < TRIES ? p : TRIES;
    PLB_NEW_EACH(self->n_free, self->front, self->side, self->free_side);
    for (int32_t k = 0; k < self->n_free; k++) {
        self->free_side[k] = &self->side[self->n_free - 1 - k];
    }
    PLB_TRY(list_things(self, err));
    ret = search(self, aim, err);
out:
    if (self != NULL) {
        plb_members_free(&self->on);
        PLB_FREE(self->thing, self->journal.entry, self->donor.item, self->partner.item,
                 self->front, self->side, self->free_side, self);
    }
    return ret;
}
