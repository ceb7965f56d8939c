/* Messages and bytes between pairs of objects: the part of the communication graph that starts at
 * one rank's objects, summed over iterations. */
#ifndef PLB_RUN_TALK_H
#define PLB_RUN_TALK_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

typedef struct plb_tie {
    int64_t source, target, bytes, messages;
} plb_tie_t;

/* Programs repeat their messages: the tie after the last one is tried before the hash table. */
typedef struct plb_talk {
    plb_tie_t *tie; /* [n] in the order of their first messages */
    int64_t n, room, next;
    int32_t *bucket; /* [n_buckets] indices of ties, or -1: empty; at most half full */
    int64_t n_buckets;
} plb_talk_t; /* {0}: no ties */

void plb_talk_free(plb_talk_t *self);

/** Add a message.  PLB_ERR_RANGE: more than 2^30 ties. */
int plb_talk_add(plb_talk_t *self, int64_t source, int64_t target, int64_t bytes, plb_err_t *err);

/** Forget all ties, and keep the memory. */
void plb_talk_clear(plb_talk_t *self);

/** Forget the ties from and to these objects. */
void plb_talk_drop(plb_talk_t *self, const plb_keys_t *gone);

#endif
