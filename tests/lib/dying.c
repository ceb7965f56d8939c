/* On the last rank, the library's N-th call of MPI ends the rank, or returns an error:
 *   dying HOW N [OPTION VALUE ...]
 * HOW: kill or exit: the rank ends this way; error: the call fails; none: nothing happens, and
 * rank 0 prints the number of calls.
 * A rank whose call of the library fails ends all ranks, as programs do. */
#define _GNU_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { STEPS = 7, CELLS = 6 };

static int rank, n_ranks, n_calls, at = -1;
static const char *how = "none";

/* Count a call of MPI by the library, and end the rank if it is time; return whether the call must
 * fail. */
static int fails(const char *name)
{
    struct timespec now;
    if (rank != n_ranks - 1 || n_calls++ != at || strcmp(how, "none") == 0) {
        return 0;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    printf("rank %d comes to %s at %.3f\n", rank, name, (double)now.tv_sec + 1e-9 * now.tv_nsec);
    fflush(stdout);
    if (strcmp(how, "kill") == 0) {
        kill(getpid(), SIGKILL);
    } else if (strcmp(how, "exit") == 0) {
        _exit(3);
    }
    return 1;
}

int MPI_Iallreduce(const void *from, void *to, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    return fails("a reduction") ? MPI_ERR_OTHER
                                : PMPI_Iallreduce(from, to, n, type, op, comm, request);
}

int MPI_Iallgather(const void *from, int n, MPI_Datatype type, void *to, int m, MPI_Datatype other,
                   MPI_Comm comm, MPI_Request *request)
{
    return fails("sizes") ? MPI_ERR_OTHER
                          : PMPI_Iallgather(from, n, type, to, m, other, comm, request);
}

int MPI_Igatherv(const void *from, int n, MPI_Datatype type, void *to, const int count[],
                 const int start[], MPI_Datatype other, int root, MPI_Comm comm,
                 MPI_Request *request)
{
    return fails("a gather")
               ? MPI_ERR_OTHER
               : PMPI_Igatherv(from, n, type, to, count, start, other, root, comm, request);
}

int MPI_Ibcast(void *data, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    return fails("an answer") ? MPI_ERR_OTHER : PMPI_Ibcast(data, n, type, root, comm, request);
}

int MPI_Isend(const void *from, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return fails("a migration") ? MPI_ERR_OTHER
                                : PMPI_Isend(from, n, type, to, tag, comm, request);
}

int main(int argc, char **argv)
{
    pylb_advisor *lb;
    pylb_plan *plan;
    pylb_cells cells;
    int64_t key[CELLS];
    double load[CELLS], to[64 * CELLS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    must(pylb_advisor_create_mpi(MPI_COMM_WORLD, &lb));
    for (int i = 3; i + 1 < argc; i += 2) {
        must(pylb_advisor_set(lb, argv[i], argv[i + 1]));
    }
    how = argv[1];
    at = atoi(argv[2]);
    n_calls = 0;
    pylb_cells_init(&cells);
    cells.n = CELLS;
    cells.key = key;
    cells.load = load;
    for (int i = 0; i < CELLS; i++) {
        key[i] = CELLS * rank + i;
        load[i] = rank == 0 ? 3.0 + i : 1.0;
    }
    for (int k = 0; k < STEPS; k++) { /* every step passes the same cells: they stay, although each
                                         plan is carried out */
        must(pylb_advise_cells(lb, &cells, &plan));
        if (plan != NULL && pylb_plan_n(plan) <= 64 * CELLS) {
            must(pylb_plan_migrate_begin(plan, load, sizeof *load, to));
            must(pylb_plan_migrate_end(plan));
        }
    }
    must(pylb_advisor_close(&lb));
    if (rank == n_ranks - 1) {
        printf("%d calls\n", n_calls);
    }
    MPI_Finalize();
    return 0;
}
