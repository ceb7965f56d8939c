/* The record of what a rank did: 48 bytes for each MPI operation that affects the run time.  The
 * recorder (csrc/whatif/recorder) sends these operations to a monitor, which writes them to a
 * file; the simulation (simulator/simulator.h) reads them.
 *
 * MPI's 300 functions are reduced to the few kinds below.  E.g. MPI_Sendrecv becomes IRECV, ISEND
 * and two WAITs; MPI_Start becomes ISEND or IRECV; MPI_Waitall becomes one WAIT per request.  If
 * a call becomes several operations, all but the first have compute = 0 and PLB_OP_SAME_CALL. */
#pragma once

#include <stdint.h>

/* X(name, what the operation is and what its fields mean) */
#define PLB_OPS(X)                                                                                \
    X(END, "the rank ends: MPI_Finalize")                                                         \
    X(SEND, "blocking send to `peer`")                                                            \
    X(ISEND, "nonblocking send, from now on identified by `request`")                             \
    X(RECV, "blocking receive from `peer`")                                                       \
    X(IRECV, "nonblocking receive, from now on identified by `request`")                          \
    X(WAIT, "wait until `request` is complete")                                                   \
    X(PROBE, "wait until a message from `peer` has arrived")                                      \
    X(COLL, "blocking collective `what`; `peer`: root, `tag`: own rank, both as ranks in `comm`") \
    X(ICOLL, "nonblocking collective, identified by `request`")                                   \
    X(PAUSE, "`bytes` ns in which the process neither ran nor waited for a processor: "           \
             "sleep, files")                                                                      \
    X(ENTER, "procedure `tag` begins")                                                            \
    X(LEAVE, "procedure `tag` ends")                                                              \
    X(ONE_SIDED, "one-sided call `what`, which cannot be simulated")

typedef enum plb_op_kind {
#define X(name, help) PLB_OP_##name,
    PLB_OPS(X)
#undef X
        PLB_N_OPS
} plb_op_kind_t;

/* X(name).  For all collectives, `bytes` of an operation is the number of bytes that one rank
 * sends to one other rank, or adds to the result. */
/* clang-format off */
#define PLB_COLLECTIVES(X) \
    X(BARRIER) X(BCAST) X(GATHER) X(SCATTER) X(REDUCE) X(ALLREDUCE) X(ALLGATHER) X(ALLTOALL) \
    X(REDUCE_SCATTER) X(SCAN) X(EXSCAN)
/* clang-format on */

typedef enum plb_collective {
#define X(name) PLB_##name,
    PLB_COLLECTIVES(X)
#undef X
        PLB_N_COLLECTIVES
} plb_collective_t;

/* X(name).  The one-sided calls that are recorded: those that make a window or access one. */
/* clang-format off */
#define PLB_ONE_SIDED_CALLS(X) \
    X(Win_create) X(Win_allocate) X(Win_allocate_shared) X(Win_create_dynamic) \
    X(Put) X(Rput) X(Get) X(Rget) X(Accumulate) X(Raccumulate) \
    X(Get_accumulate) X(Rget_accumulate) X(Fetch_and_op) X(Compare_and_swap)
/* clang-format on */

typedef enum plb_one_sided {
#define X(name) PLB_ONE_SIDED_##name,
    PLB_ONE_SIDED_CALLS(X)
#undef X
        PLB_N_ONE_SIDED
} plb_one_sided_t;

enum {                       /* Flags of an operation. */
       PLB_OP_SAME_CALL = 1, /* the operation belongs to the same call as the previous one */
       PLB_OP_ANY_SOURCE =
           2, /* receive or probe from any source; `peer`: the source, or -1 if the WAIT has it */
       PLB_OP_ANY_TAG =
           4, /* receive or probe with any tag; `tag`: the actual tag, or 0 if the WAIT has it */
       PLB_OP_SYNCHRONOUS = 8, /* a synchronous send: complete when the message is received */
       PLB_OP_BUFFERED = 16,   /* a buffered send: complete immediately */
       PLB_OP_CANCELLED = 32,  /* WAIT: the receive will never be matched */
};

typedef struct plb_op {
    /* ns of processor time from the end of the previous call to the start of this one */
    int64_t compute;
    int64_t begin; /* ns of wall time from the start of the recording to the start of the call */
    int64_t bytes; /* bytes (of a PAUSE: ns); a receive and its WAIT have 0 */
    float inside;  /* seconds of wall time within the call; only in the call's first operation */
    int32_t peer;  /* rank in MPI_COMM_WORLD; of a collective: the root, a rank in `comm` */
    int32_t tag;
    int32_t request;     /* a small number that identifies an open request; numbers are reused */
    int32_t comm;        /* index of a communicator in plb_comms_t */
    uint8_t kind, flags; /* a plb_op_kind_t; a sum of PLB_OP_SAME_CALL etc. */
    uint16_t what;       /* a plb_collective_t or plb_one_sided_t */
} plb_op_t;

_Static_assert(sizeof(plb_op_t) == 48, "a record has 48 bytes");

/* Communicators and their members, in order of rank.  Communicator 0 is MPI_COMM_WORLD. */
typedef struct plb_comms {
    int32_t n;
    const int64_t *start;  /* [n + 1] where the members of each communicator begin in `member` */
    const int32_t *member; /* ranks in MPI_COMM_WORLD */
} plb_comms_t;
