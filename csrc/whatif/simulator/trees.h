/* Collectives as trees of messages: the steps of each rank. */
#ifndef PLB_WHATIF_SIMULATOR_TREES_H
#define PLB_WHATIF_SIMULATOR_TREES_H

#include <stdbool.h>

#include "whatif/ops.h"

/* A step: send a message to `to`, then wait for the one from `from`; -1: none. */
typedef struct plb_hop {
    int32_t to, from; /* ranks of the communicator */
    int64_t bytes;    /* bytes sent */
} plb_hop_t;

/** Get step 0, 1, ... of rank `me` of `size`; false when there are no more.  One-to-all and
 * all-to-one use binomial trees, all-to-all uses recursive doubling (Bruck's for any number of
 * ranks), except that long messages with different data for each rank go to each rank in turn. */
bool plb_tree_step(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                   int32_t step, plb_hop_t *out);

/** Compute the steps and bytes on the longest path through the tree, for nonblocking
 * collectives. */
void plb_tree_depth(plb_collective_t what, int32_t size, int64_t bytes, int32_t *steps,
                    int64_t *total);

/** Whether a rank has to wait for all ranks, for the root, or for none. */
typedef enum plb_awaits { PLB_AWAITS_ALL, PLB_AWAITS_ROOT, PLB_AWAITS_NOBODY } plb_awaits_t;
plb_awaits_t plb_tree_awaits(plb_collective_t what, bool is_root);

#endif
