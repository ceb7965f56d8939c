/* Exchanges of objects between ranks that take their communication into account. */
#ifndef PLB_PLACE_KIT_SWAPS_H
#define PLB_PLACE_KIT_SWAPS_H

#include "place/kit/ranks.h"

/** While the slowest rank takes more than `limit` seconds: move one of its objects to another
 * rank, or exchange it for an object there.  Takes the step that shortens the slower of the two
 * ranks most, down to the limit; of the steps that reach the limit, the one that saves most
 * communication. Candidates are ranks below the limit with which its objects communicate, and the
 * few ranks with most room.
 *
 *  comm[p], or NULL: messages do not count as time of the ranks.  Costs of messages as in
 *  plb_affinity_init.  Ties: the lowest object, rank, and object there.  Ends if the slowest rank
 * has no such step, or after a bounded amount of work. */
int plb_swaps(plb_ranks_t *ranks, double *comm, double alpha, double beta, double limit,
              const plb_opts_t *opts, plb_err_t *err);

#endif
