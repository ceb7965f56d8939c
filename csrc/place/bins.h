/* Items dealt out to bins, so that the bin with the largest cost costs as little as possible: e.g.
 * sequences of unequal length, to processes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

typedef struct plb_bins {
    int64_t n;            /* items, below 2^31 */
    int32_t m;            /* bins */
    const double *cost;   /* [n] */
    const double *length; /* [n] with a capacity */
    double capacity;      /* the lengths in a bin add up to at most this; INFINITY: no limit */
    bool equal;         /* all bins get the same number of items, or numbers that differ by one */
    const int32_t *was; /* [n] present bins; -1: a new item.  As many as possible stay, if the
                           largest cost is at most a thousandth above the bound.  NULL: none */
} plb_bins_t;

/** Write the bin of each item to bin[n], and to sum[m] the cost of each bin.  *bound: no packing
 * has a smaller largest cost.  PLB_ERR_INFEASIBLE: an item fits into no bin.  Ties: the lowest
 * index. */
int plb_bins_pack(const plb_bins_t *of, int32_t *bin, double *sum, double *bound, plb_err_t *err);
