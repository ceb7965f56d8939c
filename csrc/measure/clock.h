/* The two clocks by which an object's load is measured. */
#ifndef PLB_MEASURE_CLOCK_H
#define PLB_MEASURE_CLOCK_H

#include <stdint.h>
#include <time.h>

typedef enum plb_clock {
    PLB_CLOCK_WALL = CLOCK_MONOTONIC,        /* what the others wait for */
    PLB_CLOCK_CPU = CLOCK_THREAD_CPUTIME_ID, /* without what other processes took */
} plb_clock_t;

static inline int64_t plb_clock_ns(plb_clock_t clock)
{
    struct timespec t;
    clock_gettime((clockid_t)clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#endif
