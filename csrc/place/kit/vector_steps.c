/* Moves and exchanges of objects with several loads (plb_vectors_improve).
 *
 * A step takes object i from rank a, the slowest one of component k, to rank b, and may take
 * object j of rank b to rank a.  It must not raise the cost.  To lower it, a step needs
 * x = load(i, k) - load(j, k) > 0.
 *
 * Value.  The cost alone is a poor guide: where many ranks are nearly as slow as a, all steps
 * lower it by the same small amount.  So steps are chosen by what they gain for the ranks a and b:
 * the value of two ranks is the cost if all other ranks took the times floor[k].  As long as some
 * step gains with floor[k] = goal[k], such steps are made.  At the end, floor[k] is the time of
 * the slowest other rank; then the value is the cost.
 *
 * Bound.  A step only distributes the loads of a and b in another way.  So the slower of the two
 * takes at least as long as both would take if they ended together; this limits the gain.  The
 * ranks b are looked at in the order of this limit, until none of the others can gain more than
 * twice as much as the best step found; if a step was found, at most 16 ranks are looked at.
 *
 * Window.  From the gain of the best step found follows how long component k may take at most, and
 * from this a window for x.  The objects of a and b are sorted by load(., k), so only the objects
 * in the window are examined.
 *
 * Bound and window are widened a little, so that rounding excludes no step. */
#include <string.h>

#include "base/cpu.h"
#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/kit/vectors.h"

/* The search examines at most this many numbers, and ends earlier if it has examined PATIENCE
 * numbers without lowering the cost by the fraction LITTLE. */
static const double WORK = 5e7, PATIENCE = 5e6, LITTLE = 1e-4;

/* To check the memory of a step takes as long as to examine this many numbers. */
static const double FITS = 50.0;

/* A gain below this fraction of the cost is due to rounding. */
static const double SLACK = 1e-12;

/* A step is made if no other step can gain more than ENOUGH times as much, or if MOST_RANKS ranks
 * have been looked at. */
static const double ENOUGH = 2.0;
enum { MOST_RANKS = 16 };

typedef struct step {
    double gain;
    int32_t i, j, to; /* j: -1 for a move; to: -1 if no step was found */
} step_t;

/* The objects of a rank, in ascending order of their load in component k. */
typedef struct line {
    plb_item_t *item; /* (load, object) */
    int64_t n;
} line_t;

typedef struct search {
    plb_vectors_t *on;
    double cost;            /* of the present placement */
    bool by_cost;           /* whether the value is the cost */
    step_t best;            /* the best step of this round */
    int32_t k, a, b;        /* component, slowest rank, other rank; see above */
    double *here, *there;   /* [d] seconds of ranks a and b */
    double *rest, *floor;   /* [d] seconds of the slowest other rank; see above */
    double *least;          /* [d] lower bound of the slowest rank's seconds after a step */
    double value;           /* of ranks a and b */
    double *before, *after; /* [p] value of a and each rank b; its lower bound after a step */
    plb_heap_t next;        /* ranks b; the key is the limit of the gain, negative */
    line_t mine, its;       /* objects of a and b */
    plb_item_t *spare;
    uint32_t *bin; /* scratch memory of the sort */
    double work;   /* numbers that may still be examined */
} search_t;

static void sort_line(search_t *self, line_t *line, int32_t r)
{
    double low = INFINITY, high = 0.0;
    line->n = 0;
    for (int32_t i = self->on->on.head[r]; i >= 0; i = self->on->on.next[i]) {
        const double x = plb_vectors_load(self->on, i, self->k);
        line->item[line->n++] = (plb_item_t){x, i};
        low = fmin(low, x);
        high = fmax(high, x);
    }
    plb_sort_items(line->item, line->n, low, high, self->spare, self->bin);
    self->work -= 4.0 * (double)line->n;
}

/* Return the first item with at least this load. */
static int64_t first_from(const line_t *line, double load)
{
    int64_t low = 0, high = line->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (line->item[middle].key < load) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Return the slowest time in component k of the ranks other than a and b (-1: other than a). */
static double slowest_other(const search_t *self, int32_t k, int32_t b)
{
    const plb_slowest_t *slowest = &self->on->slowest[k];
    int m = 0;
    while (m < 2 && (slowest->rank[m] == self->a || slowest->rank[m] == b)) {
        m++;
    }
    return fmax(0.0, slowest->time[m]);
}

/* The time of two ranks with these times and paces if they end together, or slightly less. */
static double together(double here, double there, double pace_a, double pace_b)
{
    const double longer = here > there ? here : there;
    return (here * pace_b + there * pace_a) / (pace_a + pace_b) - SLACK * longer;
}

/* Consider steps between ranks a and b; return the limit of their gain. */
static double look_at(search_t *self, int32_t b)
{
    const plb_vectors_t *on = self->on;
    double after = 0.0;
    self->b = b;
    self->value = 0.0;
    for (int32_t k = 0; k < on->d; k++) {
        const double *t = on->t + (int64_t)k * on->p;
        const double here = t[self->a], there = t[b];
        self->here[k] = here;
        self->there[k] = there;
        self->rest[k] = slowest_other(self, k, b);
        self->floor[k] = self->by_cost ? self->rest[k] : on->goal[k];
        self->least[k] =
            fmax(self->floor[k], together(here, there, on->pace[self->a], on->pace[b]));
        self->value = plb_vectors_add(on, self->value, fmax(self->floor[k], fmax(here, there)), k);
        after = plb_vectors_add(on, after, self->least[k], k);
    }
    self->work -= on->d;
    return self->value - after;
}

/* Add component k to the values of a and each other rank, before and after a step. */
PLB_MULTIVERSION
static void add_values(search_t *self, int32_t k, double floor)
{
    const plb_vectors_t *on = self->on;
    const double *restrict t = on->t + (int64_t)k * on->p, *restrict pace = on->pace;
    double *restrict before = self->before, *restrict after = self->after;
    const double here = t[self->a], pace_a = pace[self->a], per = on->per[k];
    const double most = here > floor ? here : floor;
    const bool phases = on->phases;
    for (int32_t b = 0; b < on->p; b++) {
        const double least = together(here, t[b], pace_a, pace[b]);
        const double x = t[b] > most ? t[b] : most, y = least > floor ? least : floor;
        before[b] = phases ? before[b] + x : before[b] > x * per ? before[b] : x * per;
        after[b] = phases ? after[b] + y : after[b] > y * per ? after[b] : y * per;
    }
}

/* Make the heap of the ranks with which a step can be better than the best one. */
static void find_partners(search_t *self)
{
    const plb_vectors_t *on = self->on;
    memset(self->before, 0, (size_t)on->p * sizeof *self->before);
    memset(self->after, 0, (size_t)on->p * sizeof *self->after);
    for (int32_t k = 0; k < on->d; k++) {
        add_values(self, k, self->by_cost ? slowest_other(self, k, -1) : on->goal[k]);
    }
    for (int32_t k = 0; self->by_cost && k < on->d; k++) { /* b was its own slowest other rank */
        const plb_slowest_t *slowest = &on->slowest[k];
        const int32_t b = slowest->rank[slowest->rank[0] == self->a];
        if (b >= 0) {
            self->after[b] = self->before[b] - look_at(self, b);
        }
    }
    self->next.n = 0;
    for (int32_t b = 0; b < on->p; b++) {
        const double limit = self->before[b] - self->after[b];
        if (b != self->a && limit > self->best.gain) {
            self->next.item[self->next.n++] = (plb_item_t){-limit, b};
        }
    }
    plb_heap_build(&self->next);
    self->work -= (double)on->p * on->d;
}

/* Return the value after i has moved from a to b, and j (-1: none) to a; not exact if it is larger
 * than `most`. */
static double value_after(search_t *self, int32_t i, int32_t j, const double *floor, double most)
{
    const plb_vectors_t *on = self->on;
    const double pace_a = on->pace[self->a], pace_b = on->pace[self->b];
    double value = 0.0;
    int32_t k = 0;
    for (; k < on->d && value < most; k++) {
        const double x = plb_vectors_load(on, i, k) - (j < 0 ? 0.0 : plb_vectors_load(on, j, k));
        const double longer = fmax(self->here[k] - x * pace_a, self->there[k] + x * pace_b);
        value = plb_vectors_add(on, value, fmax(floor[k], longer), k);
    }
    self->work -= k;
    return value;
}

/* Set the window: steps with another x gain less than the best one. */
static void find_window(const search_t *self, double *low, double *high)
{
    const plb_vectors_t *on = self->on;
    const int32_t k = self->k;
    const double value = self->value - self->best.gain;
    double most = on->phases ? value : value / on->per[k];
    const double wider = SLACK * (self->here[k] + self->there[k] + most);
    for (int32_t c = 0; on->phases && c < on->d; c++) {
        most -= c == k ? 0.0 : self->least[c];
    }
    *low = (self->here[k] - most - wider) / on->pace[self->a];
    *high = (most - self->there[k] + wider) / on->pace[self->b];
}

static bool fits(search_t *self, int32_t i, int32_t j)
{
    plb_memory_t *memory = &self->on->memory;
    self->work -= memory->left == NULL ? 0.0 : FITS;
    if (j < 0 || memory->left == NULL) {
        return plb_memory_fits(memory, i, self->b);
    }
    plb_memory_remove(memory, i, self->a);
    plb_memory_remove(memory, j, self->b);
    const bool out = plb_memory_fits(memory, i, self->b) && plb_memory_fits(memory, j, self->a);
    plb_memory_add(memory, i, self->a);
    plb_memory_add(memory, j, self->b);
    return out;
}

/* Whether the cost does not grow.  It may stay: other ranks can be as slow as rank a. */
static bool keeps_cost(search_t *self, int32_t i, int32_t j)
{
    return self->by_cost || value_after(self, i, j, self->rest, INFINITY) <= self->cost;
}

/* Whether the step is now the best one. */
static bool consider(search_t *self, int32_t i, int32_t j)
{
    const double most = self->value - self->best.gain;
    const double value = value_after(self, i, j, self->floor, most);
    const bool better = value < most && keeps_cost(self, i, j) && fits(self, i, j);
    if (better) {
        self->best = (step_t){self->value - value, i, j, self->b};
    }
    return better;
}

/* Look for a move, heaviest objects first, until the gain is `enough`. */
static void look_for_move(search_t *self, double enough)
{
    const plb_item_t *mine = self->mine.item;
    double low, high;
    find_window(self, &low, &high);
    int64_t m = first_from(&self->mine, high);
    while (--m >= 0 && mine[m].key >= low && mine[m].key > 0.0 && self->work > 0.0) {
        if (consider(self, mine[m].id, -1)) {
            if (self->best.gain >= enough) {
                return;
            }
            find_window(self, &low, &high);
        }
    }
}

/* Look for an exchange of object i, whose load is x; lightest objects of rank b first. */
static void exchange_for(search_t *self, int32_t i, double x, double enough)
{
    const line_t *its = &self->its;
    double low, high;
    find_window(self, &low, &high);
    self->work -= 4.0;
    for (int64_t j = first_from(its, x - high);
         j < its->n && its->item[j].key < x && its->item[j].key <= x - low && self->work > 0.0;
         j++) {
        if (consider(self, i, its->item[j].id)) {
            if (self->best.gain >= enough) {
                return;
            }
            find_window(self, &low, &high);
        }
    }
}

static void look_for_exchange(search_t *self, double enough)
{
    const line_t *mine = &self->mine;
    sort_line(self, &self->its, self->b);
    for (int64_t m = mine->n - 1; m >= 0 && self->best.gain < enough && self->work > 0.0; m--) {
        exchange_for(self, mine->item[m].id, mine->item[m].key, enough);
    }
}

typedef void look_fn(search_t *self, double enough);

/* Look for a step that takes an object from the slowest rank of component k. */
static void look_in(search_t *self, int32_t k, look_fn *look)
{
    self->k = k;
    self->a = self->on->slowest[k].rank[0];
    sort_line(self, &self->mine, self->a);
    find_partners(self);
    for (int n = 0; self->next.n > 0 && self->work > 0.0; n++) {
        const plb_item_t next = plb_heap_pop(&self->next);
        const double limit = -next.key;
        if (self->best.gain * ENOUGH >= limit || (n >= MOST_RANKS && self->best.to >= 0) ||
            plb_interrupted(self->mine.n) != PLB_OK) {
            return;
        }
        look_at(self, next.id);
        look(self, limit / ENOUGH);
    }
}

static void make(plb_vectors_t *on, const step_t *step)
{
    const int32_t a = on->rank[step->i];
    plb_vectors_take(on, step->i);
    if (step->j >= 0) {
        plb_vectors_take(on, step->j);
        plb_vectors_put(on, step->j, a);
    }
    plb_vectors_put(on, step->i, step->to);
}

/* Whether the cost is lower if component k takes less time. */
static bool determines_cost(const search_t *self, int32_t k)
{
    const double t = self->on->slowest[k].time[0] * self->on->per[k];
    return self->on->phases ? t > 0.0 : t >= self->cost * (1.0 - SLACK);
}

/* Make a step; *made: whether one was found.  The rounds begin with the components in turn. */
static int one_round(search_t *self, int32_t round, bool *made)
{
    static const struct {
        bool by_cost;
        look_fn *look;
    } ways[] = {{false, look_for_move},
                {false, look_for_exchange},
                {true, look_for_move},
                {true, look_for_exchange}};
    plb_vectors_t *on = self->on;
    self->best = (step_t){self->cost * SLACK, -1, -1, -1};
    for (int way = 0; way < 4 && self->best.to < 0; way++) {
        self->by_cost = ways[way].by_cost;
        for (int32_t n = 0; n < on->d && self->best.to < 0; n++) {
            const int32_t k = (round % on->d + n) % on->d;
            if (determines_cost(self, k)) {
                look_in(self, k, ways[way].look);
            }
        }
    }
    PLB_PASS(plb_interrupted((int64_t)on->p * on->d));
    *made = self->best.to >= 0;
    if (*made) {
        make(on, &self->best);
    }
    return PLB_OK;
}

static int allocate(search_t *self, plb_err_t *err)
{
    const int64_t n = self->on->in->n_objects, d = self->on->d;
    PLB_PASS_NEW_EACH(d, self->here, self->there, self->rest, self->floor, self->least);
    PLB_PASS_NEW_EACH(self->on->p, self->before, self->after, self->next.item);
    PLB_PASS_NEW_EACH(n, self->mine.item, self->its.item, self->spare);
    PLB_PASS_NEW(self->bin, PLB_SORT_BINS(n));
    return PLB_OK;
}

/* Whether the search is worth its time: at each multiple of PATIENCE, compare the costs. */
static bool goes_on(const search_t *self, double *until, double *before)
{
    bool out = self->work > 0.0;
    if (self->work < *until) {
        out = out && self->cost < *before * (1.0 - LITTLE);
        *until = self->work - PATIENCE;
        *before = self->cost;
    }
    return out;
}

int plb_vectors_improve(plb_vectors_t *on, double aim, plb_err_t *err)
{
    search_t self = {.on = on, .cost = plb_vectors_cost(on), .work = WORK};
    double until = WORK - PATIENCE, before = self.cost;
    bool more = true;
    int ret = allocate(&self, err);
    for (int32_t n = 0; ret == PLB_OK && more && self.cost > aim && n < PLB_VECTOR_ROUNDS; n++) {
        ret = one_round(&self, n, &more);
        self.cost = plb_vectors_cost(on);
        more = more && goes_on(&self, &until, &before);
    }
    PLB_FREE(self.here, self.there, self.rest, self.floor, self.least);
    PLB_FREE(self.before, self.after, self.next.item);
    PLB_FREE(self.mine.item, self.its.item, self.spare, self.bin);
    return ret;
}
