#include "decide/trigger.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

/* An LB step of unknown cost is tried when the imbalance has cost so many balanced iterations (LB
 * steps usually cost 0.001 to 100), or, in a short run, the fraction PLB_NOTABLE of the run.
 * tuned: iterations; triggers.py, 36 programs, cost unknown, mean regret of auto: 3.38 %; with 1
 * 3.40 %, with 3 or 4 3.19 %, but a steady imbalance is then found later */
static const double PRICE = 2.0;

#define X(name, words) words,
const char *const plb_reason_words[] = {PLB_REASONS(X)};
#undef X

static plb_verdict_t unknown(plb_reason_t reason)
{
    plb_verdict_t v = {.balance = false, .reason = reason};
#define X(name, unit, help) v.name = NAN;
    PLB_VERDICT(X)
#undef X
    return v;
}

static plb_experience_t nothing(void)
{
    plb_experience_t out;
    double *all = (double *)&out;
    for (size_t i = 0; i < sizeof out / sizeof *all; i++) {
        all[i] = NAN;
    }
    return out;
}

int plb_trigger_init(plb_trigger_t *self, const plb_trigger_kind_t *kind, const double *params,
                     plb_err_t *err)
{
    *self = (plb_trigger_t){
        .kind = kind, .end = INT64_MAX, .cost = NAN, .verdict = unknown(PLB_REASON_START)};
    self->told = nothing();
    int ret = PLB_OK;
    PLB_TRY(plb_params_check(kind->params, kind->n_params, params, err));
    PLB_NEW(self->params, kind->n_params);
    memcpy(self->params, params, (size_t)kind->n_params * sizeof *params);
    self->state = plb_calloc(1, kind->state_size);
    if (self->state == NULL) {
        ret = PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: the state of trigger %s", kind->name);
        goto out;
    }
    if (kind->init != NULL) {
        kind->init(self);
    }
out:
    if (ret != PLB_OK) {
        plb_trigger_free(self);
    }
    return ret;
}

void plb_trigger_free(plb_trigger_t *self)
{
    PLB_FREE(self->params, self->state);
    self->params = NULL;
    self->state = NULL;
}

int plb_trigger_expect(plb_trigger_t *self, int64_t end, double cost, plb_err_t *err)
{
    PLB_PASS(plb_check_known(PLB_SECONDS, "cost", cost, err));
    const double told = *self->told.iterations;
    self->end = end == INT64_MAX && told > 0.0 ? (int64_t)told : end;
    self->cost = isnan(cost) ? self->cost : cost;
    return PLB_OK;
}

/* ---- experience ---------------------------------------------------------------------------- */

int plb_trigger_begin(plb_trigger_t *self, const plb_experience_t *e, plb_err_t *err)
{
    const double *all = (const double *)e;
    bool bad = *e->iterations < 0.0 || *e->mean < 0.0 || *e->cost < 0.0 || *e->residual < 1.0;
    for (size_t i = 0; i < sizeof *e / sizeof *all; i++) {
        bad |= fabs(all[i]) > 1e30;
    }
    PLB_FAIL_IF(bad, err, PLB_ERR_VALUE, "experience has a number that is out of range");
    PLB_FAIL_IF(self->started, err, PLB_ERR_STATE,
                "experience was set after the first iteration: expected an earlier call");
    self->told = *e;
    self->cost = isnan(self->cost) ? *e->cost : self->cost;
    if (self->kind->begin != NULL) {
        self->kind->begin(self, e);
    }
    return plb_trigger_expect(self, self->end, NAN, err);
}

/* Forget an end that has passed; forget all that earlier runs learned if this run differs. */
static void check_told(plb_trigger_t *self, const plb_observation_t *o)
{
    const double ratio = o->mean / *self->told.mean, end = *self->told.iterations;
    const bool told = !isnan(*self->told.mean);
    const bool other = told && self->n == 2 && !(ratio <= PLB_ABRUPT && ratio >= 1.0 / PLB_ABRUPT);
    if (other) { /* the first iteration does not count: the program may be starting up */
        self->cost = self->cost == *self->told.cost ? NAN : self->cost;
        self->told = nothing();
        if (self->kind->begin != NULL) {
            self->kind->begin(self, &self->told);
        }
    }
    if (other || (double)(o->iteration + 1) >= end) {
        self->end = (double)self->end == end ? INT64_MAX : self->end;
        *self->told.iterations = NAN;
    }
}

plb_experience_t plb_trigger_learned(const plb_trigger_t *self)
{
    plb_experience_t out = self->told;
    if (self->n > 0) {
        *out.iterations = (double)self->seen + 1.0;
        *out.mean = self->loads / (double)self->n;
    }
    *out.cost = self->cost;
    if (self->kind->learned != NULL) {
        self->kind->learned(self, &out);
    }
    return out;
}

/* ---- iterations and LB steps --------------------------------------------------------------- */

int plb_trigger_observe(plb_trigger_t *self, const plb_observation_t *o, plb_err_t *err)
{
    PLB_PASS(plb_check(PLB_SECONDS, PLB_FIGURES(PLB_FIGURE(o, max), PLB_FIGURE(o, mean)), err));
    PLB_FAIL_IF(self->started && o->iteration <= self->seen, err, PLB_ERR_STATE,
                "iteration is %lld: expected more than %lld, the last "
                "one observed",
                (long long)o->iteration, (long long)self->seen);
    if (!self->started) {
        self->started = true;
        self->last = o->iteration - 1;
    }
    self->seen = o->iteration;
    if (o->iteration <= self->last) { /* it ran with the previous placement */
        self->verdict.balance = false;
        self->verdict.reason = PLB_REASON_STALE;
        return PLB_OK;
    }
    self->cycle.n++;
    self->cycle.u = fmax(o->max - o->mean, 0.0);
    self->cycle.U += self->cycle.u;
    self->loads += o->mean;
    self->n++;
    check_told(self, o);
    self->verdict = unknown(PLB_REASON_START);
    self->verdict.cost = self->cost;
    self->kind->observe(self, o, &self->verdict);
    PLB_FAIL_IF(self->failed != PLB_OK, err, self->failed, "trigger %s has failed",
                self->kind->name);
    self->verdict.balance = self->verdict.reason >= PLB_REASON_EVERY;
    return PLB_OK;
}

int plb_trigger_balanced(plb_trigger_t *self, int64_t iteration, double cost, double max_over_mean,
                         plb_err_t *err)
{
    PLB_PASS(plb_check(PLB_SECONDS, PLB_FIGURES({"cost", cost}), err));
    PLB_PASS(plb_check(PLB_RATIO, PLB_FIGURES({"max_over_mean", max_over_mean}), err));
    if (!self->started) {
        self->started = true;
        self->seen = iteration;
    }
    self->last = iteration;
    /* the mean, because a single LB step may have been disturbed */
    self->cost = isnan(self->cost) ? cost : 0.5 * (self->cost + cost);
    if (self->kind->balanced != NULL) {
        self->kind->balanced(self, cost, max_over_mean < 1.0 ? 1.0 : max_over_mean);
    }
    self->spent += self->cost + self->cycle.U;
    self->cycle = (plb_cycle_t){0};
    return PLB_OK;
}

double plb_trigger_guess(const plb_trigger_t *self, double most)
{
    if (self->end == INT64_MAX) {
        return most;
    }
    /* iterations from the last LB step to the end; before the first LB step, all iterations */
    const double run = (double)(self->end - self->last) - 1.0;
    return fmin(most, PLB_NOTABLE * fmax(run, 1.0));
}

double plb_trigger_price(const plb_trigger_t *self)
{
    return plb_trigger_guess(self, PRICE);
}

bool plb_trigger_trial(const plb_trigger_t *self, double excess, double mean)
{
    return isnan(self->cost) && excess > 0.0 && excess >= plb_trigger_price(self) * mean;
}

bool plb_trigger_first(const plb_trigger_t *self, const plb_observation_t *o, plb_verdict_t *v)
{
    if (!isnan(self->cost)) {
        return false;
    }
    v->reason =
        plb_trigger_trial(self, self->cycle.U, o->mean) ? PLB_REASON_FIRST : PLB_REASON_UNTOLD;
    return true;
}
