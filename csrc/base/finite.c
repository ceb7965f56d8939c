#include "base/err.h"

#include <string.h>

/* The exponent of infinity and NaN has only ones, so adding 1 to it carries over into the sign
 * bit.  There is no branch, so that compilers can vectorize the loop. */
bool plb_all_finite(const double *x, int64_t n)
{
    const uint64_t exponent = UINT64_C(0x7ff) << 52, one = UINT64_C(1) << 52;
    uint64_t over = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i, sizeof bits);
        over |= (bits & exponent) + one;
    }
    return over >> 63 == 0;
}
