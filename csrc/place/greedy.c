/* GreedyLB: the heaviest object goes where it ends first, then the next.
 *
 * Menon 2.2 ("maps the heaviest chares on to the least loaded processors"); Dasgupta's algorithm
 * 2, whose background load of a processor is `background` and the objects that may not migrate.
 * With ranks of one speed this is Graham's LPT rule: at most 4/3 - 1/(3p) times the optimum.
 *
 * Ties, so that everybody gets the same placement: of equal objects the lowest index comes first;
 * of ranks where it would end at the same time, the one that has less, then the lowest.
 */
#include <stddef.h>
#include <string.h>

#include "base/heap.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/problem.h"
#include "place/refine.h"

enum {
    MAX_CLASSES = 64,
    TICK = 1 << 16,
    STUCK = 1, /* no rank has memory for the next object */
};

/* Ranks by class of speed, one heap of times each.  Up to 64 different speeds a class holds ranks
 * of one speed, so that its least loaded rank is also where an object ends first, and the choice
 * among the tops is exact.  Beyond that the different speeds, in ascending order, are cut into 64
 * classes of equally many, and of each class its least loaded rank stands for election. */
typedef struct fleet {
    const plb_snapshot_t *in;
    int n_classes;
    plb_heap_t heap[MAX_CLASSES];
    plb_heap_item_t *item;  /* [p] of all heaps */
    plb_heap_item_t *aside; /* [p] taken out while they have no room for the object at hand */
    int32_t *class_of;      /* [p] */
    int32_t n_aside;
    int64_t *room; /* [p] or NULL */
} fleet_t;

static void fleet_free(fleet_t *self)
{
    plb_free(self->item);
    plb_free(self->aside);
    plb_free(self->class_of);
    plb_free(self->room);
}

/* order[p]: ranks by ascending speed. */
static void number_classes(fleet_t *self, const int32_t *order)
{
    const double *speed = self->in->speed;
    const int32_t p = self->in->n_ranks;
    int64_t distinct = 1, at = 0;
    for (int32_t k = 1; k < p; k++) {
        distinct += speed[order[k]] != speed[order[k - 1]];
    }
    self->n_classes = (int)(distinct < MAX_CLASSES ? distinct : MAX_CLASSES);
    for (int32_t k = 0; k < p; k++) {
        at += k > 0 && speed[order[k]] != speed[order[k - 1]];
        self->class_of[order[k]] = (int32_t)(at * self->n_classes / distinct);
    }
}

static int make_classes(fleet_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *order = NULL;
    const int32_t p = self->in->n_ranks;
    if (self->in->speed == NULL) {
        memset(self->class_of, 0, (size_t)p * sizeof *self->class_of);
        self->n_classes = 1;
        return PLB_OK;
    }
    PLB_NEW(order, p);
    ret = plb_sort_order(self->in->speed, p, PLB_ASCENDING, order, NULL, err);
    if (ret == PLB_OK) {
        number_classes(self, order);
    }
out:
    plb_free(order);
    return ret;
}

static int fleet_init(fleet_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = problem->in;
    const int32_t p = in->n_ranks;
    *self = (fleet_t){.in = in};
    PLB_NEW(self->item, p);
    PLB_NEW(self->aside, p);
    PLB_NEW(self->class_of, p);
    if (problem->room != NULL) {
        PLB_NEW(self->room, p);
        memcpy(self->room, problem->room, (size_t)p * sizeof *self->room);
    }
    ret = make_classes(self, err);
    if (ret != PLB_OK) {
        goto out;
    }
    int32_t size[MAX_CLASSES] = {0};
    for (int32_t r = 0; r < p; r++) {
        size[self->class_of[r]]++;
    }
    for (int32_t c = 0, start = 0; c < self->n_classes; start += size[c++]) {
        self->heap[c].item = self->item + start;
    }
    for (int32_t r = 0; r < p; r++) {
        const double background = in->background == NULL ? 0.0 : in->background[r];
        plb_heap_t *heap = &self->heap[self->class_of[r]];
        heap->item[heap->n++] =
            (plb_heap_item_t){background + problem->fixed[r] / plb_speed(in, r), r};
    }
    for (int c = 0; c < self->n_classes; c++) {
        plb_heap_build(&self->heap[c]);
    }
out:
    return ret;
}

/* Let each top be a rank with that much memory; the others step aside. */
static void make_way(fleet_t *self, int64_t memory)
{
    for (int c = 0; c < self->n_classes; c++) {
        plb_heap_t *heap = &self->heap[c];
        while (heap->n > 0 && self->room[heap->item[0].id] < memory) {
            self->aside[self->n_aside++] = plb_heap_pop(heap);
        }
    }
}

/* Those who stepped aside come back, unless no object at all fits on them any more. */
static void come_back(fleet_t *self, int64_t least)
{
    while (self->n_aside > 0) {
        const plb_heap_item_t back = self->aside[--self->n_aside];
        if (self->room[back.id] >= least) {
            plb_heap_push(&self->heap[self->class_of[back.id]], back.key, back.id);
        }
    }
}

/* The class whose top ends the object first, and when; -1: all are empty. */
static int elect(const fleet_t *self, double load, double *finish)
{
    int best = -1;
    for (int c = 0; c < self->n_classes; c++) {
        if (self->heap[c].n == 0) {
            continue;
        }
        const plb_heap_item_t top = self->heap[c].item[0];
        const double time = top.key + load / plb_speed(self->in, top.id);
        if (best < 0 || time < *finish ||
            (time == *finish && plb_heap_before(top, self->heap[best].item[0]))) {
            best = c;
            *finish = time;
        }
    }
    return best;
}

/* Place order[n], the heaviest first. */
static int place_all(fleet_t *self, const plb_problem_t *problem, const int32_t *order,
                     const double *load, int32_t *rank, const plb_opts_t *opts)
{
    int ret = PLB_OK;
    for (int64_t k = 0; ret == PLB_OK && k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, order[k]);
        double finish = 0.0;
        if (self->room != NULL) {
            make_way(self, self->in->memory[i]);
        }
        const int c = elect(self, load[k], &finish);
        if (c < 0) {
            return STUCK;
        }
        rank[i] = self->heap[c].item[0].id;
        plb_heap_rekey(&self->heap[c], finish);
        if (self->room != NULL) {
            self->room[rank[i]] -= self->in->memory[i];
            come_back(self, problem->least);
        }
        if (k % TICK == TICK - 1 && opts->tick != NULL) {
            ret = opts->tick(opts->tick_arg);
        }
    }
    return ret;
}

/* order[n], sorted[n]: which of the objects that may migrate, and their loads, heaviest first. */
static int sort_loads(const plb_problem_t *problem, int32_t *order, double *sorted,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    double *load = NULL;
    if (problem->object == NULL) {
        return plb_sort_order(problem->in->load, problem->n, PLB_DESCENDING, order, sorted, err);
    }
    PLB_NEW(load, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        load[k] = problem->in->load[problem->object[k]];
    }
    ret = plb_sort_order(load, problem->n, PLB_DESCENDING, order, sorted, err);
out:
    plb_free(load);
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_problem_t problem = {0};
    fleet_t fleet = {0};
    int32_t *order = NULL;
    double *load = NULL;
    (void)self;
    ret = plb_problem_init(&problem, in, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(order, problem.n);
    PLB_NEW(load, problem.n);
    if (problem.object != NULL) {
        memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    }
    ret = sort_loads(&problem, order, load, err);
    ret = ret == PLB_OK ? fleet_init(&fleet, &problem, err) : ret;
    ret = ret == PLB_OK ? place_all(&fleet, &problem, order, load, out, opts) : ret;
    if (ret == STUCK) { /* the order of loads left no room: by memory first, then by load */
        ret = plb_problem_pack(&problem, out, opts, err);
        ret = ret == PLB_OK ? plb_refine(&problem, PLB_REFINE_OVERLOAD, out, opts, err) : ret;
    }
out:
    plb_free(order);
    plb_free(load);
    fleet_free(&fleet);
    plb_problem_free(&problem);
    return ret;
}

const plb_strategy_t plb_strategy_greedy = {
    .name = "GreedyLB",
    .help = "the heaviest object to the rank where it ends first (LPT)",
    .source = "Menon 2.2; Dasgupta algorithm 2",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .run = run,
};
