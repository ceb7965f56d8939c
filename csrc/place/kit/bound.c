#include "place/kit/bound.h"

#include <math.h>

#include "base/mem.h"
#include "base/quantile.h"

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
    COUNTABLE = 40, /* with more objects per rank, a limit is not raised */
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

int plb_bound_pieces(const plb_problem_t *problem, double *out, plb_err_t *err)
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
        PLB_PASS(plb_bound_pieces(problem, &bound, err));
        *raised = bound > *limit;
        *limit = *raised ? ABOVE * bound : *limit;
    }
    return PLB_OK;
}
