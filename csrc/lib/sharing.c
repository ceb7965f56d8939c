#include "lib/sharing.h"

#include <stdio.h>

#include "base/mem.h"

/* Compare the cores of all ranks, on rank 0. */
static int compare(const plb_cores_t *all, int32_t p, plb_crowd_t *crowd, bool *capped,
                   plb_err_t *err)
{
    for (int32_t r = 0; r < p; r++) {
        capped[r] = plb_cores_capped(all, p, r);
    }
    PLB_PASS(plb_cores_crowd(all, p, crowd, err));
    if (*crowd->words != '\0') {
        fprintf(stderr, "pylb: %s and wait for one another\n", crowd->words);
    }
    return PLB_OK;
}

int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, plb_err_t *err)
{
    int ret = PLB_OK;
    char *all = NULL;
    int64_t *size = NULL;
    bool *of_rank = NULL;
    plb_cores_t mine;
    plb_cores_here(&mine);
    PLB_NEW(size, ranks->size);
    PLB_NEW0(of_rank, ranks->size);
    PLB_TRY(ranks->gather(ranks, &mine, sizeof mine, &all, size, err));
    if (ranks->rank == 0) {
        PLB_TRY(compare((const plb_cores_t *)all, ranks->size, crowd, of_rank, err));
    }
    PLB_TRY(ranks->bcast(ranks, crowd, sizeof *crowd, err));
    PLB_TRY(ranks->bcast(ranks, of_rank, ranks->size * (int64_t)sizeof *of_rank, err));
    *capped = of_rank[ranks->rank];
out:
    PLB_FREE(size, of_rank);
    plb_free(all);
    return ret;
}
