/* A step takes object i from rank a, the slowest one of component k, to rank b, and may take
 * object j of rank b to rank a.
 *
 * Gain.  The value of a placement alone is a poor guide: where many ranks are nearly as slow as a,
 * all steps lower it by the same small amount.  So steps are chosen by what they gain for the
 * ranks a and b: the value of two ranks is the value of the placement if all other ranks took the
 * times floor[k].  As long as some step gains with floor[k] = goal[k], such steps are made.  At
 * the end, floor[k] is the time of the slowest other rank; then the value is that of the
 * placement.
 *
 * Bound.  Where only loads count, a step only redistributes the loads of a and b.  So the slower
 * of the two takes at least as long as both would take if they ended together; this limits the
 * gain.  The ranks b are examined in the order of their times in component k, without those that
 * could gain no more than the best step found; if a step was found, at most PLB_TRIES ranks are
 * examined.
 *
 * Window.  A better step than the best one found must shorten component k by some time.  This
 * gives a window for load(i, k) - load(j, k).  The objects of a and b are sorted by load(., k), so
 * only the objects in the window are examined.
 *
 * Bound and window are widened a little, so that rounding excludes no step. */
#include "place/internal.h"

#include <math.h>

#include "base/base.h"

/* The search examines at most PLB_WORK numbers, and ends earlier if PATIENCE of them did not lower
 * the value by the fraction PLB_WORTH.  After the first local optimum, KICKS random changes of up
 * to three objects may cost PATIENCE, too; an eighth of KICKS where only loads count, because
 * steps are thorough there, or where nothing fits, because nothing ends the search.  There are
 * none with more than MOST_KICKED objects: they help only where these are few.
 * KICKS: tuned: changes; with a tenth of PATIENCE, CCMLB ends 4 % slower, with half of it 0.1 %
 * slower, with twice as much the same (60 objects, 6 ranks) */
enum { PATIENCE = PLB_WORK / 10, KICKS = 256, MOST_KICKED = 2 * KICKS };

typedef struct step {
    int64_t relief;    /* by how many bytes less the two ranks exceed their memory limits */
    double gain, kept; /* kept: cost of messages that the step makes internal to a rank */
    int32_t i, j, to;  /* j: -1 for a move; to: -1 if no step was found */
} step_t;

/* The changes on ranks a and b, besides loads, if an object goes from one to the other. */
typedef struct change {
    double a, b, kept;
    double third; /* with distances: seconds of the slowest other rank that slows down */
    int64_t bytes_a, bytes_b;
} change_t;

/* The objects of a rank, in ascending order of their load in component k. */
typedef struct line {
    plb_item_t *item; /* (load, object) */
    change_t *change; /* [n] changes if each object goes to the other rank; NULL: only loads
                         count */
    int64_t n;
} line_t;

typedef struct search {
    plb_state_t *on;
    const plb_aim_t *aim;
    bool by_transfer; /* whether plb_transfer makes steps */
    bool singly;      /* whether the steps below are made, if so, after those of plb_transfer */
    bool plain;       /* whether only loads count, without memory */
    bool bounded;     /* whether a step only redistributes the work of two ranks */
    bool by_value;    /* whether floor[k] is the slowest other rank's time; see above */
    bool crowded;     /* whether some ranks exceed their memory limits */
    double value;     /* value of the present placement */
    step_t best;      /* the best step of this round */
    int32_t k, a, b;  /* component, slowest rank, other rank; see above */
    double *here, *there; /* [d] seconds of ranks a and b */
    double *rest, *floor; /* [d] seconds of the slowest other rank; see above */
    double *least;        /* [d] lower bound of the slowest rank's seconds after a step */
    double of_two;        /* the value of ranks a and b */
    int64_t over;         /* bytes by which ranks a and b exceed their limits */
    plb_heap_t next;      /* ranks b; the key is their time in component k */
    line_t mine, its;     /* objects of a and b */
    plb_item_t *spare;
    uint32_t *bin;      /* scratch memory of the sort */
    double *bond;       /* [n] bond of each object with the object that is examined; else 0 */
    double *third;      /* [p] with distances: seconds by which other ranks take longer; else 0 */
    int32_t *best_rank; /* [n] the best placement so far, while random changes are tried */
    plb_rng_t rng;
    double work; /* numbers that may still be examined */
} search_t;

/* ---- what a step changes -------------------------------------------------------------------- */

/* Add the changes that arise because edges of object i become shorter or longer, with distances.
 */
static void add_distances(search_t *self, int32_t i, int32_t from, int32_t to, change_t *out)
{
    const plb_state_t *on = self->on;
    const int32_t *node = on->in->node;
    for (int64_t k = on->start[i]; k < on->start[i + 1]; k++) {
        const int32_t r = on->rank[on->other[k]];
        const double near = fabs(on->near[k]);
        const double here = r != from && node[r] == node[from] ? near : 0.0;
        const double there = r != to && node[r] == node[to] ? near : 0.0;
        const bool pays = on->near[k] >= 0.0; /* true: the rank of i; false: its partner's rank */
        out->kept += there - here;
        out->a += pays ? here : r == from ? here - there : 0.0;
        out->b += pays ? -there : r == to ? here - there : 0.0;
        self->third[r] += pays || r == from || r == to ? 0.0 : here - there;
    }
    for (int64_t k = on->start[i]; k < on->start[i + 1]; k++) {
        const int32_t r = on->rank[on->other[k]];
        if (self->third[r] > 0.0) {
            out->third = fmax(out->third, on->t[r] + self->third[r]);
        }
        self->third[r] = 0.0;
    }
    if (!on->of.messages) {
        out->a = out->b = out->third = 0.0;
    }
    self->work -= (double)(on->start[i + 1] - on->start[i]);
}

static change_t change_of(search_t *self, int32_t i, int32_t from, int32_t to)
{
    const plb_state_t *on = self->on;
    const int32_t block = plb_state_block(on, i);
    const int64_t own = on->in->memory == NULL ? 0 : on->in->memory[i];
    change_t out = {.bytes_a = -own, .bytes_b = own};
    if (on->own != NULL) {
        double here = 0.0, there = 0.0;
        for (int64_t k = on->start[i]; k < on->start[i + 1]; k++) {
            const int32_t r = on->rank[on->other[k]];
            here += r == from ? on->bond[k] : 0.0;
            there += r == to ? on->bond[k] : 0.0;
        }
        out.kept = there - here;
        out.a = on->of.messages ? here - on->own[i] : 0.0;
        out.b = on->of.messages ? on->own[i] - there : 0.0;
        self->work -= (double)(on->start[i + 1] - on->start[i]);
        if (on->near != NULL) {
            add_distances(self, i, from, to, &out);
        }
    }
    if (block >= 0 && plb_state_uses(on, block, from) == 1) {
        out.a -= plb_state_homing(on, block, from);
        out.bytes_a -= on->in->block_bytes[block];
    }
    if (block >= 0 && plb_state_uses(on, block, to) == 0) {
        out.b += plb_state_homing(on, block, to);
        out.bytes_b += on->in->block_bytes[block];
    }
    return out;
}

/* Return the changes on ranks a and b if mine.item[m] goes to b and its.item[n] (n < 0: none) to
 * a. */
static inline change_t together(const search_t *self, int64_t m, int64_t n)
{
    const plb_state_t *on = self->on;
    change_t out = self->mine.change[m];
    if (n < 0) {
        return out;
    }
    const int32_t i = self->mine.item[m].id, j = self->its.item[n].id;
    const change_t back = self->its.change[n]; /* in `back`, `a` stands for rank b */
    const double bond = on->own == NULL ? 0.0 : self->bond[j];
    out.a += back.b;
    out.b += back.a;
    out.kept += back.kept - 2.0 * bond;
    out.third = fmax(out.third, back.third);
    out.bytes_a += back.bytes_b;
    out.bytes_b += back.bytes_a;
    if (on->of.messages) {
        out.a += bond;
        out.b += bond;
    }
    const int32_t block = plb_state_block(on, i);
    if (block >= 0 && block == plb_state_block(on, j)) { /* both ranks keep the block */
        const int64_t bytes = on->in->block_bytes[block];
        if (plb_state_uses(on, block, self->a) == 1) {
            out.a += plb_state_homing(on, block, self->a);
            out.bytes_a += bytes;
        }
        if (plb_state_uses(on, block, self->b) == 1) {
            out.b += plb_state_homing(on, block, self->b);
            out.bytes_b += bytes;
        }
    }
    return out;
}

static inline int64_t excess(int64_t left)
{
    return left < 0 ? -left : 0;
}

/* Return the value of the two ranks after i has moved from a to b, and j (-1: none) to a; not
 * exact if it is larger than `most`. */
static double value_after(search_t *self, int32_t i, int32_t j, const change_t *change,
                          const double *floor, double most)
{
    const plb_state_t *on = self->on;
    const double *pace_a = on->pace + self->a, *pace_b = on->pace + self->b;
    double value = 0.0, a = change->a, b = change->b, third = change->third;
    int32_t k = 0;
    for (; k < on->d && value <= most; k++) {
        const double x = plb_state_load(on, i, k) - (j < 0 ? 0.0 : plb_state_load(on, j, k));
        const double here = self->here[k] - x * pace_a[(int64_t)k * on->p] + a;
        const double there = self->there[k] + x * pace_b[(int64_t)k * on->p] + b;
        const double of_two = here > there ? here : there;
        const double longer = third > of_two ? third : of_two;
        value = plb_state_add(on, value, floor[k] > longer ? floor[k] : longer, k);
        a = b = third = 0.0;
    }
    self->work -= k;
    return value;
}

/* Consider a step of mine.item[m] and its.item[n] (n < 0: none); return whether it is the best. */
static bool consider(search_t *self, int64_t m, int64_t n)
{
    static const change_t nothing;
    const plb_state_t *on = self->on;
    const int32_t i = self->mine.item[m].id, j = n < 0 ? -1 : self->its.item[n].id;
    const change_t change = self->plain ? nothing : together(self, m, n);
    const double most = self->crowded ? INFINITY : self->of_two - self->best.gain;
    const double value = value_after(self, i, j, &change, self->floor, most);
    int64_t relief = 0;
    if (value > most) {
        return false;
    }
    if (on->left != NULL) {
        relief = self->over - excess(on->left[self->a] - change.bytes_a) -
                 excess(on->left[self->b] - change.bytes_b);
    }
    const double gain = self->of_two - value;
    /* a step must not raise the value of the placement, but need not lower it: other ranks may be
     * as slow */
    const step_t *best = &self->best;
    const bool better = relief != best->relief ? relief > best->relief
                        : gain != best->gain   ? gain > best->gain
                                               : best->to >= 0 && change.kept > best->kept;
    if (!better || (!self->crowded && !self->by_value &&
                    value_after(self, i, j, &change, self->rest, INFINITY) > self->value)) {
        return false;
    }
    self->best = (step_t){relief, gain, change.kept, i, j, self->b};
    return true;
}

/* ---- two ranks ------------------------------------------------------------------------------ */

static void list_objects(search_t *self, line_t *line, int32_t r)
{
    double low = INFINITY, high = 0.0;
    line->n = 0;
    for (int32_t i = self->on->head[r]; i >= 0; i = self->on->next[i]) {
        const double x = plb_state_load(self->on, i, self->k);
        line->item[line->n++] = (plb_item_t){x, i};
        low = fmin(low, x);
        high = fmax(high, x);
    }
    plb_sort_items(line->item, line->n, low, high, self->spare, self->bin);
    self->work -= 4.0 * (double)line->n;
}

static void list_changes(search_t *self, line_t *line, int32_t from, int32_t to)
{
    for (int64_t m = 0; !self->plain && m < line->n; m++) {
        line->change[m] = change_of(self, line->item[m].id, from, to);
    }
    self->work -= self->plain ? 0.0 : 4.0 * (double)line->n;
}

/* Prepare to consider steps between ranks a and b; return an upper bound of their gain. */
static double look_at(search_t *self, int32_t b)
{
    const plb_state_t *on = self->on;
    double after = 0.0;
    self->b = b;
    self->of_two = 0.0;
    for (int32_t k = 0; k < on->d; k++) {
        const double *t = on->t + (int64_t)k * on->p, *pace = on->pace + (int64_t)k * on->p;
        const double here = t[self->a], there = t[b];
        self->here[k] = here;
        self->there[k] = there;
        const plb_slowest_t *slowest = &on->slowest[k];
        int m = 0; /* the slowest rank other than a and b */
        while (m < 2 && (slowest->rank[m] == self->a || slowest->rank[m] == b)) {
            m++;
        }
        self->rest[k] = fmax(0.0, slowest->time[m]);
        self->floor[k] = self->by_value ? self->rest[k] : on->goal[k];
        /* the time of both if they end together, or slightly less */
        const double level = (here * pace[b] + there * pace[self->a]) / (pace[self->a] + pace[b]);
        self->least[k] = fmax(self->floor[k], level - PLB_ROUNDING * fmax(here, there));
        self->of_two = plb_state_add(on, self->of_two, fmax(self->floor[k], fmax(here, there)), k);
        after = plb_state_add(on, after, self->least[k], k);
    }
    self->over = on->left == NULL ? 0 : excess(on->left[self->a]) + excess(on->left[b]);
    self->work -= on->d;
    return self->of_two - after;
}

/* Make the heap of the other ranks, with the rank that ends component k first on top. */
static void find_partners(search_t *self)
{
    const plb_state_t *on = self->on;
    const double *t = on->t + (int64_t)self->k * on->p;
    self->next.n = 0;
    for (int32_t b = 0; b < on->p; b++) {
        if (b != self->a) {
            self->next.item[self->next.n++] = (plb_item_t){self->crowded ? 0.0 : t[b], b};
        }
    }
    plb_heap_build(&self->next);
    self->work -= (double)on->p;
}

/* ---- moves and swaps ------------------------------------------------------------------------ */

/* Return the first item with at least this load. */
static int64_t first_from(const line_t *line, double load)
{
    int64_t low = 0;
    PLB_BISECT(low, line->n, k, line->item[k].key >= load)
    return low;
}

/* Set the window of the difference of loads: steps outside gain less than the best one found. */
static void find_window(const search_t *self, double *low, double *high)
{
    const plb_state_t *on = self->on;
    const int32_t k = self->k;
    const double value = self->of_two - self->best.gain;
    *low = -INFINITY;
    *high = INFINITY;
    if (!self->crowded && self->bounded) {
        double most = on->of.kinds ? value / on->per[k] : value;
        const double wider = PLB_ROUNDING * (self->here[k] + self->there[k] + most);
        for (int32_t c = 0; !on->of.kinds && c < on->d; c++) {
            most -= c == k ? 0.0 : self->least[c];
        }
        const double *pace = on->pace + (int64_t)k * on->p;
        *low = (self->here[k] - most - wider) / pace[self->a];
        *high = (most - self->there[k] + wider) / pace[self->b];
    }
}

/* Look for a move, heaviest objects first. */
static void look_for_move(search_t *self)
{
    double low, high;
    find_window(self, &low, &high);
    int64_t m = first_from(&self->mine, high);
    while (--m >= 0 && self->mine.item[m].key >= low && self->work > 0.0) {
        if (consider(self, m, -1)) {
            find_window(self, &low, &high);
        }
    }
}

/* Set bond[] for object i, or reset it to 0.  With distances, a bond is what an edge costs less
 * inside a rank than between ranks a and b. */
static void set_bonds(search_t *self, int32_t i, bool on)
{
    const plb_state_t *s = self->on;
    const bool is_near = s->near != NULL && s->in->node[self->a] == s->in->node[self->b];
    for (int64_t k = s->own == NULL ? 0 : s->start[i]; s->own != NULL && k < s->start[i + 1];
         k++) {
        const double bond = s->bond[k] - (is_near ? fabs(s->near[k]) : 0.0);
        self->bond[s->other[k]] = on ? self->bond[s->other[k]] + bond : 0.0;
    }
}

/* Look for an exchange of mine.item[m]; lightest objects of rank b first. */
static void exchange_for(search_t *self, int64_t m)
{
    const line_t *its = &self->its;
    const double x = self->mine.item[m].key;
    double low, high;
    find_window(self, &low, &high);
    set_bonds(self, self->mine.item[m].id, true);
    self->work -= 4.0;
    for (int64_t j = first_from(its, x - high);
         j < its->n && its->item[j].key <= x - low && self->work > 0.0; j++) {
        if (consider(self, m, j)) {
            find_window(self, &low, &high);
        }
    }
    set_bonds(self, self->mine.item[m].id, false);
}

static void look_for_exchange(search_t *self)
{
    list_objects(self, &self->its, self->b);
    list_changes(self, &self->its, self->b, self->a);
    for (int64_t m = self->mine.n - 1; m >= 0 && self->work > 0.0; m--) {
        exchange_for(self, m);
    }
}

/* ---- a step --------------------------------------------------------------------------------- */

typedef void look_fn(search_t *self);

/* Look for a step that takes objects from rank a. */
static void look_from(search_t *self, int32_t a, look_fn *look)
{
    const bool bounded = self->bounded && !self->crowded;
    /* with several loads and no messages, take at once a step that gains half of what is possible
     */
    const bool early = bounded && self->on->own == NULL;
    bool enough = false;
    self->a = a;
    list_objects(self, &self->mine, a);
    find_partners(self);
    for (int n = 0; self->next.n > 0 && self->work > 0.0 && !enough;) {
        const double limit = look_at(self, plb_heap_pop(&self->next).id);
        if (bounded && limit <= self->best.gain) {
            continue;
        }
        list_changes(self, &self->mine, a, self->b);
        look(self);
        enough = (self->best.to >= 0 && ++n >= PLB_TRIES) ||
                 (early && self->best.gain >= 0.5 * limit) ||
                 plb_interrupted(self->mine.n) != PLB_OK;
    }
}

/* Make a step; *made: whether one was found.  Each round begins with the next component. */
static int one_round(search_t *self, int32_t round, bool *made)
{
    static const struct {
        unsigned family;
        bool by_value;
        look_fn *look;
    } ways[] = {
        {PLB_MOVES, false, look_for_move},
        {PLB_SWAPS, false, look_for_exchange},
        {PLB_MOVES, true, look_for_move},
        {PLB_SWAPS, true, look_for_exchange},
    };
    plb_state_t *on = self->on;
    self->crowded = !on->fits;
    self->best =
        (step_t){0, self->crowded ? INFINITY : self->value * PLB_ROUNDING, 0.0, -1, -1, -1};
    for (size_t way = 0; way < sizeof ways / sizeof *ways && self->best.to < 0; way++) {
        self->by_value = ways[way].by_value;
        if (!(ways[way].family & self->aim->families)) {
            continue;
        }
        for (int32_t n = 0; n < on->d && self->best.to < 0; n++) {
            self->k = (round % on->d + n) % on->d;
            if (self->crowded) {
                int32_t fullest = 0; /* the rank that exceeds its memory limit most */
                for (int32_t r = 1; r < on->p; r++) {
                    fullest = on->left[r] < on->left[fullest] ? r : fullest;
                }
                look_from(self, fullest, ways[way].look);
                continue;
            }
            const plb_slowest_t *slowest = &on->slowest[self->k];
            const double x = slowest->time[0] * on->per[self->k];
            if (on->of.kinds ? x >= self->value * (1.0 - PLB_ROUNDING) : slowest->time[0] > 0.0) {
                look_from(self, slowest->rank[0], ways[way].look);
            }
        }
    }
    PLB_PASS(plb_interrupted((int64_t)on->p * on->d));
    const step_t *best = &self->best;
    *made = best->to >= 0;
    if (*made) {
        const int32_t a = on->rank[best->i];
        plb_state_take(on, best->i);
        if (best->j >= 0) {
            plb_state_move(on, best->j, a);
        }
        plb_state_put(on, best->i, best->to);
    }
    return PLB_OK;
}

/* ---- all steps ------------------------------------------------------------------------------ */

static bool is_done(const search_t *self)
{
    return self->on->fits && self->value <= self->aim->value;
}

/* Make steps until none helps, or until they are not worth their time. */
static int descend(search_t *self, plb_err_t *err)
{
    plb_state_t *on = self->on;
    bool more = self->singly;
    double until = self->work - PATIENCE, before = INFINITY;
    self->value = plb_state_value(on);
    if (self->by_transfer && !is_done(self)) {
        PLB_PASS(plb_transfer(on, self->aim->value, self->aim->families, &self->work, err));
        self->value = plb_state_value(on);
        PLB_PASS(more ? plb_state_list(on, err) : PLB_OK);
    }
    for (int32_t n = 0; more && self->work > 0.0 && !is_done(self); n++) {
        const bool crowded = !on->fits;
        PLB_PASS(one_round(self, n, &more));
        self->value = plb_state_value(on);
        if (self->work < until) {
            more = more && (crowded || self->value < before * (1.0 - PLB_WORTH));
            until = self->work - PATIENCE;
            before = self->value;
        }
    }
    return PLB_OK;
}

/* Move an object, or all objects of its block on its rank, to a random rank. */
static void kick(search_t *self)
{
    plb_state_t *on = self->on;
    const int32_t i = (int32_t)plb_rng_below(&self->rng, (uint64_t)on->in->n_objects);
    const int32_t to = (int32_t)plb_rng_below(&self->rng, (uint64_t)on->p);
    const int32_t block = plb_state_block(on, i), from = on->rank[i];
    const bool whole = block >= 0 && plb_rng_below(&self->rng, 2) == 0;
    for (int32_t j = whole ? on->head[from] : i, after; j >= 0 && from != to; j = after) {
        after = whole ? on->next[j] : -1;
        if (plb_may_migrate(on->in, j) && (!whole || plb_state_block(on, j) == block)) {
            plb_state_move(on, j, to);
        }
    }
}

/* Search again from random changes of the best placement. */
static int kicks(search_t *self, plb_err_t *err)
{
    plb_state_t *on = self->on;
    const size_t size = (size_t)on->in->n_objects * sizeof *on->rank;
    double best = self->value;
    bool fits = on->fits;
    const int most = self->by_transfer || !fits ? KICKS / 8 : KICKS;
    self->work = fmin(self->work, PATIENCE);
    PLB_PASS_NEW(self->best_rank, on->in->n_objects);
    memcpy(self->best_rank, on->rank, size);
    for (int n = 0; n < most && self->work > 0.0 && !is_done(self); n++) {
        self->work -= (double)on->in->n_objects + on->p;
        for (int k = 0; k < PLB_FEW; k++) { /* with a single one, CCMLB ends 0.4 % slower */
            kick(self);
        }
        PLB_PASS(descend(self, err));
        if (on->fits != fits ? on->fits : self->value < best * (1.0 - PLB_ROUNDING)) {
            best = self->value;
            fits = on->fits;
            memcpy(self->best_rank, on->rank, size);
        } else {
            plb_state_set(on, self->best_rank);
            self->value = plb_state_value(on);
        }
    }
    return PLB_OK;
}

int plb_improve(plb_state_t *on, const plb_aim_t *aim, plb_err_t *err)
{
    search_t self = {.on = on, .aim = aim, .work = PLB_WORK};
    const bool homes = on->slot != NULL && on->in->home != NULL && on->of.delta > 0.0;
    self.bounded = (on->own == NULL || !on->of.messages) && !homes;
    self.plain = on->own == NULL && on->left == NULL && !homes;
    plb_rng_init(&self.rng, aim->seed);
    plb_state_value(on);
    const int64_t n = on->in->n_objects;
    const bool few = aim->kicks && n <= MOST_KICKED;
    self.by_transfer = plb_state_is_plain(on) && on->fits;
    self.singly = !self.by_transfer || few;
    int ret = PLB_OK;
    if (self.singly) {
        PLB_TRY(plb_state_list(on, err));
        PLB_NEW_EACH(on->d, self.here, self.there, self.rest, self.floor, self.least);
        PLB_NEW(self.next.item, on->p);
        PLB_NEW_EACH(n, self.mine.item, self.its.item, self.spare);
        PLB_NEW(self.bin, PLB_SORT_BINS(n));
        if (!self.plain) {
            PLB_NEW_EACH(n, self.mine.change, self.its.change);
            PLB_NEW0(self.bond, n);
            PLB_NEW0(self.third, on->p);
        }
    }
    PLB_TRY(descend(&self, err));
    if (few && n > 0) {
        ret = kicks(&self, err);
    }
out:
    plb_state_value(on);
    PLB_FREE(self.here, self.there, self.rest, self.floor, self.least);
    PLB_FREE(self.next.item, self.mine.item, self.its.item, self.spare, self.best_rank);
    PLB_FREE(self.bin, self.mine.change, self.its.change, self.bond, self.third);
    return ret;
}
