#include "comm/comm.h"

#include <string.h>

#include "base/base.h"

enum {
    /* Copying a part of up to this size is cheaper than a message.
     * tuned: bytes; by default a message takes 2 us, and a byte 0.1 ns: as long as 20,000 bytes */
    INLINE = 16 << 10,
    HEAD_MOST = 1 << 20, /* bytes; the small parts in a head have at most this many in total */
};

/* ---- which parts go where ------------------------------------------------------------------- */

/* Whether a part goes into the head; *used: bytes of the parts in the head so far.  Sender and
 * receiver call this for the parts in the same order, so they get the same answers. */
static bool is_inline(int64_t size, int64_t *used)
{
    if (size > INLINE || *used + size > HEAD_MOST) {
        return false;
    }
    *used += size;
    return true;
}

static int64_t head_size(const plb_parcel_t *p)
{
    int64_t used = 0;
    for (int i = 0; i < p->n; i++) {
        is_inline(p->size[i], &used);
    }
    return used + (int64_t)sizeof(int64_t) * p->n + (int64_t)sizeof(int64_t);
}

/* Write the number of parts, the size of each part, then those parts that go into the head. */
static void write_head(const plb_parcel_t *p, char *wire)
{
    const int64_t n = p->n;
    int64_t used = 0;
    memcpy(wire, &n, sizeof n);
    memcpy(wire + sizeof n, p->size, (size_t)n * sizeof *p->size);
    char *to = wire + (1 + n) * (int64_t)sizeof n;
    for (int i = 0; i < p->n; i++) {
        const int64_t at = used;
        if (is_inline(p->size[i], &used) && p->size[i] > 0) {
            memcpy(to + at, p->part[i], (size_t)p->size[i]);
        }
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Allocate memory for `more` requests, before the first of them is made. */
static int reserve(plb_requests_t *self, int64_t more, plb_err_t *err)
{
    PLB_PASS_GROW(self->r, self->room, self->n + more);
    return PLB_OK;
}

static MPI_Request *add_request(plb_requests_t *self)
{
    MPI_Request *slot = &self->r[self->n++];
    *slot = MPI_REQUEST_NULL;
    return slot;
}

static int all_done(plb_requests_t *self, bool *done, plb_err_t *err)
{
    int ret = PLB_OK, flag = 1;
    if (self->n > 0) {
        PLB_MPI(MPI_Testall(self->n, self->r, &flag, MPI_STATUSES_IGNORE));
    }
    *done = flag;
out:
    return ret;
}

/* Return the number of messages for the parts of a parcel that are not in its head. */
static int64_t n_messages(const plb_parcel_t *p)
{
    int64_t n = 0, used = 0;
    for (int i = 0; i < p->n; i++) {
        n += is_inline(p->size[i], &used) ? 0 : (p->size[i] + PLB_PIECE - 1) / PLB_PIECE;
    }
    return n;
}

/* Send or receive the parts of a parcel that are not in its head; the requests are reserved. */
static int move_parts(plb_step_t *self, const plb_parcel_t *p, bool receive, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t used = 0;
    const int tag = PLB_TAG_PART + self->parity;
    for (int i = 0; i < p->n; i++) {
        if (is_inline(p->size[i], &used)) {
            continue;
        }
        for (int64_t at = 0; at < p->size[i]; at += PLB_PIECE) {
            const int64_t left = p->size[i] - at;
            const int n = (int)(left < PLB_PIECE ? left : PLB_PIECE);
            char *data = (char *)p->part[i] + at;
            MPI_Request *slot = add_request(&self->parts);
            if (receive) {
                PLB_MPI(MPI_Irecv(data, n, MPI_BYTE, p->peer, tag, self->comm->comm, slot));
            } else {
                PLB_MPI(MPI_Isend(data, n, MPI_BYTE, p->peer, tag, self->comm->comm, slot));
            }
        }
    }
out:
    return ret;
}

/* ---- the step ------------------------------------------------------------------------------- */

void plb_step_init(plb_step_t *self, plb_comm_t *comm, plb_take_fn take, void *take_arg)
{
    *self = (plb_step_t){.comm = comm, .take = take, .take_arg = take_arg};
    self->reduction = MPI_REQUEST_NULL;
}

static void drop_wires(plb_step_t *self)
{
    for (int i = 0; i < self->n_wires; i++) {
        plb_free(self->wire[i]);
    }
    plb_free(self->wire);
    self->wire = NULL;
    self->n_wires = 0;
}

void plb_step_free(plb_step_t *self)
{
    drop_wires(self);
    PLB_FREE(self->heads.r, self->parts.r, self->head);
    self->heads = self->parts = (plb_requests_t){0};
    self->head = NULL;
}

/* Make the heads, and allocate all memory for the step before anything is sent. */
static int pack(plb_step_t *self, const plb_parcel_t *parcel, int n_parcels, plb_err_t *err)
{
    int64_t n_parts = 0;
    if (n_parcels > 0) {
        PLB_PASS_NEW0(self->wire, n_parcels);
    }
    for (int i = 0; i < n_parcels; i++) {
        const plb_parcel_t *p = &parcel[i];
        const int64_t n = head_size(p);
        char *wire;
        PLB_FAIL_IF(n > PLB_PIECE, err, PLB_ERR_RANGE,
                    "a parcel for rank %d has %d parts: too many for one message", p->peer, p->n);
        PLB_PASS_NEW(wire, n);
        self->wire[self->n_wires++] = wire;
        write_head(p, wire);
        n_parts += n_messages(p);
    }
    PLB_PASS(reserve(&self->heads, n_parcels, err));
    return reserve(&self->parts, n_parts, err);
}

static int check_unbroken(const plb_step_t *self, plb_err_t *err)
{
    PLB_FAIL_IF(self->phase == PLB_STEP_BROKEN, err, PLB_ERR_STATE,
                "an earlier step failed while it was sending: no more steps are possible");
    return PLB_OK;
}

int plb_step_check_idle(const plb_step_t *self, plb_err_t *err)
{
    PLB_PASS(check_unbroken(self, err));
    PLB_FAIL_IF(self->phase != PLB_STEP_IDLE, err, PLB_ERR_STATE,
                "a collective step is already under way");
    return PLB_OK;
}

int plb_step_begin(plb_step_t *self, const plb_stats_t *mine, const plb_parcel_t *parcel,
                   int n_parcels, plb_err_t *err)
{
    PLB_PASS(plb_step_check_idle(self, err));
    self->mine = *mine;
    int ret = pack(self, parcel, n_parcels, err);
    for (int i = 0; ret == PLB_OK && i < n_parcels; i++) {
        const plb_parcel_t *p = &parcel[i];
        PLB_MPI(MPI_Issend(self->wire[i], (int)head_size(p), MPI_BYTE, p->peer,
                           PLB_TAG_HEAD + self->parity, self->comm->comm,
                           add_request(&self->heads)));
        ret = move_parts(self, p, false, err);
    }
out:
    if (ret == PLB_OK) {
        self->phase = PLB_STEP_SENDING;
    } else {
        /* End a step that has failed.  If a head was sent, no new step is possible, because other
         * ranks could not distinguish the heads of the two steps. */
        if (self->heads.n > 0) {
            self->phase = PLB_STEP_BROKEN;
        } else {
            drop_wires(self);
        }
    }
    return ret;
}

/* Read the head of a parcel, allocate memory for its parts, and receive them.  If there is no
 * memory, nothing has changed, and the call can be repeated. */
static int open_parcel(plb_step_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n, used = 0;
    const char *wire = self->head;
    plb_parcel_t p = {.peer = self->source};
    memcpy(&n, wire, sizeof n);
    p.n = (int)n;
    PLB_NEW(p.size, n);
    PLB_NEW0(p.part, n);
    memcpy(p.size, wire + sizeof n, (size_t)n * sizeof *p.size);
    PLB_TRY(reserve(&self->parts, n_messages(&p), err));
    PLB_TRY(self->take(self->take_arg, &p, err));
    const char *from = wire + (1 + n) * (int64_t)sizeof n;
    for (int i = 0; i < p.n; i++) {
        const int64_t at = used;
        if (is_inline(p.size[i], &used) && p.size[i] > 0) {
            memcpy(p.part[i], from + at, (size_t)p.size[i]);
        }
    }
    ret = move_parts(self, &p, true, err);
out:
    PLB_FREE(p.part, p.size);
    return ret;
}

/* Receive the next head into self->head; leave it NULL if none is here.  The memory is allocated
 * first: a message that was received and lost would leave its sender waiting. */
static int receive_head(plb_step_t *self, plb_err_t *err)
{
    int ret = PLB_OK, here = 0, n = 0;
    const int tag = PLB_TAG_HEAD + self->parity;
    MPI_Status status;
    PLB_MPI(MPI_Iprobe(MPI_ANY_SOURCE, tag, self->comm->comm, &here, &status));
    if (here) {
        PLB_MPI(MPI_Get_count(&status, MPI_BYTE, &n));
        PLB_NEW(self->head, n);
        self->source = status.MPI_SOURCE;
        const int code = MPI_Recv(self->head, n, MPI_BYTE, self->source, tag, self->comm->comm,
                                  MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            plb_free(self->head);
            self->head = NULL;
        }
        PLB_MPI(code);
    }
out:
    return ret;
}

static int receive_heads(plb_step_t *self, plb_err_t *err)
{
    for (;;) {
        if (self->head == NULL) {
            PLB_PASS(receive_head(self, err));
        }
        if (self->head == NULL) {
            return PLB_OK;
        }
        PLB_PASS(open_parcel(self, err));
        plb_free(self->head);
        self->head = NULL;
    }
}

static int test(plb_step_t *self, bool *done, plb_err_t *err)
{
    int ret = PLB_OK, reduced = 0;
    bool over = false;
    *done = false;
    PLB_PASS(check_unbroken(self, err));
    if (self->comm->size > 1 && self->phase != PLB_STEP_DRAINING &&
        (ret = receive_heads(self, err)) != PLB_OK) {
        goto out;
    }
    if (self->phase == PLB_STEP_SENDING) {
        if ((ret = all_done(&self->heads, &over, err)) != PLB_OK || !over) {
            goto out;
        }
        PLB_MPI(MPI_Iallreduce(&self->mine, &self->all, 1, self->comm->record, self->comm->merge,
                               self->comm->comm, &self->reduction));
        self->phase = PLB_STEP_REDUCING;
    }
    if (self->phase == PLB_STEP_REDUCING) {
        PLB_MPI(MPI_Test(&self->reduction, &reduced, MPI_STATUS_IGNORE));
        if (!reduced) {
            goto out;
        }
        self->phase = PLB_STEP_DRAINING;
    }
    if (self->phase == PLB_STEP_DRAINING) {
        if ((ret = all_done(&self->parts, done, err)) == PLB_OK && *done) {
            drop_wires(self);
            self->heads.n = self->parts.n = 0;
            self->phase = PLB_STEP_IDLE;
            self->parity ^= 1;
        }
    }
out:
    return ret;
}

int plb_step_wait(plb_step_t *self, int64_t timeout_ns, plb_tick_fn tick, void *tick_arg,
                  bool *done, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_wait_t wait;
    plb_wait_begin(&wait, tick, tick_arg);
    for (;;) {
        if ((ret = test(self, done, err)) != PLB_OK || *done) {
            return ret;
        }
        PLB_PASS(plb_wait_pause(&wait));
        if (timeout_ns >= 0 && plb_clock_ns(PLB_CLOCK_WALL) - wait.start > timeout_ns) {
            return PLB_OK;
        }
    }
}
