#include "comm/comm.h"

#include <limits.h>
#include <sched.h>
#include <string.h>

#include "base/base.h"

enum {
    /* ns for each byte of a message, for which a rank only yields its core: a rank that sleeps
     * while a message arrives delays it; twice the expected time */
    PATIENCE_BYTE = (int)(2e9 * PLB_SHARE_BETA),
    BLOCK = 1 << 16, /* bytes of the unit of messages of more than INT_MAX bytes */
};

/* ---- one message ---------------------------------------------------------------------------- */

/* Make a datatype for more than INT_MAX bytes, because MPI counts in int: blocks of BLOCK bytes,
 * and the remaining bytes. */
static int large_type(int64_t bytes, MPI_Datatype *type, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Datatype block = MPI_DATATYPE_NULL, blocks = MPI_DATATYPE_NULL;
    PLB_MPI(MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    PLB_MPI(MPI_Type_contiguous((int)(bytes / BLOCK), block, &blocks));
    int count[2] = {1, (int)(bytes % BLOCK)};
    MPI_Aint at[2] = {0, (MPI_Aint)(bytes / BLOCK * BLOCK)};
    MPI_Datatype of[2] = {blocks, MPI_BYTE};
    PLB_MPI(MPI_Type_create_struct(2, count, at, of, type));
    PLB_MPI(MPI_Type_commit(type));
out:
    if (block != MPI_DATATYPE_NULL) {
        MPI_Type_free(&block);
    }
    if (blocks != MPI_DATATYPE_NULL) {
        MPI_Type_free(&blocks);
    }
    return ret;
}

static int post(plb_transfer_t *self, bool receive, int32_t peer, char *data, int64_t rows,
                int64_t row_bytes, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t bytes = rows * row_bytes;
    int count = (int)bytes;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request *request = &self->request[self->n];
    if (bytes > INT_MAX) {
        PLB_TRY(large_type(bytes, &type, err));
        count = 1;
    }
    if (receive) {
        PLB_MPI(MPI_Irecv(data, count, type, peer, MPI_ANY_TAG, self->comm->comm, request));
    } else {
        PLB_MPI(MPI_Isend(data, count, type, peer, self->tag, self->comm->comm, request));
    }
    self->peer[self->n] = peer;
    self->unlike[self->n] = false;
    self->bytes[self->n++] = bytes;
out:
    if (type != MPI_BYTE && type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&type);
    }
    return ret;
}

/* ---- all messages --------------------------------------------------------------------------- */

static int32_t rank_at(const plb_side_t *side, int32_t i)
{
    return side->rank != NULL ? side->rank[i] : i;
}

/* Post the messages of one side, from the next higher rank on: not all ranks begin with rank 0. */
static int post_side(plb_transfer_t *self, const plb_side_t *side, bool receive, int64_t row_bytes,
                     plb_err_t *err)
{
    int32_t first = 0;
    while (first < side->n && rank_at(side, first) <= self->comm->rank) {
        first++;
    }
    for (int32_t k = 0; k < side->n; k++) {
        const int32_t i = (first + k) % side->n, rank = rank_at(side, i);
        const int64_t rows = side->start[i + 1] - side->start[i];
        if (rank != self->comm->rank && (rows > 0 || side->rank != NULL)) {
            PLB_PASS(post(self, receive, rank, side->data + side->start[i] * row_bytes, rows,
                          row_bytes, err));
        }
    }
    return PLB_OK;
}

static int32_t own_place(const plb_side_t *side, int rank)
{
    for (int32_t i = 0; i < side->n; i++) {
        if (rank_at(side, i) == rank) {
            return i;
        }
    }
    return -1;
}

static int64_t rows_at(const plb_side_t *side, int32_t i)
{
    return i < 0 ? 0 : side->start[i + 1] - side->start[i];
}

int plb_transfer_init(plb_transfer_t *self, plb_comm_t *comm, int32_t n_partners, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_transfer_t){.comm = comm};
    PLB_NEW_EACH(n_partners, self->request, self->peer, self->bytes, self->unlike);
out:
    if (ret != PLB_OK) {
        plb_transfer_free(self);
    }
    return ret;
}

void plb_transfer_free(plb_transfer_t *self)
{
    PLB_FREE(self->request, self->peer, self->bytes, self->unlike);
    *self = (plb_transfer_t){0};
}

int plb_transfer_begin(plb_transfer_t *self, const plb_side_t *out, const plb_side_t *in,
                       int64_t row_bytes, int tag, plb_err_t *err)
{
    const int32_t i = own_place(out, self->comm->rank), j = own_place(in, self->comm->rank);
    const int64_t own = rows_at(out, i);
    self->tag = tag;
    self->n = 0;
    PLB_FAIL_IF(own != rows_at(in, j), err, PLB_ERR_VALUE,
                "rank %d sends %lld rows to itself, but receives %lld: expected the same number",
                self->comm->rank, (long long)own, (long long)rows_at(in, j));
    PLB_PASS(post_side(self, in, true, row_bytes, err));
    self->n_receives = self->n;
    PLB_PASS(post_side(self, out, false, row_bytes, err));
    if (own * row_bytes > 0 && !self->skips_own) {
        memcpy(in->data + in->start[j] * row_bytes, out->data + out->start[i] * row_bytes,
               (size_t)(own * row_bytes));
    }
    return PLB_OK;
}

/* ---- the end of an exchange ----------------------------------------------------------------- */

/* Wait until request i is complete; *code: MPI's error code. */
static int finish(plb_transfer_t *self, int i, plb_tick_fn tick, void *arg, MPI_Status *status,
                  int *code)
{
    plb_wait_t wait;
    plb_wait_begin(&wait, tick, arg);
    const int64_t until = wait.start + PLB_WAIT_YIELD_NS + PATIENCE_BYTE * self->bytes[i];
    for (int ret = 0, done = 0;;) {
        *code = MPI_Test(&self->request[i], &done, status);
        if (done || *code != MPI_SUCCESS) {
            return PLB_OK;
        }
        if (plb_clock_ns(PLB_CLOCK_WALL) < until) {
            sched_yield();
        } else if ((ret = plb_wait_pause(&wait)) != 0) {
            return ret;
        }
    }
}

static bool is_meeting(int tag)
{
    return tag > PLB_TAG_FAILED && tag % 2 != 0;
}

/* Report an error of MPI, or a received message with an unexpected tag or size. */
static int look(plb_transfer_t *self, int i, const MPI_Status *status, int code, plb_err_t *err)
{
    int class = MPI_SUCCESS, count = 0;
    MPI_Error_class(code, &class);
    if (code != MPI_SUCCESS && class != MPI_ERR_TRUNCATE) {
        return plb_mpi_fail(err, code, "MPI_Test", __FILE__, __LINE__);
    }
    if (i >= self->n_receives) {
        return PLB_OK;
    }
    PLB_FAIL_IF(code == MPI_SUCCESS && status->MPI_TAG == PLB_TAG_FAILED, err, PLB_ERR_STATE,
                "rank %d has failed in this exchange", self->peer[i]);
    const bool there = is_meeting(status->MPI_TAG);
    self->unlike[i] = is_meeting(self->tag) != there;
    PLB_FAIL_IF(self->unlike[i], err, PLB_ERR_STATE,
                "rank %d passes %s, but rank %d %s: expected the same on all ranks", self->peer[i],
                there ? "a list" : "an array", self->comm->rank, there ? "an array" : "a list");
    if (code == MPI_SUCCESS && self->bytes[i] <= INT_MAX) {
        MPI_Get_count(status, MPI_BYTE, &count);
    }
    PLB_FAIL_IF(code != MPI_SUCCESS || status->MPI_TAG != self->tag ||
                    (self->bytes[i] <= INT_MAX && count != self->bytes[i]),
                err, PLB_ERR_STATE,
                "rank %d sends something else than this rank expects: another plan or "
                "direction, or another dtype or shape",
                self->peer[i]);
    return PLB_OK;
}

int plb_transfer_wait(plb_transfer_t *self, plb_tick_fn tick, void *tick_arg, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int i = 0; i < self->n; i++) {
        MPI_Status status;
        int code;
        PLB_PASS(finish(self, i, tick, tick_arg, &status, &code));
        const int found = look(self, i, &status, code, ret == PLB_OK ? err : NULL);
        PLB_THEN(found);
    }
    self->n = 0;
    return ret;
}

/* Receive a message of any size, and drop it. */
static int drain(plb_comm_t *comm, int32_t peer, plb_tick_fn tick, void *arg, bool *met,
                 plb_err_t *err)
{
    int ret = PLB_OK, here = 0;
    char *nothing = NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    plb_wait_t wait;
    plb_wait_begin(&wait, tick, arg);
    MPI_Message message;
    MPI_Status status;
    MPI_Count bytes;
    for (;;) {
        PLB_MPI(MPI_Improbe(peer, MPI_ANY_TAG, comm->comm, &here, &message, &status));
        if (here) {
            break;
        }
        PLB_TRY(plb_wait_pause(&wait));
    }
    *met = *met || is_meeting(status.MPI_TAG);
    PLB_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
    const int blocks = (int)(bytes / BLOCK + 1); /* MPI counts in int */
    PLB_NEW(nothing, (int64_t)blocks * BLOCK);
    PLB_MPI(MPI_Type_contiguous(BLOCK, MPI_BYTE, &type));
    PLB_MPI(MPI_Type_commit(&type));
    PLB_MPI(MPI_Mrecv(nothing, blocks, type, &message, &status));
out:
    if (type != MPI_DATATYPE_NULL) {
        MPI_Type_free(&type);
    }
    plb_free(nothing);
    return ret;
}

int plb_transfer_fail(plb_comm_t *comm, const plb_side_t *out, const plb_side_t *in,
                      plb_tick_fn tick, void *tick_arg, bool *met, plb_err_t *err)
{
    plb_transfer_t notes;
    char nothing = 0;
    *met = false;
    plb_side_t told = *out;
    told.data = &nothing;
    PLB_PASS(plb_transfer_init(&notes, comm, out->n, err));
    notes.tag = PLB_TAG_FAILED;
    int ret = post_side(&notes, &told, false, 0, err);
    const int n = notes.n;
    for (int32_t i = 0; ret == PLB_OK && i < in->n; i++) {
        if (in->rank[i] != comm->rank) {
            ret = drain(comm, in->rank[i], tick, tick_arg, met, err);
        }
    }
    PLB_THEN(plb_transfer_wait(&notes, tick, tick_arg, err));
    /* Leave sends without data to MPI, which completes them later. */
    for (int i = 0; i < n; i++) {
        if (notes.request[i] != MPI_REQUEST_NULL) {
            MPI_Request_free(&notes.request[i]);
        }
    }
    plb_transfer_free(&notes);
    return ret;
}
