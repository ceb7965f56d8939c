/* Communicators: their number on this rank, their members, and an id, which all members compute
 * without communication. */
#pragma once

#include <mpi.h>
#include <stdbool.h>

#include "handles.h"
#include "whatif/ops.h"

typedef struct plb_group {
    int32_t number; /* number of the communicator on this rank, the `comm` of operations */
    int32_t size, rank;
    int32_t *world;   /* [size] ranks of the members in MPI_COMM_WORLD */
    int32_t n_remote; /* number of ranks in the remote group of an intercommunicator */
    int32_t *remote;  /* [n_remote] ranks of the remote group in MPI_COMM_WORLD */
    uint64_t id;      /* the same on all members */
    /* whether its collectives are simulated: it is no intercommunicator, and all its members are
     * in MPI_COMM_WORLD */
    bool meets;
    /* group with the same members, for messages that are logged in place of other calls, e.g. of
     * neighbourhood collectives; NULL: not created yet */
    struct plb_group *own;
} plb_group_t;

/** Return the group of a communicator, registered if it is new; NULL: for MPI_COMM_NULL. */
plb_group_t *plb_group(MPI_Comm comm);
/** Return group->own; the first call creates it. */
plb_group_t *plb_group_own(plb_group_t *group);
/** Return the rank in MPI_COMM_WORLD of member `rank` of the remote group or, if there is none, of
 * the group; -1: unknown. */
int32_t plb_world_rank(const plb_group_t *group, int rank);

/** Register a new communicator, created by a call that was collective over `parent`.
 * plb_made_between: an intercommunicator, created by two groups with different parents;
 * plb_made_among: collective over the members of `fresh` only. */
void plb_note_made(MPI_Comm parent, MPI_Comm fresh);
void plb_made_between(MPI_Comm parent, MPI_Comm fresh);
void plb_made_among(MPI_Comm parent, MPI_Comm fresh);
/** Register a copy with the members of `comm`; MPI may not have completed it yet. */
void plb_made_copy(MPI_Comm comm, MPI_Comm fresh);
void plb_group_gone(MPI_Comm comm);
