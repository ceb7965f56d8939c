#include "lib/internal.h"

#include "base/mem.h"

typedef struct share {
    plb_cores_t cores;
    int64_t lag;
} share_t;

typedef struct answer {
    plb_crowd_t crowd;
    int64_t lag;
} answer_t;

static int compare(const share_t *all, int32_t p, answer_t *out, bool *capped, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_cores_t *cores = NULL;
    PLB_NEW(cores, p);
    for (int32_t r = 0; r < p; r++) {
        cores[r] = all[r].cores;
        out->lag = all[r].lag > out->lag ? all[r].lag : out->lag;
    }
    for (int32_t r = 0; r < p; r++) {
        capped[r] = plb_cores_capped(cores, p, r);
    }
    ret = plb_cores_crowd(cores, p, &out->crowd, err);
out:
    plb_free(cores);
    return ret;
}

int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, int64_t *lag,
                        plb_err_t *err)
{
    char *all = NULL;
    share_t mine = {.lag = *lag};
    answer_t answer = {.lag = 0};
    plb_cores_here(&mine.cores);
    bool *of_rank = plb_calloc((size_t)ranks->size, sizeof *of_rank);
    int ret = of_rank == NULL ? PLB_NO_MEMORY(of_rank, ranks->size) : PLB_OK;
    PLB_TRY(ranks->gather(ranks, &mine, ret == PLB_OK ? (int64_t)sizeof mine : ret, &all, err));
    if (ranks->rank == 0) {
        ret = compare((const share_t *)(const void *)all, ranks->size, &answer, of_rank, err);
    }
    PLB_TRY(ranks->agree(ranks, ret, err));
    PLB_TRY(ranks->bcast(ranks, &answer, sizeof answer, err));
    PLB_TRY(ranks->bcast(ranks, of_rank, ranks->size * (int64_t)sizeof *of_rank, err));
    *crowd = answer.crowd;
    *lag = answer.lag;
    *capped = of_rank[ranks->rank];
out:
    PLB_FREE(of_rank, all);
    return ret;
}
