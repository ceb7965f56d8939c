/* Measures a rank's work and its redistributions. */
#include <math.h>

#include "base/clock.h"
#include "lib/internal.h"

/* ---- the seconds of this rank --------------------------------------------------------------- */

/* Return the time in ns.  Never 0: the value 0 of self->started means that nothing has begun. */
static int64_t now_of(const plb_lib_advisor_t *self)
{
    return self->clock == PLB_CLOCK_NONE ? 1 : plb_clock_real_ns(self->clock);
}

int pylb_start(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->started != 0, err, PLB_ERR_STATE,
                "pylb_start within pylb_start: expected pylb_stop");
    PLB_PASS(plb_lib_advisor_ready(self, err));
    if (self->step == 0 && self->work == 0.0) {
        /* the time before the first pylb_start belongs to no step */
        self->mark = plb_clock_real_ns(PLB_CLOCK_WALL);
    }
    self->started = now_of(self);
    return PLB_OK;
}

int pylb_stop(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->started == 0, err, PLB_ERR_STATE, "pylb_stop without pylb_start");
    const int64_t ns = now_of(self) - self->started;
    self->work += ns > 0 ? 1e-9 * (double)ns : 0.0; /* negative: the clock was set back */
    self->told = true;
    self->started = 0;
    return PLB_OK;
}

double pylb_seconds(pylb_advisor *lb)
{
    plb_err_t *err = plb_lib_error();
    plb_lib_advisor_t *self = plb_lib_advisor_of(lb, err);
    if (self == NULL || (!self->ready && plb_lib_advisor_ready(self, err) != PLB_OK)) {
        return NAN;
    }
    return 1e-9 * (double)plb_clock_real_ns(self->clock);
}

static int check_seconds(double seconds, double before, plb_err_t *err)
{
    return seconds >= 0.0 && before + seconds <= 1e30
               ? PLB_OK
               : PLB_FAIL(
                     err, PLB_ERR_VALUE,
                     "seconds is %g: expected 0 ... 1e30, also with the %g of this step so far",
                     seconds, before);
}

int pylb_work(pylb_advisor *lb, double seconds)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_PASS(check_seconds(seconds, self->work, err));
    PLB_PASS(plb_lib_advisor_ready(self, err));
    self->work += seconds;
    self->told = true;
    return PLB_OK;
}

/* ---- the redistribution --------------------------------------------------------------------- */

void plb_lib_begin_moving(void *arg)
{
    plb_lib_advisor_t *self = arg;
    self->moving = self->moving == 0 ? plb_clock_real_ns(PLB_CLOCK_WALL) : self->moving;
}

static void add_cost(plb_lib_advisor_t *self, int64_t ns)
{
    self->rebalanced = true;
    plb_lib_begin_work(self);
    self->moved_ns += ns > 0 ? ns : 0;
    self->cost += ns > 0 && !plb_lib_measures_nothing(self) ? 1e-9 * (double)ns : 0.0;
    self->moving = 0;
}

void plb_lib_end_moving(void *arg)
{
    plb_lib_advisor_t *self = arg;
    add_cost(self, plb_clock_real_ns(PLB_CLOCK_WALL) - self->moving);
}

/* Measures nothing: the migration is within pylb_rebalance_begin ... _end, which measure it. */
static void no_clock(void *arg)
{
    ((plb_lib_advisor_t *)arg)->rebalanced = true;
}

int pylb_rebalance_begin(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->moving != 0, err, PLB_ERR_STATE,
                "pylb_rebalance_begin within pylb_rebalance_begin: "
                "expected pylb_rebalance_end");
    PLB_PASS(plb_lib_advisor_ready(self, err));
    plb_lib_begin_moving(self);
    self->plan.begin = self->plan.end = no_clock;
    return PLB_OK;
}

int pylb_rebalance_end(pylb_advisor *lb)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_FAIL_IF(self->moving == 0, err, PLB_ERR_STATE,
                "pylb_rebalance_end without pylb_rebalance_begin");
    plb_lib_end_moving(self);
    self->plan.begin = plb_lib_begin_moving;
    self->plan.end = plb_lib_end_moving;
    return PLB_OK;
}

int pylb_rebalanced(pylb_advisor *lb, double seconds)
{
    PLB_LIB_BEGIN(self, err, lb);
    PLB_PASS(check_seconds(seconds, self->cost, err));
    PLB_PASS(plb_lib_advisor_ready(self, err));
    self->rebalanced = true;
    plb_lib_begin_work(self);
    self->cost += seconds;
    return PLB_OK;
}
