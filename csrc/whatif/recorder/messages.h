/* Logs point-to-point messages. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

static inline int64_t plb_bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS ||
        size < 0) {
        return 0;
    }
    return count * size;
}

/** Whether a call that returned `code` did something that is to be logged.  A call with bad
 * arguments did nothing, and its results are undefined; a message that was too long was received.
 */
static inline bool plb_took_effect(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        PMPI_Error_class(code, &class);
    }
    return class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_IN_STATUS;
}

/** Log a blocking send.  flags: PLB_OP_BUFFERED, PLB_OP_SYNCHRONOUS or 0.  plb_made_send: log a
 * nonblocking or persistent send, with its request. */
void plb_note_send(int flags, int64_t bytes, int dest, int tag, MPI_Comm comm);
void plb_made_send(MPI_Request request, bool persistent, int flags, int64_t bytes, int dest,
                   int tag, MPI_Comm comm);

/** Log a blocking receive, or a probe that has found a message.  kind: PLB_OP_RECV or
 * PLB_OP_PROBE.  plb_made_receive: log a nonblocking or persistent receive, with its request. */
void plb_note_receive(int kind, int source, int tag, MPI_Comm comm, const MPI_Status *status);
void plb_made_receive(MPI_Request request, bool persistent, int source, int tag, MPI_Comm comm);
/** Log MPI_Sendrecv: a send of `bytes` to `dest`, and a receive from `source`. */
void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status);

/** Log a probe.  flag: 1: the probe has found a message; 0: it was a poll that found none. */
void plb_note_probe(int flag, int source, int tag, MPI_Comm comm, const MPI_Status *status);

/** Like plb_note_probe, for a matched probe; remember the message that the probe has found. */
void plb_note_mprobe(int flag, MPI_Message message, int source, int tag, MPI_Comm comm,
                     const MPI_Status *status);

/** Log the blocking receive of a message that a matched probe has found.  plb_made_taken: log a
 * nonblocking receive, with its request. */
void plb_note_taken(uint64_t message);
void plb_made_taken(uint64_t message, MPI_Request request);
