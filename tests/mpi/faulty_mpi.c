/* Preloaded by tests/mpi/faulty.py: on rank FAULTY_RANK the call number FAULTY_AT of MPI fails, or
 * is late if FAULTY_LATE is set.  Only calls count that move data or wait for them.  After
 * faulty_next(), the next of these calls on this rank fails; after faulty_call(name), the
 * next one of this name.
 * faulty_sends() is the number of requests of MPI_Isend that MPI_Test has not completed and nobody
 * has freed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int next, n_sends;
static char named[32];
static MPI_Request sending[64];

void faulty_next(void)
{
    next = 1;
}

void faulty_call(const char *name)
{
    snprintf(named, sizeof named, "%s", name);
}

int faulty_sends(void)
{
    return n_sends;
}

static void forget(MPI_Request request)
{
    for (int i = 0; i < n_sends; i++) {
        if (sending[i] == request) {
            sending[i] = sending[--n_sends];
            return;
        }
    }
}

static int fails(const char *name)
{
    static long count;
    if (next || strcmp(name, named) == 0) {
        next = named[0] = 0;
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
CALL(Testall, (int n, MPI_Request *r, int *f, MPI_Status *s), (n, r, f, s))

int MPI_Isend(const void *a, int n, MPI_Datatype t, int d, int g, MPI_Comm c, MPI_Request *r)
{
    const int code = fails("Isend") ? MPI_ERR_OTHER : PMPI_Isend(a, n, t, d, g, c, r);
    if (code == MPI_SUCCESS && n_sends < (int)(sizeof sending / sizeof *sending)) {
        sending[n_sends++] = *r;
    }
    return code;
}

int MPI_Test(MPI_Request *r, int *f, MPI_Status *s)
{
    const MPI_Request was = *r;
    const int code = fails("Test") ? MPI_ERR_OTHER : PMPI_Test(r, f, s);
    if (code == MPI_SUCCESS && *f) {
        forget(was);
    }
    return code;
}

int MPI_Request_free(MPI_Request *r)
{
    forget(*r);
    return PMPI_Request_free(r);
}
