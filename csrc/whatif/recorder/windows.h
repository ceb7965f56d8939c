/* Logs one-sided communication.  The bytes of accesses are logged at the call that completes them:
 * a fence, an unlock, a flush or MPI_Win_complete. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

void plb_window_made(MPI_Comm comm, MPI_Win win);
void plb_window_gone(MPI_Win win);
void plb_accessed(MPI_Win win, int target, int64_t bytes);
void plb_fenced(MPI_Win win);
/** Log the end of the accesses to `target` (-1: to all): a flush, or MPI_Win_unlock_all. */
void plb_flushed(MPI_Win win, int target);
/** Log a lock or unlock.  kind: PLB_OP_LOCK or PLB_OP_UNLOCK. */
void plb_note_lock(MPI_Win win, int kind, int target, bool shared);
/** Log the beginning of an epoch.  posts: true: by MPI_Win_post; false: by MPI_Win_start. */
void plb_epoch_begins(MPI_Win win, MPI_Group group, bool posts);
/** Log the end of an epoch.  posted: true: by MPI_Win_wait or MPI_Win_test; false: by
 * MPI_Win_complete.  flag: whether the epoch has ended (0 only from MPI_Win_test). */
void plb_epoch_ends(MPI_Win win, int flag, bool posted);
