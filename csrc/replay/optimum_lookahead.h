/* Computes how long the next phases of a recorded run take if there is no LB step. */
#pragma once

#include "replay/optimum_layout.h"

enum {
    RING = 32, /* number of phases whose seconds are kept for each placement */
    GROUP = 4, /* number of placements whose times are computed together */
};

/* Placements whose times are computed together, so that each load is read once. */
typedef struct group {
    int n;
    const int32_t *rank[GROUP];
    double *ring[GROUP]; /* ring[g][phase % RING]: seconds of a phase under placement g */
    double *sum;         /* [GROUP, n_ranks, LANES] scratch memory */
    int32_t *scratch;    /* [GROUP, n_slots] scratch memory */
} group_t;

/** Compute the seconds of the phases `known` ... `until` - 1, and up to the end of the last block.
 * Returns the first phase that is not computed.  group->rank: the placements in phase i. */
int64_t plb_layout_run(const layout_t *self, int64_t i, int64_t known, int64_t until,
                       group_t *group);
