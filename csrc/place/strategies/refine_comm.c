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
 * is considered; with distances (`near` of the snapshot), also those that share a node with a rank
 * with which it communicates: bytes to them count for what they save.  If messages take time
 * (RefineCommLB), the gain is the time that the two ranks together save by sending less.
 *
 * The most loaded rank (ties: the lowest) gives away its excess first, then the next most loaded
 * one, and so on.  If a rank cannot get below the threshold, its time becomes the threshold for
 * the ranks after it, because the iteration takes that long anyway.  With `exchanges`, a remaining
 * excess is reduced by plb_improve. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

typedef struct mover {
    plb_state_t on;
    double limit;        /* seconds above which a rank is overloaded; mover_shed() can raise it */
    plb_heap_t donor;    /* ranks above the limit; key: -seconds, so that the slowest is on top */
    plb_heap_t receiver; /* ranks below the limit; key: at most -gap, and -gap when on top */
    plb_heap_t object;   /* objects of the current donor; id: index in item[], key: -value; an
                            entry counts only if its key is still the object's -value */
    int64_t room;        /* entries for which `object` has memory */
    plb_item_t *item;    /* [n_objects] the donor's objects with their loads, ascending */
    int32_t *index;      /* [n_objects] index of each of them, from the heaviest on */
    double *value;       /* [n_objects] gain per load; -INFINITY: the object fits nowhere */
    plb_item_t *spare;   /* scratch memory to sort */
    uint32_t *bin;
    double *bond;     /* [p] bonds of the current object with the objects on each rank */
    int32_t *touched; /* [n_touched] ranks for which `bond` is not 0 */
    int32_t n_items, n_touched;
} mover_t;

typedef struct way {
    int32_t to; /* rank to which the object should go; -1: no rank can take it */
    double gain;
} way_t;

/* Return how much less the messages of object i cost on rank r than between nodes. */
static double mover_bond(const mover_t *self, int32_t i, int32_t r)
{
    return self->bond[r] + plb_state_near(&self->on, i, r, false);
}

static bool mover_overloaded(const mover_t *self, int32_t r)
{
    return self->on.t[r] > self->limit * (1.0 + PLB_ROUNDING);
}

/* Return the load that rank r can still take. */
static double mover_gap(const mover_t *self, int32_t r)
{
    return (self->limit - self->on.t[r]) / self->on.pace[r];
}

/* ---- one object ----------------------------------------------------------------------------- */

/* Fill bond[] and touched[] for object i. */
static void mover_fill_bonds(mover_t *self, int32_t i)
{
    const plb_state_t *on = &self->on;
    self->n_touched = 0;
    for (int64_t k = on->own == NULL ? 0 : on->start[i]; on->own != NULL && k < on->start[i + 1];
         k++) {
        const int32_t r = on->rank[on->other[k]];
        if (on->bond[k] > 0.0) {
            if (self->bond[r] == 0.0) {
                self->touched[self->n_touched++] = r;
            }
            self->bond[r] += on->bond[k];
        }
    }
}

/* Return the time that object i adds to rank r. */
static double mover_time(const mover_t *self, int32_t i, int32_t r)
{
    const plb_state_t *on = &self->on;
    const bool messages = on->own != NULL && on->of.messages;
    return on->in->load[i] * on->pace[r] +
           (messages ? on->own[i] - self->bond[r] - plb_state_near(on, i, r, true) : 0.0);
}

static bool mover_takes(const mover_t *self, int32_t r, int32_t i)
{
    return self->on.t[r] + mover_time(self, i, r) <= self->limit &&
           plb_state_has_room(&self->on, i, r);
}

/* Of all ranks that can take object i, return the one that can take the most load; -1: none. */
static int32_t mover_any_receiver(mover_t *self, int32_t i)
{
    plb_heap_t *heap = &self->receiver;
    while (heap->n > 0 && -heap->item[0].key > mover_gap(self, heap->item[0].id)) {
        plb_heap_rekey(heap, -mover_gap(self, heap->item[0].id));
    }
    if (heap->n == 0 || mover_takes(self, heap->item[0].id, i)) {
        return heap->n == 0 ? -1 : heap->item[0].id;
    }
    int32_t best = -1;
    double most = 0.0;
    /* the rank on top cannot take this object; with memory limits, another rank may */
    for (int32_t k = 0; self->on.left != NULL && k < heap->n; k++) {
        const int32_t r = heap->item[k].id;
        const double gap = mover_gap(self, r);
        if (mover_takes(self, r, i) && (best < 0 || gap > most || (gap == most && r < best))) {
            best = r;
            most = gap;
        }
    }
    return best;
}

static way_t mover_way(mover_t *self, int32_t i)
{
    const int32_t from = self->on.rank[i];
    way_t best = {-1, -INFINITY};
    mover_fill_bonds(self, i);
    const double here = mover_bond(self, i, from);
    for (int32_t k = 0; k < self->n_touched; k++) {
        int32_t r = self->touched[k];
        do {
            const double gain = mover_bond(self, i, r) - here;
            if (r != from && (gain > best.gain || (gain == best.gain && r < best.to)) &&
                mover_takes(self, r, i)) {
                best = (way_t){r, gain};
            }
            r = self->on.near == NULL ? r : self->on.neighbour[r];
        } while (r != self->touched[k]);
    }
    if (-here > best.gain) {
        const int32_t to = mover_any_receiver(self, i);
        best = to < 0 ? best : (way_t){to, mover_bond(self, i, to) - here};
    }
    /* the donor's time must become shorter, including its messages to the object */
    const double relief = mover_time(self, i, from);
    for (int32_t k = 0; k < self->n_touched; k++) {
        self->bond[self->touched[k]] = 0.0;
    }
    return relief <= 0.0 ? (way_t){-1, -INFINITY} : best;
}

static double mover_value(const mover_t *self, int32_t i, way_t way)
{
    return way.to < 0 ? -INFINITY : way.gain / self->on.in->load[i];
}

static void mover_offer(mover_t *self, int32_t i, double value)
{
    self->value[i] = value;
    if (value > -INFINITY) {
        plb_heap_push(&self->object, (plb_item_t){-value, self->index[i]});
    }
}

/* Update the partners of object i, which has moved: they can now have a better target. */
static void mover_update_partners(mover_t *self, int32_t i, int32_t donor)
{
    const plb_state_t *on = &self->on;
    for (int64_t k = on->own == NULL ? 0 : on->start[i]; on->own != NULL && k < on->start[i + 1];
         k++) {
        const int32_t j = on->other[k];
        if (on->rank[j] == donor && plb_may_migrate(on->in, j) && on->in->load[j] > 0.0) {
            const double value = mover_value(self, j, mover_way(self, j));
            if (value > self->value[j]) {
                mover_offer(self, j, value);
            }
        }
    }
}

/* ---- one rank ------------------------------------------------------------------------------- */

/* Set *object to the donor's next object; return its target and gain, both up to date. */
static way_t mover_next_object(mover_t *self, int32_t donor, int32_t *object)
{
    while (self->object.n > 0) {
        const plb_item_t top = plb_heap_pop(&self->object);
        const int32_t i = *object = self->item[self->n_items - 1 - top.id].id;
        if (self->on.rank[i] != donor || -top.key != self->value[i]) {
            continue;
        }
        const way_t way = mover_way(self, i);
        const double value = mover_value(self, i, way);
        if (value == self->value[i]) {
            return way;
        }
        mover_offer(self, i, value);
    }
    return (way_t){-1, 0.0};
}

/* Recompute the keys of all receivers, because some can take more load than their keys say. */
static void mover_sort_receivers(mover_t *self)
{
    for (int32_t k = 0; k < self->receiver.n; k++) {
        self->receiver.item[k].key = -mover_gap(self, self->receiver.item[k].id);
    }
    plb_heap_build(&self->receiver);
}

/* List the donor's objects and offer them all.  Until the next call, the heap gets at most one
 * entry for each of them, and one more for each partner of an object that moves. */
static int mover_offer_all(mover_t *self, int32_t donor, plb_err_t *err)
{
    const plb_state_t *on = &self->on;
    double low = INFINITY, high = 0.0;
    int64_t most = 0;
    self->object.n = 0;
    self->n_items = 0;
    for (int32_t i = on->head[donor]; i >= 0; i = on->next[i]) {
        const double load = on->in->load[i];
        if (load > 0.0) {
            self->item[self->n_items++] = (plb_item_t){load, i};
            low = fmin(low, load);
            high = fmax(high, load);
            most += 1 + (on->own == NULL ? 0 : on->start[i + 1] - on->start[i]);
        }
    }
    plb_sort_items(self->item, self->n_items, low, high, self->spare, self->bin);
    PLB_PASS_GROW(self->object.item, self->room, most);
    for (int32_t m = 0; m < self->n_items; m++) {
        const int32_t i = self->item[self->n_items - 1 - m].id;
        self->index[i] = m;
        mover_offer(self, i, mover_value(self, i, mover_way(self, i)));
    }
    return PLB_OK;
}

static int mover_shed(mover_t *self, int32_t donor, plb_err_t *err)
{
    PLB_PASS(mover_offer_all(self, donor, err));
    while (mover_overloaded(self, donor)) {
        int32_t i = 0;
        const way_t way = mover_next_object(self, donor, &i);
        if (way.to < 0) {
            self->limit = self->on.t[donor];
            break;
        }
        const double gap = mover_gap(self, way.to);
        plb_state_move(&self->on, i, way.to);
        /* if the receiver now sends less than before, it can take more load */
        if (mover_gap(self, way.to) > gap) {
            mover_sort_receivers(self);
            PLB_PASS(mover_offer_all(self, donor, err));
        } else {
            mover_update_partners(self, i, donor);
        }
        PLB_PASS(plb_interrupted(1 << 10));
    }
    if (mover_gap(self, donor) > 0.0) {
        plb_heap_push(&self->receiver, (plb_item_t){-mover_gap(self, donor), donor});
    }
    return PLB_OK;
}

/* ---- all ranks ------------------------------------------------------------------------------ */

static void mover_free(mover_t *self)
{
    PLB_FREE(self->donor.item, self->receiver.item, self->object.item, self->touched, self->bond,
             self->item, self->spare, self->index, self->value, self->bin);
    plb_state_free(&self->on);
}

/* Move objects from ranks above the limit; *sheds: whether there are such ranks, and receivers. */
static int mover_run(mover_t *self, bool *sheds, plb_err_t *err)
{
    const int64_t n = self->on.in->n_objects, p = self->on.p;
    PLB_PASS(plb_state_list(&self->on, err));
    PLB_PASS_NEW_EACH(p, self->donor.item, self->receiver.item, self->touched);
    PLB_PASS_NEW0(self->bond, p);
    PLB_PASS_NEW_EACH(n, self->item, self->spare, self->index, self->value);
    PLB_PASS_NEW(self->bin, PLB_SORT_BINS(n));
    PLB_PASS(plb_interrupted(PLB_INTERRUPT_NOW));
    for (int32_t r = 0; r < self->on.p; r++) {
        if (mover_overloaded(self, r)) {
            self->donor.item[self->donor.n++] = (plb_item_t){-self->on.t[r], r};
        } else if (mover_gap(self, r) > 0.0) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-mover_gap(self, r), r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
    *sheds = self->donor.n > 0 && self->receiver.n > 0;
    while (*sheds && self->donor.n > 0) {
        const double before = self->limit;
        const int32_t donor = plb_heap_pop(&self->donor).id;
        if (mover_overloaded(self, donor)) {
            PLB_PASS(mover_shed(self, donor, err));
        }
        if (self->limit > before) {
            mover_sort_receivers(self);
        }
        PLB_PASS(plb_interrupted(1 << 10));
    }
    return PLB_OK;
}

int plb_shed(const plb_snapshot_t *in, double limit, int32_t *rank, plb_err_t *err)
{
    mover_t self = {.limit = limit};
    const plb_objective_t of = {.beta = 1.0};
    bool sheds;
    int ret = PLB_OK;
    PLB_TRY(plb_state_init(&self.on, in, &of, rank, err));
    plb_state_set(&self.on, in->rank);
    ret = mover_run(&self, &sheds, err);
out:
    mover_free(&self);
    return ret;
}

/* Go on by moves and exchanges, and keep the result if the slowest rank becomes faster. */
static int mover_go_on(mover_t *self, double limit, plb_err_t *err)
{
    plb_state_t *on = &self->on;
    int32_t *moved = NULL;
    int ret = PLB_OK;
    PLB_NEW(moved, on->in->n_objects);
    memcpy(moved, on->rank, (size_t)on->in->n_objects * sizeof *moved);
    plb_state_set(on, moved);
    on->goal[0] = fmax(on->goal[0], limit); /* below the limit, less communication is the aim */
    const double before = plb_state_value(on);
    const plb_aim_t aim = {limit * (1.0 + PLB_ROUNDING), PLB_ALL_STEPS, false, 0};
    PLB_TRY(plb_improve(on, &aim, err));
    if (plb_state_value(on) >= before) {
        memcpy(on->rank, moved, (size_t)on->in->n_objects * sizeof *moved);
    }
out:
    plb_free(moved);
    return ret;
}

int plb_refine_comm(const plb_snapshot_t *in, double overload, bool exchanges, const double *cost,
                    int32_t *rank, plb_err_t *err)
{
    mover_t self = {0};
    int32_t *from = NULL;
    const int64_t n = in->n_objects;
    const plb_objective_t of = {.alpha = cost == NULL ? 0.0 : cost[0],
                                .beta = cost == NULL ? 1.0 : cost[1],
                                .messages = cost != NULL};
    int ret = PLB_OK;
    PLB_NEW(from, n);
    memcpy(from, rank, (size_t)n * sizeof *from);
    PLB_TRY(plb_state_init(&self.on, in, &of, rank, err));
    plb_state_set(&self.on, from);
    self.limit = overload * plb_state_mean(&self.on);
    if (exchanges) { /* without exchanges, the limit is that of Menon's thesis */
        self.limit = fmax(self.limit, self.on.goal[0]);
        PLB_TRY(plb_bound_raise(in, &self.limit, err));
    }
    const double limit = self.limit;
    bool sheds;
    PLB_TRY(mover_run(&self, &sheds, err));
    ret = sheds && exchanges ? mover_go_on(&self, limit, err) : PLB_OK;
out:
    mover_free(&self);
    plb_free(from);
    return ret;
}

enum { PARAM_OVERLOAD, PARAM_EXCHANGES, PARAM_ALPHA, PARAM_BETA };

static int refine_comm_run(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    const double *cost = opts->params + PARAM_ALPHA;
    PLB_PASS(plb_start_repaired(in, out, err));
    return plb_refine_comm(in, opts->params[PARAM_OVERLOAD], opts->params[PARAM_EXCHANGES] != 0.0,
                           cost[0] + cost[1] > 0.0 ? cost : NULL, out, err);
}

#define PARAMS(alpha, beta)                                                                         \
    {                                                                                               \
        {"overload", "x average", "a rank above this multiple of the average gives away objects",   \
         1.003,      1.0,         1e6},                                                             \
            {"exchanges", "", "1: also exchange objects; 0: only move them, as in Menon's thesis",  \
             1,           0,  1},                                                                   \
            {"alpha", "s/message", "sender's time for a message to another rank", alpha, 0.0, 1e6}, \
            {"beta", "s/byte", "sender's time for each byte of a message", beta, 0.0, 1e6},         \
    }

/* By default, the ranks' times do not include messages in CommAwareRefineLB. */
static const plb_param_t aware_params[] = PARAMS(0.0, 0.0);
static const plb_param_t params[] = PARAMS(2e-6, 1e-10);

const plb_strategy_t plb_strategy_comm_aware = {
    .name = "CommAwareRefineLB",
    .help = "moves objects from overloaded ranks to less loaded ranks where their partners "
            "are, or else to any less loaded rank",
    .source = "Menon 2.3.4",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = aware_params,
    .n_params = 4,
    .run = refine_comm_run,
};

const plb_strategy_t plb_strategy_refine_comm = {
    .name = "RefineCommLB",
    .help = "like CommAwareRefineLB, counting what a rank sends to other ranks as part of "
            "its time",
    .source = "Menon 2.2",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 4,
    .run = refine_comm_run,
};
