/* Whole numbers in given proportions. */
#ifndef PLB_PLACE_KIT_APPORTION_H
#define PLB_PLACE_KIT_APPORTION_H

#include <stdint.h>

#include "base/err.h"

/** part[i] of n, proportional to share[i] >= 0, by the largest remainder: the proportions rounded
 *  down, and one more for those that this took most from; of equal ones (to a millionth) the
 * lowest index.  Dasgupta eq. 3 and 4 are share[i] = 1 / w[i].  At least one share must be above
 * 0, all finite. */
int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err);

/** The sum of share[p]; an error where plb_apportion would have one. */
int plb_apportion_total(const double *share, int32_t p, double *total, plb_err_t *err);

#endif
