#include "comm/comm.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "measure/measure.h"

int plb_mpi_fail(plb_err_t *err, int code, const char *call, const char *file, int line)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return plb_fail(err, PLB_ERR_MPI, file, line, "%.200s in %.100s", text, call);
}

static void merge(void *in, void *inout, int *n, MPI_Datatype *type)
{
    const plb_stats_t *a = in;
    plb_stats_t *b = inout;
    for (int i = 0; i < *n; i++) {
        plb_stats_merge(&b[i], &a[i]);
    }
}

int plb_comm_init(plb_comm_t *self, MPI_Comm user, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_comm_t){MPI_COMM_NULL, 0, 0, MPI_DATATYPE_NULL, MPI_OP_NULL, NULL};
    PLB_MPI(MPI_Comm_dup(user, &self->comm));
    PLB_MPI(MPI_Comm_set_errhandler(self->comm, MPI_ERRORS_RETURN));
    PLB_MPI(MPI_Comm_rank(self->comm, &self->rank));
    PLB_MPI(MPI_Comm_size(self->comm, &self->size));
    PLB_MPI(MPI_Type_contiguous((int)sizeof(plb_stats_t), MPI_BYTE, &self->record));
    PLB_MPI(MPI_Type_commit(&self->record));
    PLB_MPI(MPI_Op_create(merge, 1, &self->merge));
out:
    if (ret != PLB_OK) {
        plb_comm_free(self);
    }
    return ret;
}

void plb_comm_free(plb_comm_t *self)
{
    if (self->merge != MPI_OP_NULL) {
        MPI_Op_free(&self->merge);
    }
    if (self->record != MPI_DATATYPE_NULL) {
        MPI_Type_free(&self->record);
    }
    if (self->comm != MPI_COMM_NULL) {
        MPI_Comm_free(&self->comm);
    }
}

int plb_comm_finish(MPI_Request *request, const plb_patience_t *patience, plb_err_t *err)
{
    int ret = PLB_OK, done = 0;
    bool patient = patience != NULL && patience->say != NULL;
    plb_wait_t wait;
    plb_wait_begin(&wait, NULL, NULL);
    for (;;) {
        const int failed = ret, code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            ret = plb_mpi_fail(err, code, "MPI_Test", __FILE__, __LINE__);
        }
        /* after an error MPI may still write to the caller's memory: test once more */
        const bool lost =
            code != MPI_SUCCESS && (failed != PLB_OK || *request == MPI_REQUEST_NULL);
        if (done || lost) {
            break;
        }
        plb_wait_pause(&wait);
        if (patient && plb_clock_ns(PLB_CLOCK_WALL) - wait.start > PLB_WAIT_PATIENCE_NS) {
            patience->say(patience->arg);
            patient = false;
        }
    }
    return ret;
}

int plb_comm_raise_for(int code, int rank, plb_err_t *err)
{
    return code == PLB_ERR_NOMEM ? PLB_FAIL(err, code, "rank %d: out of memory", rank)
                                 : PLB_FAIL(err, code, "rank %d has %s", rank,
                                            code == PLB_ERR_STATE ? "left" : "failed");
}

int plb_comm_own_first(int64_t mine, const plb_err_t *own, int ret, plb_err_t *err)
{
    if (mine >= PLB_OK) {
        return ret;
    }
    *err = *own;
    return (int)mine;
}

int plb_agree(MPI_Comm comm, int mine, const plb_patience_t *patience, plb_err_t *err)
{
    int ret = PLB_OK;
    int own[2] = {mine, 0}, lowest[2]; /* error code and rank, as in MPI_2INT */
    MPI_Request request;
    const plb_err_t said = *err;
    PLB_MPI(MPI_Comm_rank(comm, &own[1]));
    PLB_MPI(MPI_Iallreduce(own, lowest, 1, MPI_2INT, MPI_MINLOC, comm, &request));
    PLB_TRY(plb_comm_finish(&request, patience, err));
    if (mine == PLB_OK && lowest[0] != PLB_OK) {
        ret = plb_comm_raise_for(lowest[0], lowest[1], err);
    }
out:
    return plb_comm_own_first(mine, &said, ret, err);
}

int plb_comm_bcast(plb_comm_t *self, void *data, int64_t n, int root, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Request request;
    for (int64_t at = 0; at < n; at += PLB_PIECE) { /* MPI counts in int */
        const int piece = n - at < PLB_PIECE ? (int)(n - at) : PLB_PIECE;
        PLB_MPI(MPI_Ibcast((char *)data + at, piece, MPI_BYTE, root, self->comm, &request));
        PLB_TRY(plb_comm_finish(&request, self->patience, err));
    }
out:
    return ret;
}

int plb_comm_sizes(plb_comm_t *self, int64_t mine, int64_t *size, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Request request;
    PLB_MPI(MPI_Iallgather(&mine, 1, MPI_INT64_T, size, 1, MPI_INT64_T, self->comm, &request));
    ret = plb_comm_finish(&request, self->patience, err);
out:
    return ret;
}

int plb_comm_heads(plb_comm_t *self, const void *mine, int64_t n, plb_head_t *head, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Request request;
    plb_head_t own = {.size = n};
    const int bytes = (int)sizeof own;
    memcpy(own.bytes, mine, (size_t)(n < PLB_HEAD_BYTES ? n : PLB_HEAD_BYTES));
    PLB_MPI(MPI_Iallgather(&own, bytes, MPI_BYTE, head, bytes, MPI_BYTE, self->comm, &request));
    ret = plb_comm_finish(&request, self->patience, err);
out:
    return ret;
}

int plb_comm_allgather(plb_comm_t *self, const void *mine, const int64_t *size, int *count,
                       void *all, plb_err_t *err)
{
    int ret = PLB_OK, *start = count + self->size;
    MPI_Request request;
    int64_t total = 0;
    for (int r = 0; r < self->size; r++) {
        start[r] = (int)total;
        count[r] = (int)size[r];
        total += size[r];
        /* all ranks have the same sum, so they fail together */
        PLB_FAIL_IF(total > INT_MAX, err, PLB_ERR_RANGE, "more than %d bytes to gather", INT_MAX);
    }
    PLB_MPI(MPI_Iallgatherv(mine, count[self->rank], MPI_BYTE, all, count, start, MPI_BYTE,
                            self->comm, &request));
    ret = plb_comm_finish(&request, self->patience, err);
out:
    return ret;
}

/* ---- reductions for a loop without barriers ------------------------------------------------- */

static int begin_stats(void *reducer, const plb_stats_t *mine, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_reducer_t *self = reducer;
    const int64_t i = self->begun % self->face.depth;
    PLB_FAIL_IF(self->begun - self->taken == self->face.depth, err, PLB_ERR_STATE,
                "%d reductions are under way: expected fewer before another one begins",
                self->face.depth);
    self->mine[i] = *mine;
    PLB_MPI(MPI_Iallreduce(&self->mine[i], &self->all[i], 1, self->comm->record, self->comm->merge,
                           self->stats, &self->request[i]));
    self->begun++;
out:
    return ret;
}

static int test_stats(void *reducer, plb_stats_t *all, bool *done, plb_err_t *err)
{
    int ret = PLB_OK, flag = 0;
    plb_reducer_t *self = reducer;
    *done = false;
    if (self->taken == self->begun) {
        return PLB_OK;
    }
    const int64_t i = self->taken % self->face.depth;
    PLB_MPI(MPI_Test(&self->request[i], &flag, MPI_STATUS_IGNORE));
    if (flag) {
        *all = self->all[i];
        *done = true;
        self->taken++;
    }
out:
    return ret;
}

static int begin_maximum(void *reducer, const int64_t mine[PLB_MAXIMA], plb_err_t *err)
{
    int ret = PLB_OK;
    plb_reducer_t *self = reducer;
    memcpy(self->maximum, mine, sizeof self->maximum);
    PLB_MPI(MPI_Iallreduce(self->maximum, self->greatest, PLB_MAXIMA, MPI_INT64_T, MPI_MAX,
                           self->maxima, &self->maximum_request));
out:
    return ret;
}

static int test_maximum(void *reducer, int64_t all[PLB_MAXIMA], bool *done, plb_err_t *err)
{
    int ret = PLB_OK, flag = 0;
    plb_reducer_t *self = reducer;
    PLB_MPI(MPI_Test(&self->maximum_request, &flag, MPI_STATUS_IGNORE));
    *done = flag;
    memcpy(all, self->greatest, sizeof self->greatest);
out:
    return ret;
}

void plb_reducer_init(plb_reducer_t *self, plb_comm_t *comm)
{
    *self = (plb_reducer_t){.comm = comm,
                            .stats = MPI_COMM_NULL,
                            .maxima = MPI_COMM_NULL,
                            .maximum_request = MPI_REQUEST_NULL};
    self->face = (plb_reduction_t){.self = self,
                                   .rank = comm->rank,
                                   .size = comm->size,
                                   .begin_stats = begin_stats,
                                   .test_stats = test_stats,
                                   .begin_maximum = begin_maximum,
                                   .test_maximum = test_maximum};
}

int plb_reducer_reserve(plb_reducer_t *self, int depth, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_FAIL_IF(self->begun != self->taken || self->maximum_request != MPI_REQUEST_NULL, err,
                PLB_ERR_STATE, "reductions are under way on this communicator");
    if (self->stats == MPI_COMM_NULL) {
        PLB_MPI(MPI_Comm_dup(self->comm->comm, &self->stats));
        PLB_MPI(MPI_Comm_dup(self->comm->comm, &self->maxima));
    }
    if (depth > self->face.depth) {
        plb_reducer_free(self);
        PLB_NEW_EACH(depth, self->mine, self->all, self->request);
        self->face.depth = depth;
    }
out:
    return ret;
}

void plb_reducer_free(plb_reducer_t *self)
{
    PLB_FREE(self->mine, self->all, self->request);
    self->mine = self->all = NULL;
    self->request = NULL;
    self->face.depth = 0;
}
