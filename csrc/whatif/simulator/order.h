/* A server takes its requests in another order.
 *
 * What follows a receive from any source, up to the next one, is what the process does for that
 * message.  Where another message comes first than when it was recorded, what was done for that
 * one is done first: the blocks of records change places.  Blocks move only as long as they
 * contain no collective, and the last one stays where it is, since what comes after the loop
 * belongs to it. */
#ifndef PLB_WHATIF_SIMULATOR_ORDER_H
#define PLB_WHATIF_SIMULATOR_ORDER_H

#include "whatif/simulator/state.h"

typedef enum plb_choice { CHOICE_MADE, CHOICE_NONE, CHOICE_UNKNOWN } plb_choice_t;

/** Whether an operation waits for a message from any source. */
bool plb_order_is_open(const plb_op_t *op);
/** `rank` is at such an operation: choose the one whose message has arrived first.  NONE: no
 *  message is there; UNKNOWN: its next records have to be known first. */
int plb_order_choose(plb_whatif_t *self, int32_t rank, plb_choice_t *out, plb_err_t *err);

#endif
