#include "place/kit/problem.h"

#include <string.h>

#include "base/heap.h"
#include "base/interrupt.h"
#include "base/mem.h"

static long long key_of(const plb_snapshot_t *in, int64_t i)
{
    return (long long)(in->key == NULL ? i : in->key[i]);
}

/* Separate the fixed objects.  Before the call, fixed[] is zero; room[] has the memory limits. */
static void split(plb_problem_t *self)
{
    const plb_snapshot_t *in = self->in;
    for (int64_t i = 0; i < in->n_objects; i++) {
        if (in->migratable[i]) {
            self->object[self->n++] = (int32_t)i;
            continue;
        }
        self->fixed[in->rank[i]] += in->load[i];
        if (self->room != NULL) {
            self->room[in->rank[i]] -= in->memory[i];
        }
    }
}

int plb_problem_check_left(const plb_snapshot_t *in, const int64_t *left, plb_err_t *err)
{
    for (int32_t r = 0; left != NULL && r < in->n_ranks; r++) {
        PLB_FAIL_IF(left[r] < 0, err, PLB_ERR_INFEASIBLE,
                    "rank %d: the objects that may not migrate take %lld bytes more than "
                    "its memory_limit of %lld",
                    r, (long long)-left[r], (long long)in->memory_limit[r]);
    }
    return PLB_OK;
}

/* Check that memory can suffice for the objects that may migrate, and set `least`. */
static int check_movable(plb_problem_t *self, plb_err_t *err)
{
    const int64_t *memory = self->in->memory;
    int32_t roomiest = 0;
    int64_t largest = -1;
    __int128 need = 0, have = 0;
    for (int32_t r = 0; r < self->in->n_ranks; r++) {
        have += self->room[r];
        roomiest = self->room[r] > self->room[roomiest] ? r : roomiest;
    }
    self->least = INT64_MAX;
    for (int64_t k = 0; k < self->n; k++) {
        const int64_t i = plb_problem_object(self, k);
        need += memory[i];
        largest = largest < 0 || memory[i] > memory[largest] ? i : largest;
        self->least = memory[i] < self->least ? memory[i] : self->least;
    }
    PLB_FAIL_IF(largest >= 0 && memory[largest] > self->room[roomiest], err, PLB_ERR_INFEASIBLE,
                "object %lld needs %lld bytes: %lld more than any rank has left for "
                "it (most left: rank %d, %lld bytes)",
                key_of(self->in, largest), (long long)memory[largest],
                (long long)(memory[largest] - self->room[roomiest]), roomiest,
                (long long)self->room[roomiest]);
    PLB_FAIL_IF(need > have, err, PLB_ERR_INFEASIBLE,
                "the objects need %lld bytes more than memory_limit has in total",
                (long long)(need - have));
    return PLB_OK;
}

int plb_problem_check(const plb_snapshot_t *in, plb_err_t *err)
{
    PLB_FAIL_IF(in->n_components != 1, err, PLB_ERR_VALUE,
                "load has %d components per object: expected 1 for this strategy "
                "(VectorLB takes several)",
                in->n_components);
    PLB_FAIL_IF(in->block != NULL && in->memory_limit != NULL, err, PLB_ERR_VALUE,
                "block and memory_limit are given: expected no shared blocks for "
                "this strategy (VectorLB takes them)");
    return PLB_OK;
}

int plb_problem_needs_coords(const plb_strategy_t *strategy, const plb_snapshot_t *in,
                             plb_err_t *err)
{
    return in->coords != NULL || in->n_objects == 0
               ? PLB_OK
               : PLB_FAIL(err, PLB_ERR_VALUE,
                          "coords are missing: %s needs the position of each object",
                          strategy->name);
}

int plb_problem_init(plb_problem_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_problem_t){.in = in};
    PLB_PASS(plb_problem_check(in, err));
    PLB_NEW0(self->fixed, in->n_ranks);
    if (in->memory != NULL && in->memory_limit != NULL) {
        PLB_NEW(self->room, in->n_ranks);
        memcpy(self->room, in->memory_limit, (size_t)in->n_ranks * sizeof *self->room);
    }
    if (in->migratable == NULL) {
        self->n = in->n_objects;
    } else {
        PLB_NEW(self->object, in->n_objects);
        split(self);
    }
    if (self->room != NULL) {
        ret = plb_problem_check_left(in, self->room, err);
        PLB_THEN(check_movable(self, err));
    }
out:
    if (ret != PLB_OK) {
        plb_problem_free(self);
    }
    return ret;
}

void plb_problem_free(plb_problem_t *self)
{
    PLB_FREE(self->object, self->fixed, self->room);
    *self = (plb_problem_t){0};
}

bool plb_problem_all_alike(const plb_problem_t *problem)
{
    const plb_snapshot_t *in = problem->in;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        if (plb_speed(in, r) != plb_speed(in, 0) || problem->fixed[r] != problem->fixed[0] ||
            (in->background != NULL && in->background[r] != in->background[0])) {
            return false;
        }
    }
    return problem->room == NULL && problem->n == in->n_objects;
}

int plb_problem_by_load(const plb_problem_t *self, plb_loads_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double *load = NULL;
    if (self->object == NULL) {
        return plb_loads_init(out, self->in->load, self->n, PLB_DESCENDING, err);
    }
    PLB_NEW(load, self->n);
    for (int64_t k = 0; k < self->n; k++) {
        load[k] = self->in->load[self->object[k]];
    }
    ret = plb_loads_init(out, load, self->n, PLB_DESCENDING, err);
out:
    plb_free(load);
    return ret;
}

/* ---- placement by memory alone -------------------------------------------------------------- */

/* Sort the objects that may migrate, the largest memory first.  (Doubles round sizes above 2^53
 * bytes, which hardly affects the order.) */
static int by_memory(const plb_problem_t *self, plb_loads_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double *memory = NULL;
    PLB_NEW(memory, self->n);
    for (int64_t k = 0; k < self->n; k++) {
        memory[k] = (double)self->in->memory[plb_problem_object(self, k)];
    }
    PLB_TRY(plb_loads_sorted(out, memory, self->n, PLB_DESCENDING, err));
    for (int64_t k = 0; k < self->n; k++) {
        out->item[k].id = plb_problem_object(self, out->item[k].id);
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

static int does_not_fit(const plb_problem_t *self, int32_t object, int64_t most, plb_err_t *err)
{
    const int64_t need = self->in->memory[object];
    return PLB_FAIL(
        err, PLB_ERR_INFEASIBLE,
        "no placement found that keeps memory_limit: object %lld needs %lld bytes, %lld more "
        "than any rank has left after the larger objects are placed",
        key_of(self->in, object), (long long)need, (long long)(need - most));
}

/* Write the present placement to rank[]; *kept: whether it keeps the memory limits. */
static int stay(const plb_problem_t *self, int32_t *rank, bool *kept, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->in;
    int64_t *room = NULL;
    PLB_NEW(room, in->n_ranks);
    memcpy(room, self->room, (size_t)in->n_ranks * sizeof *room);
    *kept = true;
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t i = plb_problem_object(self, k);
        rank[i] = in->rank[i];
        room[rank[i]] -= in->memory[i];
    }
    for (int32_t r = 0; r < in->n_ranks; r++) {
        *kept = *kept && room[r] >= 0;
    }
out:
    plb_free(room);
    return ret;
}

int plb_problem_pack(const plb_problem_t *self, int32_t *rank, plb_err_t *err)
{
    enum { STEPS = 1 << 20 };
    int ret = PLB_OK;
    const int64_t *memory = self->in->memory;
    const int64_t last_step = self->n + STEPS;
    bins_t bins = {0};
    plb_loads_t order = {0};
    int64_t placed = 0, failed = -1, failed_most = 0;
    ret = by_memory(self, &order, err);
    PLB_THEN(bins_init(&bins, self->room, self->in->n_ranks, err));
    int32_t last = -1;
    for (int64_t step = 0; ret == PLB_OK && placed < self->n; step++) {
        const int32_t i = order.item[placed].id;
        const int32_t r = next_bin(&bins, last, memory[i]);
        if (r >= 0) {
            bins_set(&bins, r, bins.most[bins.size + r] - memory[i]);
            rank[i] = r;
            last = -1;
            placed++;
        } else {
            if (failed < 0) {
                failed = i;
                failed_most = bins.most[1];
            }
            if (placed == 0 || step >= last_step) {
                bool kept = false;
                ret = stay(self, rank, &kept, err);
                ret = ret == PLB_OK && !kept
                          ? does_not_fit(self, (int32_t)failed, failed_most, err)
                          : ret;
                break;
            }
            const int32_t back = order.item[--placed].id;
            last = rank[back];
            bins_set(&bins, last, bins.most[bins.size + last] + memory[back]);
        }
        ret = plb_interrupted(1);
    }
    plb_loads_free(&order);
    plb_free(bins.most);
    return ret;
}

/* Copy objects of ranks above their limits to the front of order[], until the other objects keep
 * the limits; return the number of copies.  Before the call, order[] has the largest first. */
static int64_t evict(const plb_problem_t *self, const int32_t *rank, int64_t *room,
                     plb_item_t *order)
{
    int64_t out = 0;
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t i = order[k].id;
        if (room[rank[i]] < 0) {
            room[rank[i]] += self->in->memory[i];
            order[out++] = order[k];
        }
    }
    return out;
}

/* Place each object on the rank with the most free memory; return false if one does not fit. */
static bool settle(const plb_problem_t *self, const plb_item_t *object, int64_t n, int64_t *room,
                   plb_heap_t *heap, int32_t *rank)
{
    for (heap->n = 0; heap->n < self->in->n_ranks; heap->n++) {
        heap->item[heap->n] = (plb_item_t){-(double)room[heap->n], heap->n};
    }
    plb_heap_build(heap);
    for (int64_t k = 0; k < n; k++) {
        const int32_t r = heap->item[0].id, i = object[k].id;
        if (room[r] < self->in->memory[i]) {
            return false;
        }
        rank[i] = r;
        room[r] -= self->in->memory[i];
        plb_heap_rekey(heap, -(double)room[r]);
    }
    return true;
}

int plb_problem_repair(const plb_problem_t *self, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->in->n_ranks;
    bool kept = true;
    int64_t *room = NULL;
    plb_loads_t order = {0};
    plb_heap_t heap = {0};
    if (self->room == NULL) {
        return PLB_OK;
    }
    PLB_NEW(room, p);
    memcpy(room, self->room, (size_t)p * sizeof *room);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t i = plb_problem_object(self, k);
        room[rank[i]] -= self->in->memory[i];
    }
    for (int32_t r = 0; r < p; r++) {
        kept = kept && room[r] >= 0;
    }
    if (kept) {
        goto out;
    }
    PLB_NEW(heap.item, p);
    ret = by_memory(self, &order, err);
    if (ret == PLB_OK &&
        !settle(self, order.item, evict(self, rank, room, order.item), room, &heap, rank)) {
        ret = plb_problem_pack(self, rank, err);
    }
out:
    plb_free(room);
    plb_loads_free(&order);
    plb_free(heap.item);
    return ret;
}

int plb_problem_present(const plb_problem_t *self, int32_t *rank, plb_err_t *err)
{
    memcpy(rank, self->in->rank, (size_t)self->in->n_objects * sizeof *rank);
    return plb_problem_repair(self, rank, err);
}
