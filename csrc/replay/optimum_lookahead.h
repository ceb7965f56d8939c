/* Computes the seconds of the next phases if the placement does not change. */
#ifndef PLB_REPLAY_OPTIMUM_LOOKAHEAD_H
#define PLB_REPLAY_OPTIMUM_LOOKAHEAD_H

#include "replay/optimum_layout.h"

enum {
    RING = 32, /* number of phases whose seconds are kept */
    GROUP = 4, /* number of placements that are computed together */
};

/* States that are computed together, in one pass over the loads. */
typedef struct group {
    int n;
    const int32_t *rank[GROUP];
    double *ring[GROUP]; /* ring[g][phase % RING]: seconds of a phase */
    double *sum;         /* scratch, [GROUP, n_ranks, LANES] */
    int32_t *scratch;    /* [GROUP, n_slots] */
} group_t;

/** Continue from phase `known` to at least `until` without an LB step, and return the first
 * phase that is not known yet; the states' ranks are those of phase i. */
int64_t plb_layout_run(const layout_t *self, int64_t i, int64_t known, int64_t until,
                       group_t *group);

#endif
