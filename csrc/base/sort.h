/* Sorting of loads and of ranks: the order of doubles, exactly, ties by the lowest id.
 *
 * Both are distribution sorts: linear time, or n log n on inputs constructed against them.
 */
#ifndef PLB_BASE_SORT_H
#define PLB_BASE_SORT_H

#include "base/err.h"
#include "base/item.h"

typedef enum plb_direction { PLB_ASCENDING, PLB_DESCENDING } plb_direction_t;

/* Loads of which only the first part is sorted, as far as it is needed: so the items are still
 * in the cache when they are used. */
typedef struct plb_loads {
    plb_item_t *item; /* [n] (x, index), or (-x, index) for the descending order; equal values by
                       * index, lowest first */
    int64_t n, ready; /* item[0 ... ready-1] are sorted */
    struct plb_sort_parts *parts;
} plb_loads_t;

/** Prepare to sort x[n], which must be finite; n < 2^31.  Owns its arrays, borrows nothing. */
int plb_loads_init(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                   plb_err_t *err);

/** Like plb_loads_init, and sort all of them. */
int plb_loads_sorted(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                     plb_err_t *err);

/** Sort at least the first `upto` <= n. */
void plb_loads_sort(plb_loads_t *self, int64_t upto);
void plb_loads_free(plb_loads_t *self);

/** Size of the scratch memory for the bins of n items. */
#define PLB_SORT_BINS(n) (5 * (int64_t)(n))

/** Sort item[n], whose keys lie in [low, high].  Scratch: spare[n] and bin[PLB_SORT_BINS(n)].
 *  All ids differ. */
void plb_sort_items(plb_item_t *item, int64_t n, double low, double high, plb_item_t *spare,
                    uint32_t *bin);

#endif
