/* Describes a collective as a tree of messages: which messages each rank sends and receives. */
#pragma once

#include <stdbool.h>

#include "whatif/ops.h"

/* A step: send a message to rank `to`, then wait for one from rank `from`; -1: no such message. */
typedef struct plb_hop {
    int32_t to, from; /* ranks in the communicator */
    int64_t bytes;    /* bytes sent */
} plb_hop_t;

/** Get step 0, 1, ... of rank `me` of `size`; false: there are no more steps.
 *   - Collectives with a root: binomial trees.
 *   - Alltoall with long data: each rank sends directly to one rank after the other.
 *   - All others: recursive doubling, as Bruck et al. do it for any number of ranks. */
bool plb_tree_step(plb_collective_t what, int32_t me, int32_t size, int32_t root, int64_t bytes,
                   int32_t step, plb_hop_t *out);

/** Count steps and bytes on the longest path through the tree, for nonblocking collectives. */
void plb_tree_depth(plb_collective_t what, int32_t size, int64_t bytes, int32_t *steps,
                    int64_t *total);

/** For which ranks a rank has to wait in a collective: for all, for the root, or for none. */
typedef enum plb_awaits { PLB_AWAITS_ALL, PLB_AWAITS_ROOT, PLB_AWAITS_NOBODY } plb_awaits_t;
plb_awaits_t plb_tree_awaits(plb_collective_t what, bool is_root);
