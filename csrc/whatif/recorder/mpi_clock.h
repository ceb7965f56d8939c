/* The clock "mpi" (base/clock.h): the time for which a thread works, which is the time between its
 * calls of MPI.
 *
 * Each call of MPI by the program is between plb_mpi_enter and plb_mpi_leave; calls that MPI makes
 * itself do not count.  Each thread has its own time.
 *
 * A program that waits often does so by polls: it repeats MPI_Test or MPI_Iprobe until one
 * succeeds.  So the time from a poll that has failed to the next poll is no work if it is shorter
 * than PLB_MPI_POLL_NS, or if the process slept for longer than PLB_MPI_NAP_NS and did not use its
 * processor for longer than PLB_MPI_WAKE_NS. */
#pragma once

#include <stdbool.h>

enum {
    PLB_MPI_POLL_NS = 10000, /* more than two context switches, or a loop in Python */
    PLB_MPI_NAP_NS = 10000,
    PLB_MPI_WAKE_NS = 200000, /* falling asleep and waking up take long on an idle core */
    PLB_MPI_LONG_NS = 20000,  /* after a longer call the run delay is read, which takes 1 us */
};

/** Begin a call.  polls: whether the call is a poll.  False: MPI itself has made this call; then
 * plb_mpi_leave must not follow. */
bool plb_mpi_enter(bool polls);

/** End a call.  failed: whether it was a poll that has failed. */
void plb_mpi_leave(bool failed);
