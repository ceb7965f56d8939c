/* How RefineLB and RefineSwapLB move objects: overloaded ranks give a few objects to less loaded
 * ranks.
 *
 * Menon 2.2 and 2.3.1: a rank is overloaded above `overload` times the average; only overloaded
 * ranks are examined, and no receiver becomes overloaded.  Here the threshold is at least the
 * lower bound for all placements (bound.h).  Dasgupta's algorithm 1 uses a max-heap of donors;
 * here receivers have a heap, too, by the load that they can still take.
 *
 *   here: allowed[r], the load that rank r may have (ranks.h)    there: avg_load
 *
 * The most loaded donor (ties: the lowest rank) gives an object to the receiver that can take the
 * most load (ties: the lowest rank).  It gives the lightest object that removes its excess in one
 * move (ties: the lowest index) or, if that does not fit, the heaviest object that fits (ties: the
 * highest index).  A donor that has come below the threshold becomes a receiver.  If no object of
 * the most loaded donor fits anywhere, further moves cannot shorten the iteration.  Then pairs of
 * ranks exchange sets of objects (pairs.c), down to the lowest threshold that they can meet.  If
 * plb_bound_pieces shows that no placement meets the threshold, these exchanges begin with a
 * threshold just above this bound, because a search that misses its threshold takes long.
 *
 * Before these exchanges of sets, RefineSwapLB (Menon 2.3.1) "swaps chares between processors in
 * order to reduce the load on the overloaded processor without overloading the other".  The
 * donor's partner is the first rank with which a swap is possible, among the 256 ranks that can
 * take the most load.  The difference of the two objects' loads removes the excess, or else is as
 * large as the partner can take. */
#include "place/kit/refine.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/ints.h"
#include "base/mem.h"
#include "place/kit/bound.h"
#include "place/kit/offers.h"
#include "place/kit/pairs.h"

enum {
    TRIES = 256, /* number of ranks that are tried for a swap */
};

/* An excess below this fraction of the threshold is due to rounding, and not a reason to move. */
static const double SLACK = 1e-9;

/* A swap should remove at least this fraction of the excess: one object in exchange for a nearly
 * equal one is not worth two migrations. */
static const double WORTH = 0.1;

typedef struct refiner {
    plb_ranks_t ranks;
    plb_offers_t offers; /* objects of the donors */
    plb_offers_t others; /* objects of the other ranks; listed when the first swap is tried */
    plb_heap_t donor;    /* ranks above the limit; key: -seconds, so that the slowest is on top */
    plb_heap_t receiver; /* ranks below the limit; key: -gap (the load that the rank can take) */
    plb_heap_t full;     /* like `receiver`: ranks without free memory, which can only swap */
    plb_item_t *aside;   /* [n_aside] receivers without memory for the object, or without a swap */
    int32_t n_aside;
    uint8_t *gives;            /* [p] whether the rank is a donor */
    uint8_t *returns;          /* [p] whether the rank is no donor */
    int64_t moves, most_moves; /* the refinement gives up if `moves` exceeds `most_moves` */
} refiner_t;

static bool overloaded(const refiner_t *self, int32_t r)
{
    return plb_ranks_seconds(&self->ranks, r) > self->ranks.limit * (1.0 + SLACK);
}

static void find_ranks(refiner_t *self)
{
    for (int32_t r = 0; r < self->ranks.in->n_ranks; r++) {
        const double gap = plb_ranks_gap(&self->ranks, r);
        self->gives[r] = overloaded(self, r);
        self->returns[r] = !self->gives[r];
        if (self->gives[r]) {
            const double seconds = plb_ranks_seconds(&self->ranks, r);
            self->donor.item[self->donor.n++] = (plb_item_t){-seconds, r};
        } else if (gap > 0.0) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-gap, r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
}

/* ---- one move ------------------------------------------------------------------------------- */

/* Return the lightest entry of a donor that removes its whole excess. */
static int64_t first_enough(const refiner_t *self, int32_t donor)
{
    const plb_ranks_t *ranks = &self->ranks;
    int64_t low = self->offers.start[donor];
    PLB_BISECT(low, self->offers.end[donor], k,
               ranks->load[donor] - self->offers.item[k].key <= ranks->allowed[donor])
    return low;
}

/* Return the first entry of a donor that is too large for rank r; entries are sorted by load. */
static int64_t end_of_fitting(const refiner_t *self, int32_t donor, int32_t r)
{
    int64_t low = self->offers.start[donor];
    PLB_BISECT(low, self->offers.end[donor], k,
               !plb_ranks_fits(&self->ranks, r, self->offers.item[k].key))
    return low;
}

static void come_back(refiner_t *self)
{
    while (self->n_aside > 0) {
        const plb_item_t back = self->aside[--self->n_aside];
        const bool any = self->ranks.room[back.id] >= self->ranks.problem->least;
        plb_heap_push(any ? &self->receiver : &self->full, back);
    }
}

/* Bring a rank that can take entry k to the top of the heap of receivers; set aside ranks without
 * memory for its object.  Return false if no rank can take it. */
static bool find_receiver(refiner_t *self, int64_t k)
{
    const plb_item_t object = self->offers.item[k];
    while (self->receiver.n > 0 &&
           plb_ranks_fits(&self->ranks, self->receiver.item[0].id, object.key)) {
        if (plb_ranks_has_room(&self->ranks, self->receiver.item[0].id, object.id)) {
            return true;
        }
        self->aside[self->n_aside++] = plb_heap_pop(&self->receiver);
    }
    come_back(self);
    return false;
}

/* Choose the entry that the donor gives, and bring its receiver to the top of the heap.  -1: no
 * entry fits anywhere. */
static int64_t choose(refiner_t *self, int32_t donor)
{
    plb_offers_t *offers = &self->offers;
    if (self->receiver.n == 0) {
        return -1;
    }
    plb_offers_sort(offers, donor);
    const int64_t begin = offers->start[donor], end = offers->end[donor];
    const int64_t fitting = end_of_fitting(self, donor, self->receiver.item[0].id);
    const int64_t enough = first_enough(self, donor);
    for (int64_t k = plb_offers_up(offers, donor, enough); k < fitting && k < end;
         k = plb_offers_up(offers, donor, k + 1)) {
        if (find_receiver(self, k)) {
            return k;
        }
    }
    const int64_t last = (enough < fitting ? enough : fitting) - 1;
    for (int64_t k = plb_offers_down(offers, donor, last); k >= begin;
         k = plb_offers_down(offers, donor, k - 1)) {
        if (find_receiver(self, k)) {
            return k;
        }
    }
    return -1;
}

/* Update the heaps after the donor on top has given an object to the receiver on top. */
static void after_move(refiner_t *self, int32_t donor)
{
    if (overloaded(self, donor)) {
        plb_heap_rekey(&self->donor, -plb_ranks_seconds(&self->ranks, donor));
    } else {
        plb_heap_pop(&self->donor);
        plb_heap_push(&self->receiver, (plb_item_t){-plb_ranks_gap(&self->ranks, donor), donor});
    }
}

static void move(refiner_t *self, int32_t donor, int64_t k)
{
    const int32_t to = self->receiver.item[0].id;
    self->moves++;
    plb_offers_take(&self->offers, k);
    plb_ranks_move(&self->ranks, self->offers.item[k].id, to);
    plb_heap_rekey(&self->receiver, -plb_ranks_gap(&self->ranks, to));
    come_back(self);
    after_move(self, donor);
}

/* ---- one swap ------------------------------------------------------------------------------- */

/* Return a swap of the donor with rank r that is worth two migrations; sum 0: there is none. */
static plb_exchange_t find_swap(refiner_t *self, int32_t donor, int32_t r)
{
    const double excess = -plb_ranks_gap(&self->ranks, donor);
    plb_offers_t *theirs = self->gives[r] ? &self->offers : &self->others;
    const plb_exchange_t found =
        plb_offers_exchange(&self->ranks, &self->offers, donor, theirs, r, excess,
                            plb_ranks_gap(&self->ranks, r), INT64_MAX);
    return found.sum < WORTH * excess ? (plb_exchange_t){-1, -1, 0.0} : found;
}

/* Bring the rank that can take the most load to the top, even if it has no memory left. */
static void recall(refiner_t *self)
{
    if (self->full.n > 0 &&
        (self->receiver.n == 0 || plb_item_before(self->full.item[0], self->receiver.item[0]))) {
        plb_heap_push(&self->receiver, plb_heap_pop(&self->full));
    }
}

/* Try to swap an object of the donor on top for an object of a rank that can take much load.
 * *done: whether this was possible. */
static int swap(refiner_t *self, int32_t donor, bool *done, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_exchange_t found = {-1, -1, 0.0};
    if (self->others.start == NULL) {
        ret = plb_offers_init(&self->others, &self->ranks, self->returns, INFINITY, err);
    }
    recall(self);
    while (ret == PLB_OK && found.sum == 0.0 && self->receiver.n > 0 && self->n_aside < TRIES) {
        found = find_swap(self, donor, self->receiver.item[0].id);
        if (found.sum == 0.0) {
            self->aside[self->n_aside++] = plb_heap_pop(&self->receiver);
            recall(self);
        }
    }
    *done = found.sum > 0.0;
    if (*done) {
        const int32_t r = self->receiver.item[0].id;
        plb_offers_t *theirs = self->gives[r] ? &self->offers : &self->others;
        plb_offers_take(theirs, found.back);
        plb_offers_take(&self->offers, found.give);
        plb_ranks_move(&self->ranks, theirs->item[found.back].id, donor);
        plb_ranks_move(&self->ranks, self->offers.item[found.give].id, r);
        plb_heap_rekey(&self->receiver, -plb_ranks_gap(&self->ranks, r));
    }
    while (self->n_aside > 0) {
        plb_heap_push(&self->receiver, self->aside[--self->n_aside]);
    }
    if (*done) {
        after_move(self, donor);
    }
    return ret;
}

/* ---- all moves ------------------------------------------------------------------------------ */

static int move_all(refiner_t *self, bool swaps, plb_err_t *err)
{
    int ret = PLB_OK;
    while (ret == PLB_OK && self->donor.n > 0 && self->moves <= self->most_moves) {
        const int32_t donor = self->donor.item[0].id;
        const int64_t k = choose(self, donor);
        bool done = k >= 0;
        if (done) {
            move(self, donor, k);
        } else if (swaps) {
            ret = swap(self, donor, &done, err);
        }
        if (!done) {
            break;
        }
        PLB_THEN(plb_interrupted(4));
    }
    return ret;
}

static double total_excess(const refiner_t *self)
{
    double sum = 0.0;
    for (int32_t r = 0; r < self->ranks.in->n_ranks; r++) {
        sum += overloaded(self, r) ? -plb_ranks_gap(&self->ranks, r) : 0.0;
    }
    return sum;
}

/* Move objects until the most loaded donor can give no more; no object moves twice. */
static int round_of_moves(refiner_t *self, bool swaps, plb_err_t *err)
{
    int ret = PLB_OK;
    self->donor.n = self->receiver.n = self->full.n = 0;
    find_ranks(self);
    if (self->donor.n > 0 && self->receiver.n > 0) {
        /* leave out objects that no receiver can take (with a margin for rounding) */
        const double most = swaps ? INFINITY : -self->receiver.item[0].key * (1.0 + SLACK);
        ret = plb_offers_init(&self->offers, &self->ranks, self->gives, most, err);
        PLB_THEN(move_all(self, swaps, err));
        plb_offers_free(&self->offers);
        plb_offers_free(&self->others);
    }
    return ret;
}

/* Bring all ranks below the current limit, if possible.  With swaps, rounds are repeated as long
 * as each removes at least a tenth of the remaining excess. */
static int refine_to_limit(refiner_t *self, bool swaps, plb_err_t *err)
{
    int ret = PLB_OK;
    double last = INFINITY;
    for (double excess = total_excess(self); ret == PLB_OK && excess > 0.0 && excess < last;) {
        ret = round_of_moves(self, swaps, err);
        last = swaps ? 0.9 * excess : 0.0;
        excess = total_excess(self);
    }
    return ret;
}

static int raise_limit(refiner_t *self, plb_refined_t *reached, plb_err_t *err)
{
    if (self->most_moves < INT64_MAX) {
        return PLB_OK; /* the caller knows that the limit can be met */
    }
    return plb_bound_raise(self->ranks.problem, &reached->limit, &reached->raised, err);
}

static int exchange_sets(refiner_t *self, plb_refined_t *reached, plb_err_t *err)
{
    reached->exchanged = true;
    const plb_pairs_aim_t aim = {reached->limit, INFINITY, self->most_moves};
    return plb_pairs(&self->ranks, &aim, err);
}

/* Refine to a limit, the largest of: `overload` x average, `least` seconds, and plb_bound. */
static int refine(const plb_problem_t *problem, double overload, double least, bool swaps,
                  int64_t most_moves, int32_t *rank, plb_refined_t *out, plb_err_t *err)
{
    const int32_t p = problem->in->n_ranks;
    refiner_t self = {.most_moves = most_moves};
    int ret = plb_ranks_init(&self.ranks, problem, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(p, self.donor.item, self.receiver.item, self.full.item, self.aside, self.gives,
                 self.returns);
    plb_refined_t reached = {.before = plb_ranks_max(&self.ranks)};
    reached.limit =
        fmax(fmax(least, overload * plb_ranks_average(&self.ranks)), plb_bound(&self.ranks, 0.0));
    if (swaps && reached.before > reached.limit) {
        /* if no placement can meet the limit, raise it first: swaps would be useless */
        PLB_TRY(raise_limit(&self, &reached, err));
    }
    plb_ranks_allow(&self.ranks, reached.limit);
    ret = refine_to_limit(&self, swaps, err);
    if (ret == PLB_OK && total_excess(&self) > 0.0 && self.moves <= most_moves) {
        ret = swaps ? PLB_OK : raise_limit(&self, &reached, err);
        PLB_THEN(exchange_sets(&self, &reached, err));
    }
    reached.after = plb_ranks_max(&self.ranks);
    if (out != NULL) {
        *out = reached;
    }
out:
    plb_ranks_free(&self.ranks);
    PLB_FREE(self.donor.item, self.receiver.item, self.full.item, self.aside, self.gives,
             self.returns);
    return ret;
}

int plb_refine(const plb_problem_t *problem, double overload, int32_t *rank, plb_refined_t *out,
               plb_err_t *err)
{
    return refine(problem, overload, 0.0, false, INT64_MAX, rank, out, err);
}

int plb_refine_to(const plb_problem_t *problem, double limit, int64_t most_moves, int32_t *rank,
                  plb_refined_t *out, plb_err_t *err)
{
    return refine(problem, 0.0, limit, false, most_moves, rank, out, err);
}

int plb_refine_swap(const plb_problem_t *problem, double overload, int32_t *rank,
                    plb_refined_t *out, plb_err_t *err)
{
    return refine(problem, overload, 0.0, true, INT64_MAX, rank, out, err);
}
