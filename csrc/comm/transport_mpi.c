#include "comm/comm.h"

#include <limits.h>
#include <sched.h>

#include "base/base.h"

typedef struct by_mpi {
    plb_transport_t face;
    plb_comm_t comm, items; /* communicators: one for collective calls, one for exchanges */
    plb_reducer_t reducer;
    int64_t *size;      /* [p] owned: face.sizes */
    int *count, *start; /* [p] owned: bytes of each rank in a gather, and where they begin */
    bool leaves;        /* whether this rank has called `leave`, or knows of a rank that has */
    int gone;           /* the lowest rank that has left, while this one has not; -1: none */
    int64_t *farewell;  /* [1 + p] owned: buffers of `leave`, to send and to receive */
    MPI_Request leaving;
    plb_sharer_t *share; /* NULL: not used yet */
} by_mpi_t;

static int agree(plb_transport_t *face, int ret, plb_err_t *err)
{
    return plb_agree(((by_mpi_t *)face)->comm.comm, ret, &face->patience, err);
}

static int reserve(plb_transport_t *face, int depth, plb_err_t *err)
{
    by_mpi_t *self = (by_mpi_t *)face;
    face->reduction = &self->reducer.face;
    return agree(face, plb_reducer_reserve(&self->reducer, depth, err), err);
}

/* Compute count[p] and start[p] of a gather.  All ranks know all sizes, so they fail together. */
static int layout(by_mpi_t *self, int64_t *total, plb_err_t *err)
{
    const int64_t *size = self->size;
    *total = 0;
    for (int r = 0; r < self->face.size; r++) {
        PLB_FAIL_IF(size[r] > INT_MAX - *total, err, PLB_ERR_RANGE,
                    "more than %d bytes to gather on rank 0", INT_MAX);
        self->count[r] = (int)size[r];
        self->start[r] = (int)*total;
        *total += size[r];
    }
    return PLB_OK;
}

static const int64_t SHARES = INT64_MAX; /* announces a call of `share` */

/* Send `mine` to all ranks: the size of a gather, 0 before an exchange, SHARES, or a negative
 * error code.  All ranks fail if a rank has failed, or if only some ranks share rows.  A rank that
 * has left no longer takes part; then all other ranks fail at once. */
static int announce(by_mpi_t *self, int64_t mine, plb_err_t *err)
{
    const plb_err_t own = *err;
    int ret = PLB_OK, failed = -1, other = -1;
    if (self->gone < 0) {
        ret = plb_comm_sizes(&self->comm, mine, self->size, err);
        for (int r = self->face.size - 1; ret == PLB_OK && r >= 0; r--) {
            failed = self->size[r] < 0 ? r : failed;
            other = (self->size[r] == SHARES) != (mine == SHARES) ? r : other;
            self->gone = self->size[r] == PLB_ERR_STATE ? r : self->gone;
        }
        self->leaves = self->leaves || self->gone >= 0;
    }
    if (ret == PLB_OK && self->gone >= 0) {
        ret = plb_comm_raise_for(PLB_ERR_STATE, self->gone, err);
    } else if (ret == PLB_OK && failed >= 0) {
        ret = plb_comm_raise_for((int)self->size[failed], failed, err);
    } else if (ret == PLB_OK && other >= 0) {
        ret = PLB_FAIL(err, PLB_ERR_STATE, "rank %d %s share rows: expected all ranks to do so",
                       other, mine == SHARES ? "does not" : "does");
    }
    return plb_comm_own_first(mine, &own, ret, err);
}

static int gather(plb_transport_t *face, const void *mine, int64_t n, char **all, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t total;
    MPI_Request request;
    by_mpi_t *self = (by_mpi_t *)face;
    *all = NULL;
    PLB_TRY(announce(self, n, err));
    PLB_TRY(layout(self, &total, err));
    if (face->rank == 0) {
        *all = plb_malloc((size_t)total, 1);
        ret = *all == NULL ? PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld bytes to gather",
                                      (long long)total)
                           : PLB_OK;
    }
    PLB_TRY(agree(face, ret, err));
    PLB_MPI(MPI_Igatherv(mine, (int)n, MPI_BYTE, *all, self->count, self->start, MPI_BYTE, 0,
                         self->comm.comm, &request));
    ret = plb_comm_finish(&request, &face->patience, err);
out:
    return ret;
}

/* Announce by a collective call that this rank leaves.  Another rank takes part in this call at
 * its next gather or exchange (`announce`), or when it leaves, too.  A rank that knows of a rank
 * that has left has already taken part. */
static int leave(plb_transport_t *face, plb_err_t *err)
{
    int ret = PLB_OK;
    by_mpi_t *self = (by_mpi_t *)face;
    self->gone = -1; /* if all ranks leave, they can make more calls together */
    if (!self->leaves) {
        self->leaves = true;
        self->farewell[0] = PLB_ERR_STATE;
        PLB_MPI(MPI_Iallgather(self->farewell, 1, MPI_INT64_T, self->farewell + 1, 1, MPI_INT64_T,
                               self->comm.comm, &self->leaving));
    }
    if (self->share != NULL) {
        (void)plb_share_look(self->share, true);
    }
out:
    return ret;
}

static int bcast(plb_transport_t *face, void *data, int64_t n, plb_err_t *err)
{
    return plb_comm_bcast(&((by_mpi_t *)face)->comm, data, n, 0, err);
}

/* Check the offsets before an exchange, so that no rank fails while others wait for its items. */
static int prepare(by_mpi_t *self, plb_exchange_t **exchange, const int64_t *send,
                   const int64_t *receive, plb_err_t *err)
{
    const int p = self->face.size, me = self->face.rank;
    for (int r = 0; r < p; r++) {
        PLB_FAIL_IF(
            send[r + 1] < send[r] || receive[r + 1] < receive[r], err, PLB_ERR_VALUE,
            "the offsets give rank %d fewer than 0 items: expected offsets that never fall", r);
    }
    const int64_t out = send[me + 1] - send[me], in = receive[me + 1] - receive[me];
    PLB_FAIL_IF(out != in, err, PLB_ERR_VALUE,
                "rank %d sends %lld items to itself, but receives %lld: expected the same number",
                me, (long long)out, (long long)in);
    PLB_PASS_NEW0(*exchange, 1);
    PLB_PASS(plb_transfer_init(*exchange, &self->items, 2 * p, err));
    (*exchange)->skips_own = true;
    return PLB_OK;
}

static void free_exchange(plb_exchange_t *self)
{
    if (self != NULL) {
        plb_transfer_free(self);
        plb_free(self);
    }
}

static int begin_exchange(plb_transport_t *face, int failed, const char *from, const int64_t *send,
                          char *to, const int64_t *receive, int64_t bytes, plb_exchange_t **out,
                          plb_err_t *err)
{
    by_mpi_t *self = (by_mpi_t *)face;
    const plb_side_t go = {face->size, NULL, send, (char *)from};
    const plb_side_t come = {face->size, NULL, receive, to};
    int ret = failed;
    *out = NULL;
    PLB_THEN(prepare(self, out, send, receive, err));
    PLB_TRY(announce(self, ret, err));
    ret = plb_transfer_begin(*out, &go, &come, bytes, PLB_TAG_ITEMS, err);
out:
    if (ret != PLB_OK) {
        free_exchange(*out);
        *out = NULL;
    }
    return ret;
}

static int end_exchange(plb_transport_t *face, plb_exchange_t *exchange, plb_err_t *err)
{
    const int ret = plb_transfer_wait(exchange, NULL, NULL, err);
    free_exchange(exchange);
    return ret;
}

static int share(plb_transport_t *face, const plb_shared_rows_t *rows,
                 plb_share_figures_t *figures, plb_err_t *err)
{
    by_mpi_t *self = (by_mpi_t *)face;
    const plb_share_options_t options = {.lend = true, .reactive = true};
    if (self->share == NULL) {
        PLB_PASS(announce(self, SHARES, err));
        PLB_PASS(plb_share_new(&self->share, self->comm.comm, &options, &face->patience, err));
    }
    return plb_share_call(self->share, rows, NULL, NULL, figures, err);
}

static void look(plb_transport_t *face)
{
    by_mpi_t *self = (by_mpi_t *)face;
    if (self->share != NULL) {
        (void)plb_share_look(self->share, false);
    }
}

static void free_arrays(by_mpi_t *self)
{
    PLB_FREE(self->size, self->count, self->start, self->farewell, self);
}

static void free_mpi(plb_transport_t *face)
{
    plb_err_t unheard;
    by_mpi_t *self = (by_mpi_t *)face;
    if (leave(face, &unheard) == PLB_OK) {
        (void)plb_comm_finish(&self->leaving, &face->patience, &unheard);
        while (self->share != NULL && !plb_share_look(self->share, true)) {
            sched_yield(); /* all ranks have left, so this ends at once */
        }
    }
    plb_reducer_free(&self->reducer);
    if (self->reducer.stats != MPI_COMM_NULL) {
        MPI_Comm_free(&self->reducer.stats);
        MPI_Comm_free(&self->reducer.maxima);
    }
    if (self->share != NULL) {
        plb_share_close(self->share);
        plb_share_free(self->share);
    }
    plb_comm_free(&self->items);
    plb_comm_free(&self->comm);
    free_arrays(self);
}

/* Allocate the memory for gathers in advance, so that no rank fails while others wait for it. */
static int allocate(by_mpi_t **out, MPI_Comm user, plb_err_t *err)
{
    int ret = PLB_OK, size;
    by_mpi_t *self = NULL;
    PLB_MPI(MPI_Comm_size(user, &size));
    PLB_NEW0(self, 1);
    *out = self;
    PLB_NEW_EACH(size, self->size, self->count, self->start);
    PLB_NEW(self->farewell, size + 1);
out:
    return ret;
}

int plb_transport_mpi(plb_transport_t **out, MPI_Comm user, const plb_patience_t *patience,
                      plb_err_t *err)
{
    by_mpi_t *self = NULL;
    *out = NULL;
    int ret = plb_agree(user, allocate(&self, user, err), patience, err);
    if (ret != PLB_OK) {
        goto out;
    }
    self->face = (plb_transport_t){.reserve = reserve,
                                   .gather = gather,
                                   .agree = agree,
                                   .leave = leave,
                                   .sizes = self->size,
                                   .bcast = bcast,
                                   .begin_exchange = begin_exchange,
                                   .end_exchange = end_exchange,
                                   .share = share,
                                   .look = look,
                                   .free = free_mpi};
    self->leaving = MPI_REQUEST_NULL;
    self->gone = -1;
    self->items.comm = MPI_COMM_NULL;
    ret = plb_comm_init(&self->comm, user, err);
    PLB_THEN(plb_comm_init(&self->items, user, err));
    if (ret != PLB_OK) {
        plb_comm_free(&self->comm);
        goto out;
    }
    self->comm.patience = &self->face.patience;
    plb_reducer_init(&self->reducer, &self->comm);
    self->face.rank = self->comm.rank;
    self->face.size = self->comm.size;
    *out = &self->face;
out:
    if (ret != PLB_OK && self != NULL) {
        free_arrays(self);
    }
    return ret;
}
