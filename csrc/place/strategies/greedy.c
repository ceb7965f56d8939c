/* GreedyLB: places the objects, the heaviest first, each on the rank where it would end first.
 *
 * Menon 2.2 ("maps the heaviest chares on to the least loaded processors"); Dasgupta's algorithm
 * 2, where the background load of a processor is `background` plus the objects that may not
 * migrate.  With p ranks of the same speed this is Graham's LPT rule: the makespan is at most 4/3
 * - 1/(3p) times the optimum.
 *
 * With memory limits, an object only goes where it fits (plb_start_fit).  If an object fits
 * nowhere, the search starts from a placement by memory alone, and refines it.  A result that is
 * slower than the present placement is refined, too.
 *
 * Ties: of objects with equal loads, the lowest index comes first; of ranks on which an object
 * would end at the same time, the lowest. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

/* ---- ranks of one speed, no limits: LPT in rounds ------------------------------------------- */

/* The ranks in a line, the least loaded first (their background is a load, too), and scratch
 * memory to sort them again. */
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
        const double key = plb_problem_fixed_seconds(problem, r) * plb_speed(in, r);
        self->rank[r] = (plb_item_t){key, r};
        low = key < low ? key : low;
        high = key > high ? key : high;
    }
    plb_sort_items(self->rank, self->p, low, high, self->spare, self->bin);
    return PLB_OK;
}

/* Prepare to sort the loads of the objects that may migrate, the heaviest first. */
static int by_load(const plb_problem_t *self, plb_loads_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    double *load = NULL;
    PLB_NEW(load, self->object == NULL ? 0 : self->n);
    for (int64_t k = 0; self->object != NULL && k < self->n; k++) {
        load[k] = self->in->load[self->object[k]];
    }
    ret = plb_loads_init(out, self->object == NULL ? self->in->load : load, self->n,
                         PLB_DESCENDING, err);
out:
    plb_free(load);
    return ret;
}

static int place_in_rounds(const plb_problem_t *problem, plb_loads_t *loads, int32_t *rank,
                           plb_err_t *err)
{
    line_t line;
    int ret = line_init(&line, problem, err);
    for (int64_t done = 0; ret == PLB_OK && done < loads->n;) {
        plb_loads_sort(loads, done + line.p < loads->n ? done + line.p : loads->n);
        const int32_t k = hand_out(&line, loads->item + done, loads->n - done, problem, rank);
        line_up(&line, k);
        done += k;
        ret = plb_interrupted(4 * (int64_t)k);
    }
    PLB_FREE(line.rank, line.spare, line.bin);
    return ret;
}

/* ---- ranks of unequal speed, no limits ------------------------------------------------------ */

/* tuned: heaps; 20,000 objects on 1,000 ranks of unlike speed: 1.200 of the bound; with 16, 1.252;
 * with 256, 1.195 in three times the time */
enum { CLASSES = 64 };

/* Put the ranks into classes of one speed, each a heap of their times; with more than CLASSES
 * speeds, into CLASSES classes of similar speeds.  Return the number of classes. */
static int make_classes(const plb_problem_t *problem, const plb_item_t *by_speed, plb_item_t *item,
                        plb_heap_t heap[CLASSES])
{
    const int64_t p = problem->in->n_ranks;
    int64_t distinct = 1;
    int n = 0;
    for (int64_t k = 1; k < p; k++) {
        distinct += by_speed[k].key != by_speed[k - 1].key;
    }
    for (int64_t k = 0; k < p; k++) {
        const int32_t r = by_speed[k].id;
        if (k == 0 || (distinct > CLASSES ? k * CLASSES / p != (k - 1) * CLASSES / p
                                          : by_speed[k].key != by_speed[k - 1].key)) {
            heap[n++] = (plb_heap_t){item + k, 0};
        }
        heap[n - 1].item[heap[n - 1].n++] = (plb_item_t){plb_problem_fixed_seconds(problem, r), r};
    }
    for (int c = 0; c < n; c++) {
        plb_heap_build(&heap[c]);
    }
    return n;
}

/* Each object goes to the rank where it ends first: the top of one of the heaps. */
static int place_by_speed(const plb_problem_t *problem, plb_loads_t *loads, int32_t *rank,
                          plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    int ret = PLB_OK;
    plb_heap_t heap[CLASSES];
    plb_loads_t by_speed = {0};
    plb_item_t *item = NULL;
    PLB_NEW(item, in->n_ranks);
    PLB_TRY(plb_loads_sorted(&by_speed, in->speed, in->n_ranks, PLB_ASCENDING, err));
    const int n = make_classes(problem, by_speed.item, item, heap);
    plb_loads_sort(loads, loads->n);
    for (int64_t k = 0; ret == PLB_OK && k < loads->n; k++) {
        int best = 0;
        plb_item_t first = {INFINITY, INT32_MAX};
        for (int c = 0; c < n; c++) {
            const plb_item_t top = heap[c].item[0];
            const plb_item_t end = {top.key - loads->item[k].key * (1.0 / plb_speed(in, top.id)),
                                    top.id};
            best = plb_item_before(end, first) ? c : best;
            first = plb_item_before(end, first) ? end : first;
        }
        rank[plb_problem_object(problem, loads->item[k].id)] = first.id;
        plb_heap_rekey(&heap[best], first.key);
        ret = plb_interrupted(n);
    }
out:
    plb_loads_free(&by_speed);
    plb_free(item);
    return ret;
}

/* ---- memory limits -------------------------------------------------------------------------- */

static int place_in_order(const plb_snapshot_t *in, uint64_t seed, int32_t *rank, plb_err_t *err)
{
    const plb_objective_t of = {0};
    plb_state_t on = {0};
    int ret = PLB_OK;
    PLB_TRY(plb_state_init(&on, in, &of, rank, err));
    plb_start_present(&on);
    const double before = on.fits ? plb_state_value(&on) : INFINITY;
    const plb_aim_t aim = {PLB_REFINE_OVERLOAD * on.goal[0], PLB_ALL_STEPS, false, seed};
    ret = plb_start_fit(&on, 0.0, err);
    if (ret == PLB_ERR_INFEASIBLE) {
        PLB_TRY(plb_start_packed(&on, err));
        PLB_TRY(plb_improve(&on, &aim, err));
        ret = on.fits ? PLB_OK : PLB_ERR_INFEASIBLE;
    } else if (ret == PLB_OK && plb_state_value(&on) > before) {
        ret = plb_improve(&on, &aim, err);
    }
out:
    plb_state_free(&on);
    return ret;
}

static int greedy_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    plb_loads_t loads = {0};
    int ret = PLB_OK;
    PLB_PASS(plb_problem_init(&problem, in, err));
    if (problem.room != NULL) {
        ret = place_in_order(in, opts->seed, out, err);
        goto out;
    }
    PLB_TRY(by_load(&problem, &loads, err));
    ret = plb_all_equal(in->speed, in->n_ranks) ? place_in_rounds(&problem, &loads, out, err)
                                                : place_by_speed(&problem, &loads, out, err);
out:
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
