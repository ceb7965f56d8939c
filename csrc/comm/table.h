/* A rank's part of a distributed directory: global id -> owner, local id, user data.
 *
 * Open addressing with linear probing in one array of slots of 24 bytes; a removal shifts back
 * what follows, so that nothing but entries is ever probed.  User data lie in rows of their own.
 */
#ifndef PLB_COMM_TABLE_H
#define PLB_COMM_TABLE_H

#include <stdint.h>

#include "base/err.h"

typedef struct plb_known {
    int64_t id, local;
    int32_t owner; /* or PLB_FREE, PLB_STAGED */
    int32_t row;   /* of the user data */
} plb_known_t;

enum { PLB_FREE = -1, PLB_STAGED = -2 };

typedef struct plb_table {
    plb_known_t *slot;
    int64_t n_slots, n; /* a power of two; entries */
    char *data;
    int64_t data_bytes; /* of an entry; may be 0 */
    int32_t *spare;     /* [n_spare] rows that removals have left */
    int32_t n_rows, room, n_spare;
} plb_table_t;

void plb_table_init(plb_table_t *self, int64_t data_bytes);
void plb_table_free(plb_table_t *self);

/** The rank of 0 ... n_ranks-1 at which the entry of an id lives. */
int32_t plb_home(int64_t id, int32_t n_ranks);

/** Make room for id[n], and give the slot of each: entries that are there, or new ones that are
 *  staged and not yet found.  All ids differ, else PLB_ERR_KEY, twice[2] are the first two places
 *  of one, and nothing stays staged. */
int plb_table_stage(plb_table_t *self, const int64_t *id, int64_t n, int64_t *slot, int64_t *twice,
                    plb_err_t *err);

/** Write what was staged: valid until the next call that changes the table.  Without data those
 *  of old entries stay, of new ones they are zero. */
void plb_table_commit(plb_table_t *self, const int64_t *slot, int64_t n, const int32_t *owner,
                      const int64_t *local, const char *data);

/** Forget id[n] that are staged and were not there before. */
void plb_table_unstage(plb_table_t *self, const int64_t *id, int64_t n);

/** owner[n], local[n] and data[n * data_bytes] of id[n]; -1, -1 and zeros where there is none.
 *  The number of those, and the place of the first in *missing (or -1).  local, data may be NULL.
 */
int64_t plb_table_find(const plb_table_t *self, const int64_t *id, int64_t n, int32_t *owner,
                       int64_t *local, char *data, int64_t *missing);

/** Take out id[n]; the number of those that were there. */
int64_t plb_table_remove(plb_table_t *self, const int64_t *id, int64_t n);

/** id[self->n] of all entries, ascending slots. */
void plb_table_ids(const plb_table_t *self, int64_t *id);

#endif
