/* Messages of objects. */
#pragma once

#include <stdint.h>

#include "base/base.h"

/* Messages and bytes that the objects of a rank send to objects, summed over iterations.  A
 * multicast (one message to several objects) is a group of edges, one to each receiver. */

typedef struct plb_edge {
    int64_t source, target, bytes, messages;
    int64_t cast; /* number of the multicast, from 1; 0: no multicast.  Edges of a multicast follow
                   * each other, and each has the multicast's bytes and messages */
} plb_edge_t;

/* The edges.  Programs usually send the same messages in each iteration.  So plb_talk_add first
 * looks at edge[next], which follows the edge of the previous message, then in the hash table. */
typedef struct plb_talk {
    plb_edge_t *edge;             /* [n] in the order of their first messages */
    int64_t n, room, next, casts; /* room: capacity of `edge`; casts: number of multicasts */
    plb_index_t index;            /* indices of edges (of a multicast: the first one) */
} plb_talk_t;                     /* {0}: no edges */

void plb_talk_free(plb_talk_t *self);

/** Count a message to n objects (n > 1: a multicast).  PLB_ERR_RANGE: more than 2^30 edges. */
int plb_talk_add(plb_talk_t *self, int64_t source, const int64_t *target, int64_t n, int64_t bytes,
                 plb_err_t *err);

/** Forget all edges, and keep the memory. */
void plb_talk_clear(plb_talk_t *self);

/** Forget the edges from and to `gone`.  A multicast with one remaining receiver gets cast 0. */
int plb_talk_drop(plb_talk_t *self, const plb_keys_t *gone, plb_err_t *err);
