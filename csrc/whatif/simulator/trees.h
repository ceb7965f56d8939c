/* Collectives as trees of messages: what a rank does in each step. */
#ifndef PLB_WHATIF_SIMULATOR_TREES_H
#define PLB_WHATIF_SIMULATOR_TREES_H

#include <stdbool.h>

#include "whatif/ops.h"

/* First the message to `to`, then the one from `from` is waited for; -1: none. */
typedef struct plb_hop {
    int32_t to, from; /* ranks of the communicator */
    int64_t bytes;    /* that are sent */
} plb_hop_t;

/** Step 0, 1, ... of rank `me` of `size`; false when there are no more.  Binomial trees for one to
 * all and all to one, recursive doubling (Bruck's for any number of ranks) for all to all, except
 *  that long personal messages go to each of few ranks in turn. */
bool plb_tree_step(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                   int32_t step, plb_hop_t *out);

/** Steps on the longest way through it, and bytes on that way: for nonblocking ones. */
void plb_tree_depth(plb_collective_t what, int32_t size, int64_t bytes, int32_t *steps,
                    int64_t *total);

/** Whether a rank has to wait for all, for the root, or for nobody. */
typedef enum plb_awaits { PLB_AWAITS_ALL, PLB_AWAITS_ROOT, PLB_AWAITS_NOBODY } plb_awaits_t;
plb_awaits_t plb_tree_awaits(plb_collective_t what, bool is_root);

#endif
