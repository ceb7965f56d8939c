/* VectorLB: places objects with several loads each (components).  Objects may share blocks of
 * memory.
 *
 * With phases = 1, components are phases, and all ranks end a phase together.  With phases = 0,
 * components are kinds of processors.
 *
 *   t[k][r]  seconds of rank r in component k: load / speed; t[0][r] includes the background
 *   goal[k]  lower bound of the slowest rank's t[k][r]: the average over the ranks or, if it is
 *            larger, the time of the heaviest object on the fastest rank
 *   cost     with phases = 1, the sum over k of the slowest rank's t[k][r]; with phases = 0, the
 *            largest t[k][r] / goal[k]
 *
 * Step 1: take the objects in descending order of their largest component, in units of its goal.
 * An object stays if each component of its rank remains within `overload` times the goal.
 *
 * Step 2: take the other objects in the same order.  Each goes to the rank whose largest
 * t[k][r] / goal[k] is then smallest.
 *
 * Step 3: in each round, try all moves of one object away from the slowest rank of any component,
 * and make the move that lowers the cost most.  If no move lowers the cost, make the best exchange
 * of two objects instead, until no exchange lowers the cost.
 *
 * If an object does not fit into memory in step 2, step 2 is repeated for all objects, those with
 * the largest memory first.  If an object still fits nowhere, or if the result of step 3 is no
 * better than the present placement, only step 3 is done, from the present placement (if this
 * keeps the memory limits).
 *
 * Ties: the lowest index, the lowest rank. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/kit/members.h"
#include "place/kit/memory.h"
#include "place/kit/problem.h"

enum { PARAM_OVERLOAD, PARAM_PHASES };
enum { MOST_ROUNDS = 1 << 16 };

/* Step 3 examines at most this many numbers, which takes a few tenths of a second. */
static const double WORK = 5e7;

/* A gain below this fraction of the cost is due to rounding. */
static const double SLACK = 1e-12;

/* The three slowest ranks of a component, the slowest first. */
typedef struct top {
    double time[3];
    int32_t rank[3];
} top_t;

typedef struct vector {
    const plb_snapshot_t *in;
    int32_t p, d; /* number of ranks, number of components */
    bool phases;  /* true: components are phases; false: kinds of processors */
    double overload;
    double *goal, *per; /* [d] goal: in seconds; 0: no load; per: 1 / goal, or 0 */
    double *pace;       /* [p] 1 / speed */
    double *t;          /* [d * p] t[k][r], see above */
    double *score;      /* [p] scratch memory of score_ranks */
    top_t *top;         /* [d] slowest ranks of each component */
    int32_t *rank;      /* [n] the new rank of each object */
    plb_members_t on;   /* objects of each rank that may migrate */
    plb_memory_t memory;
    double work; /* number of numbers that step 3 may still examine */
} vector_t;

static double load(const vector_t *self, int64_t i, int32_t k)
{
    return self->in->load[i * self->d + k];
}

static void put(vector_t *self, int32_t i, int32_t r)
{
    self->rank[i] = r;
    for (int32_t k = 0; k < self->d; k++) {
        self->t[(int64_t)k * self->p + r] += load(self, i, k) * self->pace[r];
    }
    plb_memory_add(&self->memory, i, r);
    if (plb_may_migrate(self->in, i)) {
        plb_members_enter(&self->on, i, r);
    }
}

static void take(vector_t *self, int32_t i)
{
    const int32_t r = self->rank[i];
    for (int32_t k = 0; k < self->d; k++) {
        self->t[(int64_t)k * self->p + r] -= load(self, i, k) * self->pace[r];
    }
    plb_memory_remove(&self->memory, i, r);
    plb_members_leave(&self->on, i, r);
}

/* Begin with only the background and the fixed objects. */
static int start_over(vector_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->in;
    plb_memory_free(&self->memory);
    const int ret = plb_memory_init(&self->memory, in, in->n_objects + 2 * MOST_ROUNDS, err);
    memset(self->t, 0, (size_t)self->d * (size_t)self->p * sizeof *self->t);
    for (int32_t r = 0; r < self->p; r++) {
        self->t[r] = plb_background(in, r);
        self->on.head[r] = -1;
    }
    for (int64_t i = 0; ret == PLB_OK && in->migratable != NULL && i < in->n_objects; i++) {
        if (!in->migratable[i]) {
            put(self, (int32_t)i, in->rank[i]);
        }
    }
    return ret;
}

static void set_goals(vector_t *self)
{
    const plb_snapshot_t *in = self->in;
    double speed = 0.0, fastest = 0.0, background = 0.0;
    for (int32_t r = 0; r < self->p; r++) {
        const double v = plb_speed(in, r);
        self->pace[r] = 1.0 / v;
        speed += v;
        fastest = v > fastest ? v : fastest;
        background += plb_background(in, r) * v;
    }
    for (int32_t k = 0; k < self->d; k++) {
        double sum = k == 0 ? background : 0.0, heaviest = 0.0;
        for (int64_t i = 0; i < in->n_objects; i++) {
            sum += load(self, i, k);
            heaviest = fmax(heaviest, load(self, i, k));
        }
        self->goal[k] = fmax(sum / speed, heaviest / fastest);
        /* the inverse of a subnormal number would be infinite */
        self->per[k] = self->goal[k] > 0.0 ? fmin(1.0 / self->goal[k], DBL_MAX) : 0.0;
    }
}

/* ---- steps 1 and 2 -------------------------------------------------------------------------- */

/* Compute score[r], the largest component of rank r with the object, in units of the goal. */
PLB_MULTIVERSION
static void score_ranks(const vector_t *self, const double *object)
{
    const int32_t p = self->p;
    double *restrict score = self->score;
    memset(score, 0, (size_t)p * sizeof *score);
    for (int32_t k = 0; k < self->d; k++) {
        const double *restrict t = self->t + (int64_t)k * p, *restrict pace = self->pace;
        const double x = object[k], per = self->per[k];
        for (int32_t r = 0; r < p; r++) {
            const double s = (t[r] + x * pace[r]) * per;
            score[r] = s > score[r] ? s : score[r];
        }
    }
}

/* Return the rank for an object; -1: the object fits nowhere. */
static int32_t best_rank(const vector_t *self, int64_t i)
{
    int32_t best = -1;
    score_ranks(self, self->in->load + i * self->d);
    for (int32_t r = 0; r < self->p; r++) {
        if ((best < 0 || self->score[r] < self->score[best]) &&
            plb_memory_fits(&self->memory, i, r)) {
            best = r;
        }
    }
    return best;
}

static bool fits_at_home(const vector_t *self, int64_t i)
{
    const int32_t r = self->in->rank[i];
    for (int32_t k = 0; k < self->d; k++) {
        const double t = self->t[(int64_t)k * self->p + r] + load(self, i, k) * self->pace[r];
        if (t > self->overload * self->goal[k]) {
            return false;
        }
    }
    return plb_memory_fits(&self->memory, i, r);
}

/* Do steps 1 (if `stay`) and 2.  *stuck: an object that fits nowhere; -1: all are placed. */
static int build(vector_t *self, const plb_loads_t *order, bool stay, int64_t *stuck,
                 plb_err_t *err)
{
    const int64_t n = self->in->n_objects;
    int ret = start_over(self, err);
    PLB_THEN(plb_problem_check_left(self->in, self->memory.left, err));
    *stuck = -1;
    for (int64_t j = 0; ret == PLB_OK && j < n; j++) {
        const int32_t i = order->item[j].id;
        if (plb_may_migrate(self->in, i)) {
            self->rank[i] = -1;
            if (stay && fits_at_home(self, i)) {
                put(self, i, self->in->rank[i]);
            }
        }
    }
    for (int64_t j = 0; ret == PLB_OK && *stuck < 0 && j < n; j++) {
        const int32_t i = order->item[j].id;
        if (self->rank[i] < 0) {
            const int32_t r = best_rank(self, i);
            if (r >= 0) {
                put(self, i, r);
            } else {
                *stuck = i;
            }
        }
        PLB_THEN(plb_interrupted(self->p));
    }
    return ret;
}

static void sizes_by_load(const vector_t *self, double *size)
{
    for (int64_t i = 0; i < self->in->n_objects; i++) {
        size[i] = 0.0;
        for (int32_t k = 0; k < self->d; k++) {
            size[i] = fmax(size[i], load(self, i, k) * self->per[k]);
        }
    }
}

static void sizes_by_memory(const vector_t *self, double *size)
{
    const plb_snapshot_t *in = self->in;
    for (int64_t i = 0; i < in->n_objects; i++) {
        const int64_t own = in->memory == NULL ? 0 : in->memory[i];
        const bool shares = in->block != NULL && in->block[i] >= 0;
        size[i] = (double)own + (shares ? (double)in->block_bytes[in->block[i]] : 0.0);
    }
}

static int construct(vector_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->in->n_objects;
    int64_t stuck;
    double *size = NULL;
    plb_loads_t order = {0};
    PLB_NEW(size, n);
    sizes_by_load(self, size);
    PLB_TRY(plb_loads_sorted(&order, size, n, PLB_DESCENDING, err));
    PLB_TRY(build(self, &order, true, &stuck, err));
    if (stuck >= 0) {
        plb_loads_free(&order);
        sizes_by_memory(self, size);
        PLB_TRY(plb_loads_sorted(&order, size, n, PLB_DESCENDING, err));
        PLB_TRY(build(self, &order, false, &stuck, err));
    }
    if (stuck >= 0) {
        const int64_t key = self->in->key == NULL ? stuck : self->in->key[stuck];
        ret = PLB_FAIL(err, PLB_ERR_INFEASIBLE,
                       "no placement found that keeps memory_limit: object %lld, with any "
                       "block that it shares, fits on no rank after the larger objects "
                       "are placed",
                       (long long)key);
    }
out:
    plb_loads_free(&order);
    plb_free(size);
    return ret;
}

/* ---- step 3 --------------------------------------------------------------------------------- */

static void find_tops(vector_t *self)
{
    for (int32_t k = 0; k < self->d; k++) {
        top_t *top = &self->top[k];
        *top = (top_t){{-1.0, -1.0, -1.0}, {-1, -1, -1}};
        for (int32_t r = 0; r < self->p; r++) {
            const double t = self->t[(int64_t)k * self->p + r];
            for (int j = 0; j < 3; j++) {
                if (t > top->time[j]) {
                    for (int m = 2; m > j; m--) {
                        top->time[m] = top->time[m - 1];
                        top->rank[m] = top->rank[m - 1];
                    }
                    top->time[j] = t;
                    top->rank[j] = r;
                    break;
                }
            }
        }
    }
}

static double joined(const vector_t *self, double cost, double longest, int32_t k)
{
    return self->phases ? cost + longest : fmax(cost, longest * self->per[k]);
}

static double cost_of(const vector_t *self)
{
    double cost = 0.0;
    for (int32_t k = 0; k < self->d; k++) {
        cost = joined(self, cost, self->top[k].time[0], k);
    }
    return cost;
}

/* Return the cost after object i has moved from rank a to b, and object j (-1: none) back. */
static double cost_after(const vector_t *self, int32_t i, int32_t a, int32_t j, int32_t b)
{
    double cost = 0.0;
    for (int32_t k = 0; k < self->d; k++) {
        const double x = load(self, i, k) - (j < 0 ? 0.0 : load(self, j, k));
        const double *t = self->t + (int64_t)k * self->p;
        const top_t *top = &self->top[k];
        double longest = fmax(t[a] - x * self->pace[a], t[b] + x * self->pace[b]);
        for (int m = 0; m < 3; m++) { /* find the slowest of the other ranks */
            if (top->rank[m] != a && top->rank[m] != b) {
                longest = fmax(longest, top->time[m]);
                break;
            }
        }
        cost = joined(self, cost, longest, k);
    }
    return cost;
}

typedef struct step {
    double cost;
    int32_t i, j, to;
} step_t;

static bool better(step_t x, step_t y)
{
    if (x.cost != y.cost) {
        return x.cost < y.cost;
    }
    return x.i != y.i ? x.i < y.i : x.to != y.to ? x.to < y.to : x.j < y.j;
}

static bool exchange_fits(vector_t *self, int32_t i, int32_t a, int32_t j, int32_t b)
{
    if (self->memory.left == NULL) {
        return true;
    }
    plb_memory_remove(&self->memory, i, a);
    plb_memory_remove(&self->memory, j, b);
    const bool fits = plb_memory_fits(&self->memory, i, b) && plb_memory_fits(&self->memory, j, a);
    plb_memory_add(&self->memory, i, a);
    plb_memory_add(&self->memory, j, b);
    return fits;
}

/* Find the best move of an object of rank a that has a load in component k. */
static void look_for_move(vector_t *self, int32_t a, int32_t k, step_t *best)
{
    for (int32_t i = self->on.head[a]; i >= 0; i = self->on.next[i]) {
        self->work -= load(self, i, k) > 0.0 ? (double)self->p * self->d : 0.0;
        for (int32_t b = 0; b < self->p && load(self, i, k) > 0.0 && self->work > 0.0; b++) {
            if (b != a) {
                const step_t x = {cost_after(self, i, a, -1, b), i, -1, b};
                if (better(x, *best) && plb_memory_fits(&self->memory, i, b)) {
                    *best = x;
                }
            }
        }
    }
}

/* Find the best exchange of an object of rank a for an object with less load in component k. */
static void look_for_exchange(vector_t *self, int32_t a, int32_t k, step_t *best)
{
    for (int32_t i = self->on.head[a]; i >= 0; i = self->on.next[i]) {
        for (int32_t b = 0; b < self->p && self->work > 0.0; b++) {
            for (int32_t j = b == a ? -1 : self->on.head[b]; j >= 0; j = self->on.next[j]) {
                self->work -= self->d;
                if (load(self, j, k) < load(self, i, k)) {
                    const step_t x = {cost_after(self, i, a, j, b), i, j, b};
                    if (better(x, *best) && exchange_fits(self, i, a, j, b)) {
                        *best = x;
                    }
                }
            }
        }
    }
}

static void make(vector_t *self, const step_t *step)
{
    const int32_t a = self->rank[step->i];
    take(self, step->i);
    if (step->j >= 0) {
        take(self, step->j);
        put(self, step->j, a);
    }
    put(self, step->i, step->to);
}

static int improve(vector_t *self)
{
    int ret = PLB_OK;
    self->work = WORK;
    for (int32_t round = 0; ret == PLB_OK && round < MOST_ROUNDS && self->work > 0.0; round++) {
        find_tops(self);
        const double cost = cost_of(self);
        step_t best = {cost * (1.0 - SLACK), INT32_MAX, -1, -1};
        for (int kind = 0; kind < 2 && best.to < 0; kind++) {
            for (int32_t k = 0; k < self->d; k++) {
                if (self->per[k] > 0.0) {
                    (kind == 0 ? look_for_move : look_for_exchange)(self, self->top[k].rank[0], k,
                                                                    &best);
                }
            }
        }
        if (best.to < 0) {
            break;
        }
        make(self, &best);
        ret = plb_interrupted(PLB_INTERRUPT_NOW);
    }
    return ret;
}

/* Put every object on its present rank; *kept: whether this keeps the memory limits. */
static int go_home(vector_t *self, bool *kept, plb_err_t *err)
{
    const int ret = start_over(self, err);
    for (int64_t i = 0; ret == PLB_OK && i < self->in->n_objects; i++) {
        if (plb_may_migrate(self->in, i)) {
            put(self, (int32_t)i, self->in->rank[i]);
        }
    }
    *kept = ret == PLB_OK;
    for (int32_t r = 0; self->memory.left != NULL && r < self->p; r++) {
        *kept = *kept && self->memory.left[r] >= 0;
    }
    find_tops(self);
    return ret;
}

static int allocate(vector_t *self, plb_err_t *err)
{
    const int64_t n = self->in->n_objects, p = self->p, d = self->d;
    PLB_PASS_NEW_EACH(d, self->goal, self->per);
    PLB_PASS_NEW(self->pace, p);
    PLB_PASS_NEW(self->t, d * p);
    PLB_PASS_NEW(self->score, p);
    PLB_PASS_NEW(self->top, d);
    return plb_members_init(&self->on, self->p, n, err);
}

static void vector_free(vector_t *self)
{
    PLB_FREE(self->goal, self->per, self->pace, self->t, self->score, self->top);
    plb_members_free(&self->on);
    plb_memory_free(&self->memory);
}

static int run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    (void)strategy;
    vector_t self = {.in = in,
                     .p = in->n_ranks,
                     .d = in->n_components,
                     .phases = opts->params[PARAM_PHASES] != 0.0,
                     .overload = opts->params[PARAM_OVERLOAD],
                     .rank = out};
    bool kept = false;
    double before = 0.0;
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    int ret = allocate(&self, err);
    if (ret == PLB_OK) {
        set_goals(&self);
        ret = go_home(&self, &kept, err);
        before = cost_of(&self);
    }
    PLB_THEN(construct(&self, err));
    PLB_THEN(improve(&self));
    if (ret == PLB_OK) {
        find_tops(&self);
    }
    if (kept && (ret == PLB_ERR_INFEASIBLE || (ret == PLB_OK && cost_of(&self) >= before))) {
        ret = go_home(&self, &kept, err);
        PLB_THEN(improve(&self));
    }
    vector_free(&self);
    return ret;
}

static const plb_param_t params[] = {
    {"overload", "x goal",
     "an object stays only if each component of its rank is at most this multiple of the goal",
     1.02, 1.0, 1e6},
    {"phases", "",
     "1: an object has a load for each phase, and all ranks end each phase together; 0: it has a "
     "load for each kind of processor, and each kind is balanced",
     1, 0, 1},
};

const plb_strategy_t plb_strategy_vector = {
    .name = "VectorLB",
    .help =
        "places objects with several loads each (phases, or kinds of processors) and with shared "
        "blocks of memory",
    .source = "pylb",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 2,
    .run = run,
};
