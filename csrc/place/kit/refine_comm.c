/* CommAwareRefineLB and RefineCommLB: overloaded ranks give objects to less loaded ranks with
 * which these objects communicate.
 *
 * CommAwareRefineLB (Menon 2.3.4): objects go "from overloaded processors to less loaded
 * processors with which [they are] already communicating", and if none of these can take the
 * object, to any rank that can.  RefineCommLB (Menon 2.2) "also considers the communication
 * overhead along with the computation load": the messages of a rank to other ranks are part of its
 * time.
 *
 * The thesis does not say which object goes.  Here it is the object with the largest
 * gain(i, r) / load[i], the greedy rule of the knapsack problem, with
 *     gain(i, r) = bytes between object i and rank r - bytes between i and its present rank.
 * (Ties: the heaviest, so that few objects migrate; then the highest index.)  The object goes to
 * the rank r with the largest gain (ties: the lowest) of those that then stay below the threshold.
 * Of the ranks with which object i does not communicate, only the one that can take the most load
 * is considered.  If messages take time (RefineCommLB), the gain is the time that the two ranks
 * together save by sending less.
 *
 * The most loaded rank (ties: the lowest) gives away its excess first, then the next most loaded
 * one, and so on.  If a rank cannot get below the threshold, its time becomes the threshold for
 * the ranks after it, because the iteration takes that long anyway.  With `exchanges`, a remaining
 * excess is reduced by improve.h. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "place/improve.h"
#include "place/kit/affinity.h"
#include "place/kit/bound.h"
#include "place/kit/offers.h"
#include "place/kit/refine.h"

/* An excess below this fraction of the threshold is due to rounding. */
static const double SLACK = 1e-9;

typedef struct mover {
    plb_ranks_t ranks;
    plb_affinity_t affinity;
    plb_offers_t offers; /* objects of the donors */
    double *comm; /* [p] seconds that each rank spends on sending; NULL: messages do not count */
    double limit; /* seconds above which a rank is overloaded; shed() can raise it */
    plb_heap_t donor;    /* ranks above the limit; key: -seconds, so that the slowest is on top */
    plb_heap_t receiver; /* ranks below the limit; key: -gap or lower, corrected when on top */
    plb_heap_t object;   /* objects of the current donor; id: turn, key: -value; an entry
                            counts only if its key is still the object's -value */
    double *value;       /* [n_objects] gain per load; -INFINITY: the object fits nowhere */
    int32_t *turn;       /* [n_objects] position among the donor's objects, the heaviest first */
    double *sent;        /* [p] cost of the current object's messages to each rank */
    double *received;    /* [p] cost of the current object's messages from each rank */
    int32_t *touched;    /* [n_touched] ranks for which `sent` or `received` is not 0 */
    int32_t n_touched;
    uint8_t *gives; /* [p] whether the rank is a donor */
} mover_t;

typedef struct way {
    int32_t to; /* rank to which the object should go; -1: no rank can take it */
    double gain;
} way_t;

static double seconds(const mover_t *self, int32_t r)
{
    return plb_ranks_seconds(&self->ranks, r) + (self->comm == NULL ? 0.0 : self->comm[r]);
}

static bool overloaded(const mover_t *self, int32_t r)
{
    return seconds(self, r) > self->limit * (1.0 + SLACK);
}

/* Return the load that rank r can still take. */
static double gap(const mover_t *self, int32_t r)
{
    return (self->limit - seconds(self, r)) * plb_speed(self->ranks.in, r);
}

/* ---- one object ----------------------------------------------------------------------------- */

/* Fill sent[], received[] and touched[] for object i; return the cost of all messages it sends. */
static double fill_messages(mover_t *self, int32_t i)
{
    const plb_affinity_t *a = &self->affinity;
    double all = 0.0;
    self->n_touched = 0;
    for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) {
        const int32_t r = self->ranks.rank[a->other[k]];
        if (a->sent[k] + a->received[k] == 0.0) {
            continue;
        }
        if (self->sent[r] == 0.0 && self->received[r] == 0.0) {
            self->touched[self->n_touched++] = r;
        }
        self->sent[r] += a->sent[k];
        self->received[r] += a->received[k];
        all += a->sent[k];
    }
    return all;
}

static void forget(mover_t *self)
{
    for (int32_t k = 0; k < self->n_touched; k++) {
        self->sent[self->touched[k]] = self->received[self->touched[k]] = 0.0;
    }
}

/* Whether rank r can take object i.  all: the cost of all messages that the object sends. */
static bool takes(const mover_t *self, int32_t r, int32_t i, double all)
{
    const plb_ranks_t *ranks = &self->ranks;
    const double load = ranks->in->load[i] / plb_speed(ranks->in, r);
    const double more =
        self->comm == NULL ? load : load + (all - self->sent[r]) - self->received[r];
    return seconds(self, r) + more <= self->limit && plb_ranks_has_room(ranks, r, i);
}

/* Of all ranks that can take object i, return the one that can take the most load; -1: none. */
static int32_t any_receiver(mover_t *self, int32_t i, double all)
{
    plb_heap_t *heap = &self->receiver;
    while (heap->n > 0 && -heap->item[0].key > gap(self, heap->item[0].id)) {
        plb_heap_rekey(heap, -gap(self, heap->item[0].id));
    }
    if (heap->n == 0 || takes(self, heap->item[0].id, i, all)) {
        return heap->n == 0 ? -1 : heap->item[0].id;
    }
    int32_t best = -1;
    /* the rank on top cannot take this object; with memory limits, another rank may */
    for (int32_t k = 0; self->ranks.room != NULL && k < heap->n; k++) {
        const int32_t r = heap->item[k].id;
        if (takes(self, r, i, all) && (best < 0 || gap(self, r) > gap(self, best) ||
                                       (gap(self, r) == gap(self, best) && r < best))) {
            best = r;
        }
    }
    return best;
}

static way_t way_of(mover_t *self, int32_t i)
{
    const double all = fill_messages(self, i);
    const int32_t from = self->ranks.rank[i];
    const double here = self->sent[from] + self->received[from];
    way_t best = {-1, -INFINITY};
    for (int32_t k = 0; k < self->n_touched; k++) {
        const int32_t r = self->touched[k];
        const double gain = self->sent[r] + self->received[r] - here;
        if (r != from && (gain > best.gain || (gain == best.gain && r < best.to)) &&
            takes(self, r, i, all)) {
            best = (way_t){r, gain};
        }
    }
    if (-here > best.gain) {
        const int32_t to = any_receiver(self, i, all);
        best = to < 0 ? best : (way_t){to, self->sent[to] + self->received[to] - here};
    }
    /* the donor's time must become shorter, including its messages to the object */
    const double relief = self->ranks.in->load[i] / plb_speed(self->ranks.in, from) +
                          (all - self->sent[from]) - self->received[from];
    forget(self);
    return self->comm != NULL && relief <= 0.0 ? (way_t){-1, -INFINITY} : best;
}

static double value_of(const mover_t *self, int32_t i, way_t way)
{
    return way.to < 0 ? -INFINITY : way.gain / self->ranks.in->load[i];
}

static void offer(mover_t *self, int32_t i, double value)
{
    self->value[i] = value;
    if (value > -INFINITY) {
        plb_heap_push(&self->object, (plb_item_t){-value, self->turn[i]});
    }
}

static void move(mover_t *self, int32_t i, int32_t to)
{
    const int32_t from = self->ranks.rank[i];
    if (self->comm != NULL) {
        const double all = fill_messages(self, i);
        self->comm[from] -= all - self->sent[from] - self->received[from];
        self->comm[to] += all - self->sent[to] - self->received[to];
        forget(self);
    }
    plb_ranks_move(&self->ranks, i, to);
}

/* Update the partners of object i, which has moved: they can now have a better target. */
static void update_partners(mover_t *self, int32_t i, int32_t donor)
{
    const plb_affinity_t *a = &self->affinity;
    for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) {
        const int32_t j = a->other[k];
        if (self->ranks.rank[j] == donor && plb_may_migrate(self->ranks.in, j) &&
            self->ranks.in->load[j] > 0.0) {
            const double value = value_of(self, j, way_of(self, j));
            if (value > self->value[j]) {
                offer(self, j, value);
            }
        }
    }
}

/* ---- one rank ------------------------------------------------------------------------------- */

/* Set *object to the donor's next object; return its target and gain, both up to date. */
static way_t next_object(mover_t *self, int32_t donor, int32_t *object)
{
    while (self->object.n > 0) {
        const plb_item_t top = plb_heap_pop(&self->object);
        const int32_t i = *object = self->offers.item[self->offers.end[donor] - 1 - top.id].id;
        if (self->ranks.rank[i] != donor || -top.key != self->value[i]) {
            continue;
        }
        const way_t way = way_of(self, i);
        const double value = value_of(self, i, way);
        if (value == self->value[i]) {
            return way;
        }
        offer(self, i, value);
    }
    return (way_t){-1, 0.0};
}

/* Recompute the keys of all receivers, because some can take more load than their keys say. */
static void sort_receivers(mover_t *self)
{
    for (int32_t k = 0; k < self->receiver.n; k++) {
        self->receiver.item[k].key = -gap(self, self->receiver.item[k].id);
    }
    plb_heap_build(&self->receiver);
}

static void offer_all(mover_t *self, int32_t donor)
{
    plb_offers_t *offers = &self->offers;
    plb_offers_sort(offers, donor);
    self->object.n = 0;
    int32_t turn = 0;
    for (int64_t k = offers->end[donor]; k-- > offers->start[donor];) {
        const int32_t i = offers->item[k].id;
        self->turn[i] = turn++;
        if (self->ranks.rank[i] == donor) {
            offer(self, i, value_of(self, i, way_of(self, i)));
        }
    }
}

static int shed(mover_t *self, int32_t donor)
{
    int ret = PLB_OK;
    offer_all(self, donor);
    while (ret == PLB_OK && overloaded(self, donor)) {
        int32_t i = 0;
        const way_t way = next_object(self, donor, &i);
        if (way.to < 0) {
            self->limit = seconds(self, donor);
            break;
        }
        const double room = gap(self, way.to);
        move(self, i, way.to);
        /* if the receiver now sends less than before, it can take more load */
        if (gap(self, way.to) > room) {
            sort_receivers(self);
            offer_all(self, donor);
        } else {
            update_partners(self, i, donor);
        }
        ret = plb_interrupted(1 << 10);
    }
    if (gap(self, donor) > 0.0) {
        plb_heap_push(&self->receiver, (plb_item_t){-gap(self, donor), donor});
    }
    return ret;
}

/* ---- all ranks ------------------------------------------------------------------------------ */

static int shed_all(mover_t *self)
{
    int ret = PLB_OK;
    while (ret == PLB_OK && self->donor.n > 0) {
        const double before = self->limit;
        const int32_t donor = plb_heap_pop(&self->donor).id;
        if (overloaded(self, donor)) {
            ret = shed(self, donor);
        }
        if (self->limit > before) {
            sort_receivers(self);
        }
        PLB_THEN(plb_interrupted(1 << 10));
    }
    return ret;
}

static void find_ranks(mover_t *self)
{
    for (int32_t r = 0; r < self->ranks.in->n_ranks; r++) {
        self->gives[r] = overloaded(self, r);
        if (self->gives[r]) {
            self->donor.item[self->donor.n++] = (plb_item_t){-seconds(self, r), r};
        } else if (gap(self, r) > 0.0) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-gap(self, r), r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
}

/* Return the largest possible size of the heap `object`: an entry for each object of a donor, and
 * one for each of its partners, because the object is queued again when a partner moves. */
static int64_t largest_heap(const mover_t *self)
{
    int64_t most = 0;
    for (int32_t r = 0; r < self->ranks.in->n_ranks; r++) {
        int64_t here = 0;
        for (int64_t k = self->offers.start[r]; k < self->offers.end[r]; k++) {
            const int32_t i = self->offers.item[k].id;
            here += 1 + self->affinity.start[i + 1] - self->affinity.start[i];
        }
        most = here > most ? here : most;
    }
    return most;
}

static void mover_free(mover_t *self)
{
    PLB_FREE(self->comm, self->donor.item, self->receiver.item, self->object.item, self->value,
             self->turn, self->sent, self->received, self->touched, self->gives);
    plb_affinity_free(&self->affinity);
    plb_offers_free(&self->offers);
    plb_ranks_free(&self->ranks);
}

/* Return the mean of the ranks' seconds of sending, weighted by speed like the average. */
static double mean_comm(const mover_t *self)
{
    double work = 0.0, speed = 0.0;
    for (int32_t r = 0; self->comm != NULL && r < self->ranks.in->n_ranks; r++) {
        work += self->comm[r] * plb_speed(self->ranks.in, r);
        speed += plb_speed(self->ranks.in, r);
    }
    return self->comm == NULL ? 0.0 : work / speed;
}

/* Go on by moves and exchanges, and keep the result if the slowest rank becomes faster. */
static int go_on(const mover_t *mover, const plb_objective_t *of, double limit, plb_err_t *err)
{
    const plb_snapshot_t *in = mover->ranks.in;
    plb_state_t on = {0};
    int32_t *rank = NULL;
    int ret = PLB_OK;
    PLB_NEW(rank, in->n_objects);
    PLB_TRY(plb_state_init(&on, in, of, rank, err));
    on.goal[0] = fmax(on.goal[0], limit); /* below the limit, less communication is the aim */
    plb_state_set(&on, mover->ranks.rank);
    const double before = plb_state_value(&on);
    const plb_aim_t aim = {limit * (1.0 + SLACK), PLB_ALL_STEPS, 0, 0};
    PLB_TRY(plb_improve(&on, &aim, err));
    if (plb_state_value(&on) < before) {
        memcpy(mover->ranks.rank, rank, (size_t)in->n_objects * sizeof *rank);
    }
out:
    plb_state_free(&on);
    plb_free(rank);
    return ret;
}

int plb_refine_comm(const plb_problem_t *problem, double overload, bool exchanges,
                    const double *cost, int32_t *rank, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const int32_t p = in->n_ranks;
    const double alpha = cost == NULL ? 0.0 : cost[0], beta = cost == NULL ? 1.0 : cost[1];
    mover_t self = {0};
    int ret = plb_ranks_init(&self.ranks, problem, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(p, self.donor.item, self.receiver.item, self.gives);
    if (cost != NULL) {
        PLB_NEW0(self.comm, p);
        plb_affinity_of_ranks(in, rank, alpha, beta, self.comm);
    }
    self.limit = overload * (plb_ranks_average(&self.ranks) + mean_comm(&self));
    if (exchanges) { /* without exchanges, the limit is that of Menon's thesis */
        bool raised;
        self.limit = fmax(self.limit, plb_bound(&self.ranks, 0.0));
        PLB_TRY(plb_bound_raise(problem, &self.limit, &raised, err));
    }
    find_ranks(&self);
    if (self.donor.n == 0 || self.receiver.n == 0) {
        goto out;
    }
    ret = plb_offers_init(&self.offers, &self.ranks, self.gives, INFINITY, err);
    PLB_THEN(plb_interrupted(PLB_INTERRUPT_NOW));
    PLB_THEN(plb_affinity_init(&self.affinity, in, rank, self.gives, alpha, beta, err));
    PLB_THEN(plb_interrupted(PLB_INTERRUPT_NOW));
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(self.object.item, largest_heap(&self));
    PLB_NEW(self.value, in->n_objects);
    PLB_NEW(self.turn, in->n_objects);
    PLB_NEW(self.touched, p);
    PLB_NEW0_EACH(p, self.sent, self.received);
    const double limit = self.limit;
    ret = shed_all(&self);
    if (ret == PLB_OK && exchanges) {
        const plb_objective_t of = {.alpha = alpha, .beta = beta, .messages = cost != NULL};
        ret = go_on(&self, &of, limit, err);
    }
out:
    mover_free(&self);
    return ret;
}
