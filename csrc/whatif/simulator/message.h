/* Matches messages with receives.  Messages with the same sender, receiver and communicator form
 * a channel, in the order of sending.  Receives from a given sender wait in the channel; receives
 * from any source wait at the receiver.  So the usual match is the first one that is tried. */
#pragma once

#include "whatif/simulator/state.h"

/** Send `message`.  The caller sets its src, tag, bytes, op and slot (-1: the sender goes on). */
int plb_message_send(plb_whatif_t *self, int32_t dst, uint32_t context, message_t message,
                     plb_err_t *err);
/** Post the receive of `slot`; complete it if its message is there.  src is -1: from any source;
 * tag is PLB_ANY_TAG: with any tag. */
int plb_message_receive(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                        int32_t tag, int32_t slot, plb_err_t *err);
/** Let the first message that is in flight to `rank` arrive. */
void plb_message_arrive(plb_whatif_t *self, int32_t rank);
/** Return the first message that has arrived and fits; -1: there is none. */
int32_t plb_message_find(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                         int32_t tag);
/** Begin a call of `rank`: transfer the rendezvous messages that wait for a call of this rank. */
void plb_message_progress(plb_whatif_t *self, int32_t rank);
void plb_message_cancel(plb_whatif_t *self, int32_t rank, int32_t slot);
