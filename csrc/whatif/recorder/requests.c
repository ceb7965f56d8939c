/* Requests: which of MPI's handles stands for which operation. */
#include <stdlib.h>

#include "record.h"

static plb_table_t requests;
static plb_request_t *unused;
static int32_t *returned; /* numbers that are free again */
static int32_t n_returned, room_returned, n_numbers;

int32_t plb_request_number(void)
{
    return n_returned > 0 ? returned[--n_returned] : n_numbers++;
}

void plb_request_return(int32_t number)
{
    if (n_returned == room_returned) {
        room_returned = 2 * room_returned + 64;
        returned = realloc(returned, (size_t)room_returned * sizeof *returned);
        if (returned == NULL) {
            abort();
        }
    }
    returned[n_returned++] = number;
}

void plb_request_made(MPI_Request request, plb_op_t op, const plb_group_t *group, bool persistent)
{
    if (request == MPI_REQUEST_NULL) {
        return;
    }
    plb_request_t *self = unused;
    if (self != NULL) {
        unused = self->next;
    } else if ((self = malloc(sizeof *self)) == NULL) {
        abort();
    }
    op.request = plb_request_number();
    *self = (plb_request_t){.op = op, .group = group, .persistent = persistent};
    /* Open MPI gives all sends that are complete at once the same handle, which need not be waited
     * for: they are told apart as a chain. */
    self->next = plb_table_get(&requests, PLB_HANDLE(request));
    plb_table_put(&requests, PLB_HANDLE(request), self);
    if (!persistent) {
        self->active = true;
        plb_note(op);
    }
}

plb_request_t *plb_request_find(MPI_Request request)
{
    return request == MPI_REQUEST_NULL ? NULL : plb_table_get(&requests, PLB_HANDLE(request));
}

static void forget(plb_request_t *self, uint64_t handle)
{
    if (self->next != NULL) {
        plb_table_put(&requests, handle, self->next);
    } else {
        plb_table_take(&requests, handle);
    }
    self->next = unused;
    unused = self;
}

void plb_request_started(MPI_Request request)
{
    plb_request_t *self = plb_request_find(request);
    if (self != NULL && self->persistent) {
        self->active = true;
        plb_note(self->op);
    }
}

/* The operation goes on: its number is not used again. */
void plb_request_freed(MPI_Request request)
{
    plb_request_t *self = plb_request_find(request);
    if (self != NULL) {
        forget(self, PLB_HANDLE(request));
    }
}

void plb_request_cancelled(MPI_Request request)
{
    plb_request_t *self = plb_request_find(request);
    if (self != NULL) {
        self->cancelled = true;
    }
}

static bool is_open(const plb_op_t *op)
{
    return op->kind == PLB_OP_IRECV && (op->flags & (PLB_OP_ANY_SOURCE | PLB_OP_ANY_TAG));
}

void plb_request_done(uint64_t handle, const MPI_Status *status)
{
    plb_request_t *self = plb_table_get(&requests, handle);
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
    self->active = self->cancelled = false;
    if (!self->persistent) {
        plb_request_return(self->op.request);
        forget(self, handle);
    }
}
