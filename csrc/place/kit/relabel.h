/* Renumbers the parts of a placement that was made from scratch, so that few objects move. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Find name[p]: the rank that gets each of the p parts.  Item i, 0 ... n - 1, is on rank now[i]
 * and in part[i], and has the weight counts[i] (NULL: 1).  The part and the rank with the most
 * weight in common are matched first, then the pair with the next most, and so on (ties: the
 * lowest rank, then the part of this rank's first item).  A part r may only become a rank s with
 * kind[r] == kind[s] (NULL: any rank).  The remaining parts and ranks are matched in ascending
 * order of kind[], then of number. */
int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err);
