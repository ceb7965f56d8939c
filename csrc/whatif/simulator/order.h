/* Lets a server process its requests in an order different from the recorded one.
 *
 * A receive from any source and the operations after it, up to the next such receive, form a
 * block: the work for one message.  If messages arrive in a different order than recorded, their
 * blocks are reordered accordingly.  These stay in their place: blocks with a collective; those of
 * 4096 operations or more; and the last one, because it includes the operations after the loop. */
#pragma once

#include "whatif/simulator/state.h"

typedef enum plb_order { CHOICE_MADE, CHOICE_NONE, CHOICE_UNKNOWN } plb_order_t;

/** Whether an operation is open: a blocking receive or probe from any source. */
bool plb_order_is_open(const plb_op_t *op);
/** Choose the next block of `rank`, which is at an open operation: the block whose message has
 * arrived first.  *out is CHOICE_NONE: no block's message has arrived; CHOICE_UNKNOWN: more
 * operations of the rank must be passed first (plb_whatif_feed). */
int plb_order_choose(plb_whatif_t *self, int32_t rank, plb_order_t *out, plb_err_t *err);
