/* The recorder: a library that is loaded before an MPI program (LD_PRELOAD) and notes its calls
 * through MPI's profiling interface.
 *
 *   record.c       clocks, the buffer of operations, the connection to the monitor
 *   groups.c       communicators and windows: who is in them
 *   requests.c     requests and matched messages
 *   point.c, collective.c, onesided.c, setup.c     the wrappers
 *   fortran.c      the same functions as Fortran calls them
 *   procedures.c   functions of the program that are marked
 *   calibrate.c    what a call and a message cost here
 *
 * A call is noted by the thread that called MPI_Init alone; calls that MPI makes itself, and those
 * before MPI_Init or after MPI_Finalize, go through unseen.
 */
#ifndef PLB_WHATIF_RECORDER_RECORD_H
#define PLB_WHATIF_RECORDER_RECORD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "whatif/ops.h"

#define PLB_EXPORT __attribute__((visibility("default")))

/* --- record.c: a call --- */

/** Whether the call is to be noted: then clocks have been read, and plb_leave must follow. */
bool plb_enter(void);
void plb_leave(void);
/** An operation of the present call; the first one gets the time since the last call. */
void plb_note(plb_op_t op);
/** The call was a question that is asked again and again until the answer is yes. */
void plb_polled(void);
/** Something that the recording lacks, counted by its name. */
void plb_lacks(const char *what);
/** A line for the monitor: a communicator, and what else there is. */
void plb_frame(char type, const void *data, uint32_t length);

void plb_record_start(int provided);
void plb_record_end(bool finalized);

/* A wrapper: call, then what it notes, which may look at `ret` and `noted`. */
#define PLB_WRAP(call, ...)                                                                       \
    do {                                                                                          \
        const bool noted = plb_enter();                                                           \
        const int ret = (call);                                                                   \
        if (noted) {                                                                              \
            __VA_ARGS__;                                                                          \
            plb_leave();                                                                          \
        }                                                                                         \
        return ret;                                                                               \
    } while (0)

/* --- procedures.c --- */

/** Tell the monitor of those that were marked before it was there. */
void plb_procedures_tell(void);

/* --- calibrate.c --- */

typedef struct plb_costs {
    double overhead;    /* seconds of a call */
    double alpha, beta; /* of a message between two ranks; -1: this one has no partner */
} plb_costs_t;

/** Collective over the world. */
void plb_calibrate(plb_costs_t *out);

/* --- groups.c --- */

typedef struct plb_group {
    int32_t number; /* of this rank's communicators: what operations say */
    int32_t size, rank;
    int32_t *world;   /* [size] */
    int32_t n_remote; /* ranks of the other group of an intercommunicator */
    int32_t *remote;
    uint64_t id;           /* the same on all members */
    struct plb_group *own; /* context of pylb's own messages on it, made when needed */
} plb_group_t;

plb_group_t *plb_group(MPI_Comm comm);
/** A new communicator, made by a call on `parent`. */
void plb_group_made(MPI_Comm comm, const plb_group_t *parent);
void plb_group_gone(MPI_Comm comm);
/** A group with the same members in which nobody else talks. */
plb_group_t *plb_group_own(plb_group_t *group);
/** World rank of whom `rank` names: of the remote group where there is one; -1: nobody known. */
int32_t plb_world_rank(const plb_group_t *group, int rank);

/* A hash table from MPI's handles to pointers. */
typedef struct plb_table {
    uint64_t *key;
    void **value;
    uint32_t n, room;
} plb_table_t;
void *plb_table_get(const plb_table_t *self, uint64_t key);
void plb_table_put(plb_table_t *self, uint64_t key, void *value);
void *plb_table_take(plb_table_t *self, uint64_t key);

static inline uint64_t plb_handle(const void *handle, size_t size)
{
    uint64_t out = 0;
    __builtin_memcpy(&out, handle, size < sizeof out ? size : sizeof out);
    return out;
}
#define PLB_HANDLE(handle) plb_handle(&(handle), sizeof(handle))

/* --- requests.c --- */

typedef struct plb_request {
    plb_op_t op; /* what begins it; its request is the number */
    const plb_group_t *group;
    bool persistent, active, cancelled;
    struct plb_request *next; /* of the same handle's parts, or unused */
} plb_request_t;

/** A request that `op` begins, noted now; or (persistent) with each start. */
void plb_request_made(MPI_Request request, plb_op_t op, const plb_group_t *group, bool persistent);
void plb_request_started(MPI_Request request);
void plb_request_freed(MPI_Request request);
void plb_request_cancelled(MPI_Request request);
plb_request_t *plb_request_find(MPI_Request request);
/** It is complete: note that this call waited for it.  `handle` was its before the call. */
void plb_request_done(uint64_t handle, const MPI_Status *status);
/** A number for a request that is begun and completed within one call. */
int32_t plb_request_number(void);
void plb_request_return(int32_t number);

/* --- what a call has done, for its wrapper in C and in Fortran --- */

/* point.c */

void plb_note_send(int flags, int64_t bytes, int dest, int tag, MPI_Comm comm);
/** RECV or PROBE. */
void plb_note_receive(int kind, int source, int tag, MPI_Comm comm, const MPI_Status *status);
void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status);
void plb_made_send(MPI_Request request, bool persistent, int flags, int64_t bytes, int dest,
                   int tag, MPI_Comm comm);
void plb_made_receive(MPI_Request request, bool persistent, int source, int tag, MPI_Comm comm);
/** A matched probe, which has found `message` where `flag` says so; then the receive of it. */
void plb_note_mprobe(int flag, MPI_Message message, int source, int tag, MPI_Comm comm,
                     const MPI_Status *status);
void plb_note_taken(uint64_t message);
void plb_made_taken(uint64_t message, MPI_Request request);

/* collective.c */
void plb_note_collective(plb_collective_t what, int root, int64_t bytes, MPI_Comm comm);
void plb_made_collective(MPI_Request request, plb_collective_t what, int root, int64_t bytes,
                         MPI_Comm comm);
/** One between neighbours: `bytes` to each of them. */
void plb_note_neighbours(MPI_Comm comm, int64_t bytes);
/* The counts of a call, one of each rank. */
typedef struct plb_counts {
    const void *array;
    bool large; /* MPI_Count, else int */
} plb_counts_t;
#define PLB_COUNTS(array) ((plb_counts_t){(array), sizeof *(array) > sizeof(int)})
/** Ranks of a communicator, at least 1. */
int plb_members(MPI_Comm comm);
int64_t plb_sum(plb_counts_t counts, MPI_Comm comm);
/** Bytes, the mean over the ranks. */
int64_t plb_mean(plb_counts_t counts, MPI_Datatype type, MPI_Comm comm);

/* onesided.c */
void plb_window_made(MPI_Comm comm, MPI_Win win);
void plb_window_gone(uint64_t win);
void plb_accessed(MPI_Win win, int target, int64_t bytes);
void plb_fenced(MPI_Win win);
/** target -1: all. */
void plb_flushed(MPI_Win win, int target);
/** LOCK or UNLOCK. */
void plb_note_lock(MPI_Win win, int kind, int target, bool shared);
void plb_epoch_begins(MPI_Win win, MPI_Group group, bool posts);
void plb_epoch_ends(MPI_Win win, bool posted);

/* setup.c */
/** A collective call on `parent` has made `fresh`. */
void plb_note_made(MPI_Comm parent, MPI_Comm fresh);
/** The same, where only the members of the new one meet. */
void plb_made_among(MPI_Comm parent, MPI_Comm fresh);

/* --- small ones --- */

static inline int64_t plb_bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS ||
        size < 0) {
        return 0;
    }
    return count * size;
}

#endif
