/* The same functions as Fortran calls them: names in lower case, with an underscore (mpif.h and
 * `use mpi`) or _f08_ (`use mpi_f08`, whose handles are structures of one integer), arguments by
 * address.  What is done is left to MPI's own function for Fortran, which knows MPI_IN_PLACE and
 * the like; only what is noted is translated.
 *
 * MPI's functions are weak: a program in C has none of them, and calls none of these. */
#include <stdlib.h>

#include "record.h"

typedef MPI_Fint *F;

enum { STATUS_SIZE = sizeof(MPI_Status) / sizeof(MPI_Fint) };

#define COMM MPI_Comm_f2c(*comm)
#define BYTES(count, type) plb_bytes(*(count), MPI_Type_f2c(*(type)))
#define LIST(...) __VA_ARGS__

/* A function under one of its names. */
#define NAMED(symbol, params, ...)                                                                \
    extern void pmpi_##symbol params __attribute__((weak));                                       \
    PLB_EXPORT void mpi_##symbol params;                                                          \
    void mpi_##symbol params                                                                      \
    {                                                                                             \
        __VA_ARGS__;                                                                              \
    }

/* MPI's own function, and what is noted then. */
#define AROUND(call, ...)                                                                         \
    const bool noted = plb_enter();                                                               \
    call;                                                                                         \
    if (noted) {                                                                                  \
        __VA_ARGS__;                                                                              \
        plb_leave();                                                                              \
    }

/* name, parameters, arguments, what is noted. */
#define FORTRAN(name, params, args, ...)                                                          \
    NAMED(name##_, params, AROUND(pmpi_##name##_ args, __VA_ARGS__))                              \
    NAMED(name##_f08_, params, AROUND(pmpi_##name##_f08_ args, __VA_ARGS__))

/* --- beginning and end --- */

#define BEGINS_AND_ENDS(_)                                                                        \
    NAMED(init##_, (F ierr), pmpi_init##_(ierr); plb_record_start(MPI_THREAD_SINGLE))             \
    NAMED(init_thread##_, (F required, F provided, F ierr),                                       \
          pmpi_init_thread##_(required, provided, ierr);                                          \
          plb_record_start(*provided))                                                            \
    NAMED(finalize##_, (F ierr), plb_record_end(true); pmpi_finalize##_(ierr))                    \
    NAMED(abort##_, (F comm, F code, F ierr), plb_record_end(false);                              \
          pmpi_abort##_(comm, code, ierr))
BEGINS_AND_ENDS(_)
BEGINS_AND_ENDS(_f08_)

/* --- messages --- */

#define MESSAGE (void *buf, F count, F type, F peer, F tag, F comm, F ierr)
#define MESSAGE_ARGS (buf, count, type, peer, tag, comm, ierr)
#define REQUEST (void *buf, F count, F type, F peer, F tag, F comm, F request, F ierr)
#define REQUEST_ARGS (buf, count, type, peer, tag, comm, request, ierr)
#define MADE_SEND(persistent, flags)                                                              \
    plb_made_send(MPI_Request_f2c(*request), persistent, flags, BYTES(count, type), *peer, *tag,  \
                  COMM)
#define SENDS(blocking, nonblocking, init, flags)                                                 \
    FORTRAN(blocking, MESSAGE, MESSAGE_ARGS,                                                      \
            plb_note_send(flags, BYTES(count, type), *peer, *tag, COMM))                          \
    FORTRAN(nonblocking, REQUEST, REQUEST_ARGS, MADE_SEND(false, flags))                          \
    FORTRAN(init, REQUEST, REQUEST_ARGS, MADE_SEND(true, flags))
SENDS(send, isend, send_init, 0)
SENDS(bsend, ibsend, bsend_init, PLB_OP_BUFFERED)
SENDS(ssend, issend, ssend_init, PLB_OP_SYNCHRONOUS)
SENDS(rsend, irsend, rsend_init, 0)
FORTRAN(irecv, REQUEST, REQUEST_ARGS,
        plb_made_receive(MPI_Request_f2c(*request), false, *peer, *tag, COMM))
FORTRAN(recv_init, REQUEST, REQUEST_ARGS,
        plb_made_receive(MPI_Request_f2c(*request), true, *peer, *tag, COMM))

/* A status that the program does not ignore, as C has it. */
static const MPI_Status *in_c(const MPI_Fint *status, MPI_Status *out)
{
    PMPI_Status_f2c(status, out);
    return out;
}

#define WITH_STATUS_NAMED(symbol, params, args, ...)                                              \
    NAMED(symbol, (LIST params, F status, F ierr), MPI_Fint own[STATUS_SIZE];                     \
          MPI_Status c_status; status = status == MPI_F_STATUS_IGNORE ? own : status; BEFORE;     \
          AROUND(pmpi_##symbol(LIST args, status, ierr),                                          \
                 const MPI_Status *const its = in_c(status, &c_status);                           \
                 __VA_ARGS__))
#define WITH_STATUS(name, params, args, ...)                                                      \
    WITH_STATUS_NAMED(name##_, params, args, __VA_ARGS__)                                         \
    WITH_STATUS_NAMED(name##_f08_, params, args, __VA_ARGS__)

static void maybe_probed(MPI_Fint flag, int source, int tag, MPI_Comm comm,
                         const MPI_Status *status)
{
    if (flag) {
        plb_note_receive(PLB_OP_PROBE, source, tag, comm, status);
    } else {
        plb_polled();
    }
}

#define BEFORE
WITH_STATUS(recv, (void *buf, F count, F type, F peer, F tag, F comm),
            (buf, count, type, peer, tag, comm),
            plb_note_receive(PLB_OP_RECV, *peer, *tag, COMM, its))
WITH_STATUS(probe, (F peer, F tag, F comm), (peer, tag, comm),
            plb_note_receive(PLB_OP_PROBE, *peer, *tag, COMM, its))
WITH_STATUS(iprobe, (F peer, F tag, F comm, F flag), (peer, tag, comm, flag),
            maybe_probed(*flag, *peer, *tag, COMM, its))
WITH_STATUS(sendrecv,
            (void *sendbuf, F count, F type, F dest, F sendtag, void *recvbuf, F recvcount,
             F recvtype, F source, F recvtag, F comm),
            (sendbuf, count, type, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
             comm),
            plb_note_exchange(BYTES(count, type), *dest, *sendtag, *source, *recvtag, COMM, its))
WITH_STATUS(sendrecv_replace,
            (void *buf, F count, F type, F dest, F sendtag, F source, F recvtag, F comm),
            (buf, count, type, dest, sendtag, source, recvtag, comm),
            plb_note_exchange(BYTES(count, type), *dest, *sendtag, *source, *recvtag, COMM, its))

static void probed(MPI_Fint flag, MPI_Fint message, int source, int tag, MPI_Comm comm,
                   const MPI_Status *status)
{
    const MPI_Message its = flag ? MPI_Message_f2c(message) : MPI_MESSAGE_NULL;
    plb_note_mprobe(flag, its, source, tag, comm, status);
}
WITH_STATUS(mprobe, (F peer, F tag, F comm, F message), (peer, tag, comm, message),
            probed(1, *message, *peer, *tag, COMM, its))
WITH_STATUS(improbe, (F peer, F tag, F comm, F flag, F message), (peer, tag, comm, flag, message),
            probed(*flag, *message, *peer, *tag, COMM, its))

/* The handle is another one afterwards. */
static uint64_t message_of(MPI_Fint message)
{
    const MPI_Message it = MPI_Message_f2c(message);
    return PLB_HANDLE(it);
}
#define TAKES_NAMED(symbol, last, noted_so)                                                       \
    NAMED(symbol, (void *buf, F count, F type, F message, F last, F ierr),                        \
          const uint64_t was = message_of(*message);                                              \
          AROUND(pmpi_##symbol(buf, count, type, message, last, ierr), noted_so))
#define TAKES(name, last, noted_so)                                                               \
    TAKES_NAMED(name##_, last, noted_so)                                                          \
    TAKES_NAMED(name##_f08_, last, noted_so)
TAKES(mrecv, status, plb_note_taken(was))
TAKES(imrecv, request, plb_made_taken(was, MPI_Request_f2c(*request)))

/* --- requests --- */

static uint64_t handle_of(MPI_Fint request)
{
    const MPI_Request it = MPI_Request_f2c(request);
    return PLB_HANDLE(it);
}

static void maybe_done(MPI_Fint flag, uint64_t was, const MPI_Status *status)
{
    if (flag) {
        plb_request_done(was, status);
    } else {
        plb_polled();
    }
}

#undef BEFORE
#define BEFORE const uint64_t was = handle_of(*request)
WITH_STATUS(wait, (F request), (request), plb_request_done(was, its))
WITH_STATUS(test, (F request, F flag), (request, flag), maybe_done(*flag, was, its))

static void started(const MPI_Fint *request, int n)
{
    for (int i = 0; i < n; i++) {
        plb_request_started(MPI_Request_f2c(request[i]));
    }
}
FORTRAN(start, (F request, F ierr), (request, ierr), started(request, 1))
FORTRAN(startall, (F n, F requests, F ierr), (n, requests, ierr), started(requests, *n))

#define FREES_NAMED(symbol, type, freed)                                                          \
    NAMED(symbol, (F handle, F ierr), const MPI_##type was = MPI_##type##_f2c(*handle);           \
          AROUND(pmpi_##symbol(handle, ierr), freed(was)))
#define FREES(name, type, freed)                                                                  \
    FREES_NAMED(name##_, type, freed)                                                             \
    FREES_NAMED(name##_f08_, type, freed)
FREES(request_free, Request, plb_request_freed)
FORTRAN(cancel, (F request, F ierr), (request, ierr),
        plb_request_cancelled(MPI_Request_f2c(*request)))

/* Handles before a call on many requests, and statuses of its own where they are ignored. */
typedef struct many {
    uint64_t *was;
    MPI_Fint *own, *status;
} many_t;

static many_t remember(int n, const MPI_Fint *requests, MPI_Fint *statuses)
{
    many_t out = {.was = malloc(((size_t)n + 1) * sizeof *out.was), .status = statuses};
    if (statuses == MPI_F_STATUSES_IGNORE || statuses == MPI_F_STATUS_IGNORE) {
        out.own = out.status = malloc(((size_t)n + 1) * STATUS_SIZE * sizeof *out.own);
    }
    if (out.was == NULL || out.status == NULL) {
        abort();
    }
    for (int i = 0; i < n; i++) {
        out.was[i] = handle_of(requests[i]);
    }
    return out;
}

static void one_done(const many_t *self, int request, int status)
{
    MPI_Status c_status;
    plb_request_done(self->was[request], in_c(self->status + STATUS_SIZE * status, &c_status));
}

static void all_done(const many_t *self, MPI_Fint flag, int n)
{
    for (int i = 0; flag && i < n; i++) {
        one_done(self, i, i);
    }
    if (!flag) {
        plb_polled();
    }
}

static void some_done(const many_t *self, int n, const MPI_Fint *indices)
{
    for (int i = 0; i < n; i++) {
        one_done(self, indices[i] - 1, i);
    }
    if (n <= 0) {
        plb_polled();
    }
}

static void any_done(const many_t *self, MPI_Fint flag, MPI_Fint index)
{
    if (flag && index > 0) {
        one_done(self, index - 1, 0);
    } else {
        plb_polled();
    }
}

#define MANY_NAMED(symbol, params, args, ...)                                                     \
    NAMED(symbol, (F n, F requests, LIST params F status, F ierr),                                \
          const many_t before = remember(*n, requests, status);                                   \
          AROUND(pmpi_##symbol(n, requests, LIST args before.status, ierr), __VA_ARGS__);         \
          free(before.was); free(before.own))
#define MANY(name, params, args, ...)                                                             \
    MANY_NAMED(name##_, params, args, __VA_ARGS__)                                                \
    MANY_NAMED(name##_f08_, params, args, __VA_ARGS__)
MANY(waitall, (), (), all_done(&before, 1, *n))
MANY(testall, (F flag, ), (flag, ), all_done(&before, *flag, *n))
MANY(waitany, (F index, ), (index, ), any_done(&before, 1, *index))
MANY(testany, (F index, F flag, ), (index, flag, ), any_done(&before, *flag, *index))
MANY(waitsome, (F done, F indices, ), (done, indices, ), some_done(&before, *done, indices))
MANY(testsome, (F done, F indices, ), (done, indices, ), some_done(&before, *done, indices))

/* --- collectives --- */

#define COLLECTIVE(name, params, args, what, root, bytes)                                         \
    FORTRAN(name, (LIST params, F comm, F ierr), (LIST args, comm, ierr),                         \
            plb_note_collective(what, root, bytes, COMM))                                         \
    FORTRAN(i##name, (LIST params, F comm, F request, F ierr), (LIST args, comm, request, ierr),  \
            plb_made_collective(MPI_Request_f2c(*request), what, root, bytes, COMM))
#define SEND void *sendbuf, F count, F type
#define SEND_ARGS sendbuf, count, type
#define RECV void *recvbuf, F recvcount, F recvtype
#define RECV_ARGS recvbuf, recvcount, recvtype
#define REDUCED void *sendbuf, void *recvbuf, F count, F type, F op
#define REDUCED_ARGS sendbuf, recvbuf, count, type, op

#define MEAN(counts, type) plb_mean(PLB_COUNTS(counts), MPI_Type_f2c(*(type)), COMM)

FORTRAN(barrier, (F comm, F ierr), (comm, ierr), plb_note_collective(PLB_BARRIER, 0, 0, COMM))
FORTRAN(ibarrier, (F comm, F request, F ierr), (comm, request, ierr),
        plb_made_collective(MPI_Request_f2c(*request), PLB_BARRIER, 0, 0, COMM))
COLLECTIVE(bcast, (SEND, F root), (SEND_ARGS, root), PLB_BCAST, *root, BYTES(count, type))
COLLECTIVE(gather, (SEND, RECV, F root), (SEND_ARGS, RECV_ARGS, root), PLB_GATHER, *root,
           BYTES(count, type))
COLLECTIVE(gatherv, (SEND, void *recvbuf, F counts, F displs, F recvtype, F root),
           (SEND_ARGS, recvbuf, counts, displs, recvtype, root), PLB_GATHER, *root,
           BYTES(count, type))
COLLECTIVE(scatter, (SEND, RECV, F root), (SEND_ARGS, RECV_ARGS, root), PLB_SCATTER, *root,
           BYTES(recvcount, recvtype))
COLLECTIVE(scatterv, (void *sendbuf, F counts, F displs, F type, RECV, F root),
           (sendbuf, counts, displs, type, RECV_ARGS, root), PLB_SCATTER, *root,
           BYTES(recvcount, recvtype))
COLLECTIVE(allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLGATHER, 0,
           BYTES(recvcount, recvtype))
COLLECTIVE(allgatherv, (SEND, void *recvbuf, F counts, F displs, F recvtype),
           (SEND_ARGS, recvbuf, counts, displs, recvtype), PLB_ALLGATHER, 0,
           MEAN(counts, recvtype))
COLLECTIVE(alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLTOALL, 0,
           BYTES(recvcount, recvtype))
COLLECTIVE(alltoallv,
           (void *sendbuf, F counts, F displs, F type, void *recvbuf, F recvcounts, F rdispls,
            F recvtype),
           (sendbuf, counts, displs, type, recvbuf, recvcounts, rdispls, recvtype), PLB_ALLTOALL,
           0, MEAN(recvcounts, recvtype))
COLLECTIVE(reduce, (REDUCED, F root), (REDUCED_ARGS, root), PLB_REDUCE, *root, BYTES(count, type))
COLLECTIVE(allreduce, (REDUCED), (REDUCED_ARGS), PLB_ALLREDUCE, 0, BYTES(count, type))
COLLECTIVE(scan, (REDUCED), (REDUCED_ARGS), PLB_SCAN, 0, BYTES(count, type))
COLLECTIVE(exscan, (REDUCED), (REDUCED_ARGS), PLB_EXSCAN, 0, BYTES(count, type))
COLLECTIVE(reduce_scatter, (void *sendbuf, void *recvbuf, F counts, F type, F op),
           (sendbuf, recvbuf, counts, type, op), PLB_REDUCE_SCATTER, 0,
           plb_bytes(plb_sum(PLB_COUNTS(counts), COMM), MPI_Type_f2c(*type)))
COLLECTIVE(reduce_scatter_block, (REDUCED), (REDUCED_ARGS), PLB_REDUCE_SCATTER, 0,
           BYTES(count, type) * plb_members(COMM))

#define NEIGHBOUR(name, params, args)                                                             \
    FORTRAN(neighbor_##name, (LIST params, F comm, F ierr), (LIST args, comm, ierr),              \
            plb_note_neighbours(COMM, BYTES(count, type)))                                        \
    FORTRAN(ineighbor_##name, (LIST params, F comm, F request, F ierr),                           \
            (LIST args, comm, request, ierr), plb_lacks("MPI_Ineighbor_" #name))
NEIGHBOUR(allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS))
NEIGHBOUR(allgatherv, (SEND, void *recvbuf, F counts, F displs, F recvtype),
          (SEND_ARGS, recvbuf, counts, displs, recvtype))
NEIGHBOUR(alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS))
NEIGHBOUR(alltoallv,
          (void *sendbuf, F count, F displs, F type, void *recvbuf, F recvcounts, F rdispls,
           F recvtype),
          (sendbuf, count, displs, type, recvbuf, recvcounts, rdispls, recvtype))
NEIGHBOUR(alltoallw,
          (void *sendbuf, F count, MPI_Aint *displs, F type, void *recvbuf, F recvcounts,
           MPI_Aint *rdispls, F recvtypes),
          (sendbuf, count, displs, type, recvbuf, recvcounts, rdispls, recvtypes))

/* --- communicators --- */

#define MADE plb_note_made(COMM, MPI_Comm_f2c(*fresh))
FORTRAN(comm_dup, (F comm, F fresh, F ierr), (comm, fresh, ierr), MADE)
FORTRAN(comm_split, (F comm, F color, F key, F fresh, F ierr), (comm, color, key, fresh, ierr),
        MADE)
FORTRAN(comm_create, (F comm, F group, F fresh, F ierr), (comm, group, fresh, ierr), MADE)
FORTRAN(cart_create, (F comm, F ndims, F dims, F periods, F reorder, F fresh, F ierr),
        (comm, ndims, dims, periods, reorder, fresh, ierr), MADE)
FORTRAN(cart_sub, (F comm, F remain, F fresh, F ierr), (comm, remain, fresh, ierr), MADE)

FORTRAN(comm_dup_with_info, (F comm, F info, F fresh, F ierr), (comm, info, fresh, ierr), MADE)
FORTRAN(comm_split_type, (F comm, F type, F key, F info, F fresh, F ierr),
        (comm, type, key, info, fresh, ierr), MADE)
FORTRAN(comm_create_group, (F comm, F group, F tag, F fresh, F ierr),
        (comm, group, tag, fresh, ierr), plb_made_among(COMM, MPI_Comm_f2c(*fresh)))
FORTRAN(graph_create, (F comm, F nodes, F index, F edges, F reorder, F fresh, F ierr),
        (comm, nodes, index, edges, reorder, fresh, ierr), MADE)
FORTRAN(dist_graph_create,
        (F comm, F n, F sources, F degrees, F destinations, F weights, F info, F reorder, F fresh,
         F ierr),
        (comm, n, sources, degrees, destinations, weights, info, reorder, fresh, ierr), MADE)
FORTRAN(dist_graph_create_adjacent,
        (F comm, F indegree, F sources, F sourceweights, F outdegree, F destinations,
         F destweights, F info, F reorder, F fresh, F ierr),
        (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info,
         reorder, fresh, ierr),
        MADE)
FORTRAN(intercomm_create, (F comm, F leader, F peer, F remote, F tag, F fresh, F ierr),
        (comm, leader, peer, remote, tag, fresh, ierr), MADE)
FORTRAN(intercomm_merge, (F comm, F high, F fresh, F ierr), (comm, high, fresh, ierr),
        plb_made_among(COMM, MPI_Comm_f2c(*fresh)))
FREES(comm_free, Comm, plb_group_gone)
FREES(comm_disconnect, Comm, plb_group_gone)

/* --- one-sided --- */

typedef MPI_Aint *A;

#define WIN MPI_Win_f2c(*win)
#define WINDOW plb_window_made(COMM, WIN)
FORTRAN(win_create, (void *base, A size, F unit, F info, F comm, F win, F ierr),
        (base, size, unit, info, comm, win, ierr), WINDOW)
FORTRAN(win_allocate, (A size, F unit, F info, F comm, void *base, F win, F ierr),
        (size, unit, info, comm, base, win, ierr), WINDOW)
FORTRAN(win_allocate_shared, (A size, F unit, F info, F comm, void *base, F win, F ierr),
        (size, unit, info, comm, base, win, ierr), WINDOW)
FORTRAN(win_create_dynamic, (F info, F comm, F win, F ierr), (info, comm, win, ierr), WINDOW)

static void window_gone(MPI_Win win)
{
    plb_window_gone(PLB_HANDLE(win));
}
FREES(win_free, Win, window_gone)

#define ORIGIN void *origin, F count, F type
#define TARGET F target, A displacement, F target_count, F target_type
#define TARGET_ARGS target, displacement, target_count, target_type
#define ACCESS(name, params, args)                                                                \
    FORTRAN(name, (LIST params, F win, F ierr), (LIST args, win, ierr),                           \
            plb_accessed(WIN, *target, BYTES(count, type)))                                       \
    FORTRAN(r##name, (LIST params, F win, F request, F ierr), (LIST args, win, request, ierr),    \
            plb_accessed(WIN, *target, BYTES(count, type)))
ACCESS(put, (ORIGIN, TARGET), (origin, count, type, TARGET_ARGS))
ACCESS(get, (ORIGIN, TARGET), (origin, count, type, TARGET_ARGS))
ACCESS(accumulate, (ORIGIN, TARGET, F op), (origin, count, type, TARGET_ARGS, op))
ACCESS(get_accumulate, (ORIGIN, void *result, F result_count, F result_type, TARGET, F op),
       (origin, count, type, result, result_count, result_type, TARGET_ARGS, op))
FORTRAN(fetch_and_op,
        (void *origin, void *result, F type, F target, A displacement, F op, F win, F ierr),
        (origin, result, type, target, displacement, op, win, ierr),
        plb_accessed(WIN, *target, plb_bytes(1, MPI_Type_f2c(*type))))

FORTRAN(win_fence, (F assertion, F win, F ierr), (assertion, win, ierr), plb_fenced(WIN))
#define FLUSHES(name)                                                                             \
    FORTRAN(name, (F target, F win, F ierr), (target, win, ierr), plb_flushed(WIN, *target))      \
    FORTRAN(name##_all, (F win, F ierr), (win, ierr), plb_flushed(WIN, -1))
FLUSHES(win_flush)
FLUSHES(win_flush_local)
FORTRAN(win_lock, (F type, F target, F assertion, F win, F ierr),
        (type, target, assertion, win, ierr),
        plb_note_lock(WIN, PLB_OP_LOCK, *target, *type == MPI_LOCK_SHARED))
FORTRAN(win_unlock, (F target, F win, F ierr), (target, win, ierr),
        plb_note_lock(WIN, PLB_OP_UNLOCK, *target, false))
FORTRAN(win_unlock_all, (F win, F ierr), (win, ierr), plb_flushed(WIN, -1))
FORTRAN(win_post, (F group, F assertion, F win, F ierr), (group, assertion, win, ierr),
        plb_epoch_begins(WIN, MPI_Group_f2c(*group), true))
FORTRAN(win_start, (F group, F assertion, F win, F ierr), (group, assertion, win, ierr),
        plb_epoch_begins(WIN, MPI_Group_f2c(*group), false))
FORTRAN(win_complete, (F win, F ierr), (win, ierr), plb_epoch_ends(WIN, false))
FORTRAN(win_wait, (F win, F ierr), (win, ierr), plb_epoch_ends(WIN, true))
