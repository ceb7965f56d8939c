/* HSFCLB: orders the objects along Hilbert's space-filling curve, and cuts the curve into
 * consecutive parts, one for each rank.  The position of a point on the curve is computed bit by
 * bit (Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004; the array x is X in the
 * paper), in the dimensions in which the points extend. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

/* ---- a row of objects, cut into consecutive parts ------------------------------------------- */

/* Divides a row of objects, e.g. along a space-filling curve: each rank gets consecutive objects.
 * The ranks keep their present order along the row.  The cuts between them move only as far as the
 * balance requires, so that few objects migrate. */

enum { STEPS = 64 }; /* a guard: enough steps of the search even if the loads are tiny */

typedef struct chain {
    const plb_problem_t *problem;
    const int32_t *object; /* [n] the objects in the order of the row */
    int64_t n;
    double *sum;       /* [n + 1] sum of the loads before each object */
    plb_loads_t order; /* item[k].id is the k-th rank along the row */
    int64_t *present;  /* [p + 1] index of the k-th rank's first object, if every rank kept its
                          present number of objects */
    int64_t *least;    /* [p + 1] smallest index at which the k-th rank can begin: all objects from
                          there on fit on this rank and the ranks after it */
} chain_t;

static int32_t rank_at(const chain_t *self, int32_t k)
{
    return self->order.item[k].id;
}

/* Return the load that rank r can take, besides its fixed objects, and still end by `time`. */
static double capacity(const plb_problem_t *problem, int32_t r, double time)
{
    const plb_snapshot_t *in = problem->in;
    const double out = (time - plb_background(in, r)) * plb_speed(in, r) - problem->fixed[r];
    return out > 0.0 ? out * (1.0 + PLB_ROUNDING) : 0.0;
}

static bool fits(const chain_t *self, int64_t begin, int64_t end, double most)
{
    return self->sum[end] - self->sum[begin] <= most + PLB_ROUNDING * self->sum[self->n];
}

/* Return the largest `end` such that the objects begin ... end - 1 fit on rank r. */
static int64_t end_from(const chain_t *self, int64_t begin, int32_t r, double time)
{
    const double most = capacity(self->problem, r, time);
    int64_t end = begin;
    PLB_BISECT(end, self->n, k, !fits(self, begin, k + 1, most))
    return end;
}

static bool feasible(const chain_t *self, double time)
{
    int64_t at = 0;
    for (int32_t k = 0; k < self->problem->in->n_ranks && at < self->n; k++) {
        at = end_from(self, at, rank_at(self, k), time);
    }
    return at == self->n;
}

/* Return the time of the slowest rank with the best cuts. */
static double best_time(const chain_t *self, double average)
{
    double low = 0.0, high = average > 0.0 ? average : 1.0;
    for (int k = 0; k < STEPS && !feasible(self, high); k++) {
        low = high;
        high *= 2.0;
    }
    for (int k = 0; k < STEPS && high - low > PLB_ROUNDING * high; k++) {
        const double middle = 0.5 * (low + high);
        *(feasible(self, middle) ? &high : &low) = middle;
    }
    return high;
}

/* Sort the ranks by the mean position of their objects in the row.  A rank without objects gets
 * the position that it has if all ranks come in numerical order, with equally many objects. */
static int order_ranks(chain_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem->in;
    const int32_t p = in->n_ranks;
    double *place = NULL;
    int64_t *count = NULL;
    PLB_NEW0_EACH(p, place, count);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = in->rank[self->object[k]];
        place[r] += (double)k;
        count[r]++;
    }
    for (int32_t r = 0; r < p; r++) {
        place[r] = count[r] > 0 ? place[r] / (double)count[r]
                                : ((double)r + 0.5) / (double)p * (double)self->n;
    }
    PLB_TRY(plb_loads_sorted(&self->order, place, p, PLB_ASCENDING, err));
    for (int32_t k = 0; k < p; k++) {
        self->present[k + 1] = self->present[k] + count[rank_at(self, k)];
    }
out:
    PLB_FREE(place, count);
    return ret;
}

/* Move each cut only as far as necessary for all ranks to end by `time`. */
static void cut(chain_t *self, double time, int32_t *out)
{
    const int32_t p = self->problem->in->n_ranks;
    self->least[p] = self->n;
    for (int32_t k = p - 1; k >= 0; k--) {
        const double most = capacity(self->problem, rank_at(self, k), time);
        const int64_t end = self->least[k + 1];
        PLB_BISECT(self->least[k], end, begin, fits(self, begin, end, most))
    }
    int64_t at = 0;
    for (int32_t k = 0; k < p; k++) {
        const int32_t r = rank_at(self, k);
        const int64_t most = k == p - 1 ? self->n : end_from(self, at, r, time);
        int64_t end = self->present[k + 1];
        end = end > self->least[k + 1] ? end : self->least[k + 1];
        end = end > at ? end : at;
        end = end < most ? end : most;
        for (; at < end; at++) {
            out[self->object[at]] = r;
        }
    }
}

/* Place the objects that may migrate, object[problem->n], in the order of the row, and write
 * their ranks to out[n_objects].  No rank takes longer than the longer of two times: `overload` x
 * the average (the time if all ranks ended together); the slowest rank's time with the best cuts.
 */
static int chain_cut(const plb_problem_t *problem, const int32_t *object, double overload,
                     int32_t *out, plb_err_t *err)
{
    const plb_snapshot_t *in = problem->in;
    const int64_t n = problem->n;
    const double average = plb_average(in);
    chain_t chain = {.problem = problem, .object = object, .n = n};
    int ret = PLB_OK;
    PLB_NEW0(chain.sum, n + 1);
    PLB_NEW0_EACH(in->n_ranks + 1, chain.present, chain.least);
    for (int64_t k = 0; k < n; k++) {
        chain.sum[k + 1] = chain.sum[k] + in->load[object[k]];
    }
    PLB_TRY(order_ranks(&chain, err));
    cut(&chain, fmax(best_time(&chain, average), overload * average), out);
out:
    plb_loads_free(&chain.order);
    PLB_FREE(chain.sum, chain.present, chain.least);
    return ret;
}

/* ---- Hilbert's curve ------------------------------------------------------------------------ */

/* BITS: bits of a position on the curve, no more than a double represents exactly */
enum { DIMS = 3, BITS = 51 };

/* The box around the points, a cube in the dimensions in which they extend. */
typedef struct box {
    double low[DIMS], side;
    int dim[DIMS], n;
} box_t;

static box_t box_of(const double *coords, int64_t n)
{
    box_t out = {.side = 0.0};
    for (int d = 0; d < DIMS; d++) {
        double low = n > 0 ? coords[d] : 0.0, high = low;
        for (int64_t i = 0; i < n; i++) {
            const double x = coords[DIMS * i + d];
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
        out.low[d] = low;
        out.side = high - low > out.side ? high - low : out.side;
        if (high > low) {
            out.dim[out.n++] = d;
        }
    }
    return out;
}

/* Convert coordinates of `bits` bits to the paper's transposed form of the position. */
static void to_curve(uint64_t *x, int n, int bits)
{
    const uint64_t top = UINT64_C(1) << (bits - 1);
    for (uint64_t q = top; q > 1; q >>= 1) { /* undo the rotations and reflections */
        const uint64_t below = q - 1;
        for (int d = 0; d < n; d++) {
            if (x[d] & q) {
                x[0] ^= below;
            } else {
                const uint64_t swap = (x[0] ^ x[d]) & below;
                x[0] ^= swap;
                x[d] ^= swap;
            }
        }
    }
    uint64_t flip = 0;
    for (int d = 1; d < n; d++) { /* Gray code */
        x[d] ^= x[d - 1];
    }
    for (uint64_t q = top; q > 1; q >>= 1) {
        flip ^= x[n - 1] & q ? q - 1 : 0;
    }
    for (int d = 0; d < n; d++) {
        x[d] ^= flip;
    }
}

/* Return the position of a point on the curve, a whole number below 2^BITS. */
static double place_of(const box_t *box, const double *point)
{
    const int bits = box->n > 0 ? BITS / box->n : 1;
    const double cells = (double)(UINT64_C(1) << bits);
    uint64_t x[DIMS] = {0}, out = 0;
    for (int d = 0; d < box->n; d++) {
        const double at = (point[box->dim[d]] - box->low[box->dim[d]]) / box->side * cells;
        x[d] = (uint64_t)(at < cells - 1.0 ? at : cells - 1.0);
    }
    if (box->n > 1) {
        to_curve(x, box->n, bits);
    }
    for (int b = bits - 1; b >= 0; b--) {
        for (int d = 0; d < box->n; d++) {
            out = out << 1 | (x[d] >> b & 1);
        }
    }
    return (double)out;
}

/* Write the objects that may migrate to object[problem->n], in their order along the curve. */
static int along_curve(const plb_problem_t *problem, int32_t *object, plb_err_t *err)
{
    int ret = PLB_OK;
    const double *coords = problem->in->coords;
    const box_t box = box_of(coords, problem->in->n_objects);
    plb_loads_t order = {0};
    double *place = NULL;
    PLB_NEW(place, problem->n);
    for (int64_t k = 0; k < problem->n; k++) {
        PLB_TRY(plb_interrupted(16));
        place[k] = place_of(&box, coords + DIMS * plb_problem_object(problem, k));
    }
    PLB_TRY(plb_loads_sorted(&order, place, problem->n, PLB_ASCENDING, err));
    for (int64_t k = 0; k < problem->n; k++) {
        object[k] = plb_problem_object(problem, order.item[k].id);
    }
out:
    plb_loads_free(&order);
    plb_free(place);
    return ret;
}

static int hsfc_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                    int32_t *out, plb_err_t *err)
{
    plb_problem_t problem = {0};
    int32_t *object = NULL;
    int ret = PLB_OK;
    PLB_PASS(plb_problem_init(&problem, in, err));
    PLB_NEW(object, problem.n);
    PLB_TRY(along_curve(&problem, object, err));
    PLB_TRY(chain_cut(&problem, object, opts->params[0], out, err));
    ret = plb_start_repaired(in, out, err);
out:
    plb_free(object);
    plb_problem_free(&problem);
    return ret;
}

static const plb_param_t params[] = {
    {"overload", "x average", "cuts move until no rank is above this multiple of the average",
     1.01, 1.0, 1e6},
};

const plb_strategy_t plb_strategy_hsfc = {
    .name = "HSFCLB",
    .help =
        "cuts Hilbert's curve through the objects' positions into consecutive parts; moves the "
        "cuts only as far as balance needs",
    .source = "Skilling, AIP Conf. Proc. 707, 2004; Pinar and Aykanat, JPDC 64, 2004",
    .family = PLB_COMPREHENSIVE,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COORDS | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = hsfc_run,
};
