/* Simulates collectives, by the rules in simulator.h. */
#pragma once

#include "whatif/simulator/state.h"
#include "whatif/simulator/trees.h"

/** Get the next step of the blocking collective of `rank`; false: the collective is complete. */
bool plb_collective_next(const plb_whatif_t *self, int32_t rank, plb_hop_t *out);
/** Continue the blocking collective of `rank`.  *verdict: NEXT: it is complete; WAIT: not yet. */
int plb_collective_run(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err);
/** Enter a nonblocking collective. */
int plb_collective_enter(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
