#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "measure/measure.h"
#include "model/model.h"
#include "place/strategy.h"

#define ADDRESS(name) &plb_strategy_##name,
const plb_strategy_t *const plb_strategies[] = {PLB_STRATEGIES(ADDRESS) NULL};

const plb_strategy_t *plb_strategy_find(const char *name)
{
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    return NULL;
}

/* ---- never slower than the present placement ------------------------------------------------ */

/* Return the network of the strategy's parameters alpha and beta; *counts: whether it has them. */
static plb_network_t network_of(const plb_strategy_t *self, const plb_opts_t *opts, bool *counts)
{
    plb_network_t out = {0.0, 0.0};
    *counts = false;
    for (int i = 0; i < self->n_params; i++) {
        const bool alpha = strcmp(self->params[i].name, "alpha") == 0;
        if (alpha || strcmp(self->params[i].name, "beta") == 0) {
            *(alpha ? &out.alpha : &out.beta) = opts->params[i];
            *counts = true;
        }
    }
    return out;
}

/* Say whether fewer messages or bytes go from rank to rank than in the present placement. */
static int sends_less(const plb_snapshot_t *in, const int32_t *rank, bool *less, plb_err_t *err)
{
    plb_evaluation_t is, was;
    const double one[] = {1.0, 1.0}, *near = in->near == NULL ? one : in->near;
    const double most = 1.0 - PLB_ROUNDING;
    PLB_PASS(plb_evaluate(in, NULL, &was, err));
    PLB_PASS(plb_evaluate(in, rank, &is, err));
    *less = near[0] * is.messages_node + is.messages_network <
                most * (near[0] * was.messages_node + was.messages_network) ||
            near[1] * is.bytes_node + is.bytes_network <
                most * (near[1] * was.bytes_node + was.bytes_network);
    return PLB_OK;
}

/* Take the present placement, unless it exceeds a memory limit. */
static int stay(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err)
{
    double full;
    PLB_PASS(plb_snapshot_full(in, in->rank, &full, err));
    if (!(full > 1.0)) {
        memcpy(rank, in->rank, (size_t)in->n_objects * sizeof *rank);
    }
    return PLB_OK;
}

/* Replace a placement by the present one if that takes less time and keeps the memory limits.  A
 * strategy that reads messages, but not their cost, may trade time for fewer messages. */
static int keep_if_slower(const plb_strategy_t *self, const plb_snapshot_t *in,
                          const plb_opts_t *opts, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_metrics_t is, was;
    bool counts, less = false;
    const plb_network_t network = network_of(self, opts, &counts);
    double *before = NULL, *after = NULL;
    PLB_NEW_EACH(in->n_ranks, before, after);
    PLB_TRY(plb_phase_times(in, NULL, network, before, err));
    PLB_TRY(plb_phase_times(in, rank, network, after, err));
    plb_metrics_of(before, in->n_ranks, &was);
    plb_metrics_of(after, in->n_ranks, &is);
    const bool slower = is.max > was.max * (1.0 + PLB_ROUNDING);
    if (slower && (self->looks_at & PLB_LOOKS_COMM) && !counts) {
        PLB_TRY(sends_less(in, rank, &less, err));
    }
    ret = slower && !less ? stay(in, rank, err) : PLB_OK;
out:
    PLB_FREE(before, after);
    return ret;
}

/* Set limit[n_ranks] to memory limits of the ranks that also keep those of the nodes.  If agents
 * place, each rank gets an equal part of its node's limit, because an agent does not know what
 * other ranks hold.  Else it gets its bytes in the placement rank[] plus an equal part of the
 * node's free bytes, or, if the node is above its limit, the fraction of its bytes that the limit
 * allows. */
static int divide_limits(const plb_snapshot_t *in, const int32_t *rank, bool agents,
                         int64_t *limit, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *held = NULL, *of_node = NULL, *ranks = NULL;
    PLB_NEW_EACH(in->n_ranks, held, of_node, ranks);
    PLB_TRY(plb_snapshot_held(in, rank, held, of_node, ranks, err));
    for (int32_t r = 0; r < in->n_ranks; r++) {
        const int64_t most = in->node_memory_limit[r], left = most - of_node[r];
        const int64_t own = agents ? most / ranks[r]
                            : left >= 0
                                ? held[r] + left / ranks[r]
                                : (int64_t)((double)held[r] / (double)of_node[r] * (double)most);
        const bool tighter = in->memory_limit != NULL && in->memory_limit[r] < own;
        limit[r] = tighter ? in->memory_limit[r] : own;
    }
out:
    PLB_FREE(held, of_node, ranks);
    return ret;
}

/* Run the strategy without the limits of the nodes.  If its placement exceeds one, run it again
 * with limits of the ranks that keep those of the nodes. */
static int run_in_nodes(const plb_strategy_t *self, const plb_snapshot_t *in,
                        const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    const size_t size = (size_t)in->n_objects * sizeof *out;
    plb_snapshot_t s = *in;
    int64_t *limit = NULL;
    double full;
    const bool agents = self->agent != NULL;
    memcpy(out, in->rank, size);
    if (in->node_memory_limit == NULL || in->memory == NULL) {
        return self->run(self, in, opts, out, err);
    }
    int ret = agents ? PLB_OK : self->run(self, in, opts, out, err);
    PLB_TRY(ret);
    PLB_TRY(plb_snapshot_full(in, agents ? in->rank : out, &full, err));
    if (full > 1.0 || agents) {
        PLB_NEW(limit, in->n_ranks);
        PLB_TRY(divide_limits(in, agents ? in->rank : out, agents, limit, err));
        s.memory_limit = limit;
        memcpy(out, in->rank, size);
        ret = self->run(self, &s, opts, out, err);
    }
    if (ret == PLB_ERR_INFEASIBLE) {
        const plb_err_t own = *err;
        ret = PLB_FAIL(err, PLB_ERR_INFEASIBLE,
                       "node_memory_limit, divided among the ranks of each node: %s", own.text);
    }
out:
    plb_free(limit);
    return ret;
}

int plb_strategy_place(const plb_strategy_t *self, const plb_snapshot_t *in,
                       const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    plb_snapshot_t s = *in;
    plb_opts_t plain = {0};
    double *sum = NULL, *params = NULL, full;
    int ret = PLB_OK;
    PLB_FAIL_IF(self->user == NULL && self->looks_at & PLB_LOOKS_COORDS && in->coords == NULL &&
                    in->n_objects > 0,
                err, PLB_ERR_VALUE, "coords are missing: %s needs the position of each object",
                self->name);
    if (!self->takes_phases) {
        PLB_PASS(plb_snapshot_sum(&s, &sum, err));
    }
    if (opts == NULL) {
        PLB_NEW(params, self->n_params);
        for (int i = 0; i < self->n_params; i++) {
            params[i] = self->params[i].fallback;
        }
        plain.params = params;
        opts = &plain;
    }
    if (self->user == NULL && !self->takes_phases && self != &plb_strategy_none) {
        s.block = NULL;
    }
    PLB_TRY(run_in_nodes(self, &s, opts, out, err));
    if (s.block != in->block) { /* the strategy did not count the bytes of the blocks */
        PLB_TRY(plb_snapshot_full(in, out, &full, err));
        PLB_TRY(full > 1.0 ? plb_strategy_place(&plb_strategy_ccm, in, NULL, out, err) : PLB_OK);
    }
    /* these are not compared with the present placement: strategies that take several loads,
     * functions of the program, agents, which compare themselves, PowerAwareLB, which reads no
     * loads */
    const bool own =
        self->takes_phases || self->user != NULL || self->agent != NULL || self->for_equal_objects;
    if (!own) {
        s.block = in->block;
        PLB_TRY(sum == NULL ? keep_if_slower(self, &s, opts, out, err) : PLB_OK);
    }
    if (!own && sum != NULL) { /* what is faster for the sums may be slower for the phases */
        plb_metrics_t before, after;
        PLB_TRY(plb_snapshot_metrics(in, NULL, &before, err));
        PLB_TRY(plb_snapshot_metrics(in, out, &after, err));
        ret = after.max > before.max * (1.0 + PLB_ROUNDING) ? stay(in, out, err) : PLB_OK;
    }
out:
    PLB_FREE(sum, params);
    return ret;
}

/* All objects stay; the baseline for comparisons. */
static int none_run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
                    int32_t *out, plb_err_t *err)
{
    return PLB_OK;
}

const plb_strategy_t plb_strategy_none = {
    .name = "none",
    .help = "leave every object where it is",
    .source = "the baseline",
    .family = PLB_REFINEMENT,
    .run = none_run,
};
