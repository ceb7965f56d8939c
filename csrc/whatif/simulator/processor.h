/* Divides the processors' time among processes: egalitarian processor sharing.  Each of k
 * processes that compute on a processor gets 1/k of it at any time. */
#pragma once

#include "whatif/simulator/state.h"

/** Give `rank` more work: seconds at speed 1. */
void plb_processor_give(plb_whatif_t *self, int32_t rank, double work);
/** Let `rank` stop computing: it waits, pauses or has ended. */
void plb_processor_leave(plb_whatif_t *self, int32_t rank);
/** Handle the processor's event: return the rank whose work is done. */
int32_t plb_processor_event(plb_whatif_t *self, int32_t processor);
