/* Sorts (number, id) pairs by the number; equal numbers by id, lowest first.  The pairs are
 * distributed over bins: the time is usually linear, and proportional to n log n at worst. */
#pragma once

#include "base/err.h"
#include "base/item.h"

typedef enum plb_direction { PLB_ASCENDING, PLB_DESCENDING } plb_direction_t;

/* Loads that are sorted part by part.  Each part is sorted just before it is used, so that its
 * items are still in the cache. */
typedef struct plb_loads {
    plb_item_t *item; /* [n] (x, index), or (-x, index) for the descending order */
    int64_t n, ready; /* item[0 ... ready-1] are sorted */
    struct plb_sort_parts *parts;
} plb_loads_t;

/** Prepare to sort x[n], which must be finite; n < 2^31.  `self` owns its arrays; x is copied. */
int plb_loads_init(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                   plb_err_t *err);

/** Like plb_loads_init, but also sort all loads. */
int plb_loads_sorted(plb_loads_t *self, const double *x, int64_t n, plb_direction_t direction,
                     plb_err_t *err);

/** Make sure that at least the first `upto` <= n items are sorted. */
void plb_loads_sort(plb_loads_t *self, int64_t upto);
void plb_loads_free(plb_loads_t *self);

/** Number of entries of scratch memory that plb_sort_items needs for the bins of n items. */
#define PLB_SORT_BINS(n) (2 * (int64_t)(n))

/** Sort item[n], whose keys lie in [low, high] and whose ids all differ.  spare[n] and
 *  bin[PLB_SORT_BINS(n)] are scratch memory. */
void plb_sort_items(plb_item_t *item, int64_t n, double low, double high, plb_item_t *spare,
                    uint32_t *bin);
