/* Which processes run where, and for how long: equal shares at any time, or turns of a quantum. */
#ifndef PLB_WHATIF_SIMULATOR_PROCESSOR_H
#define PLB_WHATIF_SIMULATOR_PROCESSOR_H

#include "whatif/simulator/state.h"

/** Let `rank`, which holds its processor or is not on it, work for so many seconds. */
void plb_processor_give(plb_whatif_t *self, int32_t rank, double work);
/** `rank` waits from now on, which may take its share; or (`gone`) leaves the processor. */
void plb_processor_leave(plb_whatif_t *self, int32_t rank, bool gone);
/** The processor's time has come: return the rank whose work is done, or -1. */
int32_t plb_processor_event(plb_whatif_t *self, int32_t processor);

#endif
