/* Collectives.  A blocking one is simulated as a tree of messages.  A nonblocking one is
 * complete when the ranks on which it depends have entered it and the time of such a tree has
 * passed since. */
#pragma once

#include "whatif/simulator/state.h"
#include "whatif/simulator/trees.h"

/** Get the next step of the blocking collective of `rank`; false: the collective is complete. */
bool plb_collective_next(const plb_whatif_t *self, int32_t rank, plb_hop_t *out);
/** Do the steps of the blocking collective of `rank` until the rank must wait.  *verdict is NEXT
 * if the collective is complete. */
int plb_collective_run(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err);
/** Enter a nonblocking collective. */
int plb_collective_enter(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
