/* Wrappers of MPI's C functions: those of the recorder; with PLB_CLOCK_ONLY, of libpylb_pmpi. */
#include <stdlib.h>

#include "whatif/recorder/internal.h"

typedef const void *In;
typedef void *Out;
typedef int Int, *IntOut;
typedef const int *Ints;
typedef MPI_Aint Aint;
typedef const MPI_Aint *Aints;
typedef MPI_Datatype Type;
typedef const MPI_Datatype *Types;
typedef MPI_Op Op;
typedef MPI_Info Info;
typedef MPI_Group Group;
typedef MPI_Comm Comm, *CommOut;
typedef MPI_Win Win, *WinOut;
typedef MPI_File File;
typedef MPI_Offset Offset;
typedef MPI_Status *StatusOut;
typedef MPI_Request Request, *RequestOut;
typedef MPI_Message *MessageOut;

#define V(x) (x)
#define HANDLE(Type, x) (x)
#define MADE(Type, x) (*(x))
#define FIRST(Type, x) (*(x))
#define BITS(Type, x) PLB_HANDLE(*(x))
#define IN_PLACE(buffer) ((buffer) == MPI_IN_PLACE)
#define STATUS status
#define BASE 0

#define TIMED(polls, found, Name, args)                                                           \
    const bool timed = plb_mpi_enter(polls);                                                      \
    const int ret = NAME(PMPI_##Name) args;                                                       \
    if (timed) {                                                                                  \
        plb_mpi_leave((polls) && !(found));                                                       \
    }

/* A function that is timed, but not logged. */
#define CLOCKED(before, polls, found, Name, params, args)                                         \
    PLB_EXPORT int NAME(MPI_##Name) params                                                        \
    {                                                                                             \
        before;                                                                                   \
        TIMED(polls, found, Name, args)                                                           \
        return ret;                                                                               \
    }
#define WAITS(Name, name, params, args) CLOCKED(, false, true, Name, params, args)

#ifdef PLB_CLOCK_ONLY
#define WRAP(polls, found, before, Name, params, args, ...)                                       \
    CLOCKED(, polls, found, Name, params, args)
#define OWN_STATUS
#define UNSEEN WAITS
#else
#define WRAP(polls, found, before, Name, params, args, ...)                                       \
    PLB_EXPORT int NAME(MPI_##Name) params                                                        \
    {                                                                                             \
        before;                                                                                   \
        const bool noted = plb_enter();                                                           \
        TIMED(polls, found, Name, args)                                                           \
        if (noted && plb_took_effect(ret)) {                                                      \
            __VA_ARGS__;                                                                          \
        }                                                                                         \
        if (noted) {                                                                              \
            plb_leave();                                                                          \
        }                                                                                         \
        return ret;                                                                               \
    }
#define OWN_STATUS                                                                                \
    MPI_Status own;                                                                               \
    status = status == MPI_STATUS_IGNORE ? &own : status
#define UNSEEN(Name, name, params, args)                                                          \
    CLOCKED(plb_lacks_in_call("waiting in MPI_" #Name ", which counts as computing"), false,      \
            true, Name, params, args)
#endif

#define CALL_AFTER(before, Name, name, params, args, ...)                                         \
    WRAP(false, true, before, Name, params, args, __VA_ARGS__)
#define WITH_STATUS(polls, found, before, Name, name, params, args, ...)                          \
    WRAP(polls, found, before;                                                                    \
         OWN_STATUS, Name, (LIST params, MPI_Status * status), (LIST args, status), __VA_ARGS__)

/* --- functions that count items --- */

#define COUNT int
#define COUNTS const int *
#define UNIT int
#define UNITS const int *
#define NAME(name) name
#include "mpi_counted.h"

#if MPI_VERSION >= 4
#undef COUNT
#undef COUNTS
#undef UNIT
#undef UNITS
#undef NAME
#define COUNT MPI_Count
#define COUNTS const MPI_Count *
#define UNIT MPI_Aint
#define UNITS const MPI_Aint *
#define NAME(name) name##_c
#include "mpi_counted.h" /* included a second time, now for MPI_Count */
#endif

/* --- all other functions --- */

#ifndef PLB_CLOCK_ONLY
/* Return copies of the handles, because the call may change them, and space for statuses, to which
 * *status is set if the program wants none. */
static uint64_t *remember(int n, const MPI_Request *requests, MPI_Status **status)
{
    uint64_t *was = plb_must_have(malloc(((size_t)n + 1) * (sizeof *was + sizeof **status)));
    if (*status == MPI_STATUSES_IGNORE || *status == MPI_STATUS_IGNORE) {
        *status = (MPI_Status *)(was + n + 1);
    }
    for (int i = 0; i < n; i++) {
        was[i] = PLB_HANDLE(requests[i]);
    }
    return was;
}

#define REMEMBER                                                                                  \
    __attribute__((cleanup(plb_let_go))) uint64_t *const was = remember(n, requests, &status)
#endif

#define MANY(polls, found, Name, name, params, args, n_statuses, ...)                             \
    WRAP(polls, found, REMEMBER, Name,                                                            \
         (int n, MPI_Request requests[], LIST params MPI_Status *status),                         \
         (n, requests, LIST args status), __VA_ARGS__)

#undef NAME
#define NAME(name) name
#include "mpi_functions.h"

#ifndef PLB_CLOCK_ONLY
/* --- beginning and end --- */

PLB_EXPORT int MPI_Init(int *argc, char ***argv)
{
    const int ret = PMPI_Init(argc, argv);
    int provided = MPI_THREAD_SINGLE;
    PMPI_Query_thread(&provided);
    plb_record_start(provided);
    return ret;
}

PLB_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const int ret = PMPI_Init_thread(argc, argv, required, provided);
    plb_record_start(*provided);
    return ret;
}

PLB_EXPORT int MPI_Finalize(void)
{
    plb_record_end(true);
    return PMPI_Finalize();
}

/* Send the operations so far to the monitor before the program aborts. */
PLB_EXPORT int MPI_Abort(MPI_Comm comm, int code)
{
    plb_record_end(false);
    return PMPI_Abort(comm, code);
}

/* --- calls that cannot be simulated --- */

CALL(Comm_spawn, ,
     (const char *command, char *argv[], int maxprocs, MPI_Info info, int root, MPI_Comm comm,
      MPI_Comm *fresh, int errcodes[]),
     (command, argv, maxprocs, info, root, comm, fresh, errcodes), plb_lacks("MPI_Comm_spawn"))
CALL(Comm_accept, , (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *fresh),
     (port, info, root, comm, fresh), plb_lacks("MPI_Comm_accept"))
CALL(Comm_connect, , (const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *fresh),
     (port, info, root, comm, fresh), plb_lacks("MPI_Comm_connect"))
#endif
