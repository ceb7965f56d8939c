/* What an agent (agent.h) knows about objects: their ranks and, for the objects on its own rank,
 * the objects with which they communicate (ties).  Objects are numbered in the order in which they
 * were added. */
#pragma once

#include <stdint.h>

#include "base/hash.h"

typedef struct plb_tie {
    int32_t peer, next; /* number of the partner; index of the object's next tie, -1: none */
    double bytes;
} plb_tie_t;

typedef struct plb_tied {
    int32_t rank;  /* rank of the object, as far as this agent knows */
    int32_t first; /* index of the object's first tie; -1: the object has no ties */
} plb_tied_t;

typedef struct plb_ties {
    plb_keys_t ids;
    plb_tied_t *object; /* [ids.n] what is known of each object, by number */
    int64_t room;
    plb_tie_t *tie; /* linked lists: each object's ties from `first`, unused entries from `free` */
    int64_t n_ties, n_used, ties_room; /* entries of tie[]; those of them in use; capacity */
    int32_t free;
} plb_ties_t;

int plb_ties_init(plb_ties_t *self, int64_t n_objects, int64_t n_ties, plb_err_t *err);
void plb_ties_free(plb_ties_t *self);

/** Find the number of an object; an unknown object is added, with its `rank`. */
int plb_ties_number(plb_ties_t *self, int64_t id, int32_t rank, int32_t *number, plb_err_t *err);

/** Return the number of an object; -1: it is unknown. */
int32_t plb_ties_find(const plb_ties_t *self, int64_t id);

int plb_ties_add(plb_ties_t *self, int32_t object, int32_t peer, double bytes, plb_err_t *err);

void plb_ties_clear(plb_ties_t *self, int32_t object);
