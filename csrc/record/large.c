/* MPI 4's functions for large counts, as mpi4py calls them where they exist: passed on and counted
 * by name, not simulated. */
#include "record.h"

#if MPI_VERSION >= 4

#define LACKS(name, params, args)                                                                 \
    PLB_EXPORT int MPI_##name params                                                              \
    {                                                                                             \
        PLB_WRAP(PMPI_##name args, plb_lacks("MPI_" #name));                                      \
    }
#define MESSAGE                                                                                   \
    const void *buf, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define INTO void *buf, MPI_Count count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define MESSAGE_ARGS buf, count, type, peer, tag, comm
#define SENT const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype
#define SENT_ARGS sendbuf, sendcount, sendtype
#define GOT void *recvbuf, MPI_Count recvcount, MPI_Datatype recvtype
#define GOT_ARGS recvbuf, recvcount, recvtype
#define REDUCED const void *sendbuf, void *recvbuf, MPI_Count count, MPI_Datatype type, MPI_Op op

LACKS(Send_c, (MESSAGE), (MESSAGE_ARGS))
LACKS(Ssend_c, (MESSAGE), (MESSAGE_ARGS))
LACKS(Isend_c, (MESSAGE, MPI_Request *request), (MESSAGE_ARGS, request))
LACKS(Issend_c, (MESSAGE, MPI_Request *request), (MESSAGE_ARGS, request))
LACKS(Recv_c, (INTO, MPI_Status *status), (MESSAGE_ARGS, status))
LACKS(Irecv_c, (INTO, MPI_Request *request), (MESSAGE_ARGS, request))
LACKS(Mrecv_c,
      (void *buf, MPI_Count count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
      (buf, count, type, message, status))
LACKS(Sendrecv_c,
      (SENT, int dest, int sendtag, GOT, int source, int recvtag, MPI_Comm comm,
       MPI_Status *status),
      (SENT_ARGS, dest, sendtag, GOT_ARGS, source, recvtag, comm, status))
LACKS(Bcast_c, (void *buf, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm),
      (buf, count, type, root, comm))
LACKS(Gather_c, (SENT, GOT, int root, MPI_Comm comm), (SENT_ARGS, GOT_ARGS, root, comm))
LACKS(Scatter_c, (SENT, GOT, int root, MPI_Comm comm), (SENT_ARGS, GOT_ARGS, root, comm))
LACKS(Allgather_c, (SENT, GOT, MPI_Comm comm), (SENT_ARGS, GOT_ARGS, comm))
LACKS(Alltoall_c, (SENT, GOT, MPI_Comm comm), (SENT_ARGS, GOT_ARGS, comm))
LACKS(Reduce_c, (REDUCED, int root, MPI_Comm comm),
      (sendbuf, recvbuf, count, type, op, root, comm))
LACKS(Allreduce_c, (REDUCED, MPI_Comm comm), (sendbuf, recvbuf, count, type, op, comm))

#endif
