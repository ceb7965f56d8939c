/* Collectives whose items are counted, each with its nonblocking cousin (each_count.h). */

/* name, its nonblocking cousin, parameters and arguments but for the communicator and the request,
 * collective, root, bytes. */
#define BOTH(name, iname, params, args, what, root, bytes)                                        \
    PLB_EXPORT int CALL(MPI_##name)(LIST params, MPI_Comm comm)                                   \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##name)(LIST args, comm),                                              \
                 plb_note_collective(what, root, bytes, comm));                                   \
    }                                                                                             \
    PLB_EXPORT int CALL(MPI_##iname)(LIST params, MPI_Comm comm, MPI_Request * request)           \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##iname)(LIST args, comm, request),                                    \
                 plb_made_collective(*request, what, root, bytes, comm));                         \
    }
#define LIST(...) __VA_ARGS__

#define SEND const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype
#define SENDV                                                                                     \
    const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT sdispls[],                  \
        MPI_Datatype sendtype
#define RECV void *recvbuf, COUNT recvcount, MPI_Datatype recvtype
#define RECVV                                                                                     \
    void *recvbuf, const COUNT recvcounts[], const DISPLACEMENT rdispls[], MPI_Datatype recvtype
#define SEND_ARGS sendbuf, sendcount, sendtype
#define SENDV_ARGS sendbuf, sendcounts, sdispls, sendtype
#define RECV_ARGS recvbuf, recvcount, recvtype
#define RECVV_ARGS recvbuf, recvcounts, rdispls, recvtype
#define REDUCED const void *sendbuf, void *recvbuf, COUNT count, MPI_Datatype type, MPI_Op op
#define REDUCED_ARGS sendbuf, recvbuf, count, type, op
#define SENT sent(sendbuf, sendcount, sendtype, recvcount, recvtype)

BOTH(Bcast, Ibcast, (void *buffer, COUNT count, MPI_Datatype type, int root),
     (buffer, count, type, root), PLB_BCAST, root, plb_bytes(count, type))
BOTH(Gather, Igather, (SEND, RECV, int root), (SEND_ARGS, RECV_ARGS, root), PLB_GATHER, root, SENT)
BOTH(Gatherv, Igatherv, (SEND, RECVV, int root), (SEND_ARGS, RECVV_ARGS, root), PLB_GATHER, root,
     is_root(root, comm) ? own(PLB_COUNTS(recvcounts), recvtype, comm)
                         : plb_bytes(sendcount, sendtype))
BOTH(Scatter, Iscatter, (SEND, RECV, int root), (SEND_ARGS, RECV_ARGS, root), PLB_SCATTER, root,
     scattered(recvbuf, sendcount, sendtype, recvcount, recvtype, root, comm))
BOTH(Scatterv, Iscatterv, (SENDV, RECV, int root), (SENDV_ARGS, RECV_ARGS, root), PLB_SCATTER,
     root,
     is_root(root, comm) ? plb_mean(PLB_COUNTS(sendcounts), sendtype, comm)
                         : plb_bytes(recvcount, recvtype))
BOTH(Allgather, Iallgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLGATHER, 0, SENT)
BOTH(Allgatherv, Iallgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), PLB_ALLGATHER, 0,
     plb_mean(PLB_COUNTS(recvcounts), recvtype, comm))
BOTH(Alltoall, Ialltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), PLB_ALLTOALL, 0, SENT)
BOTH(Alltoallv, Ialltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS), PLB_ALLTOALL, 0,
     sendbuf == MPI_IN_PLACE ? plb_mean(PLB_COUNTS(recvcounts), recvtype, comm)
                             : plb_mean(PLB_COUNTS(sendcounts), sendtype, comm))
BOTH(Alltoallw, Ialltoallw,
     (const void *sendbuf, const COUNT sendcounts[], const DISPLACEMENT sdispls[],
      const MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[],
      const DISPLACEMENT rdispls[], const MPI_Datatype recvtypes[]),
     (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
     PLB_ALLTOALL, 0, plb_mean(PLB_COUNTS(recvcounts), recvtypes[0], comm))
BOTH(Reduce, Ireduce, (REDUCED, int root), (REDUCED_ARGS, root), PLB_REDUCE, root,
     plb_bytes(count, type))
BOTH(Allreduce, Iallreduce, (REDUCED), (REDUCED_ARGS), PLB_ALLREDUCE, 0, plb_bytes(count, type))
BOTH(Scan, Iscan, (REDUCED), (REDUCED_ARGS), PLB_SCAN, 0, plb_bytes(count, type))
BOTH(Exscan, Iexscan, (REDUCED), (REDUCED_ARGS), PLB_EXSCAN, 0, plb_bytes(count, type))
BOTH(Reduce_scatter, Ireduce_scatter,
     (const void *sendbuf, void *recvbuf, const COUNT recvcounts[], MPI_Datatype type, MPI_Op op),
     (sendbuf, recvbuf, recvcounts, type, op), PLB_REDUCE_SCATTER, 0,
     plb_bytes(plb_sum(PLB_COUNTS(recvcounts), comm), type))
BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     (const void *sendbuf, void *recvbuf, COUNT recvcount, MPI_Datatype type, MPI_Op op),
     (sendbuf, recvbuf, recvcount, type, op), PLB_REDUCE_SCATTER, 0,
     plb_bytes((int64_t)recvcount *plb_members(comm), type))

#define NEIGHBOUR(name, params, args, bytes)                                                      \
    PLB_EXPORT int CALL(MPI_Neighbor_##name)(LIST params, MPI_Comm comm)                          \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_Neighbor_##name)(LIST args, comm), plb_note_neighbours(comm, bytes));  \
    }                                                                                             \
    PLB_EXPORT int CALL(MPI_Ineighbor_##name)(LIST params, MPI_Comm comm, MPI_Request * request)  \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_Ineighbor_##name)(LIST args, comm, request),                           \
                 plb_lacks("MPI_Ineighbor_" #name));                                              \
    }

NEIGHBOUR(allgather, (SEND, RECV), (SEND_ARGS, RECV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(allgatherv, (SEND, RECVV), (SEND_ARGS, RECVV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(alltoall, (SEND, RECV), (SEND_ARGS, RECV_ARGS), plb_bytes(sendcount, sendtype))
NEIGHBOUR(alltoallv, (SENDV, RECVV), (SENDV_ARGS, RECVV_ARGS),
          plb_bytes(sendcounts ? sendcounts[0] : 0, sendtype))
NEIGHBOUR(alltoallw,
          (const void *sendbuf, const COUNT sendcounts[], const MPI_Aint sdispls[],
           const MPI_Datatype sendtypes[], void *recvbuf, const COUNT recvcounts[],
           const MPI_Aint rdispls[], const MPI_Datatype recvtypes[]),
          (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes),
          sendcounts &&sendtypes ? plb_bytes(sendcounts[0], sendtypes[0]) : 0)
