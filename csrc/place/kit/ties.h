/* An agent's (agent.h) knowledge about objects: their ranks and, for the objects on its own rank,
 * their communication (ties).  Objects are numbered in the order in which they were added. */
#ifndef PLB_PLACE_KIT_TIES_H
#define PLB_PLACE_KIT_TIES_H

#include <stdint.h>

#include "base/hash.h"

typedef struct plb_tie {
    int32_t peer, next; /* number of the partner; next tie of the same object, negative: none */
    double bytes;
} plb_tie_t;

typedef struct plb_tied {
    int32_t rank;  /* the last known rank of the object */
    int32_t first; /* the first tie of the object, or -1 */
} plb_tied_t;

typedef struct plb_ties {
    plb_keys_t ids;
    plb_tied_t *object; /* [ids.n] */
    int64_t room;
    plb_tie_t *tie; /* linked lists: one for each object, and one of unused entries */
    int64_t n_ties, n_used, ties_room;
    int32_t free;
} plb_ties_t;

int plb_ties_init(plb_ties_t *self, int64_t n_objects, int64_t n_ties, plb_err_t *err);
void plb_ties_free(plb_ties_t *self);

/** Find the number of an object; an unknown object is added, with its `rank`. */
int plb_ties_number(plb_ties_t *self, int64_t id, int32_t rank, int32_t *number, plb_err_t *err);

/** Return the number of an object; -1: it is unknown. */
int32_t plb_ties_find(const plb_ties_t *self, int64_t id);

int plb_ties_add(plb_ties_t *self, int32_t object, int32_t peer, double bytes, plb_err_t *err);

/** Forget the ties of an object. */
void plb_ties_clear(plb_ties_t *self, int32_t object);

#endif
