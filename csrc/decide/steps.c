#include "decide/advisor.h"

#include "base/clock.h"

enum { EAGER = 20 }; /* tests of a reduction before the clock is read */

int plb_steps_init(plb_steps_t *self, const plb_reduction_t *net, int32_t lag, plb_err_t *err)
{
    *self = (plb_steps_t){.net = net, .lag = lag, .last = INT64_MAX};
    PLB_FAIL_IF(lag < 0 || net->depth < lag + 2, err, PLB_ERR_VALUE,
                "lag is %d: expected 0 ... %d steps", (int)lag, net->depth - 2);
    return PLB_OK;
}

bool plb_steps_broken(const plb_steps_t *self)
{
    return self->last != INT64_MAX;
}

bool plb_steps_is_due(const plb_steps_t *self)
{
    return self->begun > self->taken + self->lag;
}

static int begin(plb_steps_t *self, const plb_stats_t *mine, plb_err_t *err)
{
    PLB_PASS(self->net->begin_stats(self->net->self, mine, err));
    self->begun++;
    return PLB_OK;
}

int plb_steps_begin(plb_steps_t *self, const plb_stats_t *mine, plb_err_t *err)
{
    PLB_FAIL_IF(plb_steps_broken(self), err, PLB_ERR_STATE,
                "there are no more steps: a rank has failed or left, or "
                "the ranks were in different steps");
    return begin(self, mine, err);
}

/* The first tests read no clock, because the record often comes within microseconds. */
static int wait_for(const plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg,
                    plb_stats_t *all, bool *have, plb_err_t *err)
{
    plb_wait_t wait;
    *have = false;
    for (int i = 0; i < EAGER && !*have; i++) {
        PLB_PASS(self->net->test_stats(self->net->self, all, have, err));
    }
    if (*have) {
        return PLB_OK;
    }
    plb_wait_begin(&wait, tick, arg);
    while (!*have && (timeout_ns < 0 || plb_clock_ns(PLB_CLOCK_WALL) - wait.start < timeout_ns)) {
        PLB_PASS(plb_wait_pause(&wait));
        PLB_PASS(self->net->test_stats(self->net->self, all, have, err));
    }
    return PLB_OK;
}

/* If the oldest record ends the steps, ranks may already have begun up to `lag` later reductions,
 * which all ranks must complete. */
static int take(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *have,
                plb_err_t *err)
{
    plb_stats_t later; /* a record after the one that ended the steps */
    const bool broken = plb_steps_broken(self);
    PLB_PASS(wait_for(self, timeout_ns, tick, arg, broken ? &later : &self->all, have, err));
    if (*have) {
        const plb_stats_t *all = &self->all;
        if (!broken &&
            (all->flags & PLB_STATS_MIXED || (all->failed_rank != INT64_MAX && self->lag > 0) ||
             (all->n_ended > 0 && all->n_ended < self->net->size))) {
            self->last = self->taken + self->lag;
        }
        self->taken++;
    }
    return PLB_OK;
}

int plb_steps_take(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *have,
                   plb_err_t *err)
{
    *have = false;
    return plb_steps_is_due(self) ? take(self, timeout_ns, tick, arg, have, err) : PLB_OK;
}

int64_t plb_steps_under_way(const plb_steps_t *self)
{
    return self->begun - self->taken;
}

int plb_steps_next(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *have,
                   plb_err_t *err)
{
    *have = false;
    return plb_steps_under_way(self) > 0 ? take(self, timeout_ns, tick, arg, have, err) : PLB_OK;
}

int plb_steps_leave(plb_steps_t *self, int64_t timeout_ns, plb_tick_fn tick, void *arg, bool *done,
                    plb_err_t *err)
{
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    *done = false;
    for (;;) {
        while (plb_steps_broken(self) && self->begun <= self->last) {
            plb_stats_t none;
            plb_stats_init(&none);
            PLB_PASS(begin(self, &none, err));
        }
        if (self->taken == self->begun) {
            *done = true;
            return PLB_OK;
        }
        bool have = false;
        const int64_t left = start + timeout_ns - plb_clock_ns(PLB_CLOCK_WALL);
        PLB_PASS(take(self, timeout_ns < 0 ? -1 : left > 0 ? left : 0, tick, arg, &have, err));
        if (!have) {
            return PLB_OK;
        }
    }
}
