/* Which ranks of an advisor share cores; see base/cores.h. */
#ifndef PLB_LIB_SHARING_H
#define PLB_LIB_SHARING_H

#include "base/cores.h"
#include "comm/transport.h"

/** Find the ranks with the fewest cores per rank, and whether a quota of processor time limits
 *  this rank alone (*capped).  Rank 0 prints a line if these ranks wait for one another.
 *  Collective. */
int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, plb_err_t *err);

#endif
