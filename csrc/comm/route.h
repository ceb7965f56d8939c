/* The order in which items are sent to ranks, and copies of items to and from this order. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct plb_route {
    int32_t n_peers;
    int32_t *rank;  /* [n_peers] ranks that get items, ascending */
    int64_t *start; /* [n_peers + 1] items start[i] ... start[i+1]-1 of the order go to rank[i] */
    int32_t *order; /* [start[n_peers]] item indices, stably sorted by rank; NULL: 0, 1, 2, ... */
} plb_route_t;

/** Find the route of n items to the ranks dest[n].  `self` owns its arrays.  Time: O(n + n_ranks);
 * for at most 64 items O(n^2).  PLB_ERR_RANGE: a destination is not a rank, or n >= 2^31. */
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

/* A number, 0 or more, for each of some ids, in a hash table that is at most three quarters full.
 * (Entries lie in the slots, not in arrays by number as in hash.h: a look-up among 2 * 10^6 ids
 * would take twice as long.)  {0} is a valid empty table. */
typedef struct plb_table {
    int64_t *id;              /* [n_slots] */
    int32_t *value;           /* [n_slots] negative: no entry */
    int64_t n_slots, n, used; /* n: number of entries; used: with those that were removed */
} plb_table_t;

void plb_table_free(plb_table_t *self);

/** Return the number of bytes of memory that the table uses. */
int64_t plb_table_bytes(const plb_table_t *self);

/** Set the numbers of id[n], which may be new.  After an error nothing has changed. */
int plb_table_put(plb_table_t *self, const int64_t *id, const int32_t *value, int64_t n,
                  plb_err_t *err);

/** Look up the numbers of id[n]; -1: the id is not in the table. */
void plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *value);

/** Remove id[n]; return how many of them were in the table. */
int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n);

/** Write the ids of all entries to id[self->n], in any order. */
void plb_table_ids(const plb_table_t *self, int64_t *id);
