/* Locks of windows, which are given out in the order of asking. */
#ifndef PLB_WHATIF_SIMULATOR_ONESIDED_H
#define PLB_WHATIF_SIMULATOR_ONESIDED_H

#include "whatif/simulator/state.h"

/** Ask for a lock: `rank` wakes when it has it. */
int plb_lock_begin(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
/** Give it back when the data have gone over. */
int plb_lock_end(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);

#endif
