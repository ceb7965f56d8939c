/* Seconds of the coming phases if the placement does not change. */
#ifndef PLB_REPLAY_OPTIMUM_LOOKAHEAD_H
#define PLB_REPLAY_OPTIMUM_LOOKAHEAD_H

#include "replay/optimum_layout.h"

enum {
    RING = 32, /* phases whose seconds are kept */
    GROUP = 4, /* placements that are run ahead together */
};

/* States that are run ahead together: a pass over the loads serves all of them. */
typedef struct group {
    int n;
    const int32_t *rank[GROUP];
    double *ring[GROUP]; /* ring[g][phase % RING]: seconds of a phase */
    double *sum;         /* scratch, [GROUP, n_ranks, LANES] */
    int32_t *scratch;    /* [GROUP, n_slots] */
} group_t;

/** Go on from phase `known` to at least `until` without an LB step, and return the phase that is
 *  not known yet; the ranks are of phase i. */
int64_t plb_layout_run(const layout_t *self, int64_t i, int64_t known, int64_t until,
                       group_t *group);

#endif
