/* RefineLB, RefineSwapLB and BestFitLB: overloaded ranks give a few objects to less loaded ranks,
 * until no rank takes longer than a limit; and lower bounds for what such a search can reach.
 *
 * Menon 2.2 and 2.3.1: a rank is overloaded above `overload` times the average; only overloaded
 * ranks are examined, and no receiver becomes overloaded.  Here the limit is at least the lower
 * bound for all placements, and the steps are those of place/transfer.c. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/quantile.h"
#include "place/internal.h"

/* ---- bound by counting pieces of objects ---------------------------------------------------- */

typedef struct pieces {
    double *count;    /* [n] number of pieces of each object */
    double *scratch;  /* [n] scratch memory */
    plb_loads_t size; /* load of one piece of each object; the lightest first, as far as sorted */
    int64_t total;
} pieces_t;

enum {
    SAMPLE = 4096,  /* the median is taken of this many objects at most */
    PART = 4096,    /* number of objects that are sorted in one step */
    COUNTABLE = 40, /* up to so many objects per rank, the bound is computed */
};

/* A limit of this factor times the bound can usually be met. */
static const double ABOVE = 1.0045;

/* An object is cut into this many pieces at most. */
static const double MOST_PIECES = 1 << 20;

/* Return the median load of a sample of the objects, all of which may migrate. */
static double median(const pieces_t *self, const plb_problem_t *problem)
{
    const int64_t n = problem->n, m = n < SAMPLE ? n : SAMPLE;
    for (int64_t k = 0; k < m; k++) {
        self->scratch[k] = problem->in->load[k * n / m];
    }
    return plb_nth(self->scratch, m, m / 2);
}

/* Cut the objects into pieces; if the median load is 0, each object is one piece. */
static int cut(pieces_t *self, const plb_problem_t *problem, plb_err_t *err)
{
    PLB_PASS_NEW_EACH(problem->n, self->scratch, self->count);
    const double unit = median(self, problem), per_load = unit > 0.0 ? 1.0 / unit : 0.0;
    for (int64_t k = 0; k < problem->n; k++) {
        const double load = problem->in->load[k], times = floor(load * per_load + 0.5);
        const double most = times < MOST_PIECES ? times : MOST_PIECES;
        self->count[k] = most > 1.0 ? most : 1.0;
        self->scratch[k] = load / self->count[k];
        self->total += (int64_t)self->count[k];
    }
    return plb_loads_init(&self->size, self->scratch, problem->n, PLB_ASCENDING, err);
}

/* For each m in 1 ... `more`, compute the mean load of m ranks that share the `each` * m + `more`
 * lightest pieces.  Return the smallest of these means. */
static double smallest_mean(pieces_t *self, int64_t each, int64_t more)
{
    double sum = 0.0, least = INFINITY;
    int64_t taken = 0, at = 0;
    for (int64_t m = 1; m <= more; m++) {
        const int64_t lightest = each * m + more;
        for (;; at++) {
            if (at == self->size.ready) {
                plb_loads_sort(&self->size, at + PART < self->size.n ? at + PART : self->size.n);
            }
            const int64_t count = (int64_t)self->count[self->size.item[at].id];
            if (taken + count > lightest) {
                break;
            }
            sum += (double)count * self->size.item[at].key;
            taken += count;
        }
        const double rest = (double)(lightest - taken) * self->size.item[at].key;
        least = fmin(least, (sum + rest) / (double)m);
    }
    return least;
}

/* Compute a bound by counting pieces; 0 if there is none, or if plb_problem_all_alike is false.
 * Each object is cut into equal pieces, about as heavy as the median object.  If the pieces of an
 * object may lie on different ranks, the smallest possible maximum can only fall, so a bound for
 * the pieces also holds for the objects.  If p ranks have c p + e pieces, then for some m <= e, m
 * of the ranks have c m + e pieces or more in any placement, and one of these ranks has at least
 * their mean load.  The result is the smallest such mean over all m, for the lightest pieces. */
static int bound_pieces(const plb_problem_t *problem, double *out, plb_err_t *err)
{
    const int64_t p = problem->in->n_ranks;
    pieces_t pieces = {0};
    *out = 0.0;
    if (!plb_problem_all_alike(problem) || problem->n <= p) {
        return PLB_OK;
    }
    const int ret = cut(&pieces, problem, err);
    if (ret == PLB_OK && pieces.total % p > 0) {
        *out =
            plb_background(problem->in, 0) +
            smallest_mean(&pieces, pieces.total / p, pieces.total % p) / plb_speed(problem->in, 0);
    }
    plb_loads_free(&pieces.size);
    PLB_FREE(pieces.count, pieces.scratch);
    return ret;
}

int plb_bound_raise(const plb_problem_t *problem, double *limit, bool *raised, plb_err_t *err)
{
    double bound;
    if (problem->n <= (int64_t)COUNTABLE * problem->in->n_ranks) {
        PLB_PASS(bound_pieces(problem, &bound, err));
        *raised = bound > *limit;
        *limit = *raised ? ABOVE * bound : *limit;
    }
    return PLB_OK;
}

/* ---- a search by load alone ----------------------------------------------------------------- */

/* The limit of a search is higher by this fraction, because sums are rounded. */
static const double ROUNDING = 1e-9;

/* A lower maximum is worth migrations if it is lower by at least this fraction. */
static const double LEAST_GAIN = 1e-4;

/* If the limit is missed, the lowest one that can be met is searched to within this fraction. */
static const double NEAR = 0.004;

enum { HALVINGS = 20 }; /* a millionth of what was to be searched */

enum { KICKS = 32 }; /* largest number of random changes */

/* Objects are scarce if there are fewer per rank: they cannot be divided evenly without many
 * migrations.  If there are fewer than VERY_SCARCE, swaps only leave gaps that no object fits. */
enum { SCARCE = 40, VERY_SCARCE = 5 };

/* BestFitLB leaves at least this imbalance (max/mean - 1); LITTLE_OF_FEW if objects are scarce. */
static const double LITTLE = 4e-4, LITTLE_OF_FEW = 3e-3;

/* If the limit was missed, search for the lowest one that can be met, from where the search is. */
static int bisect(plb_state_t *on, double limit, plb_aim_t aim, plb_err_t *err)
{
    double low = limit, most = plb_state_value(on);
    aim.kicks = 0;
    /* a limit that is tiny beside the load of one object would be halved without end */
    for (int i = 0; i < HALVINGS && most - low > NEAR * limit; i++) {
        aim.value = 0.5 * (low + most);
        PLB_PASS(plb_improve(on, &aim, err));
        low = plb_state_value(on) > aim.value ? aim.value : low;
        most = plb_state_value(on);
    }
    return PLB_OK;
}

int plb_refine(const plb_problem_t *problem, double overload, unsigned families, uint64_t seed,
               int32_t *rank, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const plb_objective_t of = {0};
    plb_state_t on = {0};
    int32_t *from = NULL;
    bool raised = false;
    int ret = PLB_OK;
    PLB_NEW(from, in->n_objects);
    memcpy(from, rank, (size_t)in->n_objects * sizeof *from);
    PLB_TRY(plb_state_init(&on, in, &of, rank, err));
    plb_state_set(&on, from);
    const double before = plb_state_value(&on);
    double limit = fmax(overload * plb_state_mean(&on), on.goal[0]);
    if (problem->n < (int64_t)VERY_SCARCE * in->n_ranks) {
        families &= ~(unsigned)PLB_SWAPS;
    }
    plb_aim_t aim = {limit * (1.0 + ROUNDING), families & ~(unsigned)PLB_SETS, 0, seed};
    PLB_TRY(plb_improve(&on, &aim, err));
    if (plb_state_value(&on) > aim.value) {
        PLB_TRY(plb_bound_raise(problem, &limit, &raised, err));
        aim = (plb_aim_t){limit * (1.0 + ROUNDING), families, KICKS, seed};
        if (raised) {
            plb_state_set(&on, from);
        }
        PLB_TRY(plb_improve(&on, &aim, err));
        PLB_TRY(bisect(&on, limit, aim, err));
    }
    if (plb_state_value(&on) >= before * (1.0 - LEAST_GAIN)) {
        memcpy(rank, from, (size_t)in->n_objects * sizeof *rank);
    }
out:
    plb_state_free(&on);
    plb_free(from);
    return ret;
}

/* ---- the strategies ------------------------------------------------------------------------- */

static int run(const plb_snapshot_t *in, double overload, unsigned families,
               const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    int ret = PLB_OK;
    PLB_TRY(plb_problem_init(&problem, in, err));
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    PLB_TRY(plb_start_repaired(in, out, err));
    ret = plb_refine(&problem, overload, families, opts->seed, out, err);
out:
    plb_problem_free(&problem);
    return ret;
}

static int refine_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    (void)self;
    return run(in, opts->params[0], PLB_MOVES | PLB_SETS, opts, out, err);
}

static int swap_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                    int32_t *out, plb_err_t *err)
{
    (void)self;
    return run(in, opts->params[0], PLB_ALL_STEPS, opts, out, err);
}

static int bestfit_run(const plb_strategy_t *self, const plb_snapshot_t *in,
                       const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    (void)self;
    const bool few = in->n_objects < (int64_t)SCARCE * in->n_ranks;
    const double above = fmax(few ? LITTLE_OF_FEW : LITTLE, opts->params[0]);
    return run(in, 1.0 + above, PLB_ALL_STEPS, opts, out, err);
}

static const plb_param_t params[] = {
    {"overload", "x average", "a rank above this multiple of the average gives away objects",
     PLB_REFINE_OVERLOAD, 1.0, 1e6},
};

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
};

const plb_strategy_t plb_strategy_refine_swap = {
    .name = "RefineSwapLB",
    .help = "like RefineLB, but if no object can be moved, it first tries to swap two objects",
    .source = "Menon 2.3.1",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = swap_run,
};

static const plb_param_t bestfit_params[] = {
    {"tolerance", "x average",
     "imbalance (max/mean - 1) that may be left; at least 0.0004, or 0.003 with fewer than 40 "
     "objects per rank",
     0.0, 0.0, 1e6},
};

const plb_strategy_t plb_strategy_bestfit = {
    .name = "BestFitLB",
    .help = "moves each rank's excess load to the rank that it fits best: good balance, few moves",
    .source = "pylb; transportation problem, best fit",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = bestfit_params,
    .n_params = 1,
    .run = bestfit_run,
};
