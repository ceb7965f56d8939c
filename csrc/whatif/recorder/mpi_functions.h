/* MPI's functions without counts of items; mpi_counted.h explains the macros. */

CALL(Barrier, barrier, (Comm comm), (comm),
     plb_note_collective(NULL, PLB_BARRIER, 0, 0, HANDLE(Comm, comm)))
CALL(Ibarrier, ibarrier, (Comm comm, RequestOut request), (comm, request),
     plb_note_collective(REQUEST, PLB_BARRIER, 0, 0, HANDLE(Comm, comm)))

/* --- probes --- */

STATUS_CALL(Probe, probe, (Int source, Int tag, Comm comm), (source, tag, comm),
            plb_note_probe(true, V(source), V(tag), HANDLE(Comm, comm), STATUS))
POLL_CALL(*flag, Iprobe, iprobe, (Int source, Int tag, Comm comm, IntOut flag),
          (source, tag, comm, flag),
          plb_note_probe(*flag, V(source), V(tag), HANDLE(Comm, comm), STATUS))
STATUS_CALL(Mprobe, mprobe, (Int source, Int tag, Comm comm, MessageOut message),
            (source, tag, comm, message),
            plb_note_mprobe(true, MADE(Message, message), V(source), V(tag), HANDLE(Comm, comm),
                            STATUS))
POLL_CALL(*flag, Improbe, improbe,
          (Int source, Int tag, Comm comm, IntOut flag, MessageOut message),
          (source, tag, comm, flag, message),
          plb_note_mprobe(*flag, *flag ? MADE(Message, message) : MPI_MESSAGE_NULL, V(source),
                          V(tag), HANDLE(Comm, comm), STATUS))

/* --- requests --- */

CALL(Start, start, (RequestOut request), (request), plb_request_started(MADE(Request, request)))
CALL(
    Startall, startall, (Int n, RequestOut requests), (n, requests),
    for (int i = 0; i < V(n); i++) { plb_request_started(MADE(Request, &requests[i])); })
CALL(Cancel, cancel, (RequestOut request), (request),
     plb_request_cancelled(MADE(Request, request)))

#define WAS_REQUEST const uint64_t was = BITS(Request, request)
STATUS_CALL_AFTER(WAS_REQUEST, Wait, wait, (RequestOut request), (request),
                  plb_requests_all(true, 1, &was, STATUS))
POLL_CALL_AFTER(*flag, WAS_REQUEST, Test, test, (RequestOut request, IntOut flag), (request, flag),
                plb_requests_all(*flag, 1, &was, STATUS))

/* does not change the request */
POLL_CALL(
    *flag, Request_get_status, request_get_status, (Request request, IntOut flag), (request, flag),
    if (!*flag) { plb_polled(); })

/* MANY(polls, found, Name, name, parameters and arguments between the requests and the statuses,
 * number of statuses, code that logs the call).  was[n]: the handles before the call. */
MANY(false, true, Waitall, waitall, (), (), V(n), plb_requests_all(true, V(n), was, STATUS))
MANY(true, *flag, Testall, testall, (IntOut flag, ), (flag, ), V(n),
     plb_requests_all(*flag, V(n), was, STATUS))
MANY(false, true, Waitany, waitany, (IntOut index, ), (index, ), 1,
     plb_requests_some(*index >= BASE, index, BASE, was, STATUS))
MANY(true, *flag, Testany, testany, (IntOut index, IntOut flag, ), (index, flag, ), 1,
     plb_requests_some(*flag != 0 && *index >= BASE, index, BASE, was, STATUS))
MANY(false, true, Waitsome, waitsome, (IntOut done, IntOut indices, ), (done, indices, ), V(n),
     plb_requests_some(*done, indices, BASE, was, STATUS))
MANY(true, *done != 0, Testsome, testsome, (IntOut done, IntOut indices, ), (done, indices, ),
     V(n), plb_requests_some(*done, indices, BASE, was, STATUS))

/* --- freed objects: the handle is only valid before the call --- */

#define FREES(Name, name, Type, freed)                                                            \
    CALL_AFTER(const MPI_##Type was = MADE(Type, handle), Name, name, (Type##Out handle),         \
               (handle), freed(was))
FREES(Request_free, request_free, Request, plb_request_freed)
FREES(Comm_free, comm_free, Comm, plb_group_gone)
FREES(Comm_disconnect, comm_disconnect, Comm, plb_group_gone)

/* --- new communicators.  MAKES: the call is collective over the parent; MAKES_AMONG: over the
 * members of the new communicator --- */

#define MAKES(Name, name, params, args)                                                           \
    CALL(Name, name, params, args,                                                                \
         plb_note_made(PLB_BY_PARENT, HANDLE(Comm, comm), MADE(Comm, fresh)))
#define MAKES_AMONG(Name, name, params, args)                                                     \
    CALL(Name, name, params, args,                                                                \
         plb_note_made(PLB_BY_MEMBERS, HANDLE(Comm, comm), MADE(Comm, fresh)))
MAKES(Comm_dup, comm_dup, (Comm comm, CommOut fresh), (comm, fresh))
CALL(Comm_idup, comm_idup, (Comm comm, CommOut fresh, RequestOut request), (comm, fresh, request),
     plb_note_collective(REQUEST, PLB_ALLREDUCE, 0, 8, HANDLE(Comm, comm));
     plb_made_copy(HANDLE(Comm, comm), MADE(Comm, fresh)))
MAKES(Comm_dup_with_info, comm_dup_with_info, (Comm comm, Info info, CommOut fresh),
      (comm, info, fresh))
MAKES(Comm_split, comm_split, (Comm comm, Int color, Int key, CommOut fresh),
      (comm, color, key, fresh))
MAKES(Comm_split_type, comm_split_type, (Comm comm, Int type, Int key, Info info, CommOut fresh),
      (comm, type, key, info, fresh))
MAKES(Comm_create, comm_create, (Comm comm, Group group, CommOut fresh), (comm, group, fresh))
MAKES_AMONG(Comm_create_group, comm_create_group, (Comm comm, Group group, Int tag, CommOut fresh),
            (comm, group, tag, fresh))
MAKES(Cart_create, cart_create,
      (Comm comm, Int ndims, Ints dims, Ints periods, Int reorder, CommOut fresh),
      (comm, ndims, dims, periods, reorder, fresh))
MAKES(Cart_sub, cart_sub, (Comm comm, Ints remain, CommOut fresh), (comm, remain, fresh))
MAKES(Graph_create, graph_create,
      (Comm comm, Int nodes, Ints index, Ints edges, Int reorder, CommOut fresh),
      (comm, nodes, index, edges, reorder, fresh))
MAKES(Dist_graph_create, dist_graph_create,
      (Comm comm, Int n, Ints sources, Ints degrees, Ints destinations, Ints weights, Info info,
       Int reorder, CommOut fresh),
      (comm, n, sources, degrees, destinations, weights, info, reorder, fresh))
MAKES(Dist_graph_create_adjacent, dist_graph_create_adjacent,
      (Comm comm, Int indegree, Ints sources, Ints sourceweights, Int outdegree, Ints destinations,
       Ints destweights, Info info, Int reorder, CommOut fresh),
      (comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info, reorder,
       fresh))
CALL(Intercomm_create, intercomm_create,
     (Comm comm, Int leader, Comm peer, Int remote, Int tag, CommOut fresh),
     (comm, leader, peer, remote, tag, fresh),
     plb_note_made(PLB_BY_TWO_GROUPS, HANDLE(Comm, comm), MADE(Comm, fresh)))
MAKES_AMONG(Intercomm_merge, intercomm_merge, (Comm comm, Int high, CommOut fresh),
            (comm, high, fresh))

/* --- one-sided --- */

ONE_SIDED(Win_create_dynamic, win_create_dynamic, (Info info, Comm comm, WinOut win),
          (info, comm, win))
ONE_SIDED(Fetch_and_op, fetch_and_op,
          (In origin, Out result, Type type, Int target, Aint displacement, Op op, Win win),
          (origin, result, type, target, displacement, op, win))
ONE_SIDED(Compare_and_swap, compare_and_swap,
          (In origin, In compare, Out result, Type type, Int target, Aint displacement, Win win),
          (origin, compare, result, type, target, displacement, win))

WAITS(Win_fence, win_fence, (Int assertion, Win win), (assertion, win))
WAITS(Win_start, win_start, (Group group, Int assertion, Win win), (group, assertion, win))
WAITS(Win_complete, win_complete, (Win win), (win))
WAITS(Win_post, win_post, (Group group, Int assertion, Win win), (group, assertion, win))
WAITS(Win_wait, win_wait, (Win win), (win))
WAITS(Win_lock, win_lock, (Int type, Int rank, Int assertion, Win win),
      (type, rank, assertion, win))
WAITS(Win_unlock, win_unlock, (Int rank, Win win), (rank, win))
WAITS(Win_lock_all, win_lock_all, (Int assertion, Win win), (assertion, win))
WAITS(Win_unlock_all, win_unlock_all, (Win win), (win))
WAITS(Win_flush, win_flush, (Int rank, Win win), (rank, win))
WAITS(Win_flush_all, win_flush_all, (Win win), (win))
WAITS(Win_flush_local, win_flush_local, (Int rank, Win win), (rank, win))
WAITS(Win_flush_local_all, win_flush_local_all, (Win win), (win))
WAITS(Win_free, win_free, (WinOut win), (win))
