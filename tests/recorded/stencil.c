/* A ring of ranks with different work that exchange borders by persistent requests, and sum up
 * every tenth iteration.
 *
 *   mpiexec -n 4 ./stencil ITERATIONS STEPS
 */
#include <mpi.h>
#include <stdlib.h>

#include "work.h"

enum { BORDER = 512 };

int main(int argc, char **argv)
{
    const int iterations = argc > 1 ? atoi(argv[1]) : 100;
    const double steps = argc > 2 ? atof(argv[2]) : 1e6;
    static double border[4][BORDER];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Request request[4];
    MPI_Recv_init(border[0], BORDER, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &request[0]);
    MPI_Recv_init(border[1], BORDER, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &request[1]);
    MPI_Send_init(border[2], BORDER, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &request[2]);
    MPI_Send_init(border[3], BORDER, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &request[3]);
    for (int i = 0; i < iterations; i++) {
        MPI_Startall(4, request);
        work(steps * (1.0 + 0.5 * (rank % 3)));
        MPI_Waitall(4, request, MPI_STATUSES_IGNORE);
        if (i % 10 == 9) {
            double all, mine = sink;
            MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    }
    for (int i = 0; i < 4; i++) {
        MPI_Request_free(&request[i]);
    }
    MPI_Finalize();
    return 0;
}
