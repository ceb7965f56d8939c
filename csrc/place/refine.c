/* A search by load alone, as the refinements use it, and lower bounds for what it can reach. */
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

/* If the limit is missed by the fraction FAR, it was too low.  Then the search begins again, with
 * a limit above what was reached by the fraction NEAR / 2, and may end above it by NEAR. */
static const double FAR = 0.01, NEAR = 0.002;

enum { HALVINGS = 20 }; /* a millionth of what was to be searched */

static int64_t migrations(const plb_snapshot_t *in, const int32_t *from, const int32_t *rank)
{
    int64_t n = 0;
    for (int64_t i = 0; i < in->n_objects; i++) {
        n += rank[i] != from[i];
    }
    return n;
}

/* If the limit was missed, search for the lowest one that can be met, from where the search is. */
static int bisect(plb_state_t *on, double limit, plb_aim_t aim, plb_err_t *err)
{
    double low = limit, most = plb_state_value(on);
    aim.kicks = 0;
    /* a limit that is tiny beside the load of one object would be halved without end */
    for (int i = 0; i < HALVINGS && most - low > 2.0 * NEAR * limit; i++) {
        aim.value = 0.5 * (low + most);
        PLB_PASS(plb_improve(on, &aim, err));
        low = plb_state_value(on) > aim.value ? aim.value : low;
        most = plb_state_value(on);
    }
    return PLB_OK;
}

int plb_refine(const plb_problem_t *problem, plb_refinement_t *self, const int32_t *from,
               int32_t *rank, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const plb_objective_t of = {0};
    plb_state_t on = {0};
    int32_t *best = NULL;
    bool raised = false;
    int ret = plb_state_init(&on, in, &of, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    plb_state_set(&on, from);
    self->before = self->after = plb_state_value(&on);
    self->limit = fmax(self->overload * plb_state_mean(&on), on.goal[0]);
    const bool swaps = problem->n >= (int64_t)PLB_REFINE_VERY_SCARCE * in->n_ranks;
    const unsigned families = swaps ? self->families : self->families & ~PLB_SWAPS;
    plb_aim_t aim = {self->limit * (1.0 + ROUNDING), families & ~PLB_SETS, 0, self->seed};
    PLB_TRY(plb_improve(&on, &aim, err));
    if (plb_state_value(&on) > aim.value) {
        PLB_TRY(plb_bound_raise(problem, &self->limit, &raised, err));
        aim = (plb_aim_t){self->limit * (1.0 + ROUNDING), families, self->kicks, self->seed};
        if (raised) {
            plb_state_set(&on, from);
        }
        PLB_TRY(plb_improve(&on, &aim, err));
        PLB_TRY(bisect(&on, self->limit, aim, err));
    }
    self->after = plb_state_value(&on);
    if (self->after > (1.0 + FAR) * self->limit) {
        PLB_NEW(best, in->n_objects);
        memcpy(best, rank, (size_t)in->n_objects * sizeof *rank);
        aim.value = (1.0 + 0.5 * NEAR) * self->after;
        plb_state_set(&on, from);
        PLB_TRY(plb_improve(&on, &aim, err));
        if (plb_state_value(&on) <= (1.0 + NEAR) * self->after &&
            migrations(in, from, rank) < migrations(in, from, best)) {
            self->after = plb_state_value(&on);
        } else {
            plb_state_set(&on, best);
        }
    }
    if (self->after >= self->before * (1.0 - LEAST_GAIN)) {
        self->after = self->before;
        plb_state_set(&on, from);
    }
out:
    plb_state_free(&on);
    plb_free(best);
    return ret;
}

int plb_refine_more(const plb_problem_t *problem, double overload, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *from = NULL;
    plb_refinement_t how = {.overload = overload, .families = PLB_ALL_STEPS};
    const size_t size = (size_t)problem->in->n_objects * sizeof *rank;
    PLB_NEW(from, problem->in->n_objects);
    memcpy(from, rank, size);
    ret = plb_refine(problem, &how, from, rank, err);
    plb_free(from);
out:
    return ret;
}
