/* Logs collectives; `bytes` is explained at PLB_COLLECTIVES (ops.h). */
#pragma once

#include "messages.h"
#include "whatif/ops.h"

/** Log a blocking collective.  plb_made_collective: log a nonblocking one, with its request. */
void plb_note_collective(plb_collective_t what, int root, int64_t bytes, MPI_Comm comm);
void plb_made_collective(MPI_Request request, plb_collective_t what, int root, int64_t bytes,
                         MPI_Comm comm);
/** Log a neighbourhood collective that sends `bytes` to each neighbour. */
void plb_note_neighbours(MPI_Comm comm, int64_t bytes);
/** Whether the rank has a neighbour to which it sends: else, its lists of counts may be empty. */
bool plb_sends(MPI_Comm comm);

/* The counts of a call, one for each rank. */
typedef struct plb_counts {
    const void *array;
    bool large; /* true: the counts are of type MPI_Count; false: int */
} plb_counts_t;
#define PLB_COUNTS(array) ((plb_counts_t){(array), sizeof *(array) > sizeof(int)})

/** Return the number of ranks of a communicator, at least 1. */
int plb_members(MPI_Comm comm);
bool plb_is_root(int root, MPI_Comm comm);
int64_t plb_sum(plb_counts_t counts, MPI_Comm comm);
/** Return the mean of all ranks' counts, in bytes.  plb_own: this rank's count, in bytes. */
int64_t plb_mean(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm);
int64_t plb_own(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm);
