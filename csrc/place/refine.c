/* RefineLB: overloaded ranks give objects to those with room, few of them.
 *
 * Menon 2.2 and 2.3.1: a rank is overloaded above `overload` times the average; only overloaded
 * ranks are examined, and nobody who receives becomes overloaded.  Dasgupta's algorithm 1: a
 * max-heap of donors; here also one of receivers, by the load that they can still take.
 *
 *   here: allowed[r], the load that rank r may have    there: avg_load
 *   allowed[r] = (overload * average - background[r]) * speed[r], and the average is the time at
 *   which all ranks would end together; with equal speeds that is the mean of their times.
 *
 * The most loaded donor (ties: the lowest rank) gives to the rank with most room (ties: the
 * lowest): of its objects in order of load (ties: of index) the first that ends its excess in one
 * move, if that fits, otherwise the last that fits.  When the most loaded donor has nothing that
 * fits anywhere the iteration cannot become shorter, so that every further move would be for
 * nothing: the end.  A donor that is below the threshold may receive.
 */
#include "place/refine.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/heap.h"
#include "base/mem.h"
#include "base/sort.h"

enum { TICK = 1 << 14 };

/* Excess below this fraction of the threshold is rounding of sums: no reason to move, and what a
 * receiver may exceed the threshold by stays below what any donor had. */
static const double SLACK = 1e-9;

typedef struct refiner {
    const plb_problem_t *problem;
    const plb_snapshot_t *in;
    int32_t *rank;
    double threshold;    /* seconds */
    double *load;        /* [p] */
    double *allowed;     /* [p] load */
    int64_t *room;       /* [p] bytes of memory left, or NULL */
    plb_heap_t donor;    /* key: -seconds */
    plb_heap_t receiver; /* key: -(allowed - load) */
    plb_item_t *aside;   /* [p] receivers without memory for the object at hand */
    int32_t n_aside;

    /* What donor r may give is give[start[r] ... end[r] - 1]: key is the load.  In order of loads
     * (ties: of objects) once r has been sorted, which happens when its turn comes first. */
    int32_t *on; /* [p] objects on a rank */
    int64_t *start, *end;
    plb_item_t *give;
    uint8_t *sorted;      /* [p] */
    int32_t *next, *prev; /* nearest entry at or behind (before) that is still there; links over
                           * several that are gone are shortened as they are followed */
    plb_item_t *spare;    /* scratch to sort the longest list */
    uint32_t *bin;
} refiner_t;

static double background(const refiner_t *self, int32_t r)
{
    return self->in->background == NULL ? 0.0 : self->in->background[r];
}

static double seconds(const refiner_t *self, int32_t r)
{
    return background(self, r) + self->load[r] / plb_speed(self->in, r);
}

static bool overloaded(const refiner_t *self, int32_t r)
{
    return seconds(self, r) > self->threshold * (1.0 + SLACK);
}

static double spare(const refiner_t *self, int32_t r)
{
    return self->allowed[r] - self->load[r];
}

static bool fits(const refiner_t *self, int32_t r, double weight)
{
    return self->load[r] + weight <= self->allowed[r];
}

/* Load and number of the objects of each rank.  Neighbours in the list often live together; their
 * sum is kept in a register instead of waiting for memory at each addition. */
static void add_loads(refiner_t *self)
{
    const plb_snapshot_t *in = self->in;
    for (int64_t i = 0; i < in->n_objects;) {
        const int32_t r = self->rank[i];
        const int64_t begin = i;
        double sum = self->load[r];
        for (; i < in->n_objects && self->rank[i] == r; i++) {
            sum += in->load[i];
        }
        self->load[r] = sum;
        self->on[r] += (int32_t)(i - begin);
    }
}

static void set_threshold(refiner_t *self, double overload)
{
    const plb_snapshot_t *in = self->in;
    double work = 0.0, speed = 0.0;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        work += self->load[r] + background(self, r) * plb_speed(in, r);
        speed += plb_speed(in, r);
    }
    self->threshold = overload * (work / speed);
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->allowed[r] = (self->threshold - background(self, r)) * plb_speed(in, r);
    }
}

static void find_ranks(refiner_t *self)
{
    for (int32_t r = 0; r < self->in->n_ranks; r++) {
        if (overloaded(self, r)) {
            self->donor.item[self->donor.n++] = (plb_item_t){-seconds(self, r), r};
        } else if (spare(self, r) > 0.0) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-spare(self, r), r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
}

/* List what the donors may give, by donor: what may migrate, has a load and fits somewhere. */
static int list_objects(refiner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n = 0;
    int32_t longest = 0;
    const plb_snapshot_t *in = self->in;
    const int32_t p = in->n_ranks, roomiest = self->receiver.item[0].id;
    PLB_NEW(self->start, p);
    PLB_NEW(self->end, p);
    PLB_NEW0(self->sorted, p);
    for (int32_t r = 0; r < p; r++) {
        const int32_t here = overloaded(self, r) ? self->on[r] : 0;
        self->start[r] = self->end[r] = n;
        n += here;
        self->on[r] = here;
        longest = here > longest ? here : longest;
    }
    PLB_NEW(self->give, n);
    PLB_NEW(self->next, n);
    PLB_NEW(self->prev, n);
    PLB_NEW(self->spare, longest);
    PLB_NEW(self->bin, 4 * (int64_t)longest);
    for (int64_t i = 0; i < in->n_objects; i++) {
        const int32_t r = self->rank[i];
        if (self->on[r] > 0 && in->load[i] > 0.0 && fits(self, roomiest, in->load[i]) &&
            plb_may_migrate(in, i)) {
            self->give[self->end[r]++] = (plb_item_t){in->load[i], (int32_t)i};
        }
    }
out:
    return ret;
}

static void sort_list(refiner_t *self, int32_t donor)
{
    const int64_t begin = self->start[donor], end = self->end[donor];
    double low = INFINITY, high = 0.0;
    for (int64_t k = begin; k < end; k++) {
        low = self->give[k].key < low ? self->give[k].key : low;
        high = self->give[k].key > high ? self->give[k].key : high;
        self->next[k] = self->prev[k] = (int32_t)k;
    }
    plb_sort_items(self->give + begin, end - begin, low, high, self->spare, self->bin);
    self->sorted[donor] = 1;
}

/* ---- one move ------------------------------------------------------------------------------- */

static int64_t at_or_behind(refiner_t *self, int64_t k, int64_t end)
{
    while (k < end && self->next[k] != k) {
        const int64_t hop = self->next[k];
        self->next[k] = hop < end ? self->next[hop] : (int32_t)hop;
        k = hop;
    }
    return k;
}

static int64_t at_or_before(refiner_t *self, int64_t k, int64_t begin)
{
    while (k >= begin && self->prev[k] != k) {
        const int64_t hop = self->prev[k];
        self->prev[k] = hop >= begin ? self->prev[hop] : (int32_t)hop;
        k = hop;
    }
    return k;
}

static void take(refiner_t *self, int64_t k)
{
    self->next[k] = (int32_t)(k + 1);
    self->prev[k] = (int32_t)(k - 1);
}

/* The first entry of a donor that ends its excess alone. */
static int64_t first_enough(const refiner_t *self, int32_t donor)
{
    int64_t low = self->start[donor], high = self->end[donor];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (self->load[donor] - self->give[middle].key <= self->allowed[donor]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Behind the last entry of a donor that fits on rank r. */
static int64_t end_of_fitting(const refiner_t *self, int32_t donor, int32_t r)
{
    int64_t low = self->start[donor], high = self->end[donor];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (fits(self, r, self->give[middle].key)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void come_back(refiner_t *self)
{
    while (self->n_aside > 0) {
        const plb_item_t back = self->aside[--self->n_aside];
        if (self->room[back.id] >= self->problem->least) {
            plb_heap_push(&self->receiver, back);
        }
    }
}

/* Bring a rank that can take entry k to the top of the receivers; those with more room for load
 * but none for its memory step aside. */
static bool find_receiver(refiner_t *self, int64_t k)
{
    while (self->receiver.n > 0 && fits(self, self->receiver.item[0].id, self->give[k].key)) {
        if (self->room == NULL ||
            self->room[self->receiver.item[0].id] >= self->in->memory[self->give[k].id]) {
            return true;
        }
        self->aside[self->n_aside++] = plb_heap_pop(&self->receiver);
    }
    come_back(self);
    return false;
}

/* What the donor should give; its receiver is then on top.  -1: nothing fits anywhere. */
static int64_t choose(refiner_t *self, int32_t donor)
{
    const int64_t begin = self->start[donor], end = self->end[donor];
    if (self->receiver.n == 0) {
        return -1;
    }
    if (!self->sorted[donor]) {
        sort_list(self, donor);
    }
    const int64_t fitting = end_of_fitting(self, donor, self->receiver.item[0].id);
    const int64_t enough = first_enough(self, donor);
    for (int64_t k = at_or_behind(self, enough, end); k < fitting;
         k = at_or_behind(self, k + 1, end)) {
        if (find_receiver(self, k)) {
            return k;
        }
    }
    const int64_t last = (enough < fitting ? enough : fitting) - 1;
    for (int64_t k = at_or_before(self, last, begin); k >= begin;
         k = at_or_before(self, k - 1, begin)) {
        if (find_receiver(self, k)) {
            return k;
        }
    }
    return -1;
}

static void move(refiner_t *self, int32_t donor, int64_t k)
{
    const int32_t to = self->receiver.item[0].id, i = self->give[k].id;
    take(self, k);
    self->rank[i] = to;
    self->load[donor] -= self->give[k].key;
    self->load[to] += self->give[k].key;
    if (self->room != NULL) {
        self->room[donor] += self->in->memory[i];
        self->room[to] -= self->in->memory[i];
    }
    plb_heap_rekey(&self->receiver, -spare(self, to));
    come_back(self);
    if (overloaded(self, donor)) {
        plb_heap_rekey(&self->donor, -seconds(self, donor));
    } else {
        plb_heap_pop(&self->donor);
        plb_heap_push(&self->receiver, (plb_item_t){-spare(self, donor), donor});
    }
}

static int move_all(refiner_t *self, const plb_opts_t *opts)
{
    int ret = PLB_OK;
    for (int64_t step = 1; ret == PLB_OK && self->donor.n > 0; step++) {
        const int32_t donor = self->donor.item[0].id;
        const int64_t k = choose(self, donor);
        if (k < 0) {
            break;
        }
        move(self, donor, k);
        if (step % TICK == 0 && opts->tick != NULL) {
            ret = opts->tick(opts->tick_arg);
        }
    }
    return ret;
}

static int memory_left(refiner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->in->n_ranks;
    if (self->problem->room == NULL) {
        return PLB_OK;
    }
    PLB_NEW(self->room, p);
    PLB_NEW(self->aside, p);
    memcpy(self->room, self->problem->room, (size_t)p * sizeof *self->room);
    for (int64_t k = 0; k < self->problem->n; k++) {
        const int32_t i = plb_problem_object(self->problem, k);
        self->room[self->rank[i]] -= self->in->memory[i];
    }
out:
    return ret;
}

int plb_refine(const plb_problem_t *problem, double overload, int32_t *rank,
               const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = problem->in->n_ranks;
    refiner_t self = {.problem = problem, .in = problem->in, .rank = rank};
    PLB_NEW0(self.load, p);
    PLB_NEW0(self.on, p);
    PLB_NEW(self.allowed, p);
    PLB_NEW(self.donor.item, p);
    PLB_NEW(self.receiver.item, p);
    add_loads(&self);
    set_threshold(&self, overload);
    find_ranks(&self);
    if (self.donor.n == 0 || self.receiver.n == 0) {
        goto out;
    }
    ret = memory_left(&self, err);
    ret = ret == PLB_OK ? list_objects(&self, err) : ret;
    ret = ret == PLB_OK ? move_all(&self, opts) : ret;
out:
    plb_free(self.load);
    plb_free(self.allowed);
    plb_free(self.donor.item);
    plb_free(self.receiver.item);
    plb_free(self.room);
    plb_free(self.aside);
    plb_free(self.on);
    plb_free(self.start);
    plb_free(self.end);
    plb_free(self.give);
    plb_free(self.sorted);
    plb_free(self.next);
    plb_free(self.prev);
    plb_free(self.spare);
    plb_free(self.bin);
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    (void)self;
    int ret = plb_problem_init(&problem, in, err);
    if (ret != PLB_OK) {
        return ret;
    }
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    ret = plb_problem_repair(&problem, out, opts, err);
    ret = ret == PLB_OK ? plb_refine(&problem, opts->params[0], out, opts, err) : ret;
    plb_problem_free(&problem);
    return ret;
}

static const plb_param_t params[] = {
    {"overload", "x average", "a rank above this multiple of the average gives objects away",
     PLB_REFINE_OVERLOAD, 1.0, 1e6},
};

const plb_strategy_t plb_strategy_refine = {
    .name = "RefineLB",
    .help = "objects from overloaded ranks to those with room, few migrations",
    .source = "Menon 2.2, 2.3.1; Dasgupta algorithm 1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run,
};
