/* Communicators: their number on this rank, their members, and an id that is the same on all
 * members without communication. */
#ifndef PLB_WHATIF_RECORDER_GROUPS_H
#define PLB_WHATIF_RECORDER_GROUPS_H

#include <mpi.h>

#include "handles.h"

typedef struct plb_group {
    int32_t number; /* among this rank's communicators; operations refer to it */
    int32_t size, rank;
    int32_t *world;   /* [size] */
    int32_t n_remote; /* number of ranks in the remote group of an intercommunicator */
    int32_t *remote;
    uint64_t id;           /* the same on all members */
    struct plb_group *own; /* group with the same members for pylb's own messages, or NULL */
} plb_group_t;

plb_group_t *plb_group(MPI_Comm comm);
/** Get the group with the same members for pylb's own messages; it is created when needed. */
plb_group_t *plb_group_own(plb_group_t *group);
/** The rank in MPI_COMM_WORLD of `rank` (in the remote group, if there is one); -1: unknown. */
int32_t plb_world_rank(const plb_group_t *group, int rank);

/** Note that a collective call on `parent` has created `fresh`. */
void plb_note_made(MPI_Comm parent, MPI_Comm fresh);
/** Note that a call has created `fresh` which is collective over the members of `fresh` alone. */
void plb_made_among(MPI_Comm parent, MPI_Comm fresh);
void plb_group_gone(MPI_Comm comm);

#endif
