/* Communicators: what this rank calls them, who is in them, and a name that all their members
 * agree on without communicating. */
#ifndef PLB_WHATIF_RECORDER_GROUPS_H
#define PLB_WHATIF_RECORDER_GROUPS_H

#include <mpi.h>

#include "handles.h"

typedef struct plb_group {
    int32_t number; /* among this rank's communicators; operations refer to it */
    int32_t size, rank;
    int32_t *world;   /* [size] */
    int32_t n_remote; /* ranks of the other group of an intercommunicator */
    int32_t *remote;
    uint64_t id;           /* the same on all members */
    struct plb_group *own; /* context of pylb's own messages on it, made when needed */
} plb_group_t;

plb_group_t *plb_group(MPI_Comm comm);
/** A group with the same members in which nobody else talks. */
plb_group_t *plb_group_own(plb_group_t *group);
/** World rank of `rank`, in the remote group where there is one; -1: unknown. */
int32_t plb_world_rank(const plb_group_t *group, int rank);

/** A collective call on `parent` has made `fresh`. */
void plb_note_made(MPI_Comm parent, MPI_Comm fresh);
/** The same for a call in which only the members of `fresh` take part. */
void plb_made_among(MPI_Comm parent, MPI_Comm fresh);
void plb_group_gone(MPI_Comm comm);

#endif
