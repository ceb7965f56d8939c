/* VectorLB and CCMLB: objects with several loads each, shared blocks of memory, messages, and
 * costs of blocks that are not on their home rank.
 *
 * The search (plb_improve) starts from a placement by work in which objects stay where they fit.
 * If an object does not fit into memory there, it starts from the present placement or, if this
 * does not keep the memory limits, from a placement that is made for memory only, if there is one.
 * If the result is no better than the present placement, which keeps the limits, it starts again
 * from the present one; if that is no better either, no object moves.  With distances, a start
 * from parts follows: it keeps objects that communicate on one node, which steps of single objects
 * hardly find. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

/* Search from the placement of HypergraphLB, and keep the result if it is better than `value`. */
static int start_from_parts(plb_state_t *on, double value, const plb_aim_t *aim, plb_err_t *err)
{
    static const double params[] = {1.03, 3.0, 0.0}; /* the defaults */
    const plb_opts_t opts = {.params = params, .seed = aim->seed};
    const int64_t n = on->in->n_objects;
    int32_t *before = NULL, *parts = NULL;
    int ret = PLB_OK;
    PLB_NEW_EACH(n, before, parts);
    memcpy(before, on->rank, (size_t)n * sizeof *before);
    ret = plb_strategy_hypergraph.run(&plb_strategy_hypergraph, on->in, &opts, parts, err);
    if (ret == PLB_ERR_INFEASIBLE) {
        ret = PLB_OK; /* the limits leave no room for parts */
        goto out;
    }
    PLB_TRY(ret);
    plb_state_set(on, parts);
    PLB_TRY(plb_improve(on, aim, err));
    if (!on->fits || plb_state_value(on) >= value) {
        plb_state_set(on, before);
    }
out:
    PLB_FREE(before, parts);
    return ret;
}

static int vector_run(const plb_snapshot_t *in, const plb_objective_t *of, double overload,
                      uint64_t seed, int32_t *out, plb_err_t *err)
{
    plb_state_t on = {0};
    double most, slack, least = 0.0; /* least: a lower bound of the value of all placements */
    bool kept;
    int ret = plb_state_init(&on, in, of, out, err);
    if (ret != PLB_OK) {
        goto out;
    }
    plb_start_present(&on);
    kept = on.fits;
    most = plb_state_value(&on) * (1.0 - fmin(PLB_WORTH, overload - 1.0));
    slack = fmin(PLB_REFINE_OVERLOAD, overload) - 1.0;
    for (int32_t k = 0; k < on.d; k++) {
        least = plb_state_add(&on, least, on.goal[k], k);
    }
    const plb_aim_t aim = {least * (1.0 + slack), PLB_ALL_STEPS, true, seed};
    ret = plb_start_fit(&on, overload, err);
    if (ret == PLB_ERR_INFEASIBLE && !kept) {
        ret = plb_start_packed(&on, err);
    }
    PLB_THEN(plb_improve(&on, &aim, err));
    if (ret == PLB_OK && !on.fits) {
        ret = PLB_ERR_INFEASIBLE; /* `err` has the message of the start */
    }
    if (kept && (ret == PLB_ERR_INFEASIBLE || (ret == PLB_OK && plb_state_value(&on) >= most))) {
        plb_start_present(&on);
        ret = plb_improve(&on, &aim, err);
        if (ret == PLB_OK && plb_state_value(&on) >= most) {
            plb_start_present(&on);
        }
    }
    if (ret == PLB_OK && on.near != NULL && in->block == NULL && in->n_components == 1) {
        ret = start_from_parts(&on, plb_state_value(&on), &aim, err);
    }
out:
    plb_state_free(&on);
    return ret;
}

static int run_vector(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                      int32_t *out, plb_err_t *err)
{
    /* with one load, both objectives mean the same, and the value is in seconds (plb_transfer) */
    const plb_objective_t of = {.kinds = opts->params[1] == 0.0 && in->n_components > 1};
    return vector_run(in, &of, opts->params[0], opts->seed, out, err);
}

static int run_ccm(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_err_t *err)
{
    const double *x = opts->params;
    const plb_objective_t of = {
        .alpha = x[0], .beta = x[1], .gamma = x[2], .delta = x[3], .messages = true};
    return vector_run(in, &of, 1.0, opts->seed, out, err);
}

static const plb_param_t vector_params[] = {
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
    .params = vector_params,
    .n_params = 2,
    .takes_phases = true,
    .run = run_vector,
};

static const plb_param_t ccm_params[] = {
    {"alpha", "s/message", "sender's time for a message to another rank", 0.0, 0.0, 1e6},
    {"beta", "s/byte", "sender's time for each byte to another rank", 1e-10, 0.0, 1e6},
    {"gamma", "s/byte", "time for each byte that stays on its rank", 0.0, 0.0, 1e6},
    {"delta", "s/byte", "time for each byte of a block that is away from its home", 0.0, 0.0, 1e6},
};

const plb_strategy_t plb_strategy_ccm = {
    .name = "CCMLB",
    .help =
        "balances load, messages and blocks that are away from home, as one time of each rank, "
        "within memory limits",
    .source = "Lifflander, Pebay, Slattengren et al. 2024, arXiv 2404.16793",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = ccm_params,
    .n_params = 4,
    .takes_phases = true,
    .run = run_ccm,
};
