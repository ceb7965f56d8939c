/* A program whose recorder runs out of memory:
 *   LD_PRELOAD=no_malloc.so pylb record mpiexec -n 2 no_memory_recorded N
 * The N-th allocation of the recorder fails on the last rank.  The last line is "failed" or
 * "whole".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    enum { MANY = 70 };
    int rank, size, got[MANY], mine = 7;
    const char *place = getenv("OMPI_COMM_WORLD_RANK"); /* before MPI_Init, which records */
    void (*fail_at)(int64_t);
    int (*failed)(void);
    MPI_Request request[2 * MANY];
    MPI_Comm half;
    *(void **)&fail_at = dlsym(NULL, "no_malloc_at");
    *(void **)&failed = dlsym(NULL, "no_malloc_failed");
    if (place == NULL || atoi(place) > 0) {
        fail_at(atoi(argv[1]));
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &half);
    for (int i = 0; i < MANY; i++) {
        MPI_Irecv(&got[i], 1, MPI_INT, (rank + 1) % size, i, half, &request[i]);
        MPI_Isend(&mine, 1, MPI_INT, (rank + size - 1) % size, i, half, &request[MANY + i]);
    }
    MPI_Waitall(2 * MANY, request, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&half);
    const int bad = failed();
    MPI_Finalize();
    puts(bad ? "failed" : "whole");
    return 0;
}
