/* What only the files of the recorder use. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"
#include "whatif/whatif.h"

/* The log: reads the clocks around each MPI call, and buffers the operations of the call.
 *
 * Only calls between MPI_Init and MPI_Finalize by the thread that called MPI_Init are logged;
 * calls that MPI itself makes are not logged. */

#define PLB_EXPORT __attribute__((visibility("default")))

/** Begin a call.  Returns true if the call is logged; then plb_leave must follow. */
bool plb_enter(void);
void plb_leave(void);
/** Log an operation of the present call; the first one gets the processor time before the call. */
void plb_note(plb_op_t op);
/** Mark the present call as a poll, which the program repeats until it succeeds. */
void plb_polled(void);
/** Count a use of the MPI feature `what`, which cannot be recorded.  what: a string literal,
 * because the log keeps the pointer. */
void plb_lacks(const char *what);
/** Like plb_lacks, before a call that is not logged: its processor time counts as computing. */
void plb_lacks_in_call(const char *what);

/* A hash table that maps MPI handles, or other numbers, to pointers. */

typedef struct plb_map {
    plb_keys_t keys; /* all keys, also removed ones, because MPI reuses its handles */
    void **value;    /* [keys] value of each key; NULL: the key was removed */
    int64_t room;
} plb_map_t;

/** Return the block; if it is NULL (no memory), end the program with a message. */
void *plb_must_have(void *block);

void *plb_map_get(const plb_map_t *self, uint64_t key);
void plb_map_put(plb_map_t *self, uint64_t key, void *value);

/* Free the block to which a variable points at the end of its scope (attribute `cleanup`). */
static inline void plb_let_go(uint64_t *const *block)
{
    free(*block);
}

static inline uint64_t plb_handle(const void *handle, size_t size)
{
    uint64_t out = 0;
    __builtin_memcpy(&out, handle, size < sizeof out ? size : sizeof out);
    return out;
}
#define PLB_HANDLE(handle) plb_handle(&(handle), sizeof(handle))

/* Communicators: their number on this rank, their members, and an id, which all members compute
 * without communication. */

typedef struct plb_group {
    int32_t number; /* number of the communicator on this rank, the `comm` of operations */
    int32_t size, rank;
    int32_t *world;   /* [size] ranks of the members in MPI_COMM_WORLD */
    int32_t n_remote; /* number of ranks in the remote group of an intercommunicator */
    int32_t *remote;  /* [n_remote] ranks of the remote group in MPI_COMM_WORLD */
    uint64_t id;      /* id of the communicator, the same on all members */
    /* whether its collectives are simulated: only if it is no intercommunicator, and all its
     * members are in MPI_COMM_WORLD */
    bool meets;
    /* group with the same members, for messages that are logged in place of other calls, e.g. of
     * neighbourhood collectives; NULL: not created yet */
    struct plb_group *own;
} plb_group_t;

/** Return the group of a communicator, registered if it is new; NULL: for MPI_COMM_NULL. */
plb_group_t *plb_group(MPI_Comm comm);
/** Register `fresh`, a new communicator.  The call that created it was collective over `parent`,
 * over two groups with different parents (an intercommunicator, whose id must not depend on them),
 * or over the members of `fresh` only. */
typedef enum plb_makers { PLB_BY_PARENT, PLB_BY_TWO_GROUPS, PLB_BY_MEMBERS } plb_makers_t;
void plb_note_made(plb_makers_t by, MPI_Comm parent, MPI_Comm fresh);
/** Register a copy with the members of `comm`; MPI may not have completed it yet. */
void plb_made_copy(MPI_Comm comm, MPI_Comm fresh);
void plb_group_gone(MPI_Comm comm);

/* Requests: maps MPI's handles to operations. */

void plb_request_started(MPI_Request request);
void plb_request_freed(MPI_Request request);
void plb_request_cancelled(MPI_Request request);

/** Log a wait for n requests, or a test of all of them.  flag: whether all are complete; was:
 * their handles before the call. */
void plb_requests_all(int flag, int n, const uint64_t *was, const MPI_Status *status);
/** Log the completion of the requests index[n].  Indices count from `base`: 0 in C, 1 in Fortran.
 * n is 0: none is complete; n < 0: no request was active. */
void plb_requests_some(int n, const int *index, int base, const uint64_t *was,
                       const MPI_Status *status);

/* Logs point-to-point messages. */

static inline int64_t plb_bytes(int64_t count, MPI_Datatype type)
{
    int size = 0;
    if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size(type, &size) != MPI_SUCCESS ||
        size < 0) {
        return 0;
    }
    return count * size;
}

/** Whether a call that returned `code` did something that is to be logged.  A call with bad
 * arguments did nothing, and its results are undefined; but a message that was too long was
 * received. */
static inline bool plb_took_effect(int code)
{
    int class = MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        PMPI_Error_class(code, &class);
    }
    return class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_IN_STATUS;
}

/* request: NULL for a blocking call; else the request of a nonblocking or persistent call. */

/** Log a send.  flags: PLB_OP_BUFFERED, PLB_OP_SYNCHRONOUS or 0. */
void plb_note_send(const MPI_Request *request, bool persistent, int flags, int64_t bytes, int dest,
                   int tag, MPI_Comm comm);

/** Log a receive, or a probe that has found a message.  kind: PLB_OP_RECV, PLB_OP_IRECV or
 * PLB_OP_PROBE; status: NULL if nothing is received yet. */
void plb_note_receive(const MPI_Request *request, bool persistent, int kind, int source, int tag,
                      MPI_Comm comm, const MPI_Status *status);
/** Log MPI_Sendrecv: a send of `bytes` to `dest`, and a receive from `source`. */
void plb_note_exchange(int64_t bytes, int dest, int sendtag, int source, int recvtag,
                       MPI_Comm comm, const MPI_Status *status);

/** Log a probe.  flag: 1: the probe has found a message; 0: it was a poll that found none. */
void plb_note_probe(int flag, int source, int tag, MPI_Comm comm, const MPI_Status *status);

/** Like plb_note_probe, for a matched probe; remember the message that the probe has found. */
void plb_note_mprobe(int flag, MPI_Message message, int source, int tag, MPI_Comm comm,
                     const MPI_Status *status);

/** Log the receive of a message that a matched probe has found. */
void plb_note_taken(const MPI_Request *request, uint64_t message);

/* Logs collectives; `bytes` is explained at PLB_COLLECTIVES (whatif.h). */

void plb_note_collective(const MPI_Request *request, plb_collective_t what, int root,
                         int64_t bytes, MPI_Comm comm);
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

/* Marked procedures of the program.  There are three ways to mark one: pylb.procedure in Python;
 * the macro of pylb_procedure.h in C; or the compiler's -finstrument-functions, with -rdynamic for
 * the linker and the procedure's name in PYLB_PROCEDURES. */

/** Send `length` bytes to the monitor, a process that writes the recording to a file; type: a
 * letter.  A failure closes the connection. */
void plb_frame(char type, const void *data, uint32_t length);

/* Begins a recording after MPI_Init, and ends it before MPI_Finalize. */

void plb_record_start(int provided);
void plb_record_end(bool finalized);

/** The two parts of plb_record_start: connect to the monitor (false: there is none) and measure
 * what a call costs; then begin on all ranks at the same time.  timed_only: record only the times.
 */
bool plb_record_open(int provided, bool *timed_only);
void plb_record_begin(bool timed_only);

/* The clock "mpi" (base/base.h): the time for which a thread works, which is the time between its
 * calls of MPI.
 *
 * Each call of MPI by the program is between plb_mpi_enter and plb_mpi_leave; calls that MPI makes
 * itself do not count.  Each thread has its own time.
 *
 * A program that waits often does so by polls: it repeats MPI_Test or MPI_Iprobe until one
 * succeeds.  So the time from a poll that has failed to the next poll is no work if it is shorter
 * than PLB_MPI_POLL_NS, or if the process slept for longer than that and did not use its processor
 * for longer than PLB_WAKE_NS. */
enum {
    /* tuned: ns; more than two context switches, or a loop in Python */
    PLB_MPI_POLL_NS = 10000,
    /* after a longer call the run delay is read, which takes 1 us */
    PLB_MPI_LONG_NS = 2 * PLB_MPI_POLL_NS,
};

/** Begin a call.  polls: whether the call is a poll.  False: MPI itself has made this call; then
 * plb_mpi_leave must not follow. */
bool plb_mpi_enter(bool polls);

/** End a call.  failed: whether it was a poll that has failed. */
void plb_mpi_leave(bool failed);
