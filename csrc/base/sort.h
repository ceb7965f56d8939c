/* Radix sort of loads: the order of doubles, exactly, in time linear in their number. */
#ifndef PLB_BASE_SORT_H
#define PLB_BASE_SORT_H

#include <stdint.h>

#include "base/err.h"

typedef enum plb_direction { PLB_ASCENDING, PLB_DESCENDING } plb_direction_t;

/** order[n] <- the indices 0 ... n-1 by the value of x (no NaN), equal values by index, lowest
 *  first; sorted[n] <- x in that order, unless NULL.  0.0 and -0.0 are equal. */
int plb_sort_order(const double *x, int64_t n, plb_direction_t direction, int32_t *order,
                   double *sorted, plb_err_t *err);

#endif
