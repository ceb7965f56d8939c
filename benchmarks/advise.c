/* The time of pylb_advise, compared with a bare MPI_Iallreduce of the same bytes and MPI_Test.
 *   advise CELLS     number of cells of each rank, for pylb_advise_cells (default: 100000)
 * Prints one line: microseconds of the bare reduction, of pylb_advise, and of pylb_advise_cells.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "pylb.h"

enum { ROUNDS = 40, CALLS = 200 }; /* -DRECORD=...: bytes of a record */

static void check(int code)
{
    if (code != PYLB_OK) {
        fprintf(stderr, "%s\n", pylb_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double bare(MPI_Comm comm)
{
    static char mine[RECORD], all[RECORD];
    MPI_Barrier(comm);
    const double start = MPI_Wtime();
    for (int i = 0; i < CALLS; i++) {
        MPI_Request request;
        int done = 0;
        MPI_Iallreduce(mine, all, RECORD, MPI_BYTE, MPI_BOR, comm, &request);
        while (!done) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    }
    return (MPI_Wtime() - start) / CALLS;
}

static double seconds_alone(pylb_advisor *lb)
{
    int rebalance;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < CALLS; i++) {
        check(pylb_work(lb, 1e-3));
        check(pylb_advise(lb, &rebalance));
    }
    return (MPI_Wtime() - start) / CALLS;
}

static double with_cells(pylb_advisor *lb, const pylb_cells *cells)
{
    pylb_plan *plan;
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (int i = 0; i < 10; i++) {
        check(pylb_advise_cells(lb, cells, &plan));
    }
    return (MPI_Wtime() - start) / 10;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    pylb_advisor *lb, *other;
    pylb_cells cells;
    MPI_Comm comm;
    double best[3] = {1e9, 1e9, 1e9};
    MPI_Init(&argc, &argv);
    const int64_t n = argc > 1 ? atoll(argv[1]) : 100000;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    check(pylb_advisor_create_mpi(MPI_COMM_WORLD, &other));
    check(pylb_advisor_set(other, "mode", "off"));
    double *load = malloc((size_t)n * sizeof *load);
    int64_t *key = malloc((size_t)n * sizeof *key);
    for (int64_t i = 0; i < n; i++) {
        load[i] = 1e-8;
        key[i] = n * rank + i;
    }
    pylb_cells_init(&cells);
    cells.n = n;
    cells.load = load;
    cells.key = key;
    for (int round = 0; round < ROUNDS; round++) {
        best[0] = least(best[0], bare(comm));
        best[1] = least(best[1], seconds_alone(lb));
        best[2] = least(best[2], with_cells(other, &cells));
    }
    double most[3];
    MPI_Reduce(best, most, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%.3f %.3f %.3f\n", 1e6 * most[0], 1e6 * most[1], 1e6 * most[2]);
    }
    check(pylb_advisor_close(&other));
    check(pylb_advisor_close(&lb));
    free(load);
    free(key);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
