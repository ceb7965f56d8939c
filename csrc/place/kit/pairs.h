/* Improves a placement by exchanges of sets of objects between two ranks.  It helps if ranks have
 * few objects, and no move or swap of single objects reduces the maximum. */
#pragma once

#include "place/kit/ranks.h"

/** Change ranks->rank until no rank takes more than `limit` seconds; if no way is found, until the
 * slowest rank is as fast as the search can make it.  The maximum never grows; memory limits are
 * kept. */
int plb_pairs(plb_ranks_t *ranks, double limit, plb_err_t *err);
