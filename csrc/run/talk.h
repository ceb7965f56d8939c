/* Messages and bytes between pairs of objects: the part of the communication graph that starts at
 * one rank's objects, summed over iterations. */
#ifndef PLB_RUN_TALK_H
#define PLB_RUN_TALK_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

typedef struct plb_edge {
    int64_t source, target, bytes, messages;
} plb_edge_t;

/* Programs send the same messages in each iteration: so plb_talk_add first tries the edge
 * after the last one, then the hash table. */
typedef struct plb_talk {
    plb_edge_t *edge; /* [n] in the order of their first messages */
    int64_t n, room, next;
    int32_t *bucket; /* [n_buckets] indices of edges, or -1: empty; at most half full */
    int64_t n_buckets;
} plb_talk_t; /* {0}: no edges */

void plb_talk_free(plb_talk_t *self);

/** Add a message.  PLB_ERR_RANGE: more than 2^30 edges. */
int plb_talk_add(plb_talk_t *self, int64_t source, int64_t target, int64_t bytes, plb_err_t *err);

/** Forget all edges, and keep the memory. */
void plb_talk_clear(plb_talk_t *self);

/** Forget the edges from and to these objects. */
void plb_talk_drop(plb_talk_t *self, const plb_keys_t *gone);

#endif
