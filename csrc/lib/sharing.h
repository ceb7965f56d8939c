/* What ranks tell each other before the first step: their cores and their option `lag`. */
#pragma once

#include "base/cores.h"
#include "comm/transport.h"

/** Find the group of ranks with the fewest cores per rank.  *capped: whether a quota of processor
 * time limits this rank and no other.  *lag becomes the largest lag of all ranks: then all ranks
 * have the same number of reductions under way, even if they were given different lags by mistake.
 * Collective; an error is raised on all ranks. */
int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, int64_t *lag,
                        plb_err_t *err);
