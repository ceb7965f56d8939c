/* Matches messages with receives.
 *
 * Messages of one sender, receiver and communicator form a channel, in order.  Receives from a
 * given sender wait in the channel; receives from any source wait at the receiver.  So the usual
 * match is found at once, even if many messages wait. */
#ifndef PLB_WHATIF_SIMULATOR_MESSAGE_H
#define PLB_WHATIF_SIMULATOR_MESSAGE_H

#include "whatif/simulator/state.h"

/** Send `message`, whose src, tag, slot (-1: the sender does not wait), bytes and op the caller
 * has set. */
int plb_message_send(plb_whatif_t *self, int32_t dst, uint32_t context, message_t message,
                     plb_err_t *err);
/** Post the receive of `slot`, which may complete at once.  src -1: any source; tag PLB_ANY_TAG:
 * any tag. */
int plb_message_receive(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                        int32_t tag, int32_t slot, plb_err_t *err);
/** Let the first message in flight to `rank` arrive. */
void plb_message_arrive(plb_whatif_t *self, int32_t rank);
/** Find the first message that has arrived and fits, or -1. */
int32_t plb_message_find(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                         int32_t tag);
/** Begin a call of `rank`: rendezvous messages (longer than `eager`) that wait for it continue. */
void plb_message_progress(plb_whatif_t *self, int32_t rank);
/** Cancel a posted receive. */
void plb_message_cancel(plb_whatif_t *self, int32_t rank, int32_t slot);

#endif
