/* The communication partners of the objects of some ranks, with costs: rows of a graph. */
#ifndef PLB_PLACE_KIT_AFFINITY_H
#define PLB_PLACE_KIT_AFFINITY_H

#include "model/snapshot.h"

typedef struct plb_affinity {
    int64_t *start;          /* [n_objects + 1] entries of object i */
    int32_t *other;          /* [entries] the object at the other end */
    double *sent, *received; /* [entries] cost of what i sends to it, and gets from it */
} plb_affinity_t;

/** Make the rows of the objects on ranks with wanted[rank]; the other rows are empty.  A message
 * costs alpha, a byte beta; a multicast is one message to each receiver.  Edges from an object
 * to itself are left out.  Free also on failure. */
int plb_affinity_init(plb_affinity_t *self, const plb_snapshot_t *in, const int32_t *rank,
                      const uint8_t *wanted, double alpha, double beta, plb_err_t *err);
void plb_affinity_free(plb_affinity_t *self);

/** Add to comm[p] what each rank's messages to others cost in placement `rank`. */
void plb_affinity_of_ranks(const plb_snapshot_t *in, const int32_t *rank, double alpha,
                           double beta, double *comm);

#endif
