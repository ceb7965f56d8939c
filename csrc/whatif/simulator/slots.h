/* Slots: the states of a rank's open requests and of its blocking call. */
#pragma once

#include "whatif/simulator/state.h"

int plb_slot_open(plb_whatif_t *self, int32_t rank, int32_t slot, plb_err_t *err);
/** Let a rank wait for a slot.  Returns NEXT if the slot is complete; it is then free again. */
verdict_t plb_slot_wait(plb_whatif_t *self, int32_t rank, int32_t slot);
/** Complete a slot at time `when`, because of operation cause_op of cause_rank (-1: none). */
void plb_slot_complete(plb_whatif_t *self, int32_t rank, int32_t slot, double when,
                       int32_t cause_rank, int64_t cause_op);
