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

/* A rank's part of a distributed directory: for each global id its owner and, if wanted, a local
 * id and user data.
 *
 * The hash table is at most three quarters full.  A removal moves back the entries that follow, so
 * there are no markers of removed entries.  Each field is a separate array: a slot with only an id
 * and an owner takes 12 bytes.  (Entries lie in the slots, not in arrays by number as in hash.h: a
 * look-up among 4 * 10^6 ids takes 22 % longer with one more access to memory, even if it is
 * prefetched.) */

enum { PLB_FREE = -1, PLB_STAGED = -2 };

typedef struct plb_table {
    int64_t *id;    /* [n_slots] id of the entry */
    int32_t *owner; /* [n_slots] owner's rank; PLB_FREE: no entry; PLB_STAGED: not yet written */
    int64_t *local; /* [n_slots] local id; NULL: the table has none */
    int32_t *row;   /* [n_slots] row of the entry in the user data; NULL: the table has none */
    int64_t n_slots, n; /* size of the hash table; number of entries */
    bool has_local;
    char *data;                    /* [room * data_bytes] user data, row by row */
    int64_t data_bytes;            /* bytes of user data per entry; may be 0 */
    int32_t *spare;                /* [n_spare] rows that are free after removals */
    int32_t n_rows, room, n_spare; /* `room`: capacity of `data` and `spare`, in rows */
} plb_table_t;

void plb_table_init(plb_table_t *self, int64_t data_bytes, bool has_local);
void plb_table_free(plb_table_t *self);

/** Return the number of bytes of memory that the table uses. */
int64_t plb_table_bytes(const plb_table_t *self);

/** The rank, 0 ... n_ranks-1, that keeps the entry of an id. */
int32_t plb_home(int64_t id, int32_t n_ranks);

/** Find or create the entries of id[n], and set slot[n], the slot of each.  A new entry is staged:
 * it has no values until plb_table_commit writes them.  PLB_ERR_KEY: an id occurs twice; twice[2]
 * are its first two indices, and the new entries are removed again. */
int plb_table_stage(plb_table_t *self, const int64_t *id, int64_t n, int64_t *slot, int64_t *twice,
                    plb_err_t *err);

/** Write the entries at slot[n].  Slots are valid until the next call that changes the table.
 * local: NULL only if the table has none.  data: NULL: old data stay, new entries get zeros. */
void plb_table_commit(plb_table_t *self, const int64_t *slot, int64_t n, const int32_t *owner,
                      const int64_t *local, const char *data);

/** Remove the entries of id[n] that are staged. */
void plb_table_unstage(plb_table_t *self, const int64_t *id, int64_t n);

/** Look up owner[n], local[n] and data[n * data_bytes] of id[n]; an unknown id gets -1, -1 and
 * zeros.  Returns the number of unknown ids; *missing is the index of the first, or -1.  local
 * and data may be NULL; local must be NULL if the table has no local ids. */
int64_t plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *owner,
                       int64_t *local, char *data, int64_t *missing);

/** Remove the entries of id[n]; return how many of them were in the table. */
int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n);

/** Write the ids of all entries to id[self->n], in the order of the slots. */
void plb_table_ids(const plb_table_t *self, int64_t *id);
