/* Calls that need no advisor: triggers; placement and metrics; loads after a change of the mesh.
 */
#include "lib/internal.h"

#include <string.h>

#include "base/base.h"

/* ---- triggers for programs that reduce their own statistics --------------------------------- */

struct pylb_trigger {
    plb_handle_t handle;
};

int pylb_trigger_create(const char *name, const char *params, pylb_trigger **trigger)
{
    plb_err_t *err = plb_lib_error();
    int ret = PLB_OK;
    const plb_trigger_kind_t *kind = NULL;
    double *value = NULL;
    plb_trigger_t *core = NULL;
    plb_handle_t *handle;
    PLB_FAIL_IF(name == NULL || trigger == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                name == NULL ? "name" : "trigger");
    PLB_TRY(plb_registered_trigger(name, &kind, err));
    PLB_TRY(plb_option_params(kind->params, kind->n_params, kind->name, params, &value, err));
    PLB_NEW0(core, 1);
    PLB_TRY(plb_trigger_init(core, kind, value, err));
    PLB_TRY(plb_handle_open(PLB_HANDLE_TRIGGER, core, &handle, err));
    *trigger = (pylb_trigger *)handle;
out:
    plb_free(value);
    if (ret != PLB_OK && core != NULL) {
        plb_trigger_free(core);
        plb_free(core);
    }
    return ret;
}

static plb_trigger_t *core_of(const pylb_trigger *trigger, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)trigger, PLB_HANDLE_TRIGGER, err);
}

int pylb_trigger_close(pylb_trigger **trigger)
{
    plb_err_t *err = plb_lib_error();
    if (trigger == NULL || *trigger == NULL) {
        return PLB_OK;
    }
    plb_trigger_t *core = core_of(*trigger, err);
    if (core == NULL) {
        return err->code;
    }
    plb_trigger_free(core);
    plb_free(core);
    ((plb_handle_t *)*trigger)->content = NULL;
    *trigger = NULL;
    return PLB_OK;
}

int pylb_trigger_expect(pylb_trigger *trigger, int64_t n, double cost)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    return core == NULL ? err->code : plb_trigger_expect(core, n < 0 ? INT64_MAX : n, cost, err);
}

int pylb_trigger_observe(pylb_trigger *trigger, int64_t iteration, double max, double mean,
                         int *rebalance)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    const plb_observation_t o = {iteration, max, mean};
    if (core == NULL) {
        return err->code;
    }
    PLB_FAIL_IF(rebalance == NULL, err, PLB_ERR_VALUE, "rebalance is NULL");
    PLB_PASS(plb_trigger_observe(core, &o, err));
    *rebalance = core->verdict.balance;
    return PLB_OK;
}

int pylb_trigger_balanced(pylb_trigger *trigger, int64_t iteration, double cost,
                          double max_over_mean)
{
    plb_err_t *err = plb_lib_error();
    plb_trigger_t *core = core_of(trigger, err);
    return core == NULL ? err->code
                        : plb_trigger_balanced(core, iteration, cost, max_over_mean, err);
}

const char *pylb_trigger_reason(const pylb_trigger *trigger)
{
    const plb_trigger_t *core = core_of(trigger, plb_lib_error());
    return core == NULL ? NULL : plb_reason_words[core->verdict.reason];
}

/* ---- placement and metrics ------------------------------------------------------------------ */

static const plb_param_t auto_params[] = {
    PLB_SELECTION(PLB_PARAM_ROW){"alpha", "s", "cost of a message", 2e-6, 0.0, 1e30},
    {"beta", "s", "cost of a byte", 1e-10, 0.0, 1e30},
};
enum { ALPHA = PLB_N_SELECTION, BETA, N_AUTO };

/* Place as an advisor's first LB step would do; Python's choose_and_place does the same. */
static int place_auto(const plb_snapshot_t *in, const char *params, uint64_t seed, int32_t *rank,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    double *value = NULL, *speed = NULL, every = 1.0;
    plb_settings_t settings = {.seed = (int64_t)seed, .steps = -1, .trigger_params = &every};
    plb_trigger_t trigger = {0};
    plb_decider_t decider = {0};
    plb_placing_t placing;
    PLB_TRY(plb_option_params(auto_params, N_AUTO, "auto", params, &value, err));
    PLB_TRY(plb_registered_trigger("periodic", &settings.trigger, err));
    settings.strategy_params = value;
    settings.network = (plb_network_t){value[ALPHA], value[BETA]};
    PLB_TRY(plb_lib_decider_init(&decider, &trigger, &settings, true, in->n_ranks, err));
    PLB_TRY(plb_decider_see(&decider, in, err));
    PLB_TRY(plb_decider_choose(&decider, NULL, 0, err));
    PLB_NEW(speed, in->n_ranks);
    const plb_database_t all = {.snapshot = *in};
    ret = plb_decider_place(&decider, &all, rank, speed, &placing, err);
out:
    plb_decider_free(&decider);
    plb_trigger_free(&trigger);
    PLB_FREE(value, speed);
    return ret;
}

static int place_by_name(const plb_snapshot_t *in, const char *strategy, const char *params,
                         uint64_t seed, int32_t *rank, plb_err_t *err)
{
    const plb_strategy_t *with;
    if (strcmp(strategy, "auto") == 0) {
        return place_auto(in, params, seed, rank, err);
    }
    PLB_PASS(plb_registered_strategy(strategy, &with, err));
    int ret = PLB_OK;
    double *value = NULL;
    PLB_TRY(plb_option_params(with->params, with->n_params, with->name, params, &value, err));
    const plb_opts_t opts = {.params = value, .seed = seed};
    PLB_TRY(plb_strategy_place(with, in, &opts, rank, err));
    ret = plb_snapshot_check_placement(in, rank, err);
out:
    plb_free(value);
    return ret;
}

int pylb_place(const pylb_snapshot *snapshot, const char *strategy, const char *params,
               uint64_t seed, int32_t *rank)
{
    plb_err_t *err = plb_lib_error();
    int ret = PLB_OK;
    plb_snapshot_t in;
    int32_t *placed = NULL; /* new ranks; `rank` may be the array of the present ranks, and must
                               not change if an error occurs */
    PLB_PASS(plb_lib_view(snapshot, &in, err));
    PLB_FAIL_IF(strategy == NULL || (rank == NULL && in.n_objects > 0), err, PLB_ERR_VALUE,
                "%s is NULL", strategy == NULL ? "strategy" : "rank");
    PLB_NEW0(placed, in.n_objects);
    PLB_TRY(place_by_name(&in, strategy, params, seed, placed, err));
    if (in.n_objects > 0) {
        memcpy(rank, placed, (size_t)in.n_objects * sizeof *rank);
    }
out:
    plb_free(placed);
    return ret;
}

int pylb_rank_times(const pylb_snapshot *snapshot, const int32_t *rank, double *time)
{
    plb_err_t *err = plb_lib_error();
    plb_snapshot_t in;
    PLB_PASS(plb_lib_view(snapshot, &in, err));
    PLB_FAIL_IF(time == NULL, err, PLB_ERR_VALUE, "time is NULL");
    if (rank != NULL) {
        PLB_PASS(plb_snapshot_check_placement(&in, rank, err));
    }
    plb_snapshot_rank_times(&in, rank, time);
    return PLB_OK;
}

int pylb_metrics_of(const double *time, int32_t n, pylb_metrics *metrics)
{
    plb_err_t *err = plb_lib_error();
    plb_metrics_t m;
    PLB_FAIL_IF(time == NULL || metrics == NULL || n < 1, err, PLB_ERR_VALUE,
                "time or metrics is NULL, or n is %d: expected 1 or more", (int)n);
    for (int32_t r = 0; r < n; r++) {
        PLB_FAIL_IF(!(time[r] >= 0.0 && time[r] <= 1e30), err, PLB_ERR_VALUE,
                    "time[%d] is %g: expected 0 ... 1e30 seconds", (int)r, time[r]);
    }
    plb_metrics_of(time, n, &m);
    *metrics = (pylb_metrics){m.max,     m.mean,       m.min,       m.std,     m.max_over_mean,
                              m.percent, m.efficiency, m.idle_mean, m.idle_max};
    return PLB_OK;
}

int pylb_inherit(int64_t n, const double *load, int64_t n_components, int64_t n_pairs,
                 const int64_t *parent, const int64_t *child, int split, int64_t n_new,
                 double *new_load)
{
    plb_err_t *err = plb_lib_error();
    int ret = PLB_OK;
    const int64_t d = n_components;
    int64_t *children = NULL, *parents = NULL; /* number of children, and of parents, of a cell */
    PLB_FAIL_IF(n < 0 || n_pairs < 0 || n_new < 0 || (n > 0 && load == NULL) ||
                    (n_pairs > 0 && (parent == NULL || child == NULL)) ||
                    (n_new > 0 && new_load == NULL),
                err, PLB_ERR_VALUE,
                "n, n_pairs or n_new is negative, or an array is NULL: expected arrays of %lld "
                "cells, %lld pairs and %lld new cells",
                (long long)n, (long long)n_pairs, (long long)n_new);
    PLB_FAIL_IF(d < 1 || d > PLB_MOST_PHASES, err, PLB_ERR_VALUE,
                "n_components is %lld: expected 1 ... %d", (long long)d, PLB_MOST_PHASES);
    for (int64_t i = 0; i < n_pairs; i++) {
        PLB_FAIL_IF(parent[i] < 0 || parent[i] >= n || child[i] < 0 || child[i] >= n_new, err,
                    PLB_ERR_RANGE,
                    "pair %lld has parent %lld and child %lld: expected 0 ... %lld and 0 ... %lld",
                    (long long)i, (long long)parent[i], (long long)child[i], (long long)n - 1,
                    (long long)n_new - 1);
    }
    PLB_NEW0(children, n);
    PLB_NEW0(parents, n_new);
    for (int64_t i = 0; i < n_pairs; i++) {
        children[parent[i]]++;
        parents[child[i]]++;
    }
    for (int64_t b = 0; b < n_new; b++) {
        if (parents[b] == 0) {
            ret = PLB_FAIL(err, PLB_ERR_VALUE, "new cell %lld has no parent", (long long)b);
            goto out;
        }
    }
    for (int64_t i = 0; i < n_new * d; i++) {
        new_load[i] = 0.0;
    }
    for (int64_t i = 0; i < n_pairs * d; i++) {
        const int64_t a = parent[i / d], b = child[i / d], x = i % d;
        new_load[b * d + x] += load[a * d + x] / (double)(split ? children[a] : parents[b]);
    }
out:
    PLB_FREE(children, parents);
    return ret;
}
