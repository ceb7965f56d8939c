/* Sorting of loads and of ranks: the order of doubles, exactly, ties by the lowest id.
 *
 * Both are distribution sorts, in linear time on any input that is not made to hurt them, and
 * n log n on that.
 */
#ifndef PLB_BASE_SORT_H
#define PLB_BASE_SORT_H

#include "base/err.h"
#include "base/item.h"

typedef enum plb_direction { PLB_ASCENDING, PLB_DESCENDING } plb_direction_t;

/** Order x[n], finite, n < 2^31: *out is a new array of n items (x, index), or (-x, index) for the
 *  descending order; equal values by index, lowest first. */
int plb_sort_loads(const double *x, int64_t n, plb_direction_t direction, plb_item_t **out,
                   plb_err_t *err);

/** Order item[n], whose keys lie in [low, high].  Scratch: spare[n] and bin[2 n].  All
 *  ids differ. */
void plb_sort_items(plb_item_t *item, int64_t n, double low, double high, plb_item_t *spare,
                    uint32_t *bin);

#endif
