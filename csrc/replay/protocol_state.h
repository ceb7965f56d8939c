/* The state of a simulation (protocol.h): the ranks, and the messages under way. */
#pragma once

#include "decide/consensus.h"
#include "replay/calendar.h"
#include "replay/protocol.h"

typedef enum state {
    WORK,    /* the rank runs an iteration */
    RECEIVE, /* the rank's work is done, but a neighbour's data are missing */
    AT_SYNC, /* the rank waits at AtSync */
    BALANCE, /* the rank takes part in an LB step */
    ENDED,   /* the rank has run all iterations, but still passes messages on */
    DONE,    /* the rank's state machine has ended, too */
} state_t;

/* Why a rank waits at AtSync.  PAUSE: the ranks have not yet agreed on the iteration of the LB
 * step; LAG: the statistics of the iteration `lag` iterations earlier are not known yet; GATHER:
 * the rank has reached the agreed iteration, and waits there for the other ranks. */
typedef enum wait { PAUSE, LAG, GATHER, N_WAITS } wait_t;

enum { LINE = 64 }; /* bytes of a cache line */

/* The state of a rank.  All of it is in one struct, because events visit ranks in random order,
 * and memory access takes most of the time.  Events of other ranks use only the first cache line
 * and the members max_... */
typedef struct node {
    _Alignas(LINE) double wake; /* time of the event for the next message; INFINITY: none */
    double begun[2];   /* times at which the rank began its last even and its last odd iteration */
    int64_t iteration; /* the last iteration that the rank began */
    int64_t up;        /* iteration of the next statistics that the rank sends to its parent */
    int64_t n_relayed; /* number of rulings that the rank has passed on to its children */
    int32_t n_children;
    uint8_t state, wait; /* state_t, wait_t */
    double due;          /* time at which the rank's work or its LB step ends */
    double serve;        /* next time to pass messages on during the rank's work; INFINITY: none */
    double since;        /* time at which the rank began to wait */
    int64_t n_taken;     /* number of rulings that the rank's state machine has taken */
    plb_consensus_t machine;
    /* the maximum of the iterations that ranks have begun (the reach in decide/consensus.h) */
    double max_at; /* time at which the last contribution to the present maximum arrives */
    int64_t max_reach;
    int32_t max_missing;              /* number of contributions that have not arrived */
    double waited[N_WAITS], received; /* seconds of waiting: at AtSync; for neighbours */
    int64_t bytes, messages;          /* sent by this rank for the protocol */
} node_t;

/* In a rank: statistics on the way to its parent, and a ruling on the way to its children. */
typedef struct slot {
    double up_at;    /* time at which the latest part of the statistics arrives */
    double down_at;  /* time at which the ruling arrives; INFINITY: not known yet */
    int32_t missing; /* number of parts of the statistics that have not arrived */
} slot_t;

/* A ruling that goes down the tree. */
typedef struct sent_ruling {
    plb_ruling_t ruling;
    int64_t iteration; /* the iteration whose statistics led to the ruling; 0: a maximum did */
} sent_ruling_t;

typedef struct sim {
    plb_protocol_t in;
    plb_consensus_root_t root;
    plb_calendar_t calendar;
    node_t *node; /* [p] the ranks, a part of `memory` */
    void *memory;
    slot_t *slot;   /* [p, window] index: number of the iteration or ruling, modulo the window */
    int64_t window; /* number of iterations whose messages can be under way; a power of two */
    sent_ruling_t *ruling; /* [n_rulings] all rulings of the root so far */
    int64_t n_rulings, room_rulings;
    int64_t last_balanced, n_done;
    double end;
    plb_protocol_result_t *out;
    int64_t room_decisions;
    int ret; /* the first failure; the simulation stops at it */
    plb_err_t *err;
} sim_t;

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
