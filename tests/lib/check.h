/* What the programs of this folder share. */
#pragma once
#include <mpi.h>
#include <pylb.h>
#include <stdio.h>

/* Print the message of a call that failed; return its code. */
static inline int check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "error: %s\n", pylb_error());
    }
    return code;
}

/* The same, and end all ranks. */
static inline void must(int code)
{
    int rank;
    if (code != PYLB_OK) {
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        fprintf(stderr, "rank %d: %s\n", rank, pylb_error());
        for (const double end = MPI_Wtime() + 0.2; MPI_Wtime() < end;) {
            /* time for MPICH's mpiexec to pass on what was printed */
        }
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
