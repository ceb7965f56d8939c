/* Who shares the cores of an advisor's ranks; see base/cores.h. */
#ifndef PLB_LIB_SHARING_H
#define PLB_LIB_SHARING_H

#include "base/cores.h"
#include "comm/ranks.h"

/** The ranks that share cores most, and whether a quota holds for this rank alone.  Rank 0 prints
 * the former if they wait for one another.  Collective. */
int plb_lib_share_cores(plb_ranks_t *ranks, plb_crowd_t *crowd, bool *capped, plb_err_t *err);

#endif
