/* The state of a simulation of the protocol (protocol.h): the ranks, and the messages under
 * way.
 */
#ifndef PLB_REPLAY_PROTOCOL_STATE_H
#define PLB_REPLAY_PROTOCOL_STATE_H

#include "decide/consensus.h"
#include "replay/calendar.h"
#include "replay/protocol.h"

typedef enum state {
    WORK,
    RECEIVE, /* the work is done, but a neighbour's data is missing */
    STAND,   /* it waits at AtSync */
    BALANCE, /* it is in an LB step */
    END,     /* its iterations have ended; it still passes messages on */
    OVER,    /* its state machine is done, too */
} state_t;

/* Why a rank waits at AtSync: in the pause state, for older statistics, at the final iteration. */
typedef enum why { PAUSE, LAG, GATHER, N_WHY } why_t;

enum { LINE = 64 }; /* bytes of a cache line */

/* The state of a rank in one place, since events visit ranks in random order and memory access
 * dominates.  The first cache line has what other ranks read. */
typedef struct node {
    _Alignas(LINE) double wake; /* when the next arriving message wakes the rank; infinity: no
                                   such event is pending */
    double begun[2];            /* when it began its last two iterations, by parity */
    int64_t iteration;          /* the last iteration that it began */
    int64_t up;                 /* next statistics to send up */
    int64_t passed;             /* rulings passed on to the children */
    int32_t n_children;
    uint8_t state, why;
    double due;    /* time at which the work or the LB step ends */
    double serve;  /* next time at which it passes messages on while it works, or infinity */
    double since;  /* when it began to wait */
    int64_t heard; /* rulings taken by its state machine */
    plb_consensus_t machine;
    double max_at; /* arrival of the latest part of the maximum that is being reduced */
    int64_t max_reach;
    int32_t max_missing;
    double stood[N_WHY], received;
    int64_t bytes, messages;
} node_t;

/* Messages under way through a rank: the statistics of an iteration, and a ruling. */
typedef struct slot {
    double up_at;    /* arrival of the latest part of these statistics */
    double down_at;  /* when the ruling arrives, or infinity */
    int32_t missing; /* parts of the statistics that are missing */
} slot_t;

/* A message down the tree: the ruling on statistics or on a maximum. */
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
    slot_t *slot;   /* [p, window], indexed by the number of the iteration or of the ruling, modulo
                       the window */
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

/* A rank's neighbour on the ring: side 0: the previous one, 1: the next one. */
static inline int64_t plb_sim_neighbour(const sim_t *s, int64_t rank, int side)
{
    const int64_t p = s->in.n_ranks;
    return side == 0 ? (rank == 0 ? p - 1 : rank - 1) : (rank == p - 1 ? 0 : rank + 1);
}

#endif
