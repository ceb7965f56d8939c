#include "base/clock.h"

#include <sched.h>
#include <time.h>

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg)
{
    const int64_t now = plb_clock_ns(PLB_CLOCK_WALL);
    *self = (plb_wait_t){now, now, PLB_WAIT_SLEEP_NS, tick, arg};
}

static void sleep_a_little(plb_wait_t *self)
{
    const struct timespec t = {0, (long)self->sleep};
    nanosleep(&t, NULL);
    self->sleep += self->sleep / 4;
    self->sleep = self->sleep < PLB_WAIT_MOST_NS ? self->sleep : PLB_WAIT_MOST_NS;
}

int plb_wait_pause(plb_wait_t *self)
{
    const int64_t now = plb_clock_ns(PLB_CLOCK_WALL), waited = now - self->start;
    if (waited < PLB_WAIT_SPIN_NS) {
        return 0;
    }
    if (waited < PLB_WAIT_YIELD_NS) {
        sched_yield();
        return 0;
    }
    sleep_a_little(self);
    if (self->tick != NULL && now - self->ticked > PLB_WAIT_TICK_NS) {
        self->ticked = now;
        return self->tick(self->arg);
    }
    return 0;
}
