/* Integers of 32 or 64 bits as they came, so that an array of either kind is read without a copy.
 */
#ifndef PLB_BASE_INTS_H
#define PLB_BASE_INTS_H

#include <stdint.h>

typedef struct plb_ints {
    const void *data; /* NULL: none */
    int wide;         /* 64 bits */
} plb_ints_t;

static inline int64_t plb_int_at(plb_ints_t x, int64_t i)
{
    return x.wide ? ((const int64_t *)x.data)[i] : ((const int32_t *)x.data)[i];
}

/** The first of x[n], which ascends, that is not below `value`; n: none. */
static inline int64_t plb_lower_bound(const int64_t *x, int64_t n, int64_t value)
{
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (x[middle] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

#endif
