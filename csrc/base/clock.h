/* The clocks that measure an object's load.  A thread that runs a virtual rank has its own time
 * from plb_clock_enter to plb_clock_leave (a frame).  This own time runs at the speed of the
 * virtual rank, and plb_clock_declare adds time to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"

/* The time for which the kernel let this thread wait for a core (the run delay), and a clock that
 * stops during these waits.
 *
 * Linux counts the run delay of each thread (the second number in schedstat, proc(5)).  A thread
 * that sleeps, or waits for input or output, needs no core: this time is not counted.
 *
 * Reading the run delay takes about 1 us.  So the clock reads it only once in
 * PLB_RUN_DELAY_GRAIN_NS, which costs 0.3 % of the time.  A wait longer than this interval is
 * always subtracted from the time of the object that it delayed; a shorter wait may be subtracted
 * from the time of a later object. */

enum { PLB_RUN_DELAY_GRAIN_NS = 300000 };

/** The run delay of this thread so far, in nanoseconds; 0 if the kernel does not count it. */
int64_t plb_run_delay_ns(void);

/* Both clocks at one time, in nanoseconds. */
typedef struct plb_moment {
    int64_t wall, undelayed;
} plb_moment_t;

/** Return both clocks.  wall: plb_monotonic_ns(); reads: read the run delay now, even if the last
 * reading is less than PLB_RUN_DELAY_GRAIN_NS old. */
plb_moment_t plb_moment_now(int64_t wall, bool reads);

/** The time of a POSIX clock, in nanoseconds. */
static inline int64_t plb_posix_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/** Elapsed time since any fixed time, in nanoseconds; never decreases. */
static inline int64_t plb_monotonic_ns(void)
{
    return plb_posix_ns(CLOCK_MONOTONIC);
}

/** The monotonic clock without the run delay of this thread; never decreases. */
static inline int64_t plb_undelayed_ns(void)
{
    return plb_moment_now(plb_monotonic_ns(), false).undelayed;
}

/** The time for which this thread has worked: without its calls of MPI, and without waiting for a
 * core (delayed: with it).  Defined by libpylb_pmpi and by the recorder (whatif/recorder), if the
 * program has loaded one of them.  *sees: whether any call of MPI was seen in this process. */
extern int64_t pylb_pmpi_work_ns(bool delayed, bool *sees) __attribute__((weak));

typedef enum plb_mpi_clock { PLB_NO_PMPI, PLB_PMPI_BLIND, PLB_PMPI_SEES } plb_mpi_clock_t;

/** Whether the library that sees calls of MPI is loaded, and has seen one in this process. */
plb_mpi_clock_t plb_mpi_clock(void);

typedef enum plb_clock {
    PLB_CLOCK_WALL = CLOCK_MONOTONIC,        /* elapsed time, including all waits */
    PLB_CLOCK_CPU = CLOCK_THREAD_CPUTIME_ID, /* processor time of this thread only */
    PLB_CLOCK_NONE = -1,                     /* no clock: only plb_clock_declare adds time */
    PLB_CLOCK_AUTO = -2, /* elapsed time, without the time that the thread waited for a core */
    PLB_CLOCK_MPI = -3,  /* the same, also without the thread's calls of MPI; see plb_mpi_clock */
    PLB_CLOCK_MPI_WALL = -4, /* elapsed time without the thread's calls of MPI */
} plb_clock_t;

typedef struct plb_clock_frame {
    bool on;
    plb_clock_t source; /* the clock that drives the thread's own time */
    double pace;        /* seconds of own time per second of `source` */
    int64_t began;      /* ns: time of `source` when the frame began */
    int64_t own;        /* ns: own time when the frame began, plus declared time since then */
    int64_t declared;   /* ns: declared time in all frames of this thread */
} plb_clock_frame_t;

/** Find the clock named "auto", "wall", "cpu", "mpi", "mpi_wall" or "none"; false: no such clock.
 */
bool plb_clock_named(const char *name, plb_clock_t *out);
const char *plb_clock_name(plb_clock_t clock);

extern _Thread_local plb_clock_frame_t plb_clock_frame;

static inline int64_t plb_clock_real_ns(plb_clock_t clock)
{
    if (clock == PLB_CLOCK_AUTO) {
        return plb_undelayed_ns();
    }
    if (clock <= PLB_CLOCK_MPI) {
        bool sees;
        return pylb_pmpi_work_ns == NULL ? plb_monotonic_ns()
                                         : pylb_pmpi_work_ns(clock == PLB_CLOCK_MPI_WALL, &sees);
    }
    return clock == PLB_CLOCK_NONE ? 0 : plb_posix_ns((clockid_t)clock);
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
static inline void plb_clock_declare(int64_t ns)
{
    plb_clock_frame.own += ns;
    plb_clock_frame.declared += ns;
}

/* Waiting that leaves the core to other ranks.  If ranks share a core or a quota, a rank that
 * spins takes time from the rank that it waits for. */

enum {
    /* spin until this time since the start: twice the time of a small Iallreduce on two cores */
    PLB_WAIT_SPIN_NS = 30000,
    PLB_WAIT_YIELD_NS = 100000, /* then yield the core, until this time since the start */
    PLB_WAIT_MOST_NS = 200000,  /* longest sleep: the end of the wait may be noticed this late */
    /* time between two checks for signals, which can wait for Python's GIL */
    PLB_TICK_NS = 20000000,
};

typedef struct plb_wait {
    int64_t start, ticked; /* ns: begin of the wait; most recent check for signals */
    plb_tick_fn tick;      /* checks for signals; NULL: none */
    void *arg;
} plb_wait_t;

/* What is said if a rank waits for the other ranks for longer than PLB_WAIT_PATIENCE_NS. */
static const int64_t PLB_WAIT_PATIENCE_NS = 10000000000;
typedef struct plb_patience {
    void (*say)(void *arg); /* NULL: nothing is said */
    void *arg;
} plb_patience_t;

void plb_wait_begin(plb_wait_t *self, plb_tick_fn tick, void *arg);

/** Wait a little between two tests of a condition.  Returns PLB_OK, or the code of `tick`. */
int plb_wait_pause(plb_wait_t *self);
