/* Preloaded by tests/mpi/faulty.py: on rank FAULTY_RANK the call number FAULTY_AT of MPI fails, or
 * is late if FAULTY_LATE is set.  Only calls count that move data or wait for them.  After
 * faulty_next(), the next of these calls on this rank fails. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int next;

void faulty_next(void)
{
    next = 1;
}

static int fails(const char *name)
{
    static long count;
    if (next) {
        next = 0;
        fprintf(stderr, "faulty: %s\n", name);
        return 1;
    }
    const char *at = getenv("FAULTY_AT"), *odd = getenv("FAULTY_RANK");
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (at == NULL || odd == NULL || rank != atoi(odd) || count++ != atol(at)) {
        return 0;
    }
    fprintf(stderr, "faulty: %s\n", name);
    if (getenv("FAULTY_LATE") == NULL) {
        return 1;
    }
    usleep(700000);
    return 0;
}

#define CALL(name, args, pass)                                                                    \
    int MPI_##name args                                                                           \
    {                                                                                             \
        return fails(#name) ? MPI_ERR_OTHER : PMPI_##name pass;                                   \
    }
CALL(Iallreduce,
     (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request *r),
     (a, b, n, t, o, c, r))
CALL(Allreduce, (const void *a, void *b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
     (a, b, n, t, o, c))
CALL(Issend, (const void *a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r),
     (a, n, t, d, g, c, r))
CALL(Isend, (const void *a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r),
     (a, n, t, d, g, c, r))
CALL(Irecv, (void *a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r),
     (a, n, t, d, g, c, r))
CALL(Imrecv, (void *a, int n, MPI_Datatype t, MPI_Message *m, MPI_Request *r), (a, n, t, m, r))
CALL(Mrecv, (void *a, int n, MPI_Datatype t, MPI_Message *m, MPI_Status *s), (a, n, t, m, s))
CALL(Iallgather,
     (const void *a, int n, MPI_Datatype t, void *b, int m, MPI_Datatype u, MPI_Comm c,
      MPI_Request *r),
     (a, n, t, b, m, u, c, r))
CALL(Iallgatherv,
     (const void *a, int n, MPI_Datatype t, void *b, const int *m, const int *d, MPI_Datatype u,
      MPI_Comm c, MPI_Request *r),
     (a, n, t, b, m, d, u, c, r))
CALL(Igatherv,
     (const void *a, int n, MPI_Datatype t, void *b, const int *m, const int *d, MPI_Datatype u,
      int p, MPI_Comm c, MPI_Request *r),
     (a, n, t, b, m, d, u, p, c, r))
CALL(Ibcast, (void *a, int n, MPI_Datatype t, int p, MPI_Comm c, MPI_Request *r),
     (a, n, t, p, c, r))
CALL(Improbe, (int d, int g, MPI_Comm c, int *f, MPI_Message *m, MPI_Status *s),
     (d, g, c, f, m, s))
CALL(Iprobe, (int d, int g, MPI_Comm c, int *f, MPI_Status *s), (d, g, c, f, s))
CALL(Test, (MPI_Request * r, int *f, MPI_Status *s), (r, f, s))
CALL(Testall, (int n, MPI_Request *r, int *f, MPI_Status *s), (n, r, f, s))
