#include "comm/transport_mpi.h"

#include <limits.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "comm/reduction.h"
#include "comm/transfer.h"

enum { PIECE = 1 << 30 }; /* a broadcast is divided into pieces of this many bytes */

typedef struct by_mpi {
    plb_transport_t face;
    plb_comm_t comm, items; /* communicators: one for collective calls, one for exchanges */
    plb_reducer_t reducer;
} by_mpi_t;

static int reserve(plb_transport_t *face, int depth, plb_err_t *err)
{
    by_mpi_t *self = (by_mpi_t *)face;
    face->reduction = &self->reducer.face;
    return plb_reducer_reserve(&self->reducer, depth, err);
}

/* Compute count[p] and start[p] of a gather.  All ranks compute the same, so an error is raised on
 * all of them. */
static int layout(const by_mpi_t *self, const int64_t *size, int *count, int *start,
                  int64_t *total, plb_err_t *err)
{
    *total = 0;
    for (int r = 0; r < self->face.size; r++) {
        PLB_FAIL_IF(size[r] > INT_MAX - *total, err, PLB_ERR_RANGE,
                    "more than %d bytes to gather on rank 0", INT_MAX);
        count[r] = (int)size[r];
        start[r] = (int)*total;
        *total += size[r];
    }
    return PLB_OK;
}

static int gather(plb_transport_t *face, const void *mine, int64_t n, char **all, int64_t *size,
                  plb_err_t *err)
{
    int ret = PLB_OK, *count = NULL, *start = NULL;
    int64_t total;
    MPI_Request request;
    by_mpi_t *self = (by_mpi_t *)face;
    *all = NULL;
    PLB_TRY(plb_comm_sizes(&self->comm, n, size, err));
    PLB_NEW_EACH(face->size, count, start);
    PLB_TRY(layout(self, size, count, start, &total, err));
    if (face->rank == 0) {
        PLB_NEW(*all, total);
    }
    PLB_MPI(MPI_Igatherv(mine, (int)n, MPI_BYTE, *all, count, start, MPI_BYTE, 0, self->comm.comm,
                         &request));
    ret = plb_comm_finish(&request, err);
out:
    PLB_FREE(count, start);
    return ret;
}

static int bcast(plb_transport_t *face, void *data, int64_t n, plb_err_t *err)
{
    by_mpi_t *self = (by_mpi_t *)face;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t piece = n - at < PIECE ? n - at : PIECE;
        PLB_PASS(plb_comm_bcast(&self->comm, (char *)data + at, piece, 0, err));
    }
    return PLB_OK;
}

/* Keep only the ranks with which items are exchanged. */
static void side_of(plb_side_t *side, int32_t *rank, int64_t *start, const int64_t *at, int size,
                    char *data)
{
    *side = (plb_side_t){0, rank, start, data};
    start[0] = at[0];
    for (int r = 0; r < size; r++) {
        if (at[r + 1] > at[r]) {
            rank[side->n] = r;
            start[++side->n] = at[r + 1];
        }
    }
}

static int exchange(plb_transport_t *face, const char *from, const int64_t *send, char *to,
                    const int64_t *receive, int64_t bytes, plb_err_t *err)
{
    int ret = PLB_OK;
    by_mpi_t *self = (by_mpi_t *)face;
    int32_t *rank = NULL;
    int64_t *start = NULL;
    plb_side_t out, in;
    plb_transfer_t transfer = {0};
    const int64_t p = face->size;
    PLB_NEW(rank, 2 * p);
    PLB_NEW(start, 2 * (p + 1));
    side_of(&out, rank, start, send, face->size, (char *)from);
    side_of(&in, rank + p, start + p + 1, receive, face->size, to);
    PLB_TRY(plb_transfer_init(&transfer, &self->items, out.n + in.n, err));
    PLB_TRY(plb_transfer_begin(&transfer, &out, &in, bytes, PLB_TAG_ITEMS, err));
    ret = plb_transfer_wait(&transfer, NULL, NULL, err);
out:
    plb_transfer_free(&transfer);
    PLB_FREE(rank, start);
    return ret;
}

static void free_mpi(plb_transport_t *face)
{
    by_mpi_t *self = (by_mpi_t *)face;
    plb_reducer_free(&self->reducer);
    if (self->reducer.stats != MPI_COMM_NULL) {
        MPI_Comm_free(&self->reducer.stats);
        MPI_Comm_free(&self->reducer.maxima);
    }
    plb_comm_free(&self->items);
    plb_comm_free(&self->comm);
    plb_free(self);
}

int plb_agree(MPI_Comm comm, int ret, plb_err_t *err)
{
    int worst = ret;
    if (MPI_Allreduce(&ret, &worst, 1, MPI_INT, MPI_MIN, comm) != MPI_SUCCESS) {
        return ret != PLB_OK ? ret : PLB_FAIL(err, PLB_ERR_MPI, "MPI_Allreduce failed");
    }
    return ret == PLB_OK && worst != PLB_OK
               ? PLB_FAIL(err, worst, "another rank failed (code %d)", worst)
               : ret;
}

int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, plb_err_t *err)
{
    int ret = PLB_OK;
    by_mpi_t *self = NULL;
    *out = NULL;
    self = plb_calloc(1, sizeof *self);
    PLB_TRY(plb_agree(user, self == NULL ? PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory") : PLB_OK,
                      err));
    self->face = (plb_transport_t){.reserve = reserve,
                                   .gather = gather,
                                   .bcast = bcast,
                                   .exchange = exchange,
                                   .free = free_mpi};
    self->items.comm = MPI_COMM_NULL;
    ret = plb_comm_init(&self->comm, user, err);
    PLB_THEN(plb_comm_init(&self->items, user, err));
    if (ret != PLB_OK) {
        plb_comm_free(&self->comm);
        plb_free(self);
        return ret;
    }
    plb_reducer_init(&self->reducer, &self->comm);
    self->face.rank = self->comm.rank;
    self->face.size = self->comm.size;
    *out = &self->face;
    return ret;
out:
    plb_free(self);
    return ret;
}
