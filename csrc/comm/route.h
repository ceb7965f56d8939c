/* The order in which items are sent to ranks, and copies of items to and from this order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

typedef struct plb_route {
    int32_t n_peers;
    int32_t *rank;  /* [n_peers] ranks that get items, ascending */
    int64_t *start; /* [n_peers + 1] items start[i] ... start[i+1]-1 of the order go to rank[i] */
    int32_t *order; /* [start[n_peers]] item indices, stably sorted by rank; NULL: 0, 1, 2, ... */
} plb_route_t;

/** Find the route of n items to the ranks dest[n].  `self` owns its arrays.  Time: O(n + n_ranks).
 * PLB_ERR_RANGE: a destination is not a rank, or n >= 2^31. */
int plb_route_init(plb_route_t *self, const int32_t *dest, int64_t n, int32_t n_ranks,
                   plb_err_t *err);
void plb_route_free(plb_route_t *self);

/** Set to[i] = from[index[i]], for n items of `bytes` bytes; plb_scatter: to[index[i]] = from[i].
 * offset (NULL: none): item i of the array that `index` refers to has the elements offset[i] ...
 * offset[i+1]-1, of `bytes` bytes each. */
void plb_gather(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                int64_t bytes, char *to);
void plb_scatter(const char *from, const int64_t *offset, const int32_t *index, int64_t n,
                 int64_t bytes, char *to);
