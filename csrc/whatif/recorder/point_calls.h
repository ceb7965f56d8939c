/* Messages whose items are counted, by COUNT; CALL(name) is the function of that kind. */

#define SENDS(X)                                                                                  \
    X(Send, Isend, Send_init, 0)                                                                  \
    X(Bsend, Ibsend, Bsend_init, PLB_OP_BUFFERED)                                                 \
    X(Ssend, Issend, Ssend_init, PLB_OP_SYNCHRONOUS)                                              \
    X(Rsend, Irsend, Rsend_init, 0)

#define SEND(blocking, nonblocking, init, flags)                                                  \
    PLB_EXPORT int CALL(MPI_##blocking)(const void *buf, COUNT count, MPI_Datatype type,          \
                                        int dest, int tag, MPI_Comm comm)                         \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##blocking)(buf, count, type, dest, tag, comm),                        \
                 plb_note_send(flags, plb_bytes(count, type), dest, tag, comm));                  \
    }                                                                                             \
    PLB_EXPORT int CALL(MPI_##nonblocking)(const void *buf, COUNT count, MPI_Datatype type,       \
                                           int dest, int tag, MPI_Comm comm,                      \
                                           MPI_Request *request)                                  \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##nonblocking)(buf, count, type, dest, tag, comm, request),            \
                 plb_made_send(*request, false, flags, plb_bytes(count, type), dest, tag, comm)); \
    }                                                                                             \
    PLB_EXPORT int CALL(MPI_##init)(const void *buf, COUNT count, MPI_Datatype type, int dest,    \
                                    int tag, MPI_Comm comm, MPI_Request *request)                 \
    {                                                                                             \
        PLB_WRAP(CALL(PMPI_##init)(buf, count, type, dest, tag, comm, request),                   \
                 plb_made_send(*request, true, flags, plb_bytes(count, type), dest, tag, comm));  \
    }
SENDS(SEND)

PLB_EXPORT int CALL(MPI_Recv)(void *buf, COUNT count, MPI_Datatype type, int source, int tag,
                              MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(CALL(PMPI_Recv)(buf, count, type, source, tag, comm, status),
             plb_note_receive(PLB_OP_RECV, source, tag, comm, status));
}

PLB_EXPORT int CALL(MPI_Irecv)(void *buf, COUNT count, MPI_Datatype type, int source, int tag,
                               MPI_Comm comm, MPI_Request *request)
{
    PLB_WRAP(CALL(PMPI_Irecv)(buf, count, type, source, tag, comm, request),
             plb_made_receive(*request, false, source, tag, comm));
}

PLB_EXPORT int CALL(MPI_Recv_init)(void *buf, COUNT count, MPI_Datatype type, int source, int tag,
                                   MPI_Comm comm, MPI_Request *request)
{
    PLB_WRAP(CALL(PMPI_Recv_init)(buf, count, type, source, tag, comm, request),
             plb_made_receive(*request, true, source, tag, comm));
}

PLB_EXPORT int CALL(MPI_Mrecv)(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,
                               MPI_Status *status)
{
    const uint64_t handle = PLB_HANDLE(*message);
    PLB_WRAP(CALL(PMPI_Mrecv)(buf, count, type, message, status), plb_note_taken(handle));
}

PLB_EXPORT int CALL(MPI_Imrecv)(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,
                                MPI_Request *request)
{
    const uint64_t handle = PLB_HANDLE(*message);
    PLB_WRAP(CALL(PMPI_Imrecv)(buf, count, type, message, request),
             plb_made_taken(handle, *request));
}

PLB_EXPORT int CALL(MPI_Sendrecv)(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype,
                                  int dest, int sendtag, void *recvbuf, COUNT recvcount,
                                  MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                                  MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(CALL(PMPI_Sendrecv)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                 recvtype, source, recvtag, comm, status),
             plb_note_exchange(plb_bytes(sendcount, sendtype), dest, sendtag, source, recvtag,
                               comm, status));
}

PLB_EXPORT int CALL(MPI_Sendrecv_replace)(void *buf, COUNT count, MPI_Datatype type, int dest,
                                          int sendtag, int source, int recvtag, MPI_Comm comm,
                                          MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(
        CALL(PMPI_Sendrecv_replace)(buf, count, type, dest, sendtag, source, recvtag, comm,
                                    status),
        plb_note_exchange(plb_bytes(count, type), dest, sendtag, source, recvtag, comm, status));
}
