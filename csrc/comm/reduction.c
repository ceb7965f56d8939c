#include "comm/comm.h"

#include <string.h>

#include "base/mem.h"

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
