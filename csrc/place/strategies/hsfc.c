/* HSFCLB: orders the objects along Hilbert's space-filling curve, and cuts the curve into
 * consecutive parts, one for each rank.  The position of a point on the curve is computed bit by
 * bit (Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707, 2004; the array x is X in the
 * paper), in the dimensions in which the points extend. */
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "place/kit/chain.h"
#include "place/kit/pack.h"

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

/* Make cuts by load keep the memory limits.  There are two ways: the ranks above their limits give
 * away their objects with the least load; or the curve is cut again, such that each part keeps its
 * limit.  The second is bad where few of the objects have nearly all the load: ranks that have
 * only objects without load then are full.  Take the way that ends earlier. */
static int keep_memory(const plb_problem_t *problem, const int32_t *object, double overload,
                       int32_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = problem->in->n_objects;
    int32_t *other = NULL;
    double with_cuts = 0.0, with_repair = 0.0;
    PLB_NEW(other, n);
    memcpy(other, out, (size_t)n * sizeof *other);
    PLB_TRY(plb_pack_repair(problem, out, err));
    ret = plb_chain_cut(problem, object, overload, true, other, err);
    if (ret == PLB_ERR_INFEASIBLE) {
        ret = PLB_OK;
        goto out;
    }
    PLB_THEN(plb_problem_slowest(problem, other, &with_cuts, err));
    PLB_THEN(plb_problem_slowest(problem, out, &with_repair, err));
    if (ret == PLB_OK && with_cuts <= with_repair) {
        memcpy(out, other, (size_t)n * sizeof *out);
    }
out:
    plb_free(other);
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    plb_problem_t problem = {0};
    int32_t *object = NULL;
    int ret = plb_problem_needs_coords(self, in, err);
    PLB_THEN(plb_problem_init(&problem, in, err));
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW(object, problem.n);
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    PLB_TRY(along_curve(&problem, object, err));
    PLB_TRY(plb_chain_cut(&problem, object, opts->params[0], false, out, err));
    ret = problem.room == NULL ? PLB_OK : keep_memory(&problem, object, opts->params[0], out, err);
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
    .run = run,
};
