/* Divides the processors' time among processes, in equal shares or in turns of a quantum. */
#pragma once

#include "whatif/simulator/state.h"

/** Give `rank` more work: seconds at speed 1. */
void plb_processor_give(plb_whatif_t *self, int32_t rank, double work);
/** Let `rank` wait from now on.  gone: whether the rank also leaves the processor; if not, it can
 * still use its share (plb_waiting_t). */
void plb_processor_leave(plb_whatif_t *self, int32_t rank, bool gone);
/** Handle the processor's event: return the rank whose work is done; -1: only a turn has ended. */
int32_t plb_processor_event(plb_whatif_t *self, int32_t processor);
