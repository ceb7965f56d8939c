/* Whether a call that uses MPI may run in a thread of its own (base/aside.h). */
#pragma once

#include <stdbool.h>

#include <mpi.h>

/** Whether this process is alone in comm, and each of its threads may call MPI.  Other ranks would
 * wait for this one if a signal ended the wait for a call. */
static inline bool plb_may_run_aside(MPI_Comm comm)
{
    int size = 0, level = MPI_THREAD_SINGLE, runs = 0, over = 0;
    MPI_Initialized(&runs);
    MPI_Finalized(&over);
    if (!runs || over) { /* `pylb info` imports the modules without starting MPI */
        return false;
    }
    MPI_Comm_size(comm, &size);
    MPI_Query_thread(&level);
    return size == 1 && level == MPI_THREAD_MULTIPLE;
}
