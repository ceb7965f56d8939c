/* Collectives: blocking ones as trees of messages, nonblocking ones by which ranks have entered.
 */
#ifndef PLB_WHATIF_SIMULATOR_COLLECTIVE_H
#define PLB_WHATIF_SIMULATOR_COLLECTIVE_H

#include "whatif/simulator/state.h"
#include "whatif/simulator/trees.h"

/** The next step of the blocking collective that `rank` is in; false: it is through. */
bool plb_collective_next(const plb_whatif_t *self, int32_t rank, plb_hop_t *out);
/** Do as many steps as need no waiting; *verdict NEXT: it is through. */
int plb_collective_run(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err);
/** Enter a nonblocking one. */
int plb_collective_enter(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);

#endif
