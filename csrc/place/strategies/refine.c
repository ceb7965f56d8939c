/* RefineLB, RefineSwapLB and BestFitLB: overloaded ranks give a few objects to less loaded ranks,
 * until no rank takes longer than a limit; and lower bounds for what such a search can reach.
 *
 * Menon 2.2 and 2.3.1: a rank is overloaded above `overload` times the average; only overloaded
 * ranks are examined, and no receiver becomes overloaded.  Here the limit is at least the lower
 * bound for all placements, and the steps are those of place/transfer.c. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

/* With fewer objects per rank, they cannot be divided evenly without many migrations.
 * tuned: objects of a rank; if BestFitLB divides up to 10 as evenly as others, it makes 26 % more
 * migrations */
enum { SCARCE = 40 };

/* ---- bound by counting pieces of objects ---------------------------------------------------- */

typedef struct pieces {
    double *count;     /* [n] number of pieces of each object */
    double *size;      /* [n] load of one piece of each object */
    plb_loads_t order; /* the objects by the size of their pieces, the lightest first */
    int64_t total;
} pieces_t;

/* An object is cut into this many pieces at most, so that sums of counts are exact. */
static const double MOST_PIECES = 1 << 20;

/* Cut the objects into pieces; if the median load is 0, each object is one piece. */
static int cut(pieces_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    const int64_t n = in->n_objects;
    PLB_PASS_NEW_EACH(n, self->size, self->count);
    memcpy(self->size, in->load, (size_t)n * sizeof *in->load);
    const double unit = plb_nth(self->size, n, n / 2), per_load = unit > 0.0 ? 1.0 / unit : 0.0;
    for (int64_t k = 0; k < n; k++) {
        self->count[k] = fmax(1.0, fmin(floor(in->load[k] * per_load + 0.5), MOST_PIECES));
        self->size[k] = in->load[k] / self->count[k];
        self->total += (int64_t)self->count[k];
    }
    return plb_loads_sorted(&self->order, self->size, n, PLB_ASCENDING, err);
}

/* For each m in 1 ... `more`, compute the mean load of m ranks that share the `each` * m + `more`
 * lightest pieces.  Return the smallest of these means. */
static double smallest_mean(const pieces_t *self, int64_t each, int64_t more)
{
    const plb_item_t *at = self->order.item;
    double sum = 0.0, least = INFINITY;
    int64_t taken = 0;
    for (int64_t m = 1; m <= more; m++) {
        const int64_t lightest = each * m + more;
        for (int64_t count; taken + (count = (int64_t)self->count[at->id]) <= lightest; at++) {
            sum += (double)count * at->key;
            taken += count;
        }
        least = fmin(least, (sum + (double)(lightest - taken) * at->key) / (double)m);
    }
    return least;
}

/* Compute a bound by counting pieces; 0 if there is none, or if ranks differ or objects are fixed.
 * Each object is cut into equal pieces, about as heavy as the median object.  If the pieces of an
 * object may lie on different ranks, the smallest possible maximum can only fall, so a bound for
 * the pieces also holds for the objects.  If p ranks have c p + e pieces, then for some m <= e, m
 * of the ranks have c m + e pieces or more in any placement, and one of these ranks has at least
 * their mean load.  The result is the smallest such mean over all m, for the lightest pieces. */
static int bound_pieces(const plb_snapshot_t *in, double *out, plb_err_t *err)
{
    const int64_t p = in->n_ranks;
    pieces_t pieces = {0};
    bool uniform = (in->memory == NULL || in->memory_limit == NULL) &&
                   plb_all_equal(in->speed, p) && plb_all_equal(in->background, p);
    *out = 0.0;
    for (int64_t i = 0; uniform && i < in->n_objects; i++) {
        uniform = plb_may_migrate(in, i);
    }
    if (!uniform || in->n_objects <= p) {
        return PLB_OK;
    }
    const int ret = cut(&pieces, in, err);
    if (ret == PLB_OK && pieces.total % p > 0) {
        const double mean = smallest_mean(&pieces, pieces.total / p, pieces.total % p);
        *out = plb_background(in, 0) + mean / plb_speed(in, 0);
    }
    plb_loads_free(&pieces.order);
    PLB_FREE(pieces.count, pieces.size);
    return ret;
}

static bool is_scarce(const plb_snapshot_t *in)
{
    return in->n_objects < (int64_t)SCARCE * in->n_ranks;
}

int plb_bound_raise(const plb_snapshot_t *in, double *limit, plb_err_t *err)
{
    double bound;
    if (is_scarce(in)) {
        PLB_PASS(bound_pieces(in, &bound, err));
        *limit = bound > *limit ? (1.0 + PLB_CLOSE) * bound : *limit;
    }
    return PLB_OK;
}

/* ---- a search by load alone ----------------------------------------------------------------- */

/* If the limit was missed, search for the lowest limit that can be met, from the present state on.
 */
static int bisect(plb_state_t *on, double limit, plb_aim_t aim, plb_err_t *err)
{
    enum { HALVINGS = 20 }; /* leaves a millionth of the interval */
    double low = limit, most = plb_state_value(on);
    aim.kicks = false;
    for (int i = 0; i < HALVINGS && most - low > PLB_CLOSE * most; i++) {
        aim.value = 0.5 * (low + most);
        PLB_PASS(plb_improve(on, &aim, err));
        low = plb_state_value(on) > aim.value ? aim.value : low;
        most = plb_state_value(on);
    }
    return PLB_OK;
}

int plb_refine(const plb_snapshot_t *in, double overload, unsigned families, uint64_t seed,
               int32_t *rank, plb_err_t *err)
{
    const plb_objective_t of = {0};
    plb_state_t on = {0};
    int32_t *from = NULL;
    int ret = PLB_OK;
    PLB_NEW(from, in->n_objects);
    memcpy(from, rank, (size_t)in->n_objects * sizeof *from);
    PLB_TRY(plb_state_init(&on, in, &of, rank, err));
    plb_state_set(&on, from);
    const double before = plb_state_value(&on);
    double limit = fmax(overload * plb_state_mean(&on), on.goal[0]);
    /* with few objects per rank, the limit may have to rise: then moves and swaps only first */
    const bool few = is_scarce(in);
    plb_aim_t aim = {limit * (1.0 + PLB_ROUNDING), few ? families & ~(unsigned)PLB_SETS : families,
                     !few, seed};
    PLB_TRY(plb_improve(&on, &aim, err));
    if (few && plb_state_value(&on) > aim.value) {
        const double first = limit;
        PLB_TRY(plb_bound_raise(in, &limit, err));
        aim = (plb_aim_t){limit * (1.0 + PLB_ROUNDING), families, true, seed};
        if (limit > first) {
            plb_state_set(&on, from);
        }
        PLB_TRY(plb_improve(&on, &aim, err));
    }
    PLB_TRY(bisect(&on, limit, aim, err));
    if (plb_state_value(&on) >= before * (1.0 - PLB_WORTH)) {
        memcpy(rank, from, (size_t)in->n_objects * sizeof *rank);
    }
out:
    plb_state_free(&on);
    plb_free(from);
    return ret;
}

static const plb_param_t params[] = {
    {"overload", "x average", "a rank above this multiple of the average gives away objects",
     PLB_REFINE_OVERLOAD, 1.0, 1e6},
};

static const plb_param_t bestfit_params[] = {
    {"tolerance", "x average",
     "imbalance (max/mean - 1) that may be left; at least 0.0004, or 0.003 with fewer than 40 "
     "objects per rank",
     0.0, 0.0, 1e6},
};

static int refine_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    double overload = opts->params[0];
    if (self->params == bestfit_params) {
        overload = fmax(is_scarce(in) ? PLB_REFINE_OVERLOAD : 1.0 + PLB_WORTH, 1.0 + overload);
    }
    PLB_PASS(plb_start_repaired(in, out, err));
    return plb_refine(in, overload, self->families, opts->seed, out, err);
}

const plb_strategy_t plb_strategy_refine = {
    .name = "RefineLB",
    .help =
        "moves objects from overloaded ranks to less loaded ranks, or exchanges sets of objects; "
        "few migrations",
    .source = "Menon 2.2, 2.3.1; Dasgupta algorithm 1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = refine_run,
    .families = PLB_MOVES | PLB_SETS,
};

const plb_strategy_t plb_strategy_refine_swap = {
    .name = "RefineSwapLB",
    .help = "like RefineLB, but if no object can be moved, it first tries to swap two objects",
    .source = "Menon 2.3.1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = refine_run,
    .families = PLB_ALL_STEPS,
};

const plb_strategy_t plb_strategy_bestfit = {
    .name = "BestFitLB",
    .help = "moves each rank's excess load to the rank that it fits best: good balance, few moves",
    .source = "pylb; transportation problem, best fit",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = bestfit_params,
    .n_params = 1,
    .run = refine_run,
    .families = PLB_ALL_STEPS,
};
