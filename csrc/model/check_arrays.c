#include "model/snapshot.h"

#include <string.h>

/* The first loop of each check has no branches, so that compilers vectorize it.  It sets the sign
 * bit of `doubt` if an element may be wrong.  Then a second loop looks for the element. */

int plb_check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                    plb_err_t *err)
{
    uint32_t doubt = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        doubt |= (uint32_t)x[i] | ((uint32_t)(limit - 1) - (uint32_t)x[i]);
    }
    for (int64_t i = i0; doubt >> 31 && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0 || x[i] >= limit, err, PLB_ERR_RANGE,
                    "%s[%lld] is %d: expected 0 ... %lld", name, (long long)i, x[i],
                    (long long)limit - 1);
    }
    return PLB_OK;
}

/* The bits of numbers >= 0, read as integers, have the same order as the numbers. */
int plb_check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                  plb_err_t *err)
{
    const double most = 1e30;
    uint64_t limit, bits, doubt = least > 0.0 ? UINT64_MAX : 0;
    memcpy(&limit, &most, sizeof limit);
    for (int64_t i = i0; x != NULL && i < end; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        doubt |= bits | (limit - bits);
    }
    for (int64_t i = i0; doubt >> 63 && x != NULL && i < end; i++) {
        if (!(x[i] >= least && x[i] <= most)) { /* this form of the test is also true for NaN */
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %g: expected %g ... 1e30", name,
                            (long long)i, x[i], least);
        }
    }
    return PLB_OK;
}

int plb_check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err)
{
    int64_t doubt = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        doubt |= x[i];
    }
    for (int64_t i = i0; doubt < 0 && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0, err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected zero or more bytes",
                    name, (long long)i, (long long)x[i]);
    }
    return PLB_OK;
}
