/* RCBLB: recursive coordinate bisection.  The objects are divided in two across the longest side
 * of their bounding box, and the ranks in the same way, by the centres of their present objects:
 * a rank keeps its region, and few objects migrate if loads change little. */
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

enum { DIMS = 3 };

typedef struct rcb {
    const plb_problem_t *problem;
    double *centre; /* [p * DIMS] centre of each rank's objects that may migrate */
    int64_t *count; /* [p] number of these objects */
    double *share;  /* [p] load that each rank should get */
    double *key;    /* [max(n, p)] scratch memory */
    int32_t *spare; /* [max(n, p)] scratch memory */
    int32_t *out;
} rcb_t;

static int sort(rcb_t *self, int32_t *id, int64_t n, plb_err_t *err)
{
    plb_loads_t order = {0};
    const int ret = plb_loads_sorted(&order, self->key, n, PLB_ASCENDING, err);
    if (ret == PLB_OK) {
        memcpy(self->spare, id, (size_t)n * sizeof *id);
        for (int64_t k = 0; k < n; k++) {
            id[k] = self->spare[order.item[k].id];
        }
    }
    plb_loads_free(&order);
    return ret;
}

static double coordinate(const rcb_t *self, int32_t object, int d)
{
    return self->problem->in->coords[DIMS * (int64_t)object + d];
}

/* Return the dimension in which the objects extend most; *middle: the middle of that extent. */
static int longest_side(const rcb_t *self, const int32_t *object, int64_t n, double *middle)
{
    int best = 0;
    double longest = -1.0;
    for (int d = 0; d < DIMS; d++) {
        double low = n > 0 ? coordinate(self, object[0], d) : 0.0, high = low;
        for (int64_t k = 1; k < n; k++) {
            const double x = coordinate(self, object[k], d);
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        if (high - low > longest) {
            longest = high - low;
            best = d;
            *middle = 0.5 * (low + high);
        }
    }
    return best;
}

/* Return the number of objects, from object[0] on, whose total load is closest to `load`. */
static int64_t cut_at(const rcb_t *self, const int32_t *object, int64_t n, double load)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        const double next = sum + self->problem->in->load[object[k]];
        if (next > load) {
            return k + (next - load < load - sum);
        }
        sum = next;
    }
    return n;
}

static int bisect(rcb_t *self, int32_t *object, int64_t n, int32_t *rank, int32_t p,
                  plb_err_t *err)
{
    double middle = 0.0, load = 0.0, here = 0.0, all = 0.0;
    if (p == 1) {
        for (int64_t k = 0; k < n; k++) {
            self->out[object[k]] = rank[0];
        }
        return PLB_OK;
    }
    const int d = longest_side(self, object, n, &middle);
    for (int64_t k = 0; k < n; k++) {
        self->key[k] = coordinate(self, object[k], d);
        load += self->problem->in->load[object[k]];
    }
    PLB_PASS(sort(self, object, n, err));
    for (int32_t k = 0; k < p; k++) {
        self->key[k] =
            self->count[rank[k]] > 0 ? self->centre[DIMS * (int64_t)rank[k] + d] : middle;
    }
    PLB_PASS(sort(self, rank, p, err));
    const int32_t left = p / 2;
    for (int32_t k = 0; k < p; k++) {
        here += k < left ? self->share[rank[k]] : 0.0;
        all += self->share[rank[k]];
    }
    const double mine = all > 0.0 ? load * here / all : load * left / p;
    const int64_t at = cut_at(self, object, n, mine);
    PLB_PASS(bisect(self, object, at, rank, left, err));
    return bisect(self, object + at, n - at, rank + left, p - left, err);
}

static int divide(const plb_problem_t *problem, int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = problem->in->n_ranks;
    const int64_t n = problem->n, most = n > p ? n : p;
    rcb_t rcb = {.problem = problem, .out = out};
    int32_t *object = NULL, *rank = NULL;
    double load = 0.0;
    PLB_NEW(object, n);
    PLB_NEW_EACH(p, rank, rcb.share);
    PLB_NEW0(rcb.centre, DIMS * (int64_t)p);
    PLB_NEW0(rcb.count, p);
    PLB_NEW_EACH(most, rcb.key, rcb.spare);
    for (int64_t k = 0; k < n; k++) {
        object[k] = plb_problem_object(problem, k);
        load += problem->in->load[object[k]];
    }
    PLB_TRY(plb_problem_shares(problem, load, rcb.share, err));
    for (int32_t r = 0; r < p; r++) {
        rank[r] = r;
    }
    for (int64_t k = 0; k < n; k++) {
        const int32_t r = problem->in->rank[object[k]];
        rcb.count[r]++;
        for (int d = 0; d < DIMS; d++) {
            rcb.centre[DIMS * (int64_t)r + d] += coordinate(&rcb, object[k], d);
        }
    }
    for (int64_t k = 0; k < DIMS * (int64_t)p; k++) {
        rcb.centre[k] /= (double)(rcb.count[k / DIMS] > 0 ? rcb.count[k / DIMS] : 1);
    }
    ret = bisect(&rcb, object, n, rank, p, err);
out:
    PLB_FREE(object, rank, rcb.centre, rcb.count, rcb.share, rcb.key, rcb.spare);
    return ret;
}

static int rcb_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    plb_problem_t problem = {0};
    int ret = PLB_OK;
    PLB_PASS(plb_problem_init(&problem, in, err));
    PLB_TRY(divide(&problem, out, err));
    ret = plb_start_repaired(in, out, err);
out:
    plb_problem_free(&problem);
    return ret;
}

const plb_strategy_t plb_strategy_rcb = {
    .name = "RCBLB",
    .help = "divides the objects in two across the longest side of their bounding box, then each "
            "half again, and so on; ranks keep their regions",
    .source = "Berger and Bokhari, IEEE Trans. Comput. C-36, 1987",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COORDS | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .run = rcb_run,
};
