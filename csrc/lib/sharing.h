/* Which ranks of an advisor share cores; see base/cores.h. */
#ifndef PLB_LIB_SHARING_H
#define PLB_LIB_SHARING_H

#include "base/cores.h"
#include "comm/transport.h"

/** Find the group of ranks with the fewest cores per rank, and whether a quota of processor time
 * limits this rank and no other (*capped).  If the ranks of the group wait for one another, rank
 * 0 prints a line that says so.  Collective. */
int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, plb_err_t *err);

#endif
