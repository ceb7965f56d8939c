/* MPI's functions that take counts of items: an int or, in the functions that MPI 4 adds, an
 * MPI_Count.
 *
 * This file and mpi_functions.h are tables.  wrap_c.c and wrap_fortran.c include both; wrap_c.c
 * includes this one twice, for int and MPI_Count.  With PLB_CLOCK_ONLY they make libpylb_pmpi,
 * which logs nothing and ignores the code below.  These macros are defined below or in wrap_*.c:
 *   CALL(Name, name, parameters, arguments, code that logs the call)   Name, name: the function's
 *                       names in C and Fortran
 *   STATUS_CALL(...)    like CALL, for a function whose last parameter is a status, which the code
 *                       reads as STATUS, in the form of C
 *   CALL_AFTER(code, ...), STATUS_CALL_AFTER(code, ...)   the same, but `code` runs before the
 *                       call
 *   POLL_CALL(found, ...), POLL_CALL_AFTER(found, code, ...)   like STATUS_CALL, for a call that a
 *                       program repeats until it succeeds; found: whether it has
 *   WAITS(Name, name, parameters, arguments)   a call that is not logged: only the clock "mpi"
 *                       (internal.h) sees it, as it sees all the others
 *   UNSEEN(Name, name, parameters, arguments)   like WAITS; in a recording, waiting in the call
 *                       counts as computing
 *   In, Out, COUNT, UNIT, Int, ...   parameter types; UNIT: of displacements; ...Out: of results
 *   V(x), HANDLE(Type, x), MADE(Type, x)   values in C: a number, a handle, a new handle
 *   FIRST(Type, x)      the first handle of an array
 *   BITS(Type, x)       a handle as a number
 *   BASE                the first index in MPI's lists of indices: 0 in C, 1 in Fortran
 *   IN_PLACE(buffer)    whether the buffer may be MPI_IN_PLACE; in Fortran always true */

#define LIST(...) __VA_ARGS__
#define CALL(...) CALL_AFTER(, __VA_ARGS__)
#define STATUS_CALL(...) STATUS_CALL_AFTER(, __VA_ARGS__)
#define STATUS_CALL_AFTER(...) WITH_STATUS(false, true, __VA_ARGS__)
#define POLL_CALL(found, ...) POLL_CALL_AFTER(found, , __VA_ARGS__)
#define POLL_CALL_AFTER(found, ...) WITH_STATUS(true, found, __VA_ARGS__)
#define BYTES(count, type) plb_bytes(V(count), HANDLE(Type, type))

/* --- messages --- */

#define MESSAGE(buffer) buffer buf, COUNT count, Type type, Int peer, Int tag, Comm comm
#define MESSAGE_ARGS buf, count, type, peer, tag, comm
#define REQUEST (&(MPI_Request){MADE(Request, request)})
#define SEND_AS(request, persistent, flags)                                                       \
    plb_note_send(request, persistent, flags, BYTES(count, type), V(peer), V(tag),                \
                  HANDLE(Comm, comm))
#define SENDS(Send, Isend, Send_init, send, flags)                                                \
    CALL(Send, send, (MESSAGE(In)), (MESSAGE_ARGS), SEND_AS(NULL, false, flags))                  \
    CALL(Isend, i##send, (MESSAGE(In), RequestOut request), (MESSAGE_ARGS, request),              \
         SEND_AS(REQUEST, false, flags))                                                          \
    CALL(Send_init, send##_init, (MESSAGE(In), RequestOut request), (MESSAGE_ARGS, request),      \
         SEND_AS(REQUEST, true, flags))
SENDS(Send, Isend, Send_init, send, 0)
SENDS(Bsend, Ibsend, Bsend_init, bsend, PLB_OP_BUFFERED)
SENDS(Ssend, Issend, Ssend_init, ssend, PLB_OP_SYNCHRONOUS)
SENDS(Rsend, Irsend, Rsend_init, rsend, 0)

#define RECEIVE_AS(request, persistent, kind, status)                                             \
    plb_note_receive(request, persistent, kind, V(peer), V(tag), HANDLE(Comm, comm), status)
STATUS_CALL(Recv, recv, (MESSAGE(Out)), (MESSAGE_ARGS),
            RECEIVE_AS(NULL, false, PLB_OP_RECV, STATUS))
CALL(Irecv, irecv, (MESSAGE(Out), RequestOut request), (MESSAGE_ARGS, request),
     RECEIVE_AS(REQUEST, false, PLB_OP_IRECV, NULL))
CALL(Recv_init, recv_init, (MESSAGE(Out), RequestOut request), (MESSAGE_ARGS, request),
     RECEIVE_AS(REQUEST, true, PLB_OP_IRECV, NULL))

/* Keep the message's handle, because the call changes it. */
#define WAS_MESSAGE const uint64_t was = BITS(Message, message)
STATUS_CALL_AFTER(WAS_MESSAGE, Mrecv, mrecv, (Out buf, COUNT count, Type type, MessageOut message),
                  (buf, count, type, message), plb_note_taken(NULL, was))
CALL_AFTER(WAS_MESSAGE, Imrecv, imrecv,
           (Out buf, COUNT count, Type type, MessageOut message, RequestOut request),
           (buf, count, type, message, request), plb_note_taken(REQUEST, was))

#define EXCHANGED                                                                                 \
    plb_note_exchange(BYTES(count, type), V(dest), V(sendtag), V(source), V(recvtag),             \
                      HANDLE(Comm, comm), STATUS)
STATUS_CALL(Sendrecv, sendrecv,
            (In sendbuf, COUNT count, Type type, Int dest, Int sendtag, Out recvbuf,
             COUNT recvcount, Type recvtype, Int source, Int recvtag, Comm comm),
            (sendbuf, count, type, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
             comm),
            EXCHANGED)
STATUS_CALL(Sendrecv_replace, sendrecv_replace,
            (Out buf, COUNT count, Type type, Int dest, Int sendtag, Int source, Int recvtag,
             Comm comm),
            (buf, count, type, dest, sendtag, source, recvtag, comm), EXCHANGED)

/* --- collectives, each with its nonblocking version --- */

#define BOTH(Name, Iname, name, params, args, what, root, bytes)                                  \
    CALL(Name, name, (LIST params, Comm comm), (LIST args, comm),                                 \
         plb_note_collective(NULL, what, root, bytes, HANDLE(Comm, comm)))                        \
    CALL(Iname, i##name, (LIST params, Comm comm, RequestOut request),                            \
         (LIST args, comm, request),                                                              \
         plb_note_collective(REQUEST, what, root, bytes, HANDLE(Comm, comm)))

#define SEND In sendbuf, COUNT sendcount, Type sendtype
#define SENDV In sendbuf, COUNTS sendcounts, UNITS sdispls, Type sendtype
#define RECV Out recvbuf, COUNT recvcount, Type recvtype
#define RECVV Out recvbuf, COUNTS recvcounts, UNITS rdispls, Type recvtype
#define SEND_ARGS sendbuf, sendcount, sendtype
#define SENDV_ARGS sendbuf, sendcounts, sdispls, sendtype
#define RECV_ARGS recvbuf, recvcount, recvtype
#define RECVV_ARGS recvbuf, recvcounts, rdispls, recvtype
#define REDUCED In sendbuf, Out recvbuf, COUNT count, Type type, Op op
#define REDUCED_ARGS sendbuf, recvbuf, count, type, op

#define IS_ROOT plb_is_root(V(root), HANDLE(Comm, comm))
#define MEAN(counts, type) plb_mean(PLB_COUNTS(counts), HANDLE(Type, type), HANDLE(Comm, comm))
/* With MPI_IN_PLACE only the arguments for receiving are valid. */
#define SENT (IN_PLACE(sendbuf) ? BYTES(recvcount, recvtype) : BYTES(sendcount, sendtype))

BOTH(Bcast, Ibcast, bcast, (Out buffer, COUNT count, Type type, Int root),
     (buffer, count, type, root), PLB_BCAST, V(root), BYTES(count, type))
BOTH(Gather, Igather, gather, (SEND, RECV, Int root), (SEND_ARGS, RECV_ARGS, root), PLB_GATHER,
     V(root), IS_ROOT ? SENT : BYTES(sendcount, sendtype))
BOTH(Gatherv, Igatherv, gatherv, (SEND, RECVV, Int root), (SEND_ARGS, RECVV_ARGS, root),
     PLB_GATHER, V(root),
     IS_ROOT ? plb_own(PLB_COUNTS(recvcounts), HANDLE(Type, recvtype), HANDLE(Comm, comm))
             : BYTES(sendcount, sendtype))
BOTH(Scatter, Iscatter, scatter, (SEND, RECV, Int root), (SEND_ARGS, RECV_ARGS, root), PLB_SCATTER,
     V(root), IS_ROOT ? BYTES(sendcount, sendtype) : BYTES(recvcount, recvtype))
BOTH(Scatterv, Iscatterv, scatterv, (SENDV, RECV, Int root), (SENDV_ARGS, RECV_ARGS, root),
     PLB_SCATTER, V(root), IS_ROOT ? MEAN(sendcounts, sendtype) : BYTES(recvcount, recvtype))
BOTH(Allgather, Iallgather, allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLGATHER, 0,
     SENT)
BOTH(Allgatherv, Iallgatherv, allgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), PLB_ALLGATHER, 0,
     MEAN(recvcounts, recvtype))
BOTH(Alltoall, Ialltoall, alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLTOALL, 0, SENT)
BOTH(Alltoallv, Ialltoallv, alltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS), PLB_ALLTOALL, 0,
     IN_PLACE(sendbuf) ? MEAN(recvcounts, recvtype) : MEAN(sendcounts, sendtype))
BOTH(Alltoallw, Ialltoallw, alltoallw,
     (In sendbuf, COUNTS sendcounts, UNITS sdispls, Types sendtypes, Out recvbuf,
      COUNTS recvcounts, UNITS rdispls, Types recvtypes),
     (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
     PLB_ALLTOALL, 0, plb_mean(PLB_COUNTS(recvcounts), FIRST(Type, recvtypes), HANDLE(Comm, comm)))
BOTH(Reduce, Ireduce, reduce, (REDUCED, Int root), (REDUCED_ARGS, root), PLB_REDUCE, V(root),
     BYTES(count, type))
BOTH(Allreduce, Iallreduce, allreduce, (REDUCED), (REDUCED_ARGS), PLB_ALLREDUCE, 0,
     BYTES(count, type))
BOTH(Scan, Iscan, scan, (REDUCED), (REDUCED_ARGS), PLB_SCAN, 0, BYTES(count, type))
BOTH(Exscan, Iexscan, exscan, (REDUCED), (REDUCED_ARGS), PLB_EXSCAN, 0, BYTES(count, type))
BOTH(Reduce_scatter, Ireduce_scatter, reduce_scatter,
     (In sendbuf, Out recvbuf, COUNTS counts, Type type, Op op),
     (sendbuf, recvbuf, counts, type, op), PLB_REDUCE_SCATTER, 0,
     plb_bytes(plb_sum(PLB_COUNTS(counts), HANDLE(Comm, comm)), HANDLE(Type, type)))
BOTH(Reduce_scatter_block, Ireduce_scatter_block, reduce_scatter_block, (REDUCED), (REDUCED_ARGS),
     PLB_REDUCE_SCATTER, 0, BYTES(count, type) * plb_members(HANDLE(Comm, comm)))

#define NEIGHBOUR(name, params, args, bytes)                                                      \
    CALL(Neighbor_##name, neighbor_##name, (LIST params, Comm comm), (LIST args, comm),           \
         plb_note_neighbours(HANDLE(Comm, comm), bytes))                                          \
    CALL(Ineighbor_##name, ineighbor_##name, (LIST params, Comm comm, RequestOut request),        \
         (LIST args, comm, request), plb_lacks("MPI_Ineighbor_" #name))
NEIGHBOUR(allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), BYTES(sendcount, sendtype))
NEIGHBOUR(allgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), BYTES(sendcount, sendtype))
NEIGHBOUR(alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), BYTES(sendcount, sendtype))
NEIGHBOUR(alltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS),
          plb_sends(HANDLE(Comm, comm)) ? plb_bytes(*sendcounts, HANDLE(Type, sendtype)) : 0)
NEIGHBOUR(alltoallw,
          (In sendbuf, COUNTS sendcounts, Aints sdispls, Types sendtypes, Out recvbuf,
           COUNTS recvcounts, Aints rdispls, Types recvtypes),
          (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
          plb_sends(HANDLE(Comm, comm)) ? plb_bytes(*sendcounts, FIRST(Type, sendtypes)) : 0)

/* --- collective calls on files: the recorder cannot tell computing from waiting in them --- */

#define FILES(how, buffer)                                                                        \
    UNSEEN(File_##how##_all, file_##how##_all,                                                    \
           (File file, buffer buf, COUNT count, Type type, StatusOut status),                     \
           (file, buf, count, type, status))                                                      \
    UNSEEN(File_##how##_ordered, file_##how##_ordered,                                            \
           (File file, buffer buf, COUNT count, Type type, StatusOut status),                     \
           (file, buf, count, type, status))                                                      \
    UNSEEN(File_##how##_at_all, file_##how##_at_all,                                              \
           (File file, Offset offset, buffer buf, COUNT count, Type type, StatusOut status),      \
           (file, offset, buf, count, type, status))
FILES(read, Out)
FILES(write, In)

/* --- one-sided: not simulated, so that only the name is logged --- */

#define ONE_SIDED(Name, name, params, args)                                                       \
    CALL(Name, name, params, args,                                                                \
         plb_note((plb_op_t){.kind = PLB_OP_ONE_SIDED, .what = PLB_ONE_SIDED_##Name}))
ONE_SIDED(Win_create, win_create,
          (Out base, Aint size, UNIT unit, Info info, Comm comm, WinOut win),
          (base, size, unit, info, comm, win))
#define WINDOW Aint size, UNIT unit, Info info, Comm comm, Out base, WinOut win
ONE_SIDED(Win_allocate, win_allocate, (WINDOW), (size, unit, info, comm, base, win))
ONE_SIDED(Win_allocate_shared, win_allocate_shared, (WINDOW), (size, unit, info, comm, base, win))

#define TO_TARGET Int target, Aint displacement, COUNT target_count, Type target_type
#define TO_TARGET_ARGS target, displacement, target_count, target_type
#define ACCESS(Put, Rput, put, params, args)                                                      \
    ONE_SIDED(Put, put, (LIST params, Win win), (LIST args, win))                                 \
    ONE_SIDED(Rput, r##put, (LIST params, Win win, RequestOut request), (LIST args, win, request))
ACCESS(Put, Rput, put, (In origin, COUNT count, Type type, TO_TARGET),
       (origin, count, type, TO_TARGET_ARGS))
ACCESS(Get, Rget, get, (Out origin, COUNT count, Type type, TO_TARGET),
       (origin, count, type, TO_TARGET_ARGS))
ACCESS(Accumulate, Raccumulate, accumulate, (In origin, COUNT count, Type type, TO_TARGET, Op op),
       (origin, count, type, TO_TARGET_ARGS, op))
ACCESS(Get_accumulate, Rget_accumulate, get_accumulate,
       (In origin, COUNT count, Type type, Out result, COUNT result_count, Type result_type,
        TO_TARGET, Op op),
       (origin, count, type, result, result_count, result_type, TO_TARGET_ARGS, op))
