/* Improves a placement by exchanges of sets of objects between two ranks.  This helps if ranks
 * have few objects, and no move or swap of single objects reduces the maximum. */
#pragma once

#include "place/kit/ranks.h"

typedef struct plb_pairs_aim {
    double limit;       /* seconds that no rank should exceed */
    double useless;     /* seconds; the result is useless if the slowest rank takes longer */
    int64_t most_moves; /* the result is also useless if more objects than this are away from their
                           rank in the snapshot */
} plb_pairs_aim_t;

/** Change ranks->rank until no rank takes more than `limit` seconds; if no way is found, until the
 * slowest rank is as fast as the search can make it, or until it is clear that the result will be
 * useless.  The maximum never grows; memory limits are kept. */
int plb_pairs(plb_ranks_t *ranks, const plb_pairs_aim_t *aim, plb_err_t *err);
