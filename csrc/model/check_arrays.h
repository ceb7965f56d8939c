/* Checks of the elements x[i0] ... x[end - 1] of arrays that come from outside.  If x is NULL,
 * nothing is checked. The error names the array and the element. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/** Check that each element is in 0 ... limit - 1.  PLB_ERR_RANGE if not. */
int plb_check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                    plb_err_t *err);

/** Check that each element is in least ... 1e30; least >= 0.  PLB_ERR_VALUE if not. */
int plb_check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                  plb_err_t *err);

/** Check that each element is a number of bytes, zero or more.  PLB_ERR_VALUE if not. */
int plb_check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err);
