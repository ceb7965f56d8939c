#include "base/base.h"

/* Steps between two readings of the clock.  A step of about 10 ns takes at most 1 us. */
enum { STEPS = PLB_TICK_NS / 1000 };

static _Thread_local plb_interrupt_t interrupt;

plb_interrupt_t plb_interrupt_set(plb_interrupt_t now)
{
    const plb_interrupt_t before = interrupt;
    interrupt = now;
    return before;
}

static int check(plb_interrupt_t *self)
{
    const int64_t now = plb_clock_real_ns(PLB_CLOCK_WALL);
    self->left = STEPS;
    if (now - self->since >= PLB_TICK_NS) {
        self->since = now;
        self->code = self->check(self->arg);
    }
    return self->code;
}

int plb_interrupted(int64_t steps)
{
    plb_interrupt_t *self = &interrupt;
    if (self->check == NULL || self->code != PLB_OK) {
        return self->code;
    }
    self->left -= steps;
    return self->left > 0 ? PLB_OK : check(self);
}
