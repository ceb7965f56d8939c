#include "whatif/recorder/internal.h"

#include <stdlib.h>

typedef struct request {
    plb_op_t op; /* the operation that begins the request; op.request: the request's number */
    const plb_group_t *group;
    bool persistent, active;
    bool cancelled, unmatched; /* MPI_Cancel was called; it has cancelled the request at once */
    struct request *next;      /* next one with the same handle, or in the list `unused` */
} request_t;

static plb_map_t requests;
static request_t *unused;
static int32_t *returned; /* request numbers that can be used again */
static int32_t n_returned, room_returned, n_numbers;

static int32_t new_number(void)
{
    return n_returned > 0 ? returned[--n_returned] : n_numbers++;
}

static void return_number(int32_t number)
{
    if (n_returned == room_returned) {
        room_returned = 2 * room_returned + 64;
        returned = plb_must_have(realloc(returned, (size_t)room_returned * sizeof *returned));
    }
    returned[n_returned++] = number;
}

void plb_request_made(MPI_Request request, plb_op_t op, const plb_group_t *group, bool persistent)
{
    if (request == MPI_REQUEST_NULL) {
        return;
    }
    request_t *self = unused;
    if (self != NULL) {
        unused = self->next;
    } else {
        self = plb_must_have(malloc(sizeof *self));
    }
    op.request = new_number();
    *self = (request_t){.op = op, .group = group, .persistent = persistent};
    /* Open MPI gives all sends that complete immediately the same handle, so requests with the
     * same handle form a chain. */
    self->next = plb_map_get(&requests, PLB_HANDLE(request));
    plb_map_put(&requests, PLB_HANDLE(request), self);
    if (!persistent) {
        self->active = true;
        plb_note(op);
    }
}

void plb_request_to_nobody(MPI_Request request)
{
    plb_request_made(request, (plb_op_t){.kind = PLB_OP_END}, NULL, true);
}

static request_t *find(MPI_Request request)
{
    return request == MPI_REQUEST_NULL ? NULL : plb_map_get(&requests, PLB_HANDLE(request));
}

static void forget(request_t *self, uint64_t handle)
{
    if (self->next != NULL) {
        plb_map_put(&requests, handle, self->next);
    } else {
        plb_map_take(&requests, handle);
    }
    self->next = unused;
    unused = self;
}

void plb_request_started(MPI_Request request)
{
    request_t *self = find(request);
    if (self == NULL) {
        plb_lacks("a persistent collective or a partitioned message");
    } else if (self->persistent && self->op.kind != PLB_OP_END) {
        self->active = true;
        plb_note(self->op);
    }
}

static void note_unmatched(const request_t *self)
{
    plb_note((plb_op_t){
        .kind = PLB_OP_WAIT, .flags = PLB_OP_CANCELLED, .request = self->op.request, .peer = -1});
}

/* The request's number is not used again: its operation is possibly not complete. */
void plb_request_freed(MPI_Request request)
{
    request_t *self = find(request);
    if (self != NULL) {
        if (self->active && self->unmatched) {
            note_unmatched(self);
        }
        forget(self, PLB_HANDLE(request));
    }
}

void plb_request_cancelled(MPI_Request request)
{
    request_t *self = find(request);
    if (self != NULL) {
        int complete = 0, cancelled = 0;
        MPI_Status status;
        PMPI_Request_get_status(request, &complete, &status);
        if (complete) {
            PMPI_Test_cancelled(&status, &cancelled);
        }
        self->cancelled = true;
        self->unmatched = cancelled;
    }
}

static bool is_open(const plb_op_t *op)
{
    return op->kind == PLB_OP_IRECV && (op->flags & (PLB_OP_ANY_SOURCE | PLB_OP_ANY_TAG));
}

static void done(uint64_t handle, const MPI_Status *status)
{
    request_t *self = plb_map_get(&requests, handle);
    if (self == NULL || !self->active) {
        return;
    }
    plb_op_t op = {.kind = PLB_OP_WAIT, .request = self->op.request, .peer = -1};
    if (self->cancelled && status != MPI_STATUS_IGNORE) {
        int cancelled = 0;
        PMPI_Test_cancelled(status, &cancelled);
        op.flags = cancelled ? PLB_OP_CANCELLED : 0;
    }
    if (is_open(&self->op) && status != MPI_STATUS_IGNORE && !op.flags) {
        op.peer = plb_world_rank(self->group, status->MPI_SOURCE);
        op.tag = status->MPI_TAG;
    }
    plb_note(op);
    self->active = self->cancelled = self->unmatched = false;
    if (!self->persistent) {
        return_number(self->op.request);
        forget(self, handle);
    }
}

void plb_request_tested(int flag, uint64_t was, const MPI_Status *status)
{
    if (flag) {
        done(was, status);
    } else {
        plb_polled();
    }
}

void plb_requests_all(int flag, int n, const uint64_t *was, const MPI_Status *status)
{
    for (int i = 0; flag && i < n; i++) {
        done(was[i], &status[i]);
    }
    if (!flag) {
        plb_polled();
    }
}

void plb_requests_some(int n, const int *index, int base, const uint64_t *was,
                       const MPI_Status *status)
{
    for (int i = 0; i < n; i++) {
        done(was[index[i] - base], &status[i]);
    }
    if (n <= 0) {
        plb_polled();
    }
}

void plb_requests_any(int flag, int index, const uint64_t *was, const MPI_Status *status)
{
    const bool one = flag && index >= 0;
    plb_request_tested(one, one ? was[index] : 0, status);
}

int32_t plb_note_begun(plb_op_t op)
{
    op.request = new_number();
    plb_note(op);
    return op.request;
}

void plb_note_complete(int32_t number, const plb_op_t *received)
{
    plb_note((plb_op_t){.kind = PLB_OP_WAIT,
                        .request = number,
                        .peer = received ? received->peer : -1,
                        .tag = received ? received->tag : 0});
    return_number(number);
}
