/* Other numbers for the parts of a placement that was made without a look at where objects are. */
#ifndef PLB_PLACE_KIT_RELABEL_H
#define PLB_PLACE_KIT_RELABEL_H

#include <stdint.h>

#include "base/err.h"

/** name[p]: the rank that each of p parts becomes, so that much stays: the part and the rank that
 *  have most in common first (ties: the lowest rank, the part that it meets first), then what is
 *  left, the lowest of both.  Item i of n is on rank now[i], goes to part[i], and counts as much
 *  as counts[i] (NULL: 1).  A part may become a rank of the same kind[] only (NULL: any); kind[r]
 *  is that of part r and of rank r. */
int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err);

#endif
