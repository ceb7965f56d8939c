/* CommAwareRefineLB and RefineCommLB: objects of overloaded ranks go to the ranks of their
 * communication partners (kit/refine_comm.c). */
#include "place/kit/pack.h"
#include "place/kit/refine.h"

enum { PARAM_OVERLOAD, PARAM_EXCHANGES, PARAM_ALPHA, PARAM_BETA };

static int run(const plb_snapshot_t *in, const double *cost, const plb_opts_t *opts, int32_t *out,
               plb_err_t *err)
{
    int ret = PLB_OK;
    plb_problem_t problem = {0};
    PLB_TRY(plb_problem_init(&problem, in, err));
    PLB_TRY(plb_pack_present(&problem, out, err));
    ret = plb_refine_comm(&problem, opts->params[PARAM_OVERLOAD],
                          opts->params[PARAM_EXCHANGES] != 0.0, cost, out, err);
out:
    plb_problem_free(&problem);
    return ret;
}

static int run_comm_aware(const plb_strategy_t *self, const plb_snapshot_t *in,
                          const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    (void)self;
    const double *cost = opts->params + PARAM_ALPHA;
    return run(in, cost[0] + cost[1] > 0.0 ? cost : NULL, opts, out, err);
}

static int run_refine_comm(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    (void)self;
    return run(in, opts->params + PARAM_ALPHA, opts, out, err);
}

#define PARAMS(alpha, beta)                                                                         \
    {                                                                                               \
        {"overload", "x average", "a rank above this multiple of the average gives away objects",   \
         1.003,      1.0,         1e6},                                                             \
            {"exchanges", "", "1: also exchange objects; 0: only move them, as in Menon's thesis",  \
             1,           0,  1},                                                                   \
            {"alpha", "s/message", "sender's time for a message to another rank", alpha, 0.0, 1e6}, \
            {"beta", "s/byte", "sender's time for each byte of a message", beta, 0.0, 1e6},         \
    }

/* By default, the ranks' times do not include messages in CommAwareRefineLB. */
static const plb_param_t aware_params[] = PARAMS(0.0, 0.0);
static const plb_param_t params[] = PARAMS(2e-6, 1e-10);

const plb_strategy_t plb_strategy_comm_aware = {
    .name = "CommAwareRefineLB",
    .help = "moves objects from overloaded ranks to less loaded ranks where their partners "
            "are, or else to any less loaded rank",
    .source = "Menon 2.3.4",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = aware_params,
    .n_params = 4,
    .run = run_comm_aware,
};

const plb_strategy_t plb_strategy_refine_comm = {
    .name = "RefineCommLB",
    .help = "like CommAwareRefineLB, counting what a rank sends to other ranks as part of "
            "its time",
    .source = "Menon 2.2",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 4,
    .run = run_refine_comm,
};
