/* One collective step: sends parcels of bytes to some ranks and, at the same time, reduces one
 * record of statistics (measure/stats.h).
 *
 * A parcel is a list of parts.  Its head is a message with the sizes of all parts and the contents
 * of small parts, up to 1 MiB.  All other parts follow in separate messages of 1 GiB at most.
 *
 * The exchange is NBX (Hoefler, Siebert and Lumsdaine, PPoPP 2010, algorithm 2): synchronous
 * sends, then a nonblocking barrier; meanwhile each rank receives.  There are two differences: the
 * barrier is the Iallreduce of the record, so a step costs one collective call; and only the heads
 * are sent synchronously.  When the reduction is complete, every rank has the same record, and all
 * heads have been received. */
#pragma once

#include <stdbool.h>

#include "base/wait.h"
#include "comm/comm.h"
#include "measure/stats.h"

typedef struct plb_parcel {
    int peer, n;   /* the other rank; the number of parts */
    void **part;   /* [n] */
    int64_t *size; /* [n] bytes of each part */
} plb_parcel_t;

/** Allocate memory for the parts of a parcel that has arrived, and set part[n] to it. */
typedef int (*plb_take_fn)(void *arg, plb_parcel_t *parcel, plb_err_t *err);

typedef struct plb_requests {
    MPI_Request *r;
    int n;
    int64_t room;
} plb_requests_t;

typedef enum plb_phase {
    PLB_STEP_IDLE,     /* no step is under way */
    PLB_STEP_SENDING,  /* the other ranks have not yet received all heads of this rank */
    PLB_STEP_REDUCING, /* the reduction is not complete */
    PLB_STEP_DRAINING, /* parts outside of heads are still being sent or received */
    PLB_STEP_BROKEN    /* plb_step_begin failed after it had sent heads: no more steps */
} plb_phase_t;

typedef struct plb_step {
    plb_comm_t *comm;
    plb_phase_t phase;
    int parity;            /* 0 in even steps, 1 in odd steps; chooses the tags */
    plb_stats_t mine, all; /* this rank's record; the merged record, valid after the step */
    plb_requests_t heads, parts;
    MPI_Request reduction;
    void **wire; /* [n_wires] owned: the heads that are being sent */
    int n_wires;
    char *head; /* owned: the head of a parcel that is being opened; NULL: none */
    int source; /* the rank that has sent `head` */
    plb_take_fn take;
    void *take_arg;
} plb_step_t;

void plb_step_init(plb_step_t *self, plb_comm_t *comm, plb_take_fn take, void *take_arg);
void plb_step_free(plb_step_t *self);

/** Return PLB_ERR_STATE if a step is under way, or if an earlier one is broken. */
int plb_step_check_idle(const plb_step_t *self, plb_err_t *err);

/** Begin a step.  Collective over comm; does not wait.  There is at most one parcel for each
 * other rank, and none for this rank.  Do not change the memory of the parts until the step is
 * complete.  PLB_ERR_STATE: a step is under way already, or an earlier one is broken. */
int plb_step_begin(plb_step_t *self, const plb_stats_t *mine, const plb_parcel_t *parcel,
                   int n_parcels, plb_err_t *err);

/** Wait until self->all is the merged record and all parcels have arrived, for at most
 * `timeout_ns` nanoseconds (negative: no limit); other ranks can use the processor meanwhile.
 * *done: whether the step is complete.  If it is not, or after PLB_ERR_INTERRUPTED or a lack of
 * memory, the step is still under way: call this function again. */
int plb_step_wait(plb_step_t *self, int64_t timeout_ns, plb_tick_fn tick, void *tick_arg,
                  bool *done, plb_err_t *err);
