/* Clients that compute and ask a server, which answers in the order of arrival.
 *
 *   mpiexec -n 4 ./server REQUESTS STEPS
 */
#include <mpi.h>
#include <stdlib.h>

#include "work.h"

int main(int argc, char **argv)
{
    const int requests = argc > 1 ? atoi(argv[1]) : 50;
    const double steps = argc > 2 ? atof(argv[2]) : 1e6;
    int rank, size, question = 0;
    MPI_Status status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; rank == 0 && i < requests * (size - 1); i++) {
        MPI_Recv(&question, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        work(0.5 * steps * question);
        MPI_Send(&question, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
    }
    for (int i = 0; rank > 0 && i < requests; i++) {
        question = 1 + rank % 2;
        work(steps * rank);
        MPI_Send(&question, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&question, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
