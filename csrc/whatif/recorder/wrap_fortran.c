/* Wrappers of MPI's Fortran functions.  Their names are in lower case, with the ending _ (mpif.h
 * and `use mpi`) or _f08_ (`use mpi_f08`, whose handles are structures of one integer).  Their
 * arguments are addresses.  Each wrapper calls MPI's own Fortran function, which handles special
 * addresses such as MPI_IN_PLACE.  Arguments are converted to C only to log the call.
 *
 * MPI's Fortran functions are declared weak, because C programs do not have them. */
#include <stdlib.h>

#include "whatif/recorder/internal.h"

typedef MPI_Fint *F, *Int, *IntOut, *Ints, *Type, *Types, *Op, *Info, *Group, *Comm, *CommOut,
    *Win, *WinOut, *File, *Request, *RequestOut, *MessageOut, *StatusOut;
typedef void *In, *Out;
typedef MPI_Aint *Aint, *Aints;
typedef MPI_Offset *Offset;
#define COUNT F
#define COUNTS F
#define UNIT F
#define UNITS F

#define V(x) (*(x))
#define HANDLE(Type, x) MPI_##Type##_f2c(*(x))
#define MADE(Type, x) MPI_##Type##_f2c(*(x))
#define FIRST(Type, x) MPI_##Type##_f2c(*(x))
#define BITS(Type, x) PLB_HANDLE((MPI_##Type){MPI_##Type##_f2c(*(x))})
#define IN_PLACE(buffer) true
#define BASE 1

#define PLAIN(symbol, params, ...)                                                                \
    extern void pmpi_##symbol params __attribute__((weak));                                       \
    PLB_EXPORT void mpi_##symbol params;                                                          \
    void mpi_##symbol params                                                                      \
    {                                                                                             \
        __VA_ARGS__;                                                                              \
    }
#define TIMED(polls, found, symbol, args)                                                         \
    const bool timed = plb_mpi_enter(polls);                                                      \
    pmpi_##symbol args;                                                                           \
    if (timed) {                                                                                  \
        plb_mpi_leave((polls) && !(found));                                                       \
    }
#ifdef PLB_CLOCK_ONLY
#define NAMED(polls, found, symbol, before, params, args, ...)                                    \
    PLAIN(symbol, params, TIMED(polls, found, symbol, args))
#else
/* In mpi_f08, ierr is optional: then it is NULL. */
#define NAMED(polls, found, symbol, before, params, args, ...)                                    \
    PLAIN(                                                                                        \
        symbol, params, before; MPI_Fint code = MPI_SUCCESS; ierr = ierr ? ierr : &code;          \
        const bool noted = plb_enter();                                                           \
        TIMED(polls, found, symbol, args) if (noted && plb_took_effect(*ierr)) {                  \
            __VA_ARGS__;                                                                          \
        } if (noted) { plb_leave(); })
#endif
#define WRAP(polls, found, before, name, params, args, ...)                                       \
    NAMED(polls, found, name##_, before, (LIST params, F ierr), (LIST args, ierr), __VA_ARGS__)   \
    NAMED(polls, found, name##_f08_, before, (LIST params, F ierr), (LIST args, ierr), __VA_ARGS__)
#define CALL_AFTER(before, Name, name, params, args, ...)                                         \
    WRAP(false, true, before, name, params, args, __VA_ARGS__)
#define WAITS_AS(symbol, params, args) PLAIN(symbol, params, TIMED(false, true, symbol, args))
#define WAITS(Name, name, params, args)                                                           \
    WAITS_AS(name##_, (LIST params, F ierr), (LIST args, ierr))                                   \
    WAITS_AS(name##_f08_, (LIST params, F ierr), (LIST args, ierr))

#ifndef PLB_CLOCK_ONLY
enum { STATUS_SIZE = sizeof(MPI_Status) / sizeof(MPI_Fint) };

static const MPI_Status *in_c(const MPI_Fint *status, int n, MPI_Status *out)
{
    for (int i = 0; i < n; i++) {
        PMPI_Status_f2c(status + i * STATUS_SIZE, out + i);
    }
    return out;
}

#define STATUS in_c(status, n_valid, c_status)
#define OWN_STATUS                                                                                \
    enum { n_valid = 1 };                                                                         \
    MPI_Fint own[STATUS_SIZE];                                                                    \
    MPI_Status c_status[1] __attribute__((unused));                                               \
    status = status == MPI_F_STATUS_IGNORE ? own : status

#define UNSEEN(Name, name, params, args)                                                          \
    UNSEEN_AS(name##_, Name, (LIST params, F ierr), (LIST args, ierr))                            \
    UNSEEN_AS(name##_f08_, Name, (LIST params, F ierr), (LIST args, ierr))
#define UNSEEN_AS(symbol, Name, params, args)                                                     \
    PLAIN(symbol, params,                                                                         \
          plb_lacks_in_call("waiting in MPI_" #Name ", which counts as computing");               \
          TIMED(false, true, symbol, args))
#else
#define UNSEEN WAITS
#endif

#define WITH_STATUS(polls, found, before, Name, name, params, args, ...)                          \
    WRAP(polls, found, before;                                                                    \
         OWN_STATUS, name, (LIST params, F status), (LIST args, status), __VA_ARGS__)

#include "mpi_counted.h"

#ifndef PLB_CLOCK_ONLY
/* Return copies of the handles before the call, and space for statuses: *c_status, in the form of
 * C, and the one to which *status is set if the program wants none. */
static uint64_t *remember(int n, const MPI_Fint *requests, MPI_Fint **status,
                          MPI_Status **c_status)
{
    uint64_t *was = plb_must_have(calloc((size_t)n + 1, sizeof *was + 2 * sizeof **c_status));
    *c_status = (MPI_Status *)(was + n + 1);
    if (*status == MPI_F_STATUSES_IGNORE || *status == MPI_F_STATUS_IGNORE) {
        *status = (MPI_Fint *)(*c_status + n + 1);
    }
    for (int i = 0; i < n; i++) {
        was[i] = BITS(Request, &requests[i]);
    }
    return was;
}

#define REMEMBER(n_statuses)                                                                      \
    MPI_Status *c_status;                                                                         \
    __attribute__((cleanup(plb_let_go))) uint64_t *const was =                                    \
        remember(*n, requests, &status, &c_status);                                               \
    const int n_valid = n_statuses
#endif

#define MANY(polls, found, Name, name, params, args, n_statuses, ...)                             \
    WRAP(polls, found, REMEMBER(n_statuses), name, (F n, F requests, LIST params F status),       \
         (n, requests, LIST args status), __VA_ARGS__)
#include "mpi_functions.h"

#ifndef PLB_CLOCK_ONLY
#define BEGIN_AND_END(_)                                                                          \
    PLAIN(init##_, (F ierr), pmpi_init##_(ierr); plb_record_start(MPI_THREAD_SINGLE))             \
    PLAIN(init_thread##_, (F required, F provided, F ierr),                                       \
          pmpi_init_thread##_(required, provided, ierr);                                          \
          plb_record_start(*provided))                                                            \
    PLAIN(finalize##_, (F ierr), plb_record_end(true); pmpi_finalize##_(ierr))                    \
    PLAIN(abort##_, (F comm, F code, F ierr), plb_record_end(false);                              \
          pmpi_abort##_(comm, code, ierr))
BEGIN_AND_END(_)
BEGIN_AND_END(_f08_)
#endif
