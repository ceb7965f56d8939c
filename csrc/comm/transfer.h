/* An exchange of rows with a known pattern: each rank knows how many rows it sends to which ranks
 * and gets from which ranks.  It communicates only with these ranks, its partners.
 *
 * To agree beforehand which exchange the ranks are in would cost more than the exchange itself.
 * Instead the tag of each message identifies the exchange (plan, direction, kind of items).  A
 * receive accepts any tag, and plb_transfer_wait returns an error if the tag is wrong.  A rank
 * that has failed sends its partners an empty message with PLB_TAG_FAILED.
 *
 * Ranks that exchange Python objects first meet, by an exchange of empty rows with an odd tag;
 * then they come to a collective step.  The tags of other exchanges are even.  So a rank that
 * exchanges rows knows whether a partner has come to a meeting instead. */
#pragma once

#include <stdbool.h>

#include "comm/comm.h"

enum { PLB_TAG_FAILED = 1, PLB_TAG_ITEMS = 2, PLB_TAG_MOST = 32767 };

/* What a rank sends or receives: rows start[i] ... start[i+1]-1 of `data` to or from rank[i]. */
typedef struct plb_side {
    int32_t n;
    const int32_t *rank;
    const int64_t *start;
    char *data;
} plb_side_t;

typedef struct plb_transfer {
    plb_comm_t *comm;
    int tag, n, n_receives; /* n: number of messages; 0: no exchange is under way */
    MPI_Request *request;   /* [n] receives, then sends */
    int32_t *peer;          /* [n] the other rank of each message */
    int64_t *bytes;         /* [n] size of each message */
    bool *unlike;           /* [n] this rank or peer[i] was at a meeting, but not both */
} plb_transfer_t;

/** Allocate memory for exchanges, one at a time, of at most n_partners sends plus receives. */
int plb_transfer_init(plb_transfer_t *self, plb_comm_t *comm, int32_t n_partners, plb_err_t *err);
void plb_transfer_free(plb_transfer_t *self);

/** Begin an exchange.  Local; does not wait.  The communicator must be used for exchanges only,
 * because a receive accepts any tag.  Do not change the data until the exchange is over; rows that
 * a rank sends to itself are copied at once.  tag: PLB_TAG_ITEMS ... PLB_TAG_MOST.  PLB_ERR_VALUE:
 * `out` and `in` differ in the number of rows that this rank sends to itself; no message was sent.
 * After an error of MPI, messages may be under way (n > 0). */
int plb_transfer_begin(plb_transfer_t *self, const plb_side_t *out, const plb_side_t *in,
                       int64_t row_bytes, int tag, plb_err_t *err);

/** Wait for the end of the exchange, and let other ranks use the processor meanwhile.
 * PLB_ERR_STATE: a partner has failed, or has sent a message of another exchange; the messages are
 * complete nevertheless.  After PLB_ERR_INTERRUPTED the exchange is still under way. */
int plb_transfer_wait(plb_transfer_t *self, plb_tick_fn tick, void *tick_arg, plb_err_t *err);

/** Take part in an exchange after a failure, without data: send PLB_TAG_FAILED to the ranks that
 * wait for rows of this rank, then wait for the rows that are sent to this rank, and drop them.
 * *met: whether a partner was at a meeting. */
int plb_transfer_fail(plb_comm_t *comm, const plb_side_t *out, const plb_side_t *in,
                      plb_tick_fn tick, void *tick_arg, bool *met, plb_err_t *err);
