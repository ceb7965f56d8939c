/* Completes a distributed partition by two or three exchanges.  In: the new part of each object.
 * Out: sums for each part, new numbers of the parts ("names"), and lists of the objects that leave
 * this rank and of those that arrive on it.  Before each exchange the ranks agree that none has
 * failed. */
#pragma once

#include "comm/comm.h"
#include "partition/moves.h"
#include "partition/remap.h"

typedef struct plb_settle {
    MPI_Comm comm; /* the user's communicator; all messages are complete on return */
    /* the result of the partitioner; all ranks give `ids`, or none does */
    plb_new_parts_t parts;
    const int64_t *dist; /* [ranks + 1] if `ids` is NULL: the objects of rank r have the ids
                            dist[r] ... dist[r + 1] - 1 */
    int32_t n_weights;
    const double *weight; /* [parts.n][n_weights] weights of each object */
    const double *size;   /* [parts.n] size of each object; NULL (on all ranks): all are 1 */
    bool rename; /* true: renumber the parts (names), so that as many objects as possible stay;
                    false: parts keep their numbers */
    plb_new_names_t names; /* input of plb_remap, the same on all ranks; plb_settle sets on_rank */
} plb_settle_t;

typedef struct plb_settled {
    int32_t *part; /* [parts.n] new part of each object, by the new names */
    int32_t *name; /* [n_parts] new name of each part; NULL: none has changed */
    double *sums;  /* [1 + n_weights][n_parts] over all ranks: number of objects of each part, and
                      sums of their weights */
    plb_moves_t out;   /* the objects that leave */
    int64_t n_in;      /* number of objects that arrive */
    int64_t *id;       /* [n_in] ids of the objects that arrive */
    int32_t *rank;     /* [n_in] the rank from which each of these objects comes, ascending */
    int32_t *new_part; /* [n_in] new part of each of these objects, ascending among objects from
                          the same rank */
    /* over all ranks: number and total size of the objects that change their part */
    double moved, volume;
} plb_settled_t;

/** Complete the partition.  `out` owns its arrays.  Collective over comm, blocks.  If the
 * partitioner has failed on a rank, this rank passes parts.part = NULL.  Then, or if a part is out
 * of range or memory is missing on one rank, all ranks return an error. */
int plb_settle(const plb_settle_t *in, plb_settled_t *out, plb_err_t *err);
void plb_settled_free(plb_settled_t *self);
