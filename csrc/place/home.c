#include "place/home.h"

#include <string.h>

#include "base/heap.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/ranks.h"

/* ---- going back ----------------------------------------------------------------------------- */

/* The objects that are not where they were, by load. */
static int list_moved(const plb_problem_t *problem, const int32_t *rank, plb_loads_t *out,
                      int32_t **object, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n = 0;
    double *load = NULL;
    PLB_NEW(*object, problem->n);
    PLB_NEW(load, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, k);
        if (rank[i] != problem->in->rank[i]) {
            load[n] = problem->in->load[i];
            (*object)[n++] = i;
        }
    }
    ret = plb_loads_init(out, load, n, PLB_ASCENDING, err);
    if (ret == PLB_OK) {
        plb_loads_sort(out, n);
    }
out:
    plb_free(load);
    return ret;
}

int plb_home_return(const plb_problem_t *problem, double max, int32_t *rank, plb_err_t *err)
{
    plb_ranks_t ranks;
    plb_loads_t moved = {0};
    int32_t *object = NULL;
    int ret = plb_ranks_init(&ranks, problem, rank, err);
    ret = ret == PLB_OK ? list_moved(problem, rank, &moved, &object, err) : ret;
    for (int64_t k = 0; ret == PLB_OK && k < moved.n; k++) {
        const int32_t i = object[moved.item[k].id], home = problem->in->rank[i];
        const double load = ranks.load[home] + moved.item[k].key;
        const double seconds =
            plb_ranks_background(&ranks, home) + load / plb_speed(ranks.in, home);
        if (seconds <= max && plb_ranks_has_room(&ranks, home, i)) {
            plb_ranks_move(&ranks, i, home);
        }
    }
    plb_free(object);
    plb_loads_free(&moved);
    plb_ranks_free(&ranks);
    return ret;
}

/* ---- other names for the parts -------------------------------------------------------------- */

static bool all_alike(const plb_problem_t *problem)
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

/* Pairs of a rank and a part with objects in common. */
typedef struct overlap {
    int64_t n;
    int32_t *from, *part; /* [n] */
    double *common;       /* [n] objects */
} overlap_t;

/* Objects by rank: those of rank r are object[start[r]] ... object[start[r + 1] - 1]. */
static void by_rank(const plb_snapshot_t *in, int64_t *start, int32_t *object)
{
    memset(start, 0, ((size_t)in->n_ranks + 1) * sizeof *start);
    for (int64_t i = 0; i < in->n_objects; i++) {
        start[in->rank[i]]++;
    }
    for (int32_t r = 0; r < in->n_ranks; r++) { /* ends, from which each rank is filled down */
        start[r + 1] += start[r];
    }
    for (int64_t i = in->n_objects; i-- > 0;) {
        object[--start[in->rank[i]]] = (int32_t)i;
    }
}

static int find_overlap(const plb_snapshot_t *in, const int32_t *rank, overlap_t *out,
                        plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *start = NULL, *at = NULL;
    int32_t *object = NULL;
    PLB_NEW(start, (int64_t)in->n_ranks + 1);
    PLB_NEW(at, in->n_ranks);
    PLB_NEW(object, in->n_objects);
    PLB_NEW(out->from, in->n_objects);
    PLB_NEW(out->part, in->n_objects);
    PLB_NEW(out->common, in->n_objects);
    by_rank(in, start, object);
    memset(at, -1, (size_t)in->n_ranks * sizeof *at); /* -1, or where the pair stands */
    for (int32_t r = 0; r < in->n_ranks; r++) {
        const int64_t first = out->n;
        for (int64_t k = start[r]; k < start[r + 1]; k++) {
            const int32_t part = rank[object[k]];
            if (at[part] < first) {
                at[part] = out->n++;
                out->from[at[part]] = r;
                out->part[at[part]] = part;
                out->common[at[part]] = 0.0;
            }
            out->common[at[part]] += 1.0;
        }
    }
out:
    plb_free(start);
    plb_free(at);
    plb_free(object);
    return ret;
}

/* name[part], from the pairs in order; who has found no partner takes what is left. */
static int match(const plb_snapshot_t *in, const overlap_t *overlap, int32_t *name, plb_err_t *err)
{
    const int32_t p = in->n_ranks;
    uint8_t *taken = NULL;
    plb_loads_t order = {0};
    int ret = plb_loads_init(&order, overlap->common, overlap->n, PLB_DESCENDING, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW0(taken, p);
    plb_loads_sort(&order, order.n);
    memset(name, -1, (size_t)p * sizeof *name);
    for (int64_t k = 0; k < order.n; k++) {
        const int32_t pair = order.item[k].id;
        if (name[overlap->part[pair]] < 0 && !taken[overlap->from[pair]]) {
            name[overlap->part[pair]] = overlap->from[pair];
            taken[overlap->from[pair]] = 1;
        }
    }
    for (int32_t part = 0, r = 0; part < p; part++) {
        if (name[part] < 0) {
            while (taken[r]) {
                r++;
            }
            name[part] = r++;
        }
    }
out:
    plb_free(taken);
    plb_loads_free(&order);
    return ret;
}

int plb_home_relabel(const plb_problem_t *problem, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = problem->in;
    overlap_t overlap = {0};
    int32_t *name = NULL;
    if (!all_alike(problem)) {
        return PLB_OK;
    }
    PLB_NEW(name, in->n_ranks);
    ret = find_overlap(in, rank, &overlap, err);
    ret = ret == PLB_OK ? match(in, &overlap, name, err) : ret;
    for (int64_t i = 0; ret == PLB_OK && i < in->n_objects; i++) {
        rank[i] = name[rank[i]];
    }
out:
    plb_free(overlap.from);
    plb_free(overlap.part);
    plb_free(overlap.common);
    plb_free(name);
    return ret;
}

/* ---- greedy, but at home where that is possible --------------------------------------------- */

static int by_load(const plb_problem_t *problem, plb_loads_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double *load = NULL;
    PLB_NEW(load, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        load[k] = problem->in->load[plb_problem_object(problem, k)];
    }
    ret = plb_loads_init(out, load, problem->n, PLB_DESCENDING, err);
    if (ret == PLB_OK) {
        plb_loads_sort(out, problem->n);
    }
out:
    plb_free(load);
    return ret;
}

/* The least loaded rank.  Loads only grow: a key that is out of date is too small, and is put
 * right when it comes to the top. */
static int32_t least_loaded(plb_heap_t *heap, const double *seconds)
{
    while (heap->item[0].key < seconds[heap->item[0].id]) {
        plb_heap_rekey(heap, seconds[heap->item[0].id]);
    }
    return heap->item[0].id;
}

int plb_home_greedy(const plb_problem_t *problem, double limit, int32_t *rank, double *max,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = problem->in;
    double *seconds = NULL;
    plb_heap_t heap = {0};
    plb_loads_t loads = {0};
    PLB_NEW(seconds, in->n_ranks);
    PLB_NEW(heap.item, in->n_ranks);
    for (int32_t r = 0; r < in->n_ranks; r++) {
        seconds[r] = (in->background == NULL ? 0.0 : in->background[r]) +
                     problem->fixed[r] / plb_speed(in, r);
        heap.item[heap.n++] = (plb_item_t){seconds[r], r};
    }
    plb_heap_build(&heap);
    ret = by_load(problem, &loads, err);
    for (int64_t k = 0; ret == PLB_OK && k < problem->n; k++) {
        const int32_t i = plb_problem_object(problem, loads.item[k].id);
        int32_t r = in->rank[i];
        if (seconds[r] + in->load[i] / plb_speed(in, r) > limit) {
            r = least_loaded(&heap, seconds);
        }
        seconds[r] += in->load[i] / plb_speed(in, r);
        rank[i] = r;
    }
    *max = 0.0;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        *max = seconds[r] > *max ? seconds[r] : *max;
    }
out:
    plb_free(seconds);
    plb_free(heap.item);
    plb_loads_free(&loads);
    return ret;
}
