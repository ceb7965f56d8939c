/* VectorLB: places objects with several loads each (components).  Objects may share blocks of
 * memory.
 *
 * With phases = 1, components are phases, and all ranks end a phase together.  With phases = 0,
 * components are kinds of processors.  kit/vectors.h defines times, goals and cost.
 *
 * Step 1: take the objects in descending order of their largest component, in units of its goal,
 * or, with memory limits, of their bytes divided by this component: then those that leave take
 * much load along, and few bytes.  An object stays if each component of its rank remains within
 * `overload` times the goal.
 *
 * Step 2: take the other objects in descending order of their largest component.  Each goes to the
 * rank whose largest t[k][r] / goal[k] is then smallest.
 *
 * Step 3: lower the cost by moves and exchanges of single objects (kit/vector_steps.c), until it
 * is close to the cost of the goals.
 *
 * If an object does not fit into memory in step 2, step 3 begins with the present placement or, if
 * this does not keep the memory limits, with a placement that is made for memory only
 * (kit/vector_pack.c).  If the result of step 3 is no better than the present placement, which
 * keeps the limits, only step 3 is done, from the present placement; if that is no better either,
 * no object moves.
 *
 * Ties in steps 1 and 2: the lowest index, the lowest rank. */
#include <float.h>
#include <string.h>

#include "base/cpu.h"
#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"
#include "place/kit/vectors.h"

enum { PARAM_OVERLOAD, PARAM_PHASES };

/* Step 3 ends if the cost exceeds its lower bound by at most this fraction. */
static const double CLOSE = 0.003;

/* A placement is better than the present one if its cost is lower by at least this fraction. */
static const double WORTH = 0.001;

typedef struct build {
    plb_vectors_t on;
    double overload;
    double *score; /* [p] scratch memory of score_ranks */
} build_t;

/* Compute score[r], the largest component of rank r with the object, in units of the goal. */
PLB_MULTIVERSION
static void score_ranks(const build_t *self, const double *object)
{
    const plb_vectors_t *on = &self->on;
    const int32_t p = on->p;
    double *restrict score = self->score;
    memset(score, 0, (size_t)p * sizeof *score);
    for (int32_t k = 0; k < on->d; k++) {
        const double *restrict t = on->t + (int64_t)k * p, *restrict pace = on->pace;
        const double x = object[k], per = on->per[k];
        for (int32_t r = 0; r < p; r++) {
            const double s = (t[r] + x * pace[r]) * per;
            score[r] = s > score[r] ? s : score[r];
        }
    }
}

/* Return the rank for an object; -1: the object fits nowhere. */
static int32_t best_rank(const build_t *self, int64_t i)
{
    const plb_vectors_t *on = &self->on;
    int32_t best = -1;
    score_ranks(self, on->in->load + i * on->d);
    for (int32_t r = 0; r < on->p; r++) {
        if ((best < 0 || self->score[r] < self->score[best]) &&
            plb_memory_fits(&on->memory, i, r)) {
            best = r;
        }
    }
    return best;
}

static bool fits_at_home(const build_t *self, int64_t i)
{
    const plb_vectors_t *on = &self->on;
    const int32_t r = on->in->rank[i];
    for (int32_t k = 0; k < on->d; k++) {
        const double t = on->t[(int64_t)k * on->p + r] + plb_vectors_load(on, i, k) * on->pace[r];
        if (t > self->overload * on->goal[k]) {
            return false;
        }
    }
    return plb_memory_fits(&on->memory, i, r);
}

/* Do steps 1 and 2, in the orders `stay` and `order`.  *stuck: an object that fits nowhere; -1:
 * all are placed. */
static int build(build_t *self, const plb_loads_t *stay, const plb_loads_t *order, int64_t *stuck,
                 plb_err_t *err)
{
    plb_vectors_t *on = &self->on;
    const plb_snapshot_t *in = on->in;
    const int64_t n = in->n_objects;
    int ret = plb_vectors_begin(on, err);
    PLB_THEN(plb_problem_check_left(in, on->memory.left, err));
    *stuck = -1;
    for (int64_t j = 0; ret == PLB_OK && j < n; j++) {
        const int32_t i = stay->item[j].id;
        if (plb_may_migrate(in, i)) {
            on->rank[i] = -1;
            if (fits_at_home(self, i)) {
                plb_vectors_put(on, i, in->rank[i]);
            }
        }
    }
    for (int64_t j = 0; ret == PLB_OK && *stuck < 0 && j < n; j++) {
        const int32_t i = order->item[j].id;
        if (on->rank[i] < 0) {
            const int32_t r = best_rank(self, i);
            if (r >= 0) {
                plb_vectors_put(on, i, r);
            } else {
                *stuck = i;
            }
        }
        PLB_THEN(plb_interrupted(on->p));
    }
    return ret;
}

static void sizes_by_load(const plb_vectors_t *on, double *size)
{
    for (int64_t i = 0; i < on->in->n_objects; i++) {
        size[i] = 0.0;
        for (int32_t k = 0; k < on->d; k++) {
            size[i] = fmax(size[i], plb_vectors_load(on, i, k) * on->per[k]);
        }
    }
}

/* Sort the objects by their bytes, divided by `size`. */
static int sort_by_bytes(const plb_snapshot_t *in, const double *size, plb_loads_t *out,
                         plb_err_t *err)
{
    double *key = NULL;
    PLB_PASS_NEW(key, in->n_objects);
    for (int64_t i = 0; i < in->n_objects; i++) {
        key[i] = plb_vectors_bytes(in, i) / fmax(size[i], DBL_MIN);
        key[i] = fmin(key[i], DBL_MAX);
    }
    const int ret = plb_loads_sorted(out, key, in->n_objects, PLB_DESCENDING, err);
    plb_free(key);
    return ret;
}

static int construct(build_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->on.in;
    const int64_t n = in->n_objects;
    int64_t stuck;
    double *size = NULL;
    plb_loads_t order = {0}, stay = {0};
    const bool limited = self->on.memory.left != NULL;
    PLB_NEW(size, n);
    sizes_by_load(&self->on, size);
    PLB_TRY(plb_loads_sorted(&order, size, n, PLB_DESCENDING, err));
    if (limited) {
        PLB_TRY(sort_by_bytes(in, size, &stay, err));
    }
    PLB_TRY(build(self, limited ? &stay : &order, &order, &stuck, err));
    if (stuck >= 0) {
        ret = PLB_FAIL(err, PLB_ERR_INFEASIBLE,
                       "no placement found that keeps memory_limit: object %lld, with any "
                       "block that it shares, fits on no rank after the larger objects "
                       "are placed",
                       plb_key(in, stuck));
    }
out:
    plb_loads_free(&order);
    plb_loads_free(&stay);
    plb_free(size);
    return ret;
}

/* Place for memory only, with the objects that can stay, or else without; change *err only if
 * there is another error than that no placement was found. */
static int pack(plb_vectors_t *on, plb_err_t *err)
{
    bool kept = false;
    plb_err_t other;
    int ret = plb_vectors_pack(on, true, &kept, &other);
    if (ret == PLB_OK && !kept) {
        ret = plb_vectors_pack(on, false, &kept, &other);
    }
    if (ret != PLB_OK) {
        *err = other;
    }
    return ret == PLB_OK && !kept ? PLB_ERR_INFEASIBLE : ret;
}

/* Do step 3 from the present placement; no object moves if the cost then is `most` or more. */
static int improve_present(plb_vectors_t *on, double aim, double most, plb_err_t *err)
{
    bool kept;
    int ret = plb_vectors_go_home(on, &kept, err);
    PLB_THEN(plb_vectors_improve(on, aim, err));
    if (ret == PLB_OK && plb_vectors_cost(on) >= most) {
        ret = plb_vectors_go_home(on, &kept, err);
    }
    return ret;
}

static int run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    (void)strategy;
    build_t self = {.overload = opts->params[PARAM_OVERLOAD]};
    plb_vectors_t *on = &self.on;
    bool kept = false;
    double most = 0.0, aim = 0.0; /* most: cost from which on a placement is no better */
    int ret = PLB_OK;
    memcpy(out, in->rank, (size_t)in->n_objects * sizeof *out);
    PLB_TRY(plb_vectors_init(on, in, opts->params[PARAM_PHASES] != 0.0, out, err));
    PLB_NEW(self.score, in->n_ranks);
    PLB_TRY(plb_vectors_go_home(on, &kept, err));
    most = plb_vectors_cost(on) * (1.0 - fmin(WORTH, self.overload - 1.0));
    aim = plb_vectors_least(on) * (1.0 + fmin(CLOSE, self.overload - 1.0));
    ret = construct(&self, err);
    if (ret == PLB_ERR_INFEASIBLE && !kept) {
        ret = pack(on, err);
    }
    PLB_THEN(plb_vectors_improve(on, aim, err));
    if (kept && (ret == PLB_ERR_INFEASIBLE || (ret == PLB_OK && plb_vectors_cost(on) >= most))) {
        ret = improve_present(on, aim, most, err);
    }
out:
    plb_vectors_free(on);
    plb_free(self.score);
    return ret;
}

static const plb_param_t params[] = {
    {"overload", "x goal",
     "an object stays only if each component of its rank is at most this multiple of the goal",
     1.02, 1.0, 1e6},
    {"phases", "",
     "1: an object has a load for each phase, and all ranks end each phase together; 0: it has a "
     "load for each kind of processor, and each kind is balanced",
     1, 0, 1},
};

const plb_strategy_t plb_strategy_vector = {
    .name = "VectorLB",
    .help =
        "places objects with several loads each (phases, or kinds of processors) and with shared "
        "blocks of memory",
    .source = "pylb",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 2,
    .run = run,
};
