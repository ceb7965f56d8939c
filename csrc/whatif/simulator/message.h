/* Messages, receives, and which belongs to which.
 *
 * Messages of one sender, receiver and communicator form a channel, in order; receives from one
 * sender wait in the channel, those from any with their receiver.  So the usual match is found
 * at once, however many messages wait. */
#ifndef PLB_WHATIF_SIMULATOR_MESSAGE_H
#define PLB_WHATIF_SIMULATOR_MESSAGE_H

#include "whatif/simulator/state.h"

/** Send `message`, of which src, tag, slot (-1: nobody waits), bytes and op are given. */
int plb_message_send(plb_whatif_t *self, int32_t dst, uint32_t context, message_t message,
                     plb_err_t *err);
/** Post a receive of `slot`; src -1, tag PLB_ANY_TAG: any.  May complete it at once. */
int plb_message_receive(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                        int32_t tag, int32_t slot, plb_err_t *err);
/** The first of the messages in flight to `rank` is there. */
void plb_message_arrive(plb_whatif_t *self, int32_t rank);
/** The first message that is there and fits, or -1. */
int32_t plb_message_find(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                         int32_t tag);
/** A call of `rank` begins: rendezvous that wait for one go on. */
void plb_message_progress(plb_whatif_t *self, int32_t rank);
/** Forget a posted receive. */
void plb_message_cancel(plb_whatif_t *self, int32_t rank, int32_t slot);

#endif
