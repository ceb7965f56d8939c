/* What the ranks of an advisor tell each other before their first step: their cores
 * (base/cores.h), and their lag. */
#pragma once

#include "base/cores.h"
#include "comm/transport.h"

/** Find the group of ranks with the fewest cores per rank, and whether a quota of processor time
 * limits this rank and no other (*capped).  *lag becomes the largest lag of all ranks: then their
 * steps have the same number of reductions, even if the ranks were given different lags by
 * mistake.  Collective; an error is raised on all ranks. */
int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, int64_t *lag,
                        plb_err_t *err);
