/* The communication partners of each object, with the costs of messages in both directions. */
#pragma once

#include "model/snapshot.h"

typedef struct plb_affinity {
    int64_t *start; /* [n_objects + 1] the entries of object i are start[i] ... start[i + 1] - 1 */
    int32_t *other; /* [entries] the communication partner of object i */
    double *sent, *received; /* [entries] cost of the messages to the partner, and from it */
} plb_affinity_t;

/** List the partners of each object i with wanted[rank[i]] != 0; other objects have no entries.  A
 * message costs alpha, a byte beta; a multicast counts as an edge to each receiver.  Edges from an
 * object to itself are left out.  Free `self` also after a failure. */
int plb_affinity_init(plb_affinity_t *self, const plb_snapshot_t *in, const int32_t *rank,
                      const uint8_t *wanted, double alpha, double beta, plb_err_t *err);
void plb_affinity_free(plb_affinity_t *self);

/** Add to comm[r] the cost of rank r's messages to other ranks, if each object i is on rank[i]. */
void plb_affinity_of_ranks(const plb_snapshot_t *in, const int32_t *rank, double alpha,
                           double beta, double *comm);
