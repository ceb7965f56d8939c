/* Compares the clock "mpi" with bodies of known length, or measures what it costs.
 *
 *     mpiexec -n 4 mpi_clock MILLISECONDS STEPS     for each way to wait, the work that the clock
 * shows divided by that of the bodies, smallest and largest of the ranks, and the largest ratio
 * to the wall time of the bodies
 *     mpi_clock cost     ns of a call of MPI_Iprobe and of MPI_Test
 *
 * The bodies of rank r take 1 + r times the milliseconds (processor time); so all ranks but the
 * last one wait. */
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern int64_t pylb_pmpi_work_ns(bool delayed, bool *sees) __attribute__((weak));

static int rank, size, left, right;
static int sent, got;
static MPI_Win window;
static int shared;

static int64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t work(void)
{
    bool sees;
    return pylb_pmpi_work_ns == NULL ? 0 : pylb_pmpi_work_ns(false, &sees);
}

static void body(int64_t ns)
{
    const int64_t end = now(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now(CLOCK_THREAD_CPUTIME_ID) < end) {
    }
}

static void blocking(void)
{
    MPI_Sendrecv(&sent, 1, MPI_INT, right, 0, &got, 1, MPI_INT, left, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void begin(MPI_Request *request)
{
    MPI_Irecv(&got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&sent, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &request[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &request[2]);
}

static void nonblocking(void)
{
    MPI_Request request[3];
    begin(request);
    MPI_Waitall(3, request, MPI_STATUSES_IGNORE);
}

static void spin(void (*between)(void))
{
    int done = 0;
    MPI_Request request[3];
    begin(request);
    while (!done) {
        MPI_Testall(3, request, &done, MPI_STATUSES_IGNORE);
        if (between != NULL && !done) {
            between();
        }
    }
}

static void nothing(void)
{
    spin(NULL);
}

static void yield(void)
{
    sched_yield();
}

static void yielding(void)
{
    spin(yield);
}

static void nap(void)
{
    const struct timespec t = {0, 100000};
    nanosleep(&t, NULL);
}

static void napping(void)
{
    spin(nap);
}

static void probing(void)
{
    int there = 0;
    MPI_Request request;
    MPI_Isend(&sent, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &request);
    while (!there) {
        MPI_Iprobe(left, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    }
    MPI_Recv(&got, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void collective(void)
{
    int sum, all[64];
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Bcast(&sum, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
}

static void fences(void)
{
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
}

static void locks(void)
{
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, window);
    MPI_Put(&rank, 1, MPI_INT, right, 0, 1, MPI_INT, window);
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct {
    const char *name;
    void (*wait)(void);
} ways[] = {
    {"blocking", blocking},     {"nonblocking", nonblocking}, {"testing", nothing},
    {"yielding", yielding},     {"napping", napping},         {"probing", probing},
    {"collective", collective}, {"fences", fences},           {"locks", locks},
};

static void compare(int64_t ns, int steps)
{
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        int64_t bodies = 0, wall = 0;
        ways[w].wait();
        const int64_t before = work();
        for (int i = 0; i < steps; i++) {
            const int64_t started = now(CLOCK_MONOTONIC), began = now(CLOCK_THREAD_CPUTIME_ID);
            body(ns * (rank + 1));
            bodies += now(CLOCK_THREAD_CPUTIME_ID) - began;
            wall += now(CLOCK_MONOTONIC) - started;
            ways[w].wait();
        }
        const double worked = (double)(work() - before);
        const double ratio[2] = {worked / (double)bodies, worked / (double)wall};
        double least, most[2];
        MPI_Reduce(ratio, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(ratio, most, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("%s %.4f %.4f %.4f\n", ways[w].name, least, most[0], most[1]);
        }
    }
}

static void cost(void)
{
    enum { CALLS = 20000 };
    double probe = 1e9, test = 1e9;
    for (int repeat = 0; repeat < 40; repeat++) {
        int flag;
        MPI_Request request;
        int64_t begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < CALLS; i++) {
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
        double ns = (double)(now(CLOCK_MONOTONIC) - begin) / CALLS;
        probe = ns < probe ? ns : probe;
        MPI_Irecv(&got, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, &request);
        begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < CALLS; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        }
        ns = (double)(now(CLOCK_MONOTONIC) - begin) / CALLS;
        test = ns < test ? ns : test;
        MPI_Send(&sent, 1, MPI_INT, 0, 9, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    printf("iprobe %.1f\ntest %.1f\n", probe, test);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    if (argc > 1 && strcmp(argv[1], "cost") == 0) {
        cost();
    } else if (argc > 2) {
        MPI_Win_create(&shared, sizeof shared, sizeof shared, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &window);
        compare((int64_t)(1e6 * atof(argv[1])), atoi(argv[2]));
        MPI_Win_free(&window);
    }
    MPI_Finalize();
    return 0;
}
