/* One-sided communication: what accesses move counts when they have to be complete, at fences,
 * unlocks and flushes. */
#ifndef PLB_WHATIF_RECORDER_WINDOWS_H
#define PLB_WHATIF_RECORDER_WINDOWS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

void plb_window_made(MPI_Comm comm, MPI_Win win);
void plb_window_gone(MPI_Win win);
void plb_accessed(MPI_Win win, int target, int64_t bytes);
void plb_fenced(MPI_Win win);
/** target -1: all. */
void plb_flushed(MPI_Win win, int target);
/** `kind`: LOCK or UNLOCK. */
void plb_note_lock(MPI_Win win, int kind, int target, bool shared);
/** Post (`posts`) or start; then wait or test (`posted`), which may say no, or complete. */
void plb_epoch_begins(MPI_Win win, MPI_Group group, bool posts);
void plb_epoch_ends(MPI_Win win, int flag, bool posted);

#endif
