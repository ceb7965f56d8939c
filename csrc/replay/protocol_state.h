/* The state of a simulation of the protocol (protocol.h): of each rank, and of what is under way.
 */
#ifndef PLB_REPLAY_PROTOCOL_STATE_H
#define PLB_REPLAY_PROTOCOL_STATE_H

#include "decide/consensus.h"
#include "replay/calendar.h"
#include "replay/protocol.h"

typedef enum state {
    WORK,
    RECEIVE, /* the work is done, a neighbour's data is not here */
    STAND,
    BALANCE,
    END, /* serves on */
    OVER,
} state_t;

typedef enum why { PAUSE, LAG, GATHER, N_WHY } why_t;

enum { LINE = 64 }; /* bytes of a cache line */

/* All of a rank in one place: events visit ranks in no order, and memory access is their cost.
 * The first line is what other ranks look at. */
typedef struct node {
    _Alignas(LINE) double wake; /* earliest event on its way because of messages, or infinity */
    double begun[2];            /* when it began its last two iterations, by parity */
    int64_t iteration;          /* last one begun */
    int64_t up;                 /* next statistics to send up */
    int64_t passed;             /* rulings passed on to the children */
    int32_t n_children;
    uint8_t state, why;
    double due;    /* end of the work or of the LB step */
    double serve;  /* next time that a working rank serves, or infinity */
    double since;  /* when it began to stand or to wait for a neighbour */
    int64_t heard; /* rulings taken by the machine */
    plb_consensus_t machine;
    double max_at; /* latest part of the maximum that is being reduced */
    int64_t max_reach;
    int32_t max_missing;
    double stood[N_WHY], received;
    int64_t bytes, messages;
} node_t;

/* What is under way through a rank: the statistics of an iteration, a ruling. */
typedef struct slot {
    double up_at;    /* latest part of these statistics */
    double down_at;  /* when the ruling arrives, or infinity */
    int32_t missing; /* parts of the statistics that are not there */
} slot_t;

/* What goes down: the ruling on statistics or on a maximum. */
typedef struct word {
    plb_ruling_t ruling;
    int64_t iteration; /* of the statistics, or 0 */
} word_t;

typedef struct sim {
    plb_protocol_t in;
    plb_consensus_root_t root;
    plb_calendar_t calendar;
    node_t *node; /* [p], in `memory` */
    void *memory;
    slot_t *slot;   /* [p, window], by the number of the iteration and of the ruling */
    int64_t window; /* a power of two */
    word_t *word;   /* the rulings so far */
    int64_t n_words, room_words;
    int64_t last_balanced, n_over;
    double end;
    plb_protocol_result_t *out;
    int64_t room_decisions;
    int ret; /* the first failure; the simulation stops there */
    plb_err_t *err;
} sim_t;

/* Keep the first failure: the simulation stops there. */
static inline void plb_sim_check(sim_t *s, int ret)
{
    s->ret = s->ret != PLB_OK ? s->ret : ret;
}

static inline slot_t *plb_sim_slot(const sim_t *s, int64_t rank, int64_t number)
{
    return &s->slot[rank * s->window + (number & (s->window - 1))];
}

/* A rank's neighbour on the ring: 0 the one before, 1 the one behind. */
static inline int64_t plb_sim_neighbour(const sim_t *s, int64_t rank, int side)
{
    const int64_t p = s->in.n_ranks;
    return side == 0 ? (rank == 0 ? p - 1 : rank - 1) : (rank == p - 1 ? 0 : rank + 1);
}

#endif
