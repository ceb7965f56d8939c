/* BestFitLB: moves each rank's excess load to the rank that it fits best.  It balances like
 * GreedyLB, with few migrations.
 *
 * The limit, in seconds per iteration, is a lower bound for any placement (kit/bound.h).  With few
 * objects per rank, the limit is at least a little longer than the average (ROOM).  A rank above
 * the limit is a donor, and its load above the limit is its excess.  A rank below the limit is a
 * receiver, and the load that it can take up to the limit is its gap.  As in a transportation
 * problem, the donor with the largest excess gives to the receiver with the largest gap, until the
 * donor has no excess or the receiver no gap.  The donor gives few objects: first its heaviest
 * ones, until little excess is left; then one object, two objects, or one object in exchange for
 * another, with the remaining load to within the tolerance.
 *
 * A donor may end above the limit, by at most the tolerance, so that receivers have enough room.
 * If one heavy object sets the limit, the ranks have spare room: each rank may then also end below
 * the limit, by its share of the spare room.
 *
 * If there are fewer than SCARCE objects per rank, and GreedyLB would miss the limit, RefineLB's
 * method (kit/refine.h) replaces these transfers.
 *
 * If the limit is missed:
 * - Transfers at the end that have hardly reduced the total excess are undone.
 * - Pairs of ranks exchange sets of objects, from several placements (kit/restarts.h).
 * - Objects return to their ranks in the snapshot if this does not raise the maximum (kit/home.h).
 * - The placement of RefineLB or of CommAwareRefineLB is taken if it is nearly as balanced with
 *   far fewer migrations (kit/fewer.h).  This is also tried if objects per rank are few.
 *
 * Ties: the lowest rank, the lightest object, the lowest index. */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "place/kit/bound.h"
#include "place/kit/fewer.h"
#include "place/kit/grain.h"
#include "place/kit/home.h"
#include "place/kit/journal.h"
#include "place/kit/offers.h"
#include "place/kit/pack.h"
#include "place/kit/refine.h"
#include "place/kit/restarts.h"

enum {
    PROBES = 64,      /* largest number of entries that a search tries */
    TRIES = 16,       /* after this many receivers were tried, a donor counts as stuck */
    SCARCE = 16,      /* with fewer objects per rank, one or two objects seldom fit */
    SAMPLE = 1 << 16, /* the tolerance is estimated from this many objects */
};

/* If the slowest rank exceeds the limit by at most this fraction, the limit counts as met. */
static const double CLOSE = 1e-4;

/* The tolerance of a rank's load is OF_GRAIN times the greatest common divisor of the loads.  If
 * there is none, or the ranks are not alike, it is the larger of two: OF_GREEDY times the load of
 * the p-th lightest object, and OF_SQUARE (p / objects)^2 times the average load, for p ranks.  It
 * is never above CLOSE times the average load. */
static const double OF_GREEDY = 0.03, OF_SQUARE = 0.05, OF_GRAIN = 1e-3;

/* With few objects per rank (aim_t.few), the limit is at least 1 + ROOM times the average. */
static const double ROOM = 0.003;

/* Largest relative difference of two sums of the same numbers in different orders. */
static const double ROUNDING = 1e-12;

/* If nothing fits, a receiver may end above the limit by this fraction of the donor's excess. */
static const double OVERSHOOT = 0.75;

/* A parcel (parcel_t) that does not complete a transfer should have at least this fraction of the
 * wanted load: one object in exchange for a nearly equal one is not worth two migrations. */
static const double WORTH_PARCEL = 0.1;

/* Transfers at the end are undone if they leave more than this fraction of the total excess. */
static const double WORTH_MOVES = 0.9;

typedef struct fitter {
    plb_ranks_t ranks;
    double tolerance;      /* tolerance of a rank's load, as a fraction of the limit */
    double share;          /* spare room of each rank, as a fraction of the limit */
    plb_heap_t donor;      /* ranks above the limit; key: -excess, so that the largest is on top */
    plb_heap_t receiver;   /* ranks below the limit; key: -gap, so that the largest is on top */
    plb_offers_t gives;    /* objects of the ranks that were donors when the transfers began */
    plb_offers_t returns;  /* objects of the other ranks; listed when they are first needed */
    uint8_t *is_donor;     /* [p] whether the rank was a donor when the transfers began */
    uint8_t *is_other;     /* [p] whether the rank was no donor when the transfers began */
    double excess;         /* load above the limit, sum over all ranks */
    plb_journal_t journal; /* migrations since the total excess was last reduced by much */
    int64_t n_pushes;      /* number of objects that push() may still move */
} fitter_t;

/* A transfer of load from one rank to another. */
typedef struct transfer {
    int32_t from, to;
    bool ends_donor;  /* true: removes the donor's excess; false: fills the receiver's gap */
    double low, high; /* window: the transferred load should be in low ... high */
} transfer_t;

static double tolerance_of(const fitter_t *self, int32_t r)
{
    return self->tolerance * self->ranks.limit * plb_speed(self->ranks.in, r);
}

static double spill_of(const fitter_t *self, int32_t r)
{
    return self->share * self->ranks.limit * plb_speed(self->ranks.in, r);
}

static void window(const fitter_t *self, transfer_t *t)
{
    const double excess = -plb_ranks_gap(&self->ranks, t->from);
    const double gap = plb_ranks_gap(&self->ranks, t->to);
    const double most = gap + tolerance_of(self, t->to);
    t->ends_donor = excess <= gap;
    if (t->ends_donor) {
        t->low = excess - tolerance_of(self, t->from);
        t->high = excess + spill_of(self, t->from);
        t->high = t->high < most ? t->high : most;
    } else {
        t->low = gap - spill_of(self, t->to);
        t->low = t->low > 0.5 * gap ? t->low : 0.5 * gap;
        t->high = most;
    }
}

static double key(const plb_offers_t *offers, int64_t k)
{
    return offers->item[k].key;
}

/* ---- what to give --------------------------------------------------------------------------- */

/* What is given in one step: one object; or two objects; or one object in exchange for another. */
typedef struct parcel {
    int64_t give, also, back; /* entries (kit/offers.h): the object that is given, a second one,
                                 and one that comes back; -1: none */
    double sum;               /* load that the receiver gains; 0: no parcel was found */
} parcel_t;

static const parcel_t NOTHING = {-1, -1, -1, 0.0};

static plb_offers_t *list_of(fitter_t *self, int32_t r)
{
    return self->is_donor[r] ? &self->gives : &self->returns;
}

/* Whether the receiver has memory for objects a and b (-1: none). */
static bool has_room(const fitter_t *self, const transfer_t *t, int32_t a, int32_t b)
{
    const plb_ranks_t *ranks = &self->ranks;
    return ranks->room == NULL ||
           ranks->room[t->to] - (b < 0 ? 0 : ranks->in->memory[b]) >= ranks->in->memory[a];
}

/* Return the heaviest entry of at most `load` for which the receiver has memory; -1: none. */
static int64_t at_most(fitter_t *self, const transfer_t *t, double load)
{
    plb_offers_t *offers = list_of(self, t->from);
    int64_t k = plb_offers_last(offers, t->from, load);
    for (int probe = 0; probe < PROBES && k >= offers->start[t->from]; probe++) {
        if (has_room(self, t, offers->item[k].id, -1)) {
            return k;
        }
        k = plb_offers_down(offers, t->from, k - 1);
    }
    return -1;
}

/* Return the lightest entry in [low, high] for which the receiver has memory; -1: none. */
static int64_t at_least(fitter_t *self, const transfer_t *t, double low, double high)
{
    plb_offers_t *offers = list_of(self, t->from);
    int64_t k = plb_offers_up(offers, t->from, plb_offers_from(offers, t->from, low));
    for (int probe = 0; probe < PROBES && k < offers->end[t->from]; probe++) {
        if (key(offers, k) > high) {
            return -1;
        }
        if (has_room(self, t, offers->item[k].id, -1)) {
            return k;
        }
        k = plb_offers_up(offers, t->from, k + 1);
    }
    return -1;
}

/* Find two entries whose sum is in the window, else the pair with the largest sum of at most
 * t->high.  Entry a has at least half of t->high, entry b less. */
static parcel_t find_pair(fitter_t *self, const transfer_t *t)
{
    parcel_t best = NOTHING;
    plb_offers_t *offers = list_of(self, t->from);
    const int64_t begin = offers->start[t->from], end = offers->end[t->from];
    const int64_t half = plb_offers_from(offers, t->from, 0.5 * t->high);
    int64_t a = plb_offers_up(offers, t->from, half);
    for (int probe = 0; probe < PROBES && a < end && best.sum < t->low; probe++) {
        int64_t b = plb_offers_last(offers, t->from, t->high - key(offers, a));
        b = b < half ? b : plb_offers_down(offers, t->from, half - 1);
        if (b < begin) {
            break;
        }
        const double sum = key(offers, a) + key(offers, b);
        if (sum > best.sum && has_room(self, t, offers->item[a].id, offers->item[b].id)) {
            best = (parcel_t){a, b, -1, sum};
        }
        a = plb_offers_up(offers, t->from, a + 1);
    }
    return best;
}

/* ---- one transfer --------------------------------------------------------------------------- */

static double excess_of(const fitter_t *self, int32_t r)
{
    return fmax(0.0, -plb_ranks_gap(&self->ranks, r));
}

static void move_object(fitter_t *self, int32_t i, int32_t from, int32_t to)
{
    const double before = excess_of(self, from) + excess_of(self, to);
    plb_ranks_move_known(&self->ranks, i, self->ranks.in->load[i], from, to);
    self->excess += excess_of(self, from) + excess_of(self, to) - before;
}

static int move(fitter_t *self, int32_t from, int64_t k, int32_t to, plb_err_t *err)
{
    if (k >= 0) {
        plb_offers_t *offers = list_of(self, from);
        const int32_t object = offers->item[k].id;
        PLB_PASS(plb_journal_add(&self->journal, object, from, err));
        plb_offers_take(offers, k);
        move_object(self, object, from, to);
    }
    return plb_interrupted(8);
}

static int undo(fitter_t *self)
{
    int ret = PLB_OK;
    while (ret == PLB_OK && self->journal.n > 0) {
        const plb_migration_t last = plb_journal_pop(&self->journal);
        move_object(self, last.object, self->ranks.rank[last.object], last.from);
        ret = plb_interrupted(8);
    }
    return ret;
}

static bool donor_is_done(const fitter_t *self, int32_t r)
{
    return -plb_ranks_gap(&self->ranks, r) <= tolerance_of(self, r);
}

static bool receiver_is_full(const fitter_t *self, int32_t r)
{
    return plb_ranks_gap(&self->ranks, r) <= tolerance_of(self, r);
}

/* Return the heaviest entry of the donor; -1: there is none. */
static int64_t top_of(fitter_t *self, int32_t donor)
{
    plb_offers_t *offers = list_of(self, donor);
    plb_offers_sort(offers, donor);
    const int64_t k = plb_offers_down(offers, donor, offers->end[donor] - 1);
    return k < offers->start[donor] ? -1 : k;
}

/* Return entry `top`, or the next lighter one for which the receiver has memory; -1: none. */
static int64_t heaviest_with_room(fitter_t *self, const transfer_t *t, int64_t top)
{
    return has_room(self, t, list_of(self, t->from)->item[top].id, -1) ? top
                                                                       : at_most(self, t, t->high);
}

static parcel_t one(fitter_t *self, const transfer_t *t, int64_t k)
{
    return k < 0 ? NOTHING : (parcel_t){k, -1, -1, key(list_of(self, t->from), k)};
}

static int list_others(fitter_t *self, plb_err_t *err)
{
    return self->returns.start != NULL
               ? PLB_OK
               : plb_offers_init(&self->returns, &self->ranks, self->is_other, INFINITY, err);
}

/* Choose the parcel that completes the transfer, else the nearest one; NOTHING if the nearest one
 * has too little load (WORTH_PARCEL). */
static int choose(fitter_t *self, const transfer_t *t, parcel_t *best, plb_err_t *err)
{
    *best = one(self, t, t->ends_donor ? at_least(self, t, t->low, t->high) : -1);
    *best = best->give >= 0 ? *best : one(self, t, at_most(self, t, t->high));
    if (best->sum >= t->low) {
        return PLB_OK;
    }
    parcel_t other = find_pair(self, t);
    if (other.sum < t->low) {
        PLB_PASS(list_others(self, err));
        const plb_exchange_t e =
            plb_offers_exchange(&self->ranks, list_of(self, t->from), t->from,
                                list_of(self, t->to), t->to, t->low, t->high, PROBES);
        other = e.sum > other.sum ? (parcel_t){e.give, -1, e.back, e.sum} : other;
    }
    if (other.sum > best->sum) {
        *best = other;
    }
    if (t->ends_donor) { /* a load just above `high` may be nearer than one below `low` */
        const double most = plb_ranks_gap(&self->ranks, t->to) + tolerance_of(self, t->to);
        const parcel_t more = one(self, t, at_least(self, t, t->high, most));
        const bool nearer = more.sum - t->high <= t->low - best->sum || best->give < 0;
        *best = best->sum < t->low && more.give >= 0 && nearer ? more : *best;
    }
    *best = best->sum < WORTH_PARCEL * t->low ? NOTHING : *best;
    return PLB_OK;
}

/* Give objects until the donor has no excess or the receiver no gap; *given: whether any were. */
static int transfer(fitter_t *self, int32_t from, int32_t to, bool *given, plb_err_t *err)
{
    transfer_t t = {.from = from, .to = to};
    *given = false;
    while (!donor_is_done(self, from) && !receiver_is_full(self, to)) {
        const int64_t top = top_of(self, from);
        if (top < 0) {
            break;
        }
        window(self, &t);
        parcel_t parcel = NOTHING;
        if (t.low > 2.0 * key(list_of(self, from), top)) {
            parcel = one(self, &t, heaviest_with_room(self, &t, top));
        }
        const int ret = parcel.give < 0 ? choose(self, &t, &parcel, err) : PLB_OK;
        if (ret != PLB_OK || parcel.give < 0) {
            return ret;
        }
        PLB_PASS(move(self, to, parcel.back, from, err));
        PLB_PASS(move(self, from, parcel.give, to, err));
        PLB_PASS(move(self, from, parcel.also, to, err));
        *given = true;
    }
    return PLB_OK;
}

static bool has_lighter(fitter_t *self, int32_t r, double load)
{
    plb_offers_t *offers = list_of(self, r);
    plb_offers_sort(offers, r);
    const int64_t k = plb_offers_up(offers, r, offers->start[r]);
    return k < offers->end[r] && key(offers, k) < load;
}

/* Find an object that the receiver should take, although it is too heavy; -1: none.  It helps if
 * - the receiver can take the donor's whole excess, and can then give away other objects; or
 * - the excess becomes smaller; or
 * - the receiver, which then has the excess, has lighter objects than the donor. */
static int64_t too_heavy(fitter_t *self, const transfer_t *t)
{
    const double excess = -plb_ranks_gap(&self->ranks, t->from);
    const double gap = plb_ranks_gap(&self->ranks, t->to);
    if (excess <= gap) {
        return at_least(self, t, excess, INFINITY);
    }
    const int64_t k = at_most(self, t, gap + OVERSHOOT * excess);
    if (k >= 0) {
        return k;
    }
    const int64_t lightest = at_least(self, t, 0.0, INFINITY);
    return lightest >= 0 && has_lighter(self, t->to, 0.5 * key(list_of(self, t->from), lightest))
               ? lightest
               : -1;
}

/* If nothing fits, let the receiver take an object that is too heavy.  *given: whether it did. */
static int push(fitter_t *self, int32_t from, int32_t to, bool *given, plb_err_t *err)
{
    const transfer_t t = {.from = from, .to = to};
    PLB_PASS(list_others(self, err));
    const int64_t k = self->n_pushes > 0 ? too_heavy(self, &t) : -1;
    *given = k >= 0;
    self->n_pushes -= *given;
    return move(self, from, k, to, err);
}

/* ---- all transfers -------------------------------------------------------------------------- */

static void find_ranks(fitter_t *self)
{
    const plb_ranks_t *ranks = &self->ranks;
    self->donor.n = self->receiver.n = 0;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double gap = plb_ranks_gap(ranks, r);
        self->is_donor[r] = !donor_is_done(self, r);
        self->is_other[r] = !self->is_donor[r];
        if (self->is_donor[r]) {
            self->donor.item[self->donor.n++] = (plb_item_t){gap, r};
        } else if (!receiver_is_full(self, r)) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-gap, r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
}

static void sort_in(fitter_t *self, int32_t r)
{
    const double gap = plb_ranks_gap(&self->ranks, r);
    if (!donor_is_done(self, r)) {
        plb_heap_push(&self->donor, (plb_item_t){gap, r});
    } else if (!receiver_is_full(self, r)) {
        plb_heap_push(&self->receiver, (plb_item_t){-gap, r});
    }
}

/* Let the most loaded rank give to the rank with the largest gap that takes something. */
static int serve(fitter_t *self, plb_err_t *err)
{
    const int32_t from = plb_heap_pop(&self->donor).id;
    /* the objects of a rank that was no donor at first are in `returns` */
    int ret = self->is_donor[from] ? PLB_OK : list_others(self, err);
    int32_t tried[TRIES], n = 0;
    bool given = false;
    while (ret == PLB_OK && !given && n < TRIES && self->receiver.n > 0) {
        const int32_t to = tried[n++] = plb_heap_pop(&self->receiver).id;
        ret = transfer(self, from, to, &given, err);
        if (ret == PLB_OK && !given) {
            ret = push(self, from, to, &given, err);
        }
    }
    if (given) { /* else the donor is stuck, and stays out of the heap */
        sort_in(self, from);
    }
    for (int32_t k = 0; k < n; k++) {
        sort_in(self, tried[k]);
    }
    return ret;
}

static int transfer_all(fitter_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    while (ret == PLB_OK && self->donor.n > 0 && self->receiver.n > 0) {
        ret = serve(self, err);
        plb_journal_keep(&self->journal, self->excess, WORTH_MOVES);
        PLB_THEN(plb_interrupted(16));
    }
    return ret;
}

/* Transfer objects; no object is given twice. */
static int transfers(fitter_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    find_ranks(self);
    if (self->donor.n > 0 && self->receiver.n > 0) {
        ret = plb_offers_init(&self->gives, &self->ranks, self->is_donor, INFINITY, err);
        PLB_THEN(transfer_all(self, err));
        plb_offers_free(&self->gives);
        plb_offers_free(&self->returns);
    }
    return ret;
}

static double total_excess(const plb_ranks_t *ranks)
{
    double sum = 0.0;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double gap = plb_ranks_gap(ranks, r);
        sum -= gap < 0.0 ? gap : 0.0;
    }
    return sum;
}

/* How well a placement should balance. */
typedef struct aim {
    double tolerance; /* tolerance of a rank's load, as a fraction of the limit */
    double above;     /* imbalance that may be left, as a fraction of the average */
    double grain;     /* greatest common divisor of all loads; 0: none, or ranks are not alike */
    bool few;         /* there are so few objects per rank that GreedyLB would miss the limit */
} aim_t;

/* Set `few`, and the tolerance: a small fraction of the imbalance that GreedyLB would leave. */
static int set_tolerance(const plb_problem_t *problem, aim_t *aim, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t sample = problem->n < SAMPLE ? problem->n : SAMPLE;
    const double p = problem->in->n_ranks, ratio = p / (double)(problem->n + 1);
    double *scratch = NULL, sum = 0.0;
    PLB_NEW(scratch, sample);
    for (int64_t i = 0; i < problem->in->n_objects; i++) {
        sum += problem->in->load[i];
    }
    if (aim->grain > 0.0) {
        aim->tolerance = OF_GRAIN * aim->grain * p / sum;
    } else {
        const double light = sum > 0.0 ? plb_grain_light(problem, scratch, sample) * p / sum : 0.0;
        aim->tolerance = fmax(OF_GREEDY * light, OF_SQUARE * ratio * ratio);
    }
    aim->few = aim->tolerance > CLOSE;
    aim->tolerance = fmin(aim->tolerance, CLOSE);
out:
    plb_free(scratch);
    return ret;
}

/* Return the seconds that no rank should exceed. */
static double limit_of(const plb_ranks_t *ranks, const aim_t *aim)
{
    const double above = aim->few ? fmax(ROOM, aim->above) : aim->above;
    return fmax(plb_bound(ranks, aim->grain), plb_ranks_average(ranks) * (1.0 + above));
}

/* Transfer objects in rank[n_objects] to reach the limit. */
static int fit(const plb_problem_t *problem, const aim_t *aim, int32_t *rank, plb_refined_t *out,
               plb_err_t *err)
{
    const int32_t p = problem->in->n_ranks;
    const double tolerance = aim->tolerance;
    fitter_t self = {.tolerance = tolerance, .n_pushes = 4 * (int64_t)p + 64};
    int ret = plb_ranks_init(&self.ranks, problem, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(p, self.donor.item, self.receiver.item, self.is_donor, self.is_other);
    const double average = plb_ranks_average(&self.ranks);
    const double bound = limit_of(&self.ranks, aim);
    const double first = plb_ranks_max(&self.ranks);
    *out = (plb_refined_t){bound, first, first, false, false};
    const double limit =
        aim->grain > 0.0 ? bound : fmax(average, bound * (1.0 + ROUNDING) / (1.0 + tolerance));
    self.share = limit > 0.0 ? fmax(0.0, 1.0 - average / limit) : 0.0;
    plb_ranks_allow(&self.ranks, limit);
    self.excess = self.journal.before = total_excess(&self.ranks);
    if (first > limit * (1.0 + tolerance)) {
        PLB_TRY(transfers(&self, err));
        if (plb_ranks_max(&self.ranks) > limit * (1.0 + tolerance)) {
            PLB_TRY(undo(&self));
        }
        out->after = plb_ranks_max(&self.ranks);
    }
out:
    plb_ranks_free(&self.ranks);
    PLB_FREE(self.journal.entry, self.donor.item, self.receiver.item, self.is_donor,
             self.is_other);
    return ret;
}

static int refine(const plb_problem_t *problem, const aim_t *aim, int32_t *rank,
                  plb_refined_t *out, plb_err_t *err)
{
    plb_ranks_t ranks;
    int ret = plb_ranks_init(&ranks, problem, rank, err);
    const double limit = ret == PLB_OK ? limit_of(&ranks, aim) : 0.0;
    plb_ranks_free(&ranks);
    return PLB_THEN(plb_refine_to(problem, limit, INT64_MAX, rank, out, err));
}

static int place(const plb_problem_t *problem, double above, int32_t *rank, const plb_opts_t *opts,
                 plb_err_t *err)
{
    int ret = PLB_OK;
    aim_t aim = {.above = above};
    plb_refined_t found;
    aim.grain = plb_problem_all_alike(problem) ? plb_grain_common(problem) : 0.0;
    PLB_TRY(set_tolerance(problem, &aim, err));
    PLB_TRY(plb_pack_present(problem, rank, err));
    const bool scarce = aim.few && problem->n < (int64_t)SCARCE * problem->in->n_ranks;
    PLB_TRY((scarce ? refine : fit)(problem, &aim, rank, &found, err));
    const bool missed = found.after > found.limit * (1.0 + CLOSE);
    if (missed) {
        PLB_TRY(plb_restarts(problem, found.limit * (1.0 + CLOSE), rank, &found, opts, err));
        PLB_TRY(plb_home_return(problem, found.after, rank, err));
    }
    if (missed || found.raised || (aim.few && !scarce)) {
        PLB_TRY(plb_fewer(problem, rank, &found.after, err));
    }
    ret = plb_home_unless_gained(problem, found.before, found.after, rank, err);
out:
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    (void)self;
    int ret = plb_problem_init(&problem, in, err);
    if (ret == PLB_OK) {
        ret = place(&problem, opts->params[0], out, opts, err);
        plb_problem_free(&problem);
    }
    return ret;
}

static const plb_param_t params[] = {
    {"tolerance", "x average",
     "imbalance (max/mean - 1) that may be left; 0: balance like GreedyLB", 0.0, 0.0, 1e6},
};

const plb_strategy_t plb_strategy_bestfit = {
    .name = "BestFitLB",
    .help = "moves each rank's excess load to the rank that it fits best: balance of "
            "GreedyLB, few moves",
    .source = "pylb; transportation problem, best fit",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run,
};
