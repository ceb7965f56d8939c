/* The agents of GossipLB, for strategies that use them. */
#pragma once

#include "base/rng.h"
#include "place/kit/agent.h"

enum { PLB_GOSSIP_MOST_FAN_OUT = 64, PLB_GOSSIP_WORDS = 16 };

/* Parameters of the agents; a strategy that uses these agents lists them first in its table. */
enum {
    PLB_GOSSIP_OVERLOAD,
    PLB_GOSSIP_FAN_OUT,
    PLB_GOSSIP_ROUNDS,
    PLB_GOSSIP_ITERATIONS,
    PLB_GOSSIP_N_PARAMS
};
#define PLB_GOSSIP_PARAMS                                                                          \
    {"overload", "x average", "a rank above this multiple of the average gives away objects",      \
     1.01,       1.0,         1e6},                                                                \
        {"fan_out",                                                                                \
         "",                                                                                       \
         "number of ranks that a rank informs, in each round, about ranks "                        \
         "that can take load",                                                                     \
         4,                                                                                        \
         1,                                                                                        \
         PLB_GOSSIP_MOST_FAN_OUT},                                                                 \
        {"rounds", "", "largest number of rounds of gossip before objects are offered", 3, 1, 64}, \
    {                                                                                              \
        "iterations", "",                                                                          \
            "largest number of iterations (an iteration is some rounds of gossip, then a round "   \
            "of offers); the same number again if a second search looks for fewer migrations",     \
            100, 1, 1e6                                                                            \
    }

/* What this rank knows of a rank that can take load. */
typedef struct plb_receiver {
    int32_t rank;
    bool has_ceiling;  /* whether a NOTE_CEILING was sent to that rank */
    double room;       /* load that the rank can take */
    int64_t memory;    /* bytes that the rank can take */
    int64_t n_objects; /* number of objects on the rank */
} plb_receiver_t;

typedef struct plb_gossip {
    plb_agent_t agent;
    plb_rng_t rng;
    double overload;     /* the parameter `overload` */
    double limit;        /* seconds that no rank should exceed */
    double allowed;      /* load with which this rank would take `limit` seconds */
    double n_overloaded; /* number of overloaded ranks one iteration ago */
    double failed;       /* the highest limit that was not reached; 0: none */
    int fan_out, n_rounds, n_iterations;
    /* within_node: gossip and offers stay within each node, instead of going among all ranks.
     * swapping: objects are also offered in exchange for smaller ones. */
    bool within_node, swapping;
    bool asking; /* in this iteration, overloaded ranks ask random ranks what they can take */
    /* by_node: within_node is true at first.  from_home: if the first limit was not reached, the
     * strategy begins again from the placement before the LB step (begin_again in gossip.c). */
    bool by_node, from_home;
    bool again;         /* whether the strategy has begun again: a second search is under way */
    plb_holding_t best; /* if `again`: this rank's objects in the placement of the first search */
    double n_away;      /* if `again`: number of objects of all ranks that migrate in `best` */
    int step, iteration, stalled; /* step: round of the iteration (gossip, offers or answers);
                                     stalled: iterations in a row without progress */
    int64_t taken;                /* number of objects that this rank took in this iteration */
    plb_receiver_t *known;        /* [n_known] ranks that can take load */
    int32_t n_known, most_known;
    int64_t n_heard; /* number of receivers of which this rank has heard in this iteration */
    uint64_t heard_of[PLB_GOSSIP_WORDS]; /* a bit at the hash of each receiver heard of */
} plb_gossip_t;

/** The functions of plb_agent_type_t (agent.h). */
int plb_gossip_start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err);
int plb_gossip_round(plb_agent_t *agent, const plb_note_t *in, int64_t n_in,
                     const plb_tally_t *all, bool *settled, plb_err_t *err);
int64_t plb_gossip_known(const plb_agent_t *agent);
void plb_gossip_stop(plb_agent_t *agent);
