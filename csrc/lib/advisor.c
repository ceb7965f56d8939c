#include "lib/internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/ints.h"
#include "base/mem.h"

/* ---- begin ---------------------------------------------------------------------------------- */

int plb_lib_advisor_open(plb_transport_t *ranks, pylb_advisor **out, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_handle_t *handle = NULL;
    plb_lib_advisor_t *self = NULL;
    PLB_NEW0(self, 1);
    self->ranks = ranks;
    ranks->patience = (plb_patience_t){plb_lib_say_late, self};
    self->mark = plb_clock_real_ns(PLB_CLOCK_WALL);
    self->worked = plb_clock_real_ns(PLB_CLOCK_MPI);
    PLB_TRY(plb_settings_init(&self->settings, err));
    PLB_TRY(plb_handle_open(PLB_HANDLE_ADVISOR, self, &handle, err));
    *out = (pylb_advisor *)handle;
out:
    if (ret != PLB_OK) {
        plb_free(self);
    }
    return ret;
}

int pylb_advisor_create(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    plb_transport_t *ranks;
    PLB_FAIL_IF(lb == NULL, err, PLB_ERR_VALUE, "lb is NULL");
    *lb = NULL;
    PLB_PASS(plb_transport_alone(&ranks, err));
    const int ret = plb_lib_advisor_open(ranks, lb, err);
    if (ret != PLB_OK) {
        ranks->free(ranks);
    }
    return ret;
}

int pylb_advisor_set(pylb_advisor *lb, const char *option, const char *value)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(option == NULL || value == NULL, err, PLB_ERR_VALUE, "%s is NULL",
                option == NULL ? "option" : "value");
    return self->ready
               ? PLB_FAIL(err, PLB_ERR_STATE,
                          "%.100s is set after the first step began: expected an earlier call",
                          option)
               : plb_settings_set(&self->settings, option, value, err);
}

int pylb_advisor_rank(const pylb_advisor *lb, int *rank, int *n_ranks)
{
    PLB_LIB_BEGIN(self, err, lb);
    if (rank != NULL) {
        *rank = self->ranks->rank;
    }
    if (n_ranks != NULL) {
        *n_ranks = self->ranks->size;
    }
    return PLB_OK;
}

/* ---- what was decided ----------------------------------------------------------------------- */

int pylb_advisor_counts(const pylb_advisor *lb, int64_t *decisions, int64_t *lb_steps)
{
    PLB_LIB_BEGIN(self, err, lb);
    if (decisions != NULL) {
        *decisions = self->decider.n_receipts;
    }
    if (lb_steps != NULL) {
        *lb_steps = self->decider.n_lb_steps;
    }
    return PLB_OK;
}

static const char *reason_of(const plb_receipt_t *r)
{
    return r->kind == PLB_DECISION_OFF ? "LB steps have cost more than they saved lately"
           : r->kind == PLB_DECISION_SPEEDS
               ? "the trigger asked for no LB step, but better estimates of the ranks' speeds "
                 "show that an LB step saves time"
               : plb_reason_words(r->verdict.reason);
}

int pylb_advisor_receipt(pylb_advisor *lb, int64_t i, pylb_receipt *receipt)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(receipt == NULL || i < 0 || i >= self->decider.n_receipts, err,
                receipt == NULL ? PLB_ERR_VALUE : PLB_ERR_RANGE,
                receipt == NULL ? "receipt is NULL" : "i is %lld: expected 0 ... %lld",
                (long long)i, (long long)self->decider.n_receipts - 1);
    PLB_PASS(plb_advisor_judge(&self->core, err));
    const plb_receipt_t *r = &self->decider.receipts[i];
    const bool done = r->kind == PLB_DECISION_BALANCE || r->kind == PLB_DECISION_SPEEDS;
    *receipt = (pylb_receipt){
        .iteration = r->iteration,
        .rebalanced = done,
        .strategy = r->strategy < 0 ? "" : self->decider.candidates[r->strategy].strategy.name,
        .reason = reason_of(r),
        .max = r->max,
        .mean = r->mean,
        .before = r->placing.before,
        .predicted = r->placing.predicted,
        .cost = r->cost,
        .gain = r->gain,
        .migrations = r->migrations,
    };
    return PLB_OK;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void free_content(plb_lib_advisor_t *self)
{
    plb_plan_free(&self->plan);
    plb_decider_free(&self->decider);
    plb_trigger_free(&self->trigger);
    plb_settings_free(&self->settings);
    PLB_FREE(self->exported, self->row);
    self->ranks->free(self->ranks);
    plb_free(self);
}

void plb_lib_advisor_drop(plb_handle_t *handle)
{
    plb_lib_advisor_t *self = handle->content;
    plb_handle_close(handle);
    free_content(self);
}

/* Tell the other ranks that this rank makes no steps at all; they may already be in the first. */
static int leave_at_once(plb_lib_advisor_t *self, plb_err_t *err)
{
    plb_err_t own; /* an error of the options; ignored if this rank can still take part in steps */
    const int ret = plb_lib_advisor_begin(self, false, &own);
    if (self->steps.net == NULL) {
        *err = own;
        return ret;
    }
    return plb_lib_advisor_leave(self, err);
}

int plb_lib_advisor_begin_close(plb_handle_t *handle, plb_err_t *err)
{
    plb_lib_advisor_t *self = handle->content;
    return self->begun && !self->over ? plb_lib_advisor_begin_leaving(self, err) : PLB_OK;
}

int plb_lib_advisor_close(plb_handle_t *handle, plb_err_t *err)
{
    plb_lib_advisor_t *self = handle->content;
    int ret = PLB_OK;
    if (self->begun && !self->over) {
        ret = plb_lib_advisor_leave(self, err);
        if (!plb_steps_broken(&self->steps)) { /* the same on all ranks */
            ret = plb_lib_record_write(self, ret, err);
        }
    } else if (!self->begun && self->ranks->size > 1) {
        ret = leave_at_once(self, err);
    }
    plb_lib_advisor_drop(handle);
    return ret;
}

int pylb_advisor_close(pylb_advisor **lb)
{
    plb_err_t *err = plb_lib_error();
    if (lb == NULL || *lb == NULL) {
        return PLB_OK;
    }
    if (plb_lib_advisor_of(*lb, err) == NULL) {
        return err->code;
    }
    const int ret = plb_lib_advisor_close((plb_handle_t *)*lb, err);
    *lb = NULL;
    return ret;
}
