/* The two clocks by which an object's load is measured, and a thread's own time in their place.
 *
 * A thread that is one of several virtual ranks lives in its own time: it passes only while the
 * thread is in its frame, at the rank's speed, and by what the program declares.
 */
#ifndef PLB_BASE_CLOCK_H
#define PLB_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef enum plb_clock {
    PLB_CLOCK_WALL = CLOCK_MONOTONIC,        /* what the others wait for */
    PLB_CLOCK_CPU = CLOCK_THREAD_CPUTIME_ID, /* without what other processes took */
    PLB_CLOCK_NONE = -1,                     /* of a frame: time passes only as declared */
} plb_clock_t;

typedef struct plb_clock_frame {
    bool on;
    plb_clock_t source; /* drives the thread's own time */
    double pace;        /* own seconds that pass in a second of the source */
    int64_t began;      /* the source when the frame began */
    int64_t own;        /* own time then, and what was declared since */
    int64_t declared;   /* in all of this thread's frames */
} plb_clock_frame_t;

extern _Thread_local plb_clock_frame_t plb_clock_frame;

static inline int64_t plb_clock_real_ns(plb_clock_t clock)
{
    struct timespec t;
    clock_gettime((clockid_t)clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** This thread's own time by that clock. */
int64_t plb_clock_own_ns(plb_clock_t clock);

static inline int64_t plb_clock_ns(plb_clock_t clock)
{
    return plb_clock_frame.on ? plb_clock_own_ns(clock) : plb_clock_real_ns(clock);
}

/** Begin a frame: from now on this thread has its own time, `own` nanoseconds at first. */
void plb_clock_enter(plb_clock_t source, int64_t own, double pace);

/** End the frame and return its time. */
int64_t plb_clock_leave(void);

/** Let `ns` nanoseconds pass, by either clock.  Only in a frame. */
void plb_clock_declare(int64_t ns);

#endif
