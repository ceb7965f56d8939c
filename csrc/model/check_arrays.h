/* Checks of the elements x[i0] ... x[end - 1] of arrays that come from outside; x NULL: no check.
 * The error names the array and the element. */
#ifndef PLB_MODEL_CHECK_ARRAYS_H
#define PLB_MODEL_CHECK_ARRAYS_H

#include <stdint.h>

#include "base/err.h"

/** 0 ... limit - 1; else PLB_ERR_RANGE. */
int plb_check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                    plb_err_t *err);

/** `least` (zero or more) ... 1e30, not NaN; else PLB_ERR_VALUE. */
int plb_check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                  plb_err_t *err);

/** Zero or more bytes; else PLB_ERR_VALUE. */
int plb_check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err);

#endif
