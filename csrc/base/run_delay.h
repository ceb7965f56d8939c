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
#pragma once

#include <stdint.h>

enum { PLB_RUN_DELAY_GRAIN_NS = 300000 };

/** The run delay of this thread so far, in nanoseconds; 0 if the kernel does not count it. */
int64_t plb_run_delay_ns(void);

/** The monotonic clock without the run delay of this thread; never decreases. */
int64_t plb_undelayed_ns(void);
