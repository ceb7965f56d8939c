/* The agents of GossipLB, for strategies that end with them. */
#ifndef PLB_PLACE_KIT_GOSSIP_H
#define PLB_PLACE_KIT_GOSSIP_H

#include "base/rng.h"
#include "place/kit/agent.h"

enum { PLB_GOSSIP_MOST_FAN_OUT = 64 };

/* Parameters of the agents; they come first in the table of such a strategy. */
enum {
    PLB_GOSSIP_OVERLOAD,
    PLB_GOSSIP_FAN_OUT,
    PLB_GOSSIP_ROUNDS,
    PLB_GOSSIP_ITERATIONS,
    PLB_GOSSIP_N_PARAMS
};
#define PLB_GOSSIP_PARAMS                                                                         \
    {"overload", "x average", "a rank above this multiple of the average gives away objects",     \
     1.01,       1.0,         1e6},                                                               \
        {"fan_out",                                                                               \
         "",                                                                                      \
         "number of ranks that a rank tells about ranks with room, in each "                      \
         "round",                                                                                 \
         4,                                                                                       \
         1,                                                                                       \
         PLB_GOSSIP_MOST_FAN_OUT},                                                                \
        {"rounds", "", "rounds of gossip before objects are offered", 3, 1, 64},                  \
    {                                                                                             \
        "iterations", "", "most iterations, each of which is gossip and one round of offers",     \
            100, 1, 1e6                                                                           \
    }

typedef struct plb_receiver {
    int32_t rank;
    bool told;   /* true: it has been told the ceiling; false: not yet */
    double room; /* load */
    int64_t memory;
} plb_receiver_t;

typedef struct plb_gossip {
    plb_agent_t agent;
    plb_rng_t rng;
    double overload, limit, allowed;
    double n_overloaded; /* overloaded ranks one iteration ago */
    double failed;       /* the highest limit that could not be reached, or 0 */
    int fan_out, n_rounds, n_iterations;
    /* within_node: gossip and offers stay within each node (false: among all ranks); swapping:
     * objects are also offered in exchange for smaller ones (false: they are only given) */
    bool within_node, swapping;
    int step, iteration, stalled; /* step: rounds of gossip, then the offers, then the answers */
    int64_t taken;                /* number of objects taken in this iteration */
    plb_receiver_t *known;        /* [n_known] ranks with room */
    int32_t n_known, most_known;
    int64_t heard;
} plb_gossip_t;

/** The functions of plb_agent_type_t. */
int plb_gossip_start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err);
int plb_gossip_round(plb_agent_t *agent, const plb_note_t *in, int64_t n_in,
                     const plb_tally_t *all, bool *settled, plb_err_t *err);
int64_t plb_gossip_known(const plb_agent_t *agent);
void plb_gossip_stop(plb_agent_t *agent);

#endif
