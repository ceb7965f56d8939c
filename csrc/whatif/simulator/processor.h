/* Divides the processors' time among processes: either all have equal shares at any time, or they
 * take turns of a quantum. */
#pragma once

#include "whatif/simulator/state.h"

/** Give `rank` more work, whether it is running on its processor now or not.  work: seconds at
 * speed 1. */
void plb_processor_give(plb_whatif_t *self, int32_t rank, double work);
/** Let `rank` wait from now on.  gone: true: the rank leaves the processor; false: it stays, and
 * may still use its share. */
void plb_processor_leave(plb_whatif_t *self, int32_t rank, bool gone);
/** Handle the processor's event: return the rank whose work is done, or -1. */
int32_t plb_processor_event(plb_whatif_t *self, int32_t processor);
