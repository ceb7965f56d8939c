#include "place/internal.h"

#include <string.h>

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"

/* Sort the objects that may migrate, the largest memory first.  (Doubles round sizes above 2^53
 * bytes, which hardly affects the order.) */
static int by_memory(const plb_problem_t *problem, plb_loads_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double *memory = NULL;
    PLB_NEW(memory, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        memory[k] = (double)problem->in->memory[plb_problem_object(problem, k)];
    }
    PLB_TRY(plb_loads_sorted(out, memory, problem->n, PLB_DESCENDING, err));
    for (int64_t k = 0; k < problem->n; k++) {
        out->item[k].id = plb_problem_object(problem, out->item[k].id);
    }
out:
    plb_free(memory);
    return ret;
}

/* A binary tree over the bins (ranks); each node has the free memory of the emptiest bin below it.
 * The children of node v are 2v and 2v + 1; the leaves start at `size`. */
typedef struct bins {
    int64_t *most;
    int32_t size, n;
} bins_t;

static void bins_set(bins_t *self, int32_t r, int64_t room)
{
    int32_t v = self->size + r;
    self->most[v] = room;
    for (v /= 2; v >= 1; v /= 2) {
        const int64_t a = self->most[2 * v], b = self->most[2 * v + 1];
        self->most[v] = a > b ? a : b;
    }
}

/* Return the first bin from `from` on with at least `need` bytes of free memory; -1: there is
 * none.  The search goes up until a subtree on the right has such a bin, then down. */
static int32_t bins_find(const bins_t *self, int32_t from, int64_t need)
{
    int32_t v = self->size + from;
    if (from >= self->n) {
        return -1;
    }
    while (self->most[v] < need) {
        while (v & 1) {
            v /= 2;
        }
        if (v == 0) { /* there is no subtree further to the right */
            return -1;
        }
        v++;
    }
    while (v < self->size) {
        v = self->most[2 * v] >= need ? 2 * v : 2 * v + 1;
    }
    return v - self->size;
}

static int bins_init(bins_t *self, const int64_t *room, int32_t n, plb_err_t *err)
{
    self->n = n;
    for (self->size = 1; self->size < n; self->size *= 2) {
    }
    PLB_PASS_NEW(self->most, 2 * (int64_t)self->size);
    for (int32_t v = 0; v < 2 * self->size; v++) {
        self->most[v] = -1; /* a leaf without a bin: no object fits */
    }
    for (int32_t r = 0; r < n; r++) {
        bins_set(self, r, room[r]);
    }
    return PLB_OK;
}

/* Return the next bin to try for an object that was taken out of bin `last` (-1: the object was in
 * no bin); -1: there is none.  Bins with as much free memory as `last` are skipped, because they
 * would fail in the same way. */
static int32_t next_bin(const bins_t *bins, int32_t last, int64_t need)
{
    int32_t r = bins_find(bins, last + 1, need);
    while (r >= 0 && last >= 0 && bins->most[bins->size + r] == bins->most[bins->size + last]) {
        r = bins_find(bins, r + 1, need);
    }
    return r;
}

/* Set room[] to the free memory of each rank; return whether the limits are kept. */
static bool free_memory(const plb_problem_t *problem, const int32_t *rank, int64_t *room)
{
    bool kept = true;
    const int32_t p = problem->in->n_ranks;
    memcpy(room, problem->room, (size_t)p * sizeof *room);
    for (int64_t k = 0; k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, k);
        room[rank[i]] -= problem->in->memory[i];
    }
    for (int32_t r = 0; r < p; r++) {
        kept = kept && room[r] >= 0;
    }
    return kept;
}

/* Write the present placement to rank[]; *kept: whether it keeps the memory limits. */
static int stay(const plb_problem_t *problem, int32_t *rank, bool *kept, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *room = NULL;
    PLB_NEW(room, problem->in->n_ranks);
    for (int64_t k = 0; k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, k);
        rank[i] = problem->in->rank[i];
    }
    *kept = free_memory(problem, rank, room);
    plb_free(room);
out:
    return ret;
}

/* A search in depth: each object, the largest first, goes to the first bin where it fits; if there
 * is none, the object before it goes to its next bin. */
typedef struct search {
    plb_loads_t order;
    bins_t bins;
    int64_t least;              /* bytes of the smallest object that needs any */
    __int128 waste, most_waste; /* bytes in bins with less free memory than that */
    int64_t failed, roomiest; /* the first object that fitted nowhere; the most free memory then */
} search_t;

static int64_t room_in(const search_t *self, int32_t r)
{
    return self->bins.most[self->bins.size + r];
}

static int64_t wasted(const search_t *self, int32_t r)
{
    return room_in(self, r) < self->least ? room_in(self, r) : 0;
}

static void take(search_t *self, int32_t r, int64_t bytes)
{
    self->waste -= wasted(self, r);
    bins_set(&self->bins, r, room_in(self, r) - bytes);
    self->waste += wasted(self, r);
}

static int search_init(search_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    *self = (search_t){.least = INT64_MAX, .failed = -1};
    PLB_PASS(by_memory(problem, &self->order, err));
    PLB_PASS(bins_init(&self->bins, problem->room, problem->in->n_ranks, err));
    for (int64_t k = 0; k < problem->n; k++) {
        const int64_t bytes = problem->in->memory[plb_problem_object(problem, k)];
        self->most_waste -= bytes;
        self->least = bytes > 0 && bytes < self->least ? bytes : self->least;
    }
    for (int32_t r = 0; r < problem->in->n_ranks; r++) {
        self->most_waste += problem->room[r];
        self->waste += wasted(self, r);
    }
    return PLB_OK;
}

/* Return the next bin for object i; -1: there is none, or too little memory would be left that the
 * others can use.  Until an object fits nowhere, which the error names, waste is ignored. */
static int32_t choose(search_t *self, int32_t last, int32_t i, int64_t bytes)
{
    if (self->failed >= 0 && self->waste > self->most_waste) {
        return -1;
    }
    const int32_t r = next_bin(&self->bins, last, bytes);
    if (r < 0 && self->failed < 0) {
        self->failed = i;
        self->roomiest = self->bins.most[1];
    }
    return r;
}

/* Search for at most n + most_steps steps.  *found: whether rank[] is complete. */
static int search_run(search_t *self, const plb_problem_t *problem, int64_t most_steps,
                      int32_t *rank, bool *found)
{
    int64_t placed = 0;
    int32_t last = -1;
    for (int64_t step = 0; placed < problem->n && step < problem->n + most_steps; step++) {
        const int32_t i = self->order.item[placed].id;
        const int64_t bytes = problem->in->memory[i];
        const int32_t r = choose(self, last, i, bytes);
        if (r >= 0) {
            take(self, r, bytes);
            rank[i] = r;
            last = -1;
            placed++;
        } else if (placed > 0) {
            const int32_t back = self->order.item[--placed].id;
            last = rank[back];
            take(self, last, -problem->in->memory[back]);
        } else {
            break;
        }
        PLB_PASS(plb_interrupted(1));
    }
    *found = placed == problem->n;
    return PLB_OK;
}

static int does_not_fit(const plb_problem_t *problem, const search_t *self, plb_err_t *err)
{
    const int64_t need = problem->in->memory[self->failed];
    return PLB_FAIL(
        err, PLB_ERR_INFEASIBLE,
        "no placement found that keeps memory_limit: object %lld needs %lld bytes, %lld more "
        "than any rank has left after the larger objects are placed",
        plb_key(problem->in, self->failed), (long long)need, (long long)(need - self->roomiest));
}

int plb_pack(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    enum { STEPS = 1 << 20, STEPS_IF_KEPT = 1 << 12 };
    int ret = PLB_OK;
    bool kept = false, found = false;
    search_t search;
    PLB_PASS(stay(problem, rank, &kept, err));
    PLB_TRY(search_init(&search, problem, err));
    PLB_TRY(search_run(&search, problem, kept ? STEPS_IF_KEPT : STEPS, rank, &found));
    if (!found) {
        ret = kept ? stay(problem, rank, &kept, err) : does_not_fit(problem, &search, err);
    }
out:
    plb_loads_free(&search.order);
    plb_free(search.bins.most);
    return ret;
}

/* Keep in order[] only *n objects of ranks above their limits, such that the other objects keep
 * the limits.  Those with the least load for their memory leave first: they change the times
 * least. Before and after, order[] has the largest memory first. */
static int evict(const plb_problem_t *problem, const int32_t *rank, int64_t *room,
                 plb_item_t *order, int64_t *n, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_loads_t by_density = {0};
    double *density = NULL;
    bool *leaves = NULL;
    PLB_NEW(density, problem->n);
    PLB_NEW0(leaves, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        const int64_t bytes = problem->in->memory[order[k].id];
        density[k] = problem->in->load[order[k].id] / (bytes > 0 ? (double)bytes : 1.0);
    }
    PLB_TRY(plb_loads_sorted(&by_density, density, problem->n, PLB_ASCENDING, err));
    for (int64_t k = 0; k < problem->n; k++) {
        const int32_t at = by_density.item[k].id, i = order[at].id;
        if (room[rank[i]] < 0 && problem->in->memory[i] > 0) {
            room[rank[i]] += problem->in->memory[i];
            leaves[at] = true;
        }
    }
    *n = 0;
    for (int64_t k = 0; k < problem->n; k++) {
        if (leaves[k]) {
            order[(*n)++] = order[k];
        }
    }
out:
    plb_loads_free(&by_density);
    PLB_FREE(density, leaves);
    return ret;
}

/* Place each object on the rank with the most free memory; return false if one does not fit. */
static bool settle(const plb_problem_t *problem, const plb_item_t *object, int64_t n,
                   int64_t *room, plb_heap_t *heap, int32_t *rank)
{
    for (heap->n = 0; heap->n < problem->in->n_ranks; heap->n++) {
        heap->item[heap->n] = (plb_item_t){-(double)room[heap->n], heap->n};
    }
    plb_heap_build(heap);
    for (int64_t k = 0; k < n; k++) {
        const int32_t r = heap->item[0].id, i = object[k].id;
        if (room[r] < problem->in->memory[i]) {
            return false;
        }
        rank[i] = r;
        room[r] -= problem->in->memory[i];
        plb_heap_rekey(heap, -(double)room[r]);
    }
    return true;
}

int plb_pack_repair(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    bool kept;
    int64_t n = 0, *room = NULL;
    plb_loads_t order = {0};
    plb_heap_t heap = {0};
    if (problem->room == NULL) {
        return PLB_OK;
    }
    PLB_NEW(room, problem->in->n_ranks);
    if (free_memory(problem, rank, room)) {
        goto out;
    }
    PLB_NEW(heap.item, problem->in->n_ranks);
    PLB_TRY(by_memory(problem, &order, err));
    PLB_TRY(evict(problem, rank, room, order.item, &n, err));
    if (!settle(problem, order.item, n, room, &heap, rank)) {
        PLB_TRY(stay(problem, rank, &kept, err));
        ret = kept ? PLB_OK : plb_pack(problem, rank, err);
    }
out:
    plb_free(room);
    plb_loads_free(&order);
    plb_free(heap.item);
    return ret;
}

int plb_pack_present(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    memcpy(rank, problem->in->rank, (size_t)problem->in->n_objects * sizeof *rank);
    return plb_pack_repair(problem, rank, err);
}
