/* The clocks that measure an object's load.  A thread that runs a virtual rank has its own time
 * from plb_clock_enter to plb_clock_leave (a frame).  This own time runs at the speed of the
 * virtual rank, and plb_clock_declare adds time to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/run_delay.h"

typedef enum plb_clock {
    PLB_CLOCK_WALL = CLOCK_MONOTONIC,        /* elapsed time, including all waits */
    PLB_CLOCK_CPU = CLOCK_THREAD_CPUTIME_ID, /* processor time of this thread only */
    PLB_CLOCK_NONE = -1,                     /* no clock: only plb_clock_declare adds time */
    PLB_CLOCK_AUTO = -2, /* elapsed time, without the time that the thread waited for a core */
} plb_clock_t;

typedef struct plb_clock_frame {
    bool on;
    plb_clock_t source; /* the clock that drives the thread's own time */
    double pace;        /* seconds of own time per second of `source` */
    int64_t began;      /* ns: time of `source` when the frame began */
    int64_t own;        /* ns: own time when the frame began, plus declared time since then */
    int64_t declared;   /* ns: declared time in all frames of this thread */
} plb_clock_frame_t;

/** Find the clock named "auto", "wall", "cpu" or "none"; false: no such clock. */
bool plb_clock_named(const char *name, plb_clock_t *out);
const char *plb_clock_name(plb_clock_t clock);

extern _Thread_local plb_clock_frame_t plb_clock_frame;

static inline int64_t plb_clock_real_ns(plb_clock_t clock)
{
    struct timespec t;
    if (clock == PLB_CLOCK_AUTO) {
        return plb_undelayed_ns();
    }
    if (clock == PLB_CLOCK_NONE) {
        return 0;
    }
    clock_gettime((clockid_t)clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** In a frame: return this thread's own time in nanoseconds.  If `clock` is PLB_CLOCK_CPU and the
 * source is the wall clock: processor time of the thread times the pace, plus declared time. */
int64_t plb_clock_own_ns(plb_clock_t clock);

static inline int64_t plb_clock_ns(plb_clock_t clock)
{
    return plb_clock_frame.on ? plb_clock_own_ns(clock) : plb_clock_real_ns(clock);
}

/** Begin a frame: this thread now has its own time, which starts at `own` nanoseconds. */
void plb_clock_enter(plb_clock_t source, int64_t own, double pace);

/** End the frame, and return the thread's own time. */
int64_t plb_clock_leave(void);

/** In a frame: add `ns` nanoseconds to the thread's own time. */
void plb_clock_declare(int64_t ns);

typedef struct plb_words {
    char text[24];
} plb_words_t;

/** Return seconds with their unit, e.g. "1.2 s" or "345 ms". */
plb_words_t plb_in_words(double seconds);
