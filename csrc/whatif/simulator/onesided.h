/* Locks of MPI windows.  Ranks get a lock in the order in which they ask for it. */
#pragma once

#include "whatif/simulator/state.h"

/** Ask for a lock.  `rank` goes on as soon as it has the lock. */
int plb_lock_begin(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
/** Release a lock when the data have been transferred. */
int plb_lock_end(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
