/* Triggers for programs that reduce their own statistics. */

#include "base/mem.h"
#include "lib/internal.h"

struct pylb_trigger {
    plb_handle_t handle;
};

static int make(const plb_trigger_kind_t *kind, const char *params, plb_trigger_t **out,
                plb_err_t *err)
{
    int ret = PLB_OK;
    double *value = NULL;
    *out = NULL;
    PLB_TRY(plb_option_defaults(kind->params, kind->n_params, &value, err));
    PLB_TRY(plb_option_params(kind->params, kind->n_params, kind->name, params, value, err));
    PLB_NEW0(*out, 1);
    ret = plb_trigger_init(*out, kind, value, err);
out:
    plb_free(value);
    if (ret != PLB_OK) {
        plb_free(*out);
    }
    return ret;
}

int pylb_trigger_create(const char *name, const char *params, pylb_trigger **trigger)
{
    plb_err_t *err = plb_lib_error();
    const plb_trigger_kind_t *kind;
    plb_trigger_t *core;
    plb_handle_t *handle;
    PLB_FAIL_IF(name == NULL || trigger == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                name == NULL ? "name" : "trigger");
    PLB_PASS(plb_registered_trigger(name, &kind, err));
    PLB_PASS(make(kind, params, &core, err));
    const int ret = plb_handle_open(PLB_HANDLE_TRIGGER, core, &handle, err);
    if (ret != PLB_OK) {
        plb_trigger_free(core);
        plb_free(core);
        return ret;
    }
    *trigger = (pylb_trigger *)handle;
    return PLB_OK;
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
    plb_handle_close((plb_handle_t *)*trigger);
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
    return core == NULL ? NULL : plb_reason_words(core->verdict.reason);
}
