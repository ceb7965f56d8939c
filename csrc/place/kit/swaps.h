/* Exchanges of objects between ranks that take their communication into account. */
#ifndef PLB_PLACE_KIT_SWAPS_H
#define PLB_PLACE_KIT_SWAPS_H

#include "place/kit/ranks.h"

/** While the longest rank takes more than `limit` seconds: the exchange of one of its objects for
 *  one of another rank, or the move of it there, that makes the longer of the two shorter than it
 *  was, and by the most, down to the limit; of those that reach it the one whose communication
 *  wins most.  Other ranks are those below the limit that its objects talk to, and the few with
 * most room.
 *
 *  comm[p], or NULL: what the ranks send is no part of their time.  Costs of messages as in
 *  plb_affinity_init.  Ties: the lowest object, rank, and object there.  Ends where the longest
 *  rank has no such step, or after a bounded amount of work. */
int plb_swaps(plb_ranks_t *ranks, double *comm, double alpha, double beta, double limit,
              const plb_opts_t *opts, plb_err_t *err);

#endif
