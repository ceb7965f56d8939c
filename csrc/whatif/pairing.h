/* Finds the send of each receive in the recorded operations of all ranks, by the rule of MPI:
 * messages with the same sender, receiver, communicator and tag are received in the order in
 * which they were sent.  For MPI_ANY_SOURCE and MPI_ANY_TAG the recorded values are used, so the
 * pairs do not depend on time. */
#pragma once

#include "base/err.h"
#include "whatif/ops.h"

typedef struct plb_streams { /* The operations of all ranks; borrowed. */
    int32_t n_ranks;
    const plb_op_t *const *op; /* [n_ranks] operations of each rank, in order */
    const int64_t *n;          /* [n_ranks] number of operations of each rank */
    plb_comms_t comms;
} plb_streams_t;

/* Sends (SEND, ISEND) and receives (RECV, IRECV) are numbered rank by rank, in order. */
typedef struct plb_pairing {
    /* [n_ranks + 1] number of each rank's first send, and of its first receive */
    int64_t *send_start, *receive_start;
    int64_t *send_of;           /* [receives] number of each receive's send; -1: none */
    int32_t *requests;          /* [n_ranks] each rank's highest request number plus 1 */
    int64_t unreceived, unsent; /* number of sends and of receives without a partner */
} plb_pairing_t;

/** Pair the messages.  Errors: those of plb_op_check.  Free `out` also after a failure. */
int plb_pairing_make(const plb_streams_t *streams, plb_pairing_t *out, plb_err_t *err);
void plb_pairing_free(plb_pairing_t *self);
