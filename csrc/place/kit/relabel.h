/* Renumbers the parts of a placement that ignored where objects are, so that few objects move.
 */
#ifndef PLB_PLACE_KIT_RELABEL_H
#define PLB_PLACE_KIT_RELABEL_H

#include <stdint.h>

#include "base/err.h"

/** Find name[p]: the rank that gets each of p parts.  The part and the rank with most in common
 * are matched first (ties: the lowest rank, then its first such part), and so on; the rest is
 * matched in ascending order.  Item i of n is on rank now[i], goes to part[i], and counts as
 * much as counts[i] (NULL: 1).  A part may become a rank of the same kind[] only (NULL: any);
 * kind[r] is that of part r and of rank r. */
int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err);

#endif
