/* Threads for a loop over independent parts. */
#pragma once

typedef void (*plb_part_fn)(void *arg, int part, int n_parts);

/** The number of processors that this process may use, but at least 1 and at most 64. */
int plb_cores(void);

/** Call fn(arg, part, n_parts) for every part 0 ... n_parts - 1, each on its own thread.  Part 0
 *  runs on the calling thread, and so does a part whose thread cannot be started.  Returns when
 *  all parts are done.  n_parts is 1 ... 64. */
void plb_parallel(int n_parts, plb_part_fn fn, void *arg);
