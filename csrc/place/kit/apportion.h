/* Divides a whole number in given proportions. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Divide n into integers part[i], proportional to share[i] (finite, 0 or more, not all 0), by the
 * method of the largest remainder: all parts are rounded down, then the parts with the largest
 * remainders get one more each, until the sum is n.  Ties (to a millionth): the lowest index.
 * Dasgupta's eq. 3 and 4 are the case share[i] = 1 / w[i], where w[i] is the time per object. */
int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err);

/** Compute the sum of share[p]; fails with the same errors as plb_apportion. */
int plb_apportion_total(const double *share, int32_t p, double *total, plb_err_t *err);
