/* Completes a distributed partition by two or three exchanges.  In: the new part of each object.
 * Out: sums for each part, new numbers of the parts ("names"), and lists of objects that leave or
 * get a part of this rank.  Before each exchange the ranks agree that none has failed. */
#pragma once

#include "comm/comm.h"
#include "partition/partition.h"

typedef struct plb_settle {
    MPI_Comm comm;         /* the user's; all messages are complete on return */
    plb_new_parts_t parts; /* result of the partitioner; all ranks give `ids`, or none does */
    const int64_t *dist; /* [ranks + 1] if no `ids`: rank r has objects dist[r] ... dist[r+1]-1 */
    int32_t n_weights;
    const double *weight;  /* [parts.n][n_weights] */
    const double *size;    /* [parts.n]; NULL (on all ranks): all are 1 */
    bool rename;           /* renumber the parts, so that as many objects as possible stay */
    plb_new_names_t names; /* input of plb_remap, equal on all ranks; plb_settle sets on_rank */
} plb_settle_t;

typedef struct plb_settled {
    int32_t *part;     /* [parts.n] new parts, by the new names */
    int32_t *name;     /* [n_parts] new names; NULL: none has changed */
    double *sums;      /* [1 + n_weights][n_parts] as plb_part_sums, over all ranks */
    plb_moves_t out;   /* this rank's objects that change their part */
    int64_t n_in;      /* number of objects that come to this rank's parts */
    int64_t *id;       /* [n_in] their ids */
    int32_t *rank;     /* [n_in] the ranks from which they come, ascending */
    int32_t *new_part; /* [n_in] their new parts, ascending among objects from a rank */
    /* over all ranks: number and total size of the objects that change their part */
    double moved, volume;
} plb_settled_t;

/** Complete the partition; `out` owns its arrays.  Collective over comm, blocks.  If the
 * partitioner has failed on a rank, this rank passes parts.part = NULL.  Then, or if a part is out
 * of range or memory is missing on one rank, all ranks return an error. */
int plb_settle(const plb_settle_t *in, plb_settled_t *out, plb_err_t *err);
void plb_settled_free(plb_settled_t *self);
