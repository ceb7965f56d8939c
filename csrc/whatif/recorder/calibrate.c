#include "whatif/recorder/internal.h"

#include <mpi.h>
#include <stdbool.h>

enum { CALLS = 200, TRIPS = 30, LARGE = 1 << 18 };

static double least(double a, double b)
{
    return a < b ? a : b;
}

static double call_seconds(MPI_Comm comm)
{
    double best = 1.0;
    for (int repeat = 0; repeat < 5; repeat++) {
        int flag;
        const double begin = PMPI_Wtime();
        for (int i = 0; i < CALLS; i++) {
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
        }
        best = least(best, (PMPI_Wtime() - begin) / CALLS);
    }
    return best;
}

/* Measure the seconds of one message to `partner`: half of the fastest round trip. */
static double trip_seconds(MPI_Comm comm, int partner, bool first, void *buffer, int bytes)
{
    double best = 1.0;
    for (int i = 0; i < TRIPS; i++) {
        const double begin = PMPI_Wtime();
        if (first) {
            PMPI_Send(buffer, bytes, MPI_BYTE, partner, 0, comm);
        }
        PMPI_Recv(buffer, bytes, MPI_BYTE, partner, 0, comm, MPI_STATUS_IGNORE);
        if (!first) {
            PMPI_Send(buffer, bytes, MPI_BYTE, partner, 0, comm);
        }
        best = least(best, (PMPI_Wtime() - begin) / 2.0);
    }
    return best;
}

void plb_calibrate(plb_call_costs_t *out)
{
    int rank, size;
    MPI_Comm own;
    *out = (plb_call_costs_t){.alpha = -1.0, .beta = -1.0};
    PMPI_Comm_dup(MPI_COMM_WORLD, &own);
    PMPI_Comm_rank(own, &rank);
    PMPI_Comm_size(own, &size);
    out->overhead = call_seconds(own);
    const int partner = rank ^ 1;
    static char buffer[LARGE]; /* static: an allocation could fail on only one of two ranks */
    if (partner < size) {
        const double small = trip_seconds(own, partner, rank < partner, buffer, 8);
        const double large = trip_seconds(own, partner, rank < partner, buffer, LARGE);
        out->alpha = small;
        out->beta = (large > small ? large - small : 0.0) / LARGE;
    }
    PMPI_Barrier(own);
    PMPI_Comm_free(&own);
}
