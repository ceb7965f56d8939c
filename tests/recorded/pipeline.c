/* Blocks go from rank to rank; each rank does its part of the work on every block, one rank does
 * more.
 *
 *   mpiexec -n 3 ./pipeline BLOCKS STEPS
 */
#include <mpi.h>
#include <stdlib.h>

#include "work.h"

enum { LONGEST = 40000 };

int main(int argc, char **argv)
{
    const int blocks = argc > 1 ? atoi(argv[1]) : 50;
    const double steps = argc > 2 ? atof(argv[2]) : 1e6;
    static double block[LONGEST];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < blocks; i++) {
        const int length = i % 5 == 0 ? LONGEST : 100; /* the long ones are sent by rendezvous */
        if (rank > 0) {
            MPI_Recv(block, LONGEST, MPI_DOUBLE, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        work(rank == size / 2 ? 2.0 * steps : steps);
        if (rank < size - 1) {
            MPI_Send(block, length, MPI_DOUBLE, rank + 1, 7, MPI_COMM_WORLD);
        }
    }
    MPI_Finalize();
    return 0;
}
