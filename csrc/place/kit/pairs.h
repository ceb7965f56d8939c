/* Pairs of ranks divide their objects again: for ranks with few objects, where no single move or
 * swap helps. */
#ifndef PLB_PLACE_KIT_PAIRS_H
#define PLB_PLACE_KIT_PAIRS_H

#include "place/kit/ranks.h"

/** Change ranks->rank until no rank takes more than `limit` seconds, or as little more as can be
 * found.  The maximum never grows; memory limits are kept. */
int plb_pairs(plb_ranks_t *ranks, double limit, plb_err_t *err);

#endif
