/* Messages from one rank to another, and the requests for them. */
#include <stdlib.h>

#include "record.h"

/* --- operations --- */

/* False where there is nothing to note: MPI_PROC_NULL, or somebody outside of the world. */
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

/* `status` of what has been received, or NULL before. */
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
    }
}

void plb_made_receive(MPI_Request request, bool persistent, int source, int tag, MPI_Comm comm)
{
    plb_op_t op;
    if (receive_of(&op, PLB_OP_IRECV, source, tag, comm, NULL)) {
        plb_request_made(request, op, plb_group(comm), persistent);
    }
}

/* --- receives --- */

PLB_EXPORT int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(PMPI_Probe(source, tag, comm, status),
             plb_note_receive(PLB_OP_PROBE, source, tag, comm, status));
}

static void note_asked(int flag, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    if (flag) {
        plb_note_receive(PLB_OP_PROBE, source, tag, comm, status);
    } else {
        plb_polled();
    }
}

PLB_EXPORT int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(PMPI_Iprobe(source, tag, comm, flag, status),
             note_asked(*flag, source, tag, comm, status));
}

/* A message that a probe has taken out: of whom it is, until it is received. */
static plb_table_t taken;

static void take(MPI_Message message, int source, int tag, MPI_Comm comm, const MPI_Status *status)
{
    plb_note_receive(PLB_OP_PROBE, source, tag, comm, status);
    plb_op_t *op = malloc(sizeof *op);
    if (op == NULL) {
        abort();
    }
    if (message != MPI_MESSAGE_NULL &&
        receive_of(op, PLB_OP_RECV, status->MPI_SOURCE, status->MPI_TAG, comm, status)) {
        plb_table_put(&taken, PLB_HANDLE(message), op);
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

PLB_EXPORT int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message,
                          MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(PMPI_Mprobe(source, tag, comm, message, status),
             plb_note_mprobe(1, *message, source, tag, comm, status));
}

PLB_EXPORT int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                           MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    PLB_WRAP(PMPI_Improbe(source, tag, comm, flag, message, status),
             plb_note_mprobe(*flag, *message, source, tag, comm, status));
}

static bool taken_out(uint64_t message, plb_op_t *op)
{
    plb_op_t *its = plb_table_take(&taken, message);
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

/* --- both --- */

void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status)
{
    plb_op_t out, in;
    const bool sends = send_of(&out, PLB_OP_ISEND, 0, bytes, dest, sendtag, comm);
    const bool receives = receive_of(&in, PLB_OP_IRECV, source, recvtag, comm, status);
    if (receives) {
        in.request = plb_request_number();
        plb_note(in);
    }
    if (sends) {
        out.request = plb_request_number();
        plb_note(out);
        plb_note((plb_op_t){.kind = PLB_OP_WAIT, .request = out.request, .peer = -1});
        plb_request_return(out.request);
    }
    if (receives) {
        plb_note((plb_op_t){
            .kind = PLB_OP_WAIT, .request = in.request, .peer = in.peer, .tag = in.tag});
        plb_request_return(in.request);
    }
}

/* --- sends, and all that count their items --- */

#define CALLS "point_calls.h"
#include "each_count.h"

/* --- requests --- */

PLB_EXPORT int MPI_Start(MPI_Request *request)
{
    PLB_WRAP(PMPI_Start(request), plb_request_started(*request));
}

static void all_started(int n, const MPI_Request *request)
{
    for (int i = 0; i < n; i++) {
        plb_request_started(request[i]);
    }
}

PLB_EXPORT int MPI_Startall(int count, MPI_Request *requests)
{
    PLB_WRAP(PMPI_Startall(count, requests), all_started(count, requests));
}

PLB_EXPORT int MPI_Request_free(MPI_Request *request)
{
    const MPI_Request was = *request;
    PLB_WRAP(PMPI_Request_free(request), plb_request_freed(was));
}

PLB_EXPORT int MPI_Cancel(MPI_Request *request)
{
    PLB_WRAP(PMPI_Cancel(request), plb_request_cancelled(*request));
}

PLB_EXPORT int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    const uint64_t was = PLB_HANDLE(*request);
    PLB_WRAP(PMPI_Wait(request, status), plb_request_done(was, status));
}

static void maybe_done(int flag, uint64_t was, const MPI_Status *status)
{
    if (flag) {
        plb_request_done(was, status);
    } else {
        plb_polled();
    }
}

PLB_EXPORT int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    const uint64_t was = PLB_HANDLE(*request);
    PLB_WRAP(PMPI_Test(request, flag, status), maybe_done(*flag, was, status));
}

/* Handles before a call that may change them, and room for statuses. */
typedef struct handles {
    uint64_t few[64], *handle;
    MPI_Status few_statuses[64], *status;
} handles_t;

static MPI_Status *keep(handles_t *self, int n, const MPI_Request *requests, MPI_Status *given)
{
    const bool many = n > 64;
    self->handle = many ? malloc((size_t)n * sizeof *self->handle) : self->few;
    self->status = given;
    if (given == MPI_STATUSES_IGNORE) {
        self->status = many ? malloc((size_t)n * sizeof *self->status) : self->few_statuses;
    }
    if (self->handle == NULL || self->status == NULL) {
        abort();
    }
    for (int i = 0; i < n; i++) {
        self->handle[i] = PLB_HANDLE(requests[i]);
    }
    return self->status;
}

static void let_go(handles_t *self, const MPI_Status *given)
{
    if (self->handle != self->few) {
        free(self->handle);
    }
    if (self->status != given && self->status != self->few_statuses) {
        free(self->status);
    }
}

static void all_done(int flag, int n, const handles_t *before)
{
    for (int i = 0; flag && i < n; i++) {
        plb_request_done(before->handle[i], &before->status[i]);
    }
    if (!flag) {
        plb_polled();
    }
}

static void some_done(int n, const int *indices, const handles_t *before)
{
    for (int i = 0; i < n; i++) { /* n is MPI_UNDEFINED, negative, where none was active */
        plb_request_done(before->handle[indices[i]], &before->status[i]);
    }
    if (n <= 0) {
        plb_polled();
    }
}

/* A wrapper that has to clean up: what PLB_WRAP does, without the return. */
#define WRAP_MANY(n, call, ...)                                                                   \
    do {                                                                                          \
        handles_t before;                                                                         \
        MPI_Status *given = statuses;                                                             \
        statuses = keep(&before, (n), requests, given);                                           \
        const bool noted = plb_enter();                                                           \
        const int ret = (call);                                                                   \
        if (noted) {                                                                              \
            __VA_ARGS__;                                                                          \
            plb_leave();                                                                          \
        }                                                                                         \
        let_go(&before, given);                                                                   \
        return ret;                                                                               \
    } while (0)

PLB_EXPORT int MPI_Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    WRAP_MANY(count, PMPI_Waitall(count, requests, statuses), all_done(1, count, &before));
}

PLB_EXPORT int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    WRAP_MANY(count, PMPI_Testall(count, requests, flag, statuses),
              all_done(*flag, count, &before));
}

PLB_EXPORT int MPI_Waitsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                            MPI_Status statuses[])
{
    WRAP_MANY(incount, PMPI_Waitsome(incount, requests, outcount, indices, statuses),
              some_done(*outcount, indices, &before));
}

PLB_EXPORT int MPI_Testsome(int incount, MPI_Request requests[], int *outcount, int indices[],
                            MPI_Status statuses[])
{
    WRAP_MANY(incount, PMPI_Testsome(incount, requests, outcount, indices, statuses),
              some_done(*outcount, indices, &before));
}

static void any_done(int flag, int index, const handles_t *before, const MPI_Status *status)
{
    if (flag && index >= 0) {
        plb_request_done(before->handle[index], status);
    } else {
        plb_polled();
    }
}

PLB_EXPORT int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    MPI_Status own, *statuses = MPI_STATUSES_IGNORE;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    WRAP_MANY(count, PMPI_Waitany(count, requests, index, status),
              any_done(1, *index, &before, status));
}

PLB_EXPORT int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag,
                           MPI_Status *status)
{
    MPI_Status own, *statuses = MPI_STATUSES_IGNORE;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    WRAP_MANY(count, PMPI_Testany(count, requests, index, flag, status),
              any_done(*flag, *index, &before, status));
}
