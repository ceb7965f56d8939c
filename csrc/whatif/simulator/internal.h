/* What only the files of the simulator use. */
#pragma once

#include <math.h>

#include "base/base.h"
#include "whatif/whatif.h"

typedef enum verdict { NEXT, WAIT, PAUSE, END } verdict_t;

enum { OWN_SLOT = 0 }; /* the slot of blocking calls; request r has slot r + 1 */

typedef enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_DONE } slot_state_t;

typedef struct slot {
    double done; /* in the state SLOT_DONE: time of completion, in the past or future */
    int64_t cause_op;
    int32_t cause_rank;
    uint8_t state;
} slot_t;

typedef struct message {
    double at; /* time at which the envelope arrives */
    int64_t bytes, op;
    int32_t src, tag;
    int32_t channel;
    int32_t slot;       /* the sender's slot, which completes with the receive; -1: none */
    int32_t next, prev; /* list of the messages in flight, by time of arrival */
    int32_t behind;     /* next message in the channel */
    int32_t into; /* the receiver's slot, if a rendezvous message waits for a receiver's call */
} message_t;

typedef struct post {
    int32_t tag, slot, next;
} post_t;

typedef struct channel {
    int32_t dst;
    int32_t first, last;     /* list of the messages that have arrived */
    int32_t post, post_last; /* list of the posted receives from the channel's sender */
} channel_t;

typedef enum process_state {
    READY, /* the process has not begun its next operation */
    COMPUTING,
    WAITING,
    PAUSED,
    ENDED
} process_state_t;

typedef struct process {
    const plb_op_t *op;
    plb_op_time_t *step;
    int64_t n, at;
    plb_process_times_t times;
    double since; /* time at which the process began to wait or to pause */
    slot_t *slot;
    int64_t n_slots;
    int32_t processor;
    int32_t waits_for; /* the slot for which the rank waits; -1: none */
    int32_t exchange;  /* next step of the rank's blocking collective; -1: the rank is in none */
    int32_t flying;    /* list of the messages in flight to the rank, by time of arrival */
    int32_t flying_last;
    int32_t n_there;    /* number of messages that have arrived and are not received */
    int32_t rendezvous; /* list of the rendezvous messages that wait for a call of this rank */
    uint8_t state;
    /* probing: the rank waits until a message arrives, without a posted receive; has_run: it has
     * got work since it last waited */
    bool probing, has_run;
} process_t;

typedef struct processor {
    double speed;
    double period, on; /* the processor is available for `on` s of each period; period 0: always */
    double phase;      /* time at which the first period begins */
    double last;       /* time up to which v was computed */
    double v;          /* the work that each computing process has got since the processor was last
                          idle */
    plb_heap_t active; /* the computing processes, sorted by v at the end of their work */
} processor_t;

typedef struct icoll { /* A nonblocking collective that some ranks have entered. */
    double latest, root_at;
    int64_t latest_op, root_op;
    int32_t latest_rank, root_rank; /* the rank that entered last; the root; -1: not entered */
    int32_t entered;
    int32_t *slot; /* [size] slot of each member that waits; -1: the member does not wait */
} icoll_t;

typedef struct icolls { /* The nonblocking collectives of a communicator, in order. */
    icoll_t *at;
    int64_t n, room;
} icolls_t;

typedef struct plb_whatif {
    int32_t n_ranks;
    const plb_target_t *target;
    const plb_comms_t *comms;
    process_t *process;
    processor_t *processor;
    plb_item_t *heap_room;
    plb_queue_t agenda; /* the owners that have a next event; the key is its time */
    double now;
    /* Pools; unused entries form chains. */
    message_t *message;
    post_t *post;
    int64_t room_messages, room_posts, room_channels;
    int32_t n_messages, free_message;
    int32_t n_posts, free_post;
    channel_t *channel;
    plb_keys_t channels; /* maps sender, receiver and context to the channel's number */
    icolls_t *icolls;    /* [communicators] */
    /* [members of all communicators] number of nonblocking collectives that each has entered */
    int64_t *icolls_entered;
} plb_whatif_t;

/* The context of an operation's messages.  Messages of collectives have the next odd number. */
static inline uint32_t context_of(const plb_op_t *op)
{
    return (uint32_t)op->comm * 2u;
}

/* Owners on the agenda: 0 ... n_ranks - 1 for the next arrival at each rank, then one for the
 * wake-up of each rank, then one for each processor. */
static inline int32_t owner_wake(const plb_whatif_t *self, int32_t rank)
{
    return self->n_ranks + rank;
}
static inline int32_t owner_processor(const plb_whatif_t *self, int32_t processor)
{
    return 2 * self->n_ranks + processor;
}

/* Set the time of an owner's next event; INFINITY: it has none. */
static inline void plb_agenda_set(plb_whatif_t *self, int32_t owner, double time)
{
    if (time < INFINITY) {
        plb_queue_set(&self->agenda, owner, time);
    } else if (self->agenda.at[owner] >= 0) {
        plb_queue_drop(&self->agenda, owner);
    }
}

/* Slots: the states of a rank's open requests and of its blocking call. */

int plb_slot_open(plb_whatif_t *self, int32_t rank, int32_t slot, plb_err_t *err);
/** Let a rank wait for a slot.  Returns NEXT if the slot is complete; it is then free again. */
verdict_t plb_slot_wait(plb_whatif_t *self, int32_t rank, int32_t slot);
/** Complete a slot at time `when`, because of operation cause_op of cause_rank (-1: none). */
void plb_slot_complete(plb_whatif_t *self, int32_t rank, int32_t slot, double when,
                       int32_t cause_rank, int64_t cause_op);

/* Matches messages with receives.  Messages with the same sender, receiver and communicator form a
 * channel, in the order of sending; posted receives wait in the channel, too.  So the usual match
 * is the first one that is tried. */

/** Send `message`.  The caller sets its src, tag, bytes, op and slot (-1: the sender goes on). */
int plb_message_send(plb_whatif_t *self, int32_t dst, uint32_t context, message_t message,
                     plb_err_t *err);
/** Post the receive of `slot`; complete it if its message is there. */
int plb_message_receive(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                        int32_t tag, int32_t slot, plb_err_t *err);

/** Let the first message that is in flight to `rank` arrive. */
void plb_message_arrive(plb_whatif_t *self, int32_t rank);
/** Return the first message that has arrived and fits; -1: there is none, or src is -1. */
int32_t plb_message_find(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                         int32_t tag);
/** Begin a call of `rank`: transfer the rendezvous messages that wait for a call of this rank. */
void plb_message_progress(plb_whatif_t *self, int32_t rank);
void plb_message_cancel(plb_whatif_t *self, int32_t rank, int32_t slot);

/* Simulates collectives, by the rules in whatif.h. */

/** Get the next step of the blocking collective of `rank`; false: the collective is complete. */
bool plb_collective_next(const plb_whatif_t *self, int32_t rank, plb_hop_t *out);
/** Continue the blocking collective of `rank`.  *verdict: NEXT: it is complete; WAIT: not yet. */
int plb_collective_run(plb_whatif_t *self, int32_t rank, verdict_t *verdict, plb_err_t *err);
/** Enter a nonblocking collective. */
int plb_collective_enter(plb_whatif_t *self, int32_t rank, const plb_op_t *op, plb_err_t *err);
