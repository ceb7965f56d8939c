#include "base/clock.h"

#include <stdio.h>
#include <string.h>

_Thread_local plb_clock_frame_t plb_clock_frame;

static const struct {
    const char *name;
    plb_clock_t clock;
} clocks[] = {
    {"auto", PLB_CLOCK_AUTO},
    {"wall", PLB_CLOCK_WALL},
    {"cpu", PLB_CLOCK_CPU},
    {"none", PLB_CLOCK_NONE},
};

enum { N_CLOCKS = sizeof clocks / sizeof *clocks };

bool plb_clock_named(const char *name, plb_clock_t *out)
{
    for (int i = 0; i < N_CLOCKS; i++) {
        if (strcmp(clocks[i].name, name) == 0) {
            *out = clocks[i].clock;
            return true;
        }
    }
    return false;
}

const char *plb_clock_name(plb_clock_t clock)
{
    int i = 0;
    while (clocks[i].clock != clock) {
        i++;
    }
    return clocks[i].name;
}

int64_t plb_clock_own_ns(plb_clock_t clock)
{
    const plb_clock_frame_t *f = &plb_clock_frame;
    if (clock == PLB_CLOCK_CPU && f->source == PLB_CLOCK_WALL) {
        return f->declared + (int64_t)(f->pace * (double)plb_clock_real_ns(clock));
    }
    return f->own + (int64_t)(f->pace * (double)(plb_clock_real_ns(f->source) - f->began));
}

void plb_clock_enter(plb_clock_t source, int64_t own, double pace)
{
    plb_clock_frame_t *f = &plb_clock_frame;
    f->source = source;
    f->pace = pace;
    f->own = own;
    f->began = plb_clock_real_ns(f->source);
    f->on = true;
}

int64_t plb_clock_leave(void)
{
    const int64_t own = plb_clock_own_ns(PLB_CLOCK_WALL);
    plb_clock_frame.on = false;
    return own;
}

void plb_clock_declare(int64_t ns)
{
    plb_clock_frame.own += ns;
    plb_clock_frame.declared += ns;
}

plb_words_t plb_in_words(double seconds)
{
    plb_words_t out;
    const bool is_long = seconds >= 1.0;
    snprintf(out.text, sizeof out.text, "%.3g %s", is_long ? seconds : 1e3 * seconds,
             is_long ? "s" : "ms");
    return out;
}
