/* GreedyLB: places the objects, the heaviest first, each on the rank where it would end first.
 *
 * Menon 2.2 ("maps the heaviest chares on to the least loaded processors"); Dasgupta's algorithm
 * 2, where the background load of a processor is `background` plus the objects that may not
 * migrate.  With p ranks of the same speed this is Graham's LPT rule: the makespan is at most 4/3
 * - 1/(3p) times the optimum.
 *
 * With memory limits, an object only goes where it fits.  If an object fits nowhere, the start is
 * a placement by memory alone; if the result is slower than the present placement, it is that one,
 * refined.
 *
 * Ties: of objects with equal loads, the lowest index comes first.  If an object would end at the
 * same time on several ranks: the rank with the least time so far, then the lowest rank. */
#include <math.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/internal.h"

enum {
    MAX_CLASSES = 64,
    STUCK = 1, /* result: no rank has memory for the next object */
};

/* Ranks in classes by speed; each class has a heap of its ranks' times.  With up to 64 different
 * speeds, all ranks of a class have the same speed: an object ends first on the least loaded one,
 * and the choice among the tops of all heaps is exact.  With more speeds it is approximate. */
typedef struct fleet {
    const plb_snapshot_t *in;
    int n_classes;
    plb_heap_t heap[MAX_CLASSES];
    plb_item_t *item;  /* [p] the items of all heaps */
    plb_item_t *aside; /* [n_aside] ranks with too little memory for the current object */
    int32_t *class_of; /* [p] class of each rank */
    int32_t n_aside;
    int64_t *room; /* [p] bytes of memory left; NULL: no limits */
} fleet_t;

static void fleet_free(fleet_t *self)
{
    PLB_FREE(self->item, self->aside, self->class_of, self->room);
}

/* Give a class to each rank; order[p] has the ranks by ascending speed. */
static void number_classes(fleet_t *self, const plb_item_t *order)
{
    const int32_t p = self->in->n_ranks;
    int64_t distinct = 1, at = 0;
    for (int32_t k = 1; k < p; k++) {
        distinct += order[k].key != order[k - 1].key;
    }
    self->n_classes = (int)(distinct < MAX_CLASSES ? distinct : MAX_CLASSES);
    for (int32_t k = 0; k < p; k++) {
        at += k > 0 && order[k].key != order[k - 1].key;
        self->class_of[order[k].id] = (int32_t)(at * self->n_classes / distinct);
    }
}

static int make_classes(fleet_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_loads_t order = {0};
    const int32_t p = self->in->n_ranks;
    if (self->in->speed == NULL) {
        memset(self->class_of, 0, (size_t)p * sizeof *self->class_of);
        self->n_classes = 1;
        return PLB_OK;
    }
    ret = plb_loads_sorted(&order, self->in->speed, p, PLB_ASCENDING, err);
    if (ret == PLB_OK) {
        number_classes(self, order.item);
    }
    plb_loads_free(&order);
    return ret;
}

static int fleet_init(fleet_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const int32_t p = in->n_ranks;
    *self = (fleet_t){.in = in};
    PLB_PASS_NEW_EACH(p, self->item, self->aside, self->class_of);
    if (problem->room != NULL) {
        PLB_PASS_NEW(self->room, p);
        memcpy(self->room, problem->room, (size_t)p * sizeof *self->room);
    }
    PLB_PASS(make_classes(self, err));
    int32_t size[MAX_CLASSES] = {0};
    for (int32_t r = 0; r < p; r++) {
        size[self->class_of[r]]++;
    }
    for (int32_t c = 0, start = 0; c < self->n_classes; start += size[c++]) {
        self->heap[c].item = self->item + start;
    }
    for (int32_t r = 0; r < p; r++) {
        plb_heap_t *heap = &self->heap[self->class_of[r]];
        heap->item[heap->n++] = (plb_item_t){plb_problem_fixed_seconds(problem, r), r};
    }
    for (int c = 0; c < self->n_classes; c++) {
        plb_heap_build(&self->heap[c]);
    }
    return PLB_OK;
}

/* Bring a rank with `memory` free bytes to the top of each heap; set aside ranks with less. */
static void make_way(fleet_t *self, int64_t memory)
{
    for (int c = 0; c < self->n_classes; c++) {
        plb_heap_t *heap = &self->heap[c];
        while (heap->n > 0 && self->room[heap->item[0].id] < memory) {
            self->aside[self->n_aside++] = plb_heap_pop(heap);
        }
    }
}

/* Put ranks that were set aside back into their heaps, if the smallest object fits on them. */
static void come_back(fleet_t *self, int64_t least)
{
    while (self->n_aside > 0) {
        const plb_item_t back = self->aside[--self->n_aside];
        if (self->room[back.id] >= least) {
            plb_heap_push(&self->heap[self->class_of[back.id]], back);
        }
    }
}

/* Return the class whose top rank would end the object first, at *finish; -1: no rank is left. */
static int elect(const fleet_t *self, double load, double *finish)
{
    int best = -1;
    for (int c = 0; c < self->n_classes; c++) {
        if (self->heap[c].n == 0) {
            continue;
        }
        const plb_item_t top = self->heap[c].item[0];
        const double time = top.key + load / plb_speed(self->in, top.id);
        if (best < 0 || time < *finish ||
            (time == *finish && plb_item_before(top, self->heap[best].item[0]))) {
            best = c;
            *finish = time;
        }
    }
    return best;
}

/* The keys of the objects are negated loads. */
static int place_one_by_one(const plb_problem_t *problem, plb_loads_t *loads, int32_t *rank,
                            plb_err_t *err)
{
    fleet_t self;
    const plb_item_t *object = loads->item;
    int ret = fleet_init(&self, problem, err);
    plb_loads_sort(loads, loads->n);
    for (int64_t k = 0; ret == PLB_OK && k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, object[k].id);
        double finish = 0.0;
        if (self.room != NULL) {
            make_way(&self, self.in->memory[i]);
        }
        const int c = elect(&self, -object[k].key, &finish);
        if (c < 0) {
            ret = STUCK;
            break;
        }
        rank[i] = self.heap[c].item[0].id;
        plb_heap_rekey(&self.heap[c], finish);
        if (self.room != NULL) {
            self.room[rank[i]] -= self.in->memory[i];
            come_back(&self, problem->least);
        }
        ret = plb_interrupted(4);
    }
    fleet_free(&self);
    return ret;
}

/* ---- ranks of one speed, no limits: LPT in rounds ------------------------------------------- */

/* The ranks in a line, the least loaded first, and scratch memory to sort them again. */
typedef struct line {
    plb_item_t *rank, *spare;
    uint32_t *bin;
    int32_t p;
} line_t;

/* Give object[0 ... n-1] to the ranks in line, one object each; return how many were given.  Each
 * object must go to the least loaded rank.  So the round ends when a rank that got an object in
 * this round has no more load than the next rank in line.  The line is sorted in sections: a new
 * one begins at each rank that, even with the round's lightest object, ends later than all ranks
 * before it.  (Rounding of sums is monotonic, so this test is safe.) */
PLB_MULTIVERSION
static int32_t hand_out(line_t *self, const plb_item_t *object, int64_t n,
                        const plb_problem_t *problem, int32_t *out)
{
    plb_item_t *line = self->rank;
    const int32_t end = n < self->p ? (int32_t)n : self->p;
    const double lightest = -object[end - 1].key;
    plb_item_t least = {INFINITY, INT32_MAX};
    double low = INFINITY, high = -INFINITY;
    int32_t begin = 0, k = 0;
    for (; k < end && plb_item_before(line[k], least); k++) {
        plb_item_t here = line[k];
        if (here.key + lightest > high && k > begin) {
            plb_sort_items(line + begin, k - begin, low, high, self->spare, self->bin);
            begin = k;
            low = INFINITY;
            high = -INFINITY;
        }
        here.key -= object[k].key;
        out[plb_problem_object(problem, object[k].id)] = here.id;
        line[k] = here;
        least = plb_item_before(here, least) ? here : least;
        low = here.key < low ? here.key : low;
        high = here.key > high ? here.key : high;
    }
    plb_sort_items(line + begin, k - begin, low, high, self->spare, self->bin);
    return k;
}

/* Sort the line again after its first k ranks got an object. */
static void line_up(line_t *self, int32_t k)
{
    plb_item_t *a = self->rank;
    if (k == self->p || plb_item_before(a[k - 1], a[k])) {
        return;
    }
    memcpy(self->spare, a, (size_t)k * sizeof *a);
    int32_t from = 0, at = 0, old = k;
    while (from < k) { /* an item is only overwritten after it was read */
        a[at++] = old < self->p && plb_item_before(a[old], self->spare[from])
                      ? a[old++]
                      : self->spare[from++];
    }
}

static int line_init(line_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    double low = INFINITY, high = 0.0;
    *self = (line_t){.p = in->n_ranks};
    PLB_PASS_NEW_EACH(self->p, self->rank, self->spare);
    PLB_PASS_NEW(self->bin, PLB_SORT_BINS(self->p));
    for (int32_t r = 0; r < self->p; r++) {
        const double key = plb_problem_fixed_seconds(problem, r);
        self->rank[r] = (plb_item_t){key, r};
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    plb_sort_items(self->rank, self->p, low, high, self->spare, self->bin);
    return PLB_OK;
}

/* Sort the loads below index `upto`, and convert them to seconds on a rank of this speed. */
static void get_ready(plb_loads_t *loads, int64_t upto, double speed)
{
    int64_t k = loads->ready;
    plb_loads_sort(loads, upto < loads->n ? upto : loads->n);
    for (; speed != 1.0 && k < loads->ready; k++) {
        loads->item[k].key /= speed;
    }
}

static int place_in_rounds(const plb_problem_t *problem, plb_loads_t *loads, int32_t *rank,
                           plb_err_t *err)
{
    line_t line;
    int ret = line_init(&line, problem, err);
    for (int64_t done = 0; ret == PLB_OK && done < loads->n;) {
        get_ready(loads, done + line.p, plb_speed(problem->in, 0));
        const int32_t k = hand_out(&line, loads->item + done, loads->n - done, problem, rank);
        line_up(&line, k);
        done += k;
        ret = plb_interrupted(4 * (int64_t)k);
    }
    PLB_FREE(line.rank, line.spare, line.bin);
    return ret;
}

/* Place by memory alone, then refine by load. */
static int start_by_memory(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    PLB_PASS(plb_pack(problem, rank, err));
    return plb_refine_more(problem, PLB_REFINE_OVERLOAD, rank, err);
}

/* Memory limits may leave heavy objects no rank but a busy one.  If the result is slower than the
 * present placement, take that one, refined. */
static int compare_with_present(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    double after, before;
    int32_t *present = NULL;
    PLB_NEW(present, problem->in->n_objects);
    PLB_TRY(plb_pack_present(problem, present, err));
    PLB_TRY(plb_problem_slowest(problem, rank, &after, err));
    PLB_TRY(plb_problem_slowest(problem, present, &before, err));
    if (after > before) {
        PLB_TRY(plb_refine_more(problem, PLB_REFINE_OVERLOAD, present, err));
        memcpy(rank, present, (size_t)problem->in->n_objects * sizeof *rank);
    }
out:
    plb_free(present);
    return ret;
}

static int greedy_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    (void)opts;
    plb_problem_t problem;
    plb_loads_t loads = {0};
    (void)self;
    PLB_PASS(plb_problem_init(&problem, in, err));
    if (problem.object != NULL) {
        memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    }
    int ret = plb_problem_by_load(&problem, &loads, err);
    if (ret == PLB_OK && problem.room == NULL && plb_all_equal(in->speed, in->n_ranks)) {
        ret = place_in_rounds(&problem, &loads, out, err);
    } else if (ret == PLB_OK) {
        ret = place_one_by_one(&problem, &loads, out, err);
    }
    if (ret == STUCK) {
        ret = start_by_memory(&problem, out, err);
    }
    if (ret == PLB_OK && problem.room != NULL) {
        ret = compare_with_present(&problem, out, err);
    }
    plb_loads_free(&loads);
    plb_problem_free(&problem);
    return ret;
}

const plb_strategy_t plb_strategy_greedy = {
    .name = "GreedyLB",
    .help = "gives each object, the heaviest first, to the rank where it ends first (LPT)",
    .source = "Menon 2.2; Dasgupta algorithm 2",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .run = greedy_run,
};
