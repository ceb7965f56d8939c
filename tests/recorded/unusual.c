/* Calls that few programs make; each way ends with a message around the ring.
 *
 *   mpiexec -n 3 ./unusual failed|cancel|between|copies|files|persistent|spawn|fork
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#include "../../csrc/whatif/recorder/pylb_procedure.h"

static int rank, size, left, right;
static double in[64], out[64];

static void exchange(MPI_Comm comm, int to, int from)
{
    MPI_Sendrecv(out, 5, MPI_DOUBLE, to, 1, in, 5, MPI_DOUBLE, from, 1, comm, MPI_STATUS_IGNORE);
}

/* Each call returns an error; `fresh` and `r` keep what they had. */
static void failed(void)
{
    MPI_Comm fresh;
    MPI_Request r;
    memset(&fresh, 1, sizeof fresh);
    memset(&r, 1, sizeof r);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int errors = MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &fresh) != MPI_SUCCESS;
    errors += MPI_Bcast(in, 1, MPI_DOUBLE, size + 7, MPI_COMM_WORLD) != MPI_SUCCESS;
    errors += MPI_Irecv(in, 1, MPI_DOUBLE, size + 7, 0, MPI_COMM_WORLD, &r) != MPI_SUCCESS;
    errors +=
        MPI_Recv(in, 1, MPI_DOUBLE, 0, -77, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    errors += MPI_Send(out, 1, MPI_DOUBLE, 0, -77, MPI_COMM_WORLD) != MPI_SUCCESS;
    MPI_Isend(out, 9, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &r);
    /* too long, but received */
    errors += MPI_Recv(in, 5, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != 0;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    printf("%d errors\n", errors);
}

static void cancel(void)
{
    MPI_Request r;
    MPI_Irecv(in, 5, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Request_free(&r);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void between(void)
{
    MPI_Comm half, both, again, merged;
    int own, others, all;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 5, &both);
    MPI_Comm_dup(both, &again);
    MPI_Comm_rank(half, &own);
    MPI_Comm_remote_size(both, &others);
    if (own < others) {
        exchange(both, own, own);
        exchange(again, own, own);
    }
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, both);
    MPI_Intercomm_merge(both, rank % 2, &merged);
    MPI_Comm_rank(merged, &own);
    MPI_Comm_size(merged, &all);
    exchange(merged, (own + 1) % all, (own + all - 1) % all);
    MPI_Comm_free(&again);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

/* Odd ranks use the second copy first. */
static void copies(void)
{
    MPI_Comm copy[2];
    MPI_Request r[4];
    MPI_Comm_idup(MPI_COMM_WORLD, &copy[0], &r[0]);
    MPI_Comm_idup(MPI_COMM_WORLD, &copy[1], &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++) {
        const int which = (i + rank) % 2;
        MPI_Irecv(in + which, 1, MPI_DOUBLE, left, which, copy[which], &r[i]);
        MPI_Isend(out, 1, MPI_DOUBLE, right, which, copy[which], &r[2 + i]);
    }
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&copy[0]);
    MPI_Comm_free(&copy[1]);
}

static void files(const char *path)
{
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, rank * 40, out, 5, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_read_at_all(file, rank * 40, in, 5, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

/* Communicates with nobody, and then with all. */
static void persistent(void)
{
    MPI_Request r[3];
    MPI_Send_init(out, 5, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Recv_init(in, 5, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &r[1]);
    int n = 2;
#if MPI_VERSION >= 4
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &r[n++]);
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
    MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &r[n++]);
#endif
    for (int i = 0; i < 2; i++) {
        MPI_Startall(n, r);
        MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < n; i++) {
        MPI_Request_free(&r[i]);
    }
    printf("%d requests\n", n);
}

static void meet_the_other_world(MPI_Comm others, int high)
{
    MPI_Comm all;
    MPI_Intercomm_merge(others, high, &all);
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&others);
}

static void spawn(char *self)
{
    MPI_Comm others;
    char *arguments[] = {"spawn", NULL};
    MPI_Comm_spawn(self, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others,
                   MPI_ERRCODES_IGNORE);
    meet_the_other_world(others, 0);
}

static void marked(int times)
{
    for (int i = 0; i < times; i++) {
        PYLB_PROCEDURE("marked");
    }
}

static void forks(void)
{
    marked(1);
    const pid_t child = fork();
    if (child == 0) {
        marked(10000);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        meet_the_other_world(parent, 1);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    const char *how = argv[1];
    strcmp(how, "failed") == 0       ? failed()
    : strcmp(how, "cancel") == 0     ? cancel()
    : strcmp(how, "between") == 0    ? between()
    : strcmp(how, "copies") == 0     ? copies()
    : strcmp(how, "files") == 0      ? files(argv[2])
    : strcmp(how, "persistent") == 0 ? persistent()
    : strcmp(how, "spawn") == 0      ? spawn(argv[0])
                                     : forks();
    exchange(MPI_COMM_WORLD, right, left);
    MPI_Finalize();
    return 0;
}
