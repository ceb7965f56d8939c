/* Whole numbers in given proportions. */
#ifndef PLB_PLACE_KIT_APPORTION_H
#define PLB_PLACE_KIT_APPORTION_H

#include <stdint.h>

#include "base/err.h"

/** Divide n into integers part[i], proportional to share[i] >= 0, by the largest remainder:
 * proportions are rounded down, and those that lost most by this get one more; ties (to a
 * millionth): the lowest index.  Dasgupta eq. 3 and 4 are share[i] = 1 / w[i].  At least one
 * share must be above 0, all finite. */
int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err);

/** Compute the sum of share[p]; fails with the same errors as plb_apportion. */
int plb_apportion_total(const double *share, int32_t p, double *total, plb_err_t *err);

#endif
