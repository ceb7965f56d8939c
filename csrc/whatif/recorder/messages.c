#include "whatif/recorder/internal.h"

#include <stdlib.h>

/* Fill in a send.  Returns false if there is nothing to log, because the target is MPI_PROC_NULL
 * or not in MPI_COMM_WORLD. */
static bool send_of(plb_op_t *out, int kind, int flags, int64_t bytes, int dest, int tag,
                    MPI_Comm comm)
{
    const plb_group_t *group = plb_group(comm);
    const int32_t peer = group ? plb_world_rank(group, dest) : -1;
    *out = (plb_op_t){.kind = (uint8_t)kind,
                      .flags = (uint8_t)flags,
                      .bytes = bytes,
                      .peer = peer,
                      .tag = tag,
                      .comm = group ? group->number : 0};
    return peer >= 0;
}

/* Fill in a receive or probe; false: nothing to log.  status: NULL if not yet received. */
static bool receive_of(plb_op_t *out, int kind, int source, int tag, MPI_Comm comm,
                       const MPI_Status *status)
{
    const plb_group_t *group = plb_group(comm);
    const bool any = source == MPI_ANY_SOURCE, any_tag = tag == MPI_ANY_TAG;
    if (group == NULL || source == MPI_PROC_NULL) {
        return false;
    }
    const int from = any && status ? status->MPI_SOURCE : source;
    *out = (plb_op_t){
        .kind = (uint8_t)kind,
        .flags = (uint8_t)((any ? PLB_OP_ANY_SOURCE : 0) | (any_tag ? PLB_OP_ANY_TAG : 0)),
        .peer = any && !status ? -1 : plb_world_rank(group, from),
        .tag = any_tag ? (status ? status->MPI_TAG : 0) : tag,
        .comm = group->number};
    return out->peer >= 0 || any;
}

void plb_note_send(int flags, int64_t bytes, int dest, int tag, MPI_Comm comm)
{
    plb_op_t op;
    if (send_of(&op, PLB_OP_SEND, flags, bytes, dest, tag, comm)) {
        plb_note(op);
    }
}

void plb_note_receive(int kind, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    plb_op_t op;
    if (receive_of(&op, kind, source, tag, comm, status)) {
        plb_note(op);
    }
}

void plb_made_send(MPI_Request request, bool persistent, int flags, int64_t bytes, int dest,
                   int tag, MPI_Comm comm)
{
    plb_op_t op;
    if (send_of(&op, PLB_OP_ISEND, flags, bytes, dest, tag, comm)) {
        plb_request_made(request, op, plb_group(comm), persistent);
    } else if (persistent) {
        plb_request_to_nobody(request);
    }
}

void plb_made_receive(MPI_Request request, bool persistent, int source, int tag, MPI_Comm comm)
{
    plb_op_t op;
    if (receive_of(&op, PLB_OP_IRECV, source, tag, comm, NULL)) {
        plb_request_made(request, op, plb_group(comm), persistent);
    } else if (persistent) {
        plb_request_to_nobody(request);
    }
}

void plb_note_probe(int flag, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    if (flag) {
        plb_note_receive(PLB_OP_PROBE, source, tag, comm, status);
    } else {
        plb_polled();
    }
}

/* Maps each message that a matched probe has found to the operation of its later receive. */
static plb_map_t taken;

static void take(MPI_Message message, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    plb_note_receive(PLB_OP_PROBE, source, tag, comm, status);
    plb_op_t *op = plb_must_have(malloc(sizeof *op));
    if (message != MPI_MESSAGE_NULL &&
        receive_of(op, PLB_OP_RECV, status->MPI_SOURCE, status->MPI_TAG, comm, status)) {
        plb_map_put(&taken, PLB_HANDLE(message), op);
    } else {
        free(op);
    }
}

void plb_note_mprobe(int flag, MPI_Message message, int source, int tag, MPI_Comm comm,
                     const MPI_Status *status)
{
    if (flag) {
        take(message, source, tag, comm, status);
    } else {
        plb_polled();
    }
}

static bool taken_out(uint64_t message, plb_op_t *op)
{
    plb_op_t *its = plb_map_take(&taken, message);
    if (its == NULL) {
        return false;
    }
    *op = *its;
    free(its);
    return true;
}

void plb_note_taken(uint64_t message)
{
    plb_op_t op;
    if (taken_out(message, &op)) {
        plb_note(op);
    }
}

void plb_made_taken(uint64_t message, MPI_Request request)
{
    plb_op_t op;
    if (taken_out(message, &op)) {
        op.kind = PLB_OP_IRECV;
        plb_request_made(request, op, NULL, false);
    }
}

void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status)
{
    plb_op_t out, in;
    const bool sends = send_of(&out, PLB_OP_ISEND, 0, bytes, dest, sendtag, comm);
    const bool receives = receive_of(&in, PLB_OP_IRECV, source, recvtag, comm, status);
    const int32_t receive = receives ? plb_note_begun(in) : -1;
    if (sends) {
        plb_note_complete(plb_note_begun(out), NULL);
    }
    if (receives) {
        plb_note_complete(receive, &in);
    }
}
