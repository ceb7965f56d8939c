#include "comm/comm.h"

#include <limits.h>

#include "base/mem.h"
#include "base/wait.h"
#include "measure/stats.h"

int plb_mpi_fail(plb_err_t *err, int code, const char *call, const char *file, int line)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int n = 0;
    MPI_Error_string(code, text, &n);
    return plb_fail(err, PLB_ERR_MPI, file, line, "%.200s in %.100s", text, call);
}

static void merge(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)type;
    const plb_stats_t *a = in;
    plb_stats_t *b = inout;
    for (int i = 0; i < *n; i++) {
        plb_stats_merge(&b[i], &a[i]);
    }
}

int plb_comm_init(plb_comm_t *self, MPI_Comm user, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_comm_t){MPI_COMM_NULL, 0, 0, MPI_DATATYPE_NULL, MPI_OP_NULL};
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

int plb_comm_finish(MPI_Request *request, plb_err_t *err)
{
    int ret = PLB_OK, done = 0;
    plb_wait_t wait;
    plb_wait_begin(&wait, NULL, NULL);
    for (;;) {
        PLB_MPI(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) {
            break;
        }
        plb_wait_pause(&wait);
    }
out:
    return ret;
}

int plb_comm_bcast(plb_comm_t *self, void *data, int64_t n, int root, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Request request;
    PLB_FAIL_IF(n > INT_MAX, err, PLB_ERR_RANGE, "%lld bytes to broadcast: expected at most %d",
                (long long)n, INT_MAX);
    PLB_MPI(MPI_Ibcast(data, (int)n, MPI_BYTE, root, self->comm, &request));
    ret = plb_comm_finish(&request, err);
out:
    return ret;
}

int plb_comm_sizes(plb_comm_t *self, int64_t mine, int64_t *size, plb_err_t *err)
{
    int ret = PLB_OK;
    MPI_Request request;
    PLB_MPI(MPI_Iallgather(&mine, 1, MPI_INT64_T, size, 1, MPI_INT64_T, self->comm, &request));
    ret = plb_comm_finish(&request, err);
out:
    return ret;
}

int plb_comm_allgather(plb_comm_t *self, const void *mine, const int64_t *size, void *all,
                       plb_err_t *err)
{
    int ret = PLB_OK, *count = NULL;
    MPI_Request request;
    int64_t total = 0;
    PLB_NEW(count, 2 * self->size);
    int *start = count + self->size;
    for (int r = 0; r < self->size; r++) {
        start[r] = (int)total;
        count[r] = (int)size[r];
        total += size[r];
        if (total > INT_MAX) { /* all ranks have the same sum, so all fail */
            ret = PLB_FAIL(err, PLB_ERR_RANGE, "more than %d bytes to gather", INT_MAX);
            goto out;
        }
    }
    PLB_MPI(MPI_Iallgatherv(mine, count[self->rank], MPI_BYTE, all, count, start, MPI_BYTE,
                            self->comm, &request));
    ret = plb_comm_finish(&request, err);
out:
    plb_free(count);
    return ret;
}
