/* Every kind of operation once or twice, on any number of ranks; or one of the ways to fail.
 *
 *   mpiexec -n 3 ./everything [kill|no-finalize|one-sided|threads|sleep|ask]
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

static int rank, size, left, right;
static double in[4096], out[4096];

static void point_to_point(MPI_Comm comm)
{
    MPI_Request r[4];
    MPI_Status s[4];
    int flag = 0, index, indices[4], n;
    MPI_Sendrecv(out, 10, MPI_DOUBLE, right, 1, in, 10, MPI_DOUBLE, left, 1, comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(out, 2000, MPI_DOUBLE, right, 2, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                         &s[0]);
    MPI_Irecv(in, 10, MPI_DOUBLE, left, 3, comm, &r[0]);
    MPI_Isend(out, 10, MPI_DOUBLE, right, 3, comm, &r[1]);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Irecv(in, 4096, MPI_DOUBLE, MPI_ANY_SOURCE, 4, comm, &r[0]);
    MPI_Issend(out, 4096, MPI_DOUBLE, right, 4, comm, &r[1]);
    while (!flag) {
        MPI_Test(&r[0], &flag, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&r[1], &s[1]);
    MPI_Isend(out, 1, MPI_DOUBLE, right, 5, comm, &r[0]);
    MPI_Probe(left, MPI_ANY_TAG, comm, &s[0]);
    MPI_Recv(in, 1, MPI_DOUBLE, left, 5, comm, &s[0]);
    MPI_Waitany(1, r, &index, MPI_STATUS_IGNORE);
    MPI_Message message;
    MPI_Isend(out, 3, MPI_DOUBLE, right, 6, comm, &r[0]);
    MPI_Mprobe(MPI_ANY_SOURCE, 6, comm, &message, &s[0]);
    MPI_Mrecv(in, 3, MPI_DOUBLE, &message, &s[0]);
    for (n = 0; n == 0;) {
        MPI_Testsome(1, r, &n, indices, MPI_STATUSES_IGNORE);
    }
    MPI_Send(out, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, comm);
    MPI_Recv_init(in, 5, MPI_DOUBLE, left, 8, comm, &r[0]);
    MPI_Ssend_init(out, 5, MPI_DOUBLE, right, 8, comm, &r[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, r);
        for (flag = 0; !flag;) {
            MPI_Testall(2, r, &flag, MPI_STATUSES_IGNORE);
        }
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    MPI_Irecv(in, 1, MPI_DOUBLE, left, 9, comm, &r[0]);
    MPI_Cancel(&r[0]);
    MPI_Wait(&r[0], &s[0]);
}

static void collectives(MPI_Comm comm)
{
    MPI_Request r[3];
    int counts[64], displacements[64];
    for (int i = 0; i < size; i++) {
        counts[i] = 2;
        displacements[i] = 2 * i;
    }
    MPI_Barrier(comm);
    MPI_Bcast(in, 10, MPI_DOUBLE, size - 1, comm);
    MPI_Gather(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, comm);
    MPI_Gatherv(out, 2, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE, 0, comm);
    MPI_Scatter(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, comm);
    MPI_Scatterv(out, counts, displacements, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, comm);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 2, MPI_DOUBLE, comm);
    MPI_Allgatherv(out, 2, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE, comm);
    MPI_Alltoall(out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, comm);
    MPI_Alltoallv(out, counts, displacements, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE,
                  comm);
    MPI_Reduce(out, in, 10, MPI_DOUBLE, MPI_SUM, 0, comm);
    MPI_Allreduce(out, in, 10, MPI_DOUBLE, MPI_MAX, comm);
    MPI_Reduce_scatter(out, in, counts, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Reduce_scatter_block(out, in, 2, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Scan(out, in, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Exscan(out, in, 1, MPI_DOUBLE, MPI_SUM, comm);
    MPI_Ibarrier(comm, &r[0]);
    MPI_Iallreduce(out, in, 10, MPI_DOUBLE, MPI_SUM, comm, &r[1]);
    MPI_Ibcast(in + 100, 10, MPI_DOUBLE, 0, comm, &r[2]);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
}

static void communicators(void)
{
    MPI_Comm copy, part, ring;
    const int dims = size, periodic = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    MPI_Request r;
    MPI_Irecv(in, 1, MPI_DOUBLE, left, 1, copy, &r);
    MPI_Send(out, 1, MPI_DOUBLE, right, 1, copy);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, part);
    int own, of;
    MPI_Comm_rank(part, &own);
    MPI_Comm_size(part, &of);
    MPI_Sendrecv(out, 1, MPI_DOUBLE, (own + 1) % of, 3, in, 1, MPI_DOUBLE, (own + of - 1) % of, 3,
                 part, MPI_STATUS_IGNORE);
    MPI_Comm_free(&part);
    MPI_Comm_free(&copy);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &dims, &periodic, 0, &ring);
    MPI_Neighbor_allgather(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
    MPI_Neighbor_alltoall(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
    MPI_Comm_free(&ring);
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
}

static void one_sided(void)
{
    MPI_Win win;
    double *memory;
    MPI_Win_allocate(sizeof in, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_fence(0, win);
    MPI_Put(out, 10, MPI_DOUBLE, right, 0, 10, MPI_DOUBLE, win);
    MPI_Put(out, 10, MPI_DOUBLE, right, 10, 10, MPI_DOUBLE, win);
    MPI_Win_fence(0, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Accumulate(out, 10, MPI_DOUBLE, 0, 0, 10, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Win_free(&win);
}

static void *other_thread(void *unused)
{
    MPI_Allreduce(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
    return unused;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int provided;
    MPI_Init_thread(&argc, &argv,
                    strcmp(how, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    if (strcmp(how, "kill") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(300000);
        MPI_Barrier(MPI_COMM_WORLD); /* enough time for buffered data to be sent */
        if (rank == size - 1) {
            raise(SIGKILL);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(how, "sleep") == 0) {
        for (int i = 0; i < 5; i++) {
            usleep(20000);
            MPI_Barrier(MPI_COMM_WORLD);
        }
        MPI_Finalize();
        return 0;
    }
    if (strcmp(how, "ask") ==
        0) { /* MPI_Test again and again with sleeps, while rank 0 computes */
        work(rank == 0 ? 5e7 : 1.0);
        MPI_Request meets;
        MPI_Ibarrier(MPI_COMM_WORLD, &meets);
        for (int done = 0; !done;) {
            MPI_Test(&meets, &done, MPI_STATUS_IGNORE);
            usleep(1000);
        }
        MPI_Finalize();
        return 0;
    }
    if (strcmp(how, "threads") == 0 && provided == MPI_THREAD_MULTIPLE) {
        pthread_t thread;
        pthread_create(&thread, NULL, other_thread, NULL);
        pthread_join(thread, NULL);
    }
    work(1e5);
    point_to_point(MPI_COMM_WORLD);
    collectives(MPI_COMM_WORLD);
    communicators();
    if (strcmp(how, "one-sided") == 0) {
        one_sided();
    }
    if (strcmp(how, "no-finalize") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        exit(0);
    }
    MPI_Finalize();
    printf("rank %d is through\n", rank);
    return 0;
}
