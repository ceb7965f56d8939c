/* Messages of the protocol: they go up and down the tree of ranks, and the root decides. */
#ifndef PLB_REPLAY_PROTOCOL_RELAY_H
#define PLB_REPLAY_PROTOCOL_RELAY_H

#include "replay/protocol_state.h"

/** Seconds from sending a message to its arrival. */
double plb_sim_hop(const sim_t *s, int64_t bytes);

/** Add an event of a rank. */
void plb_sim_push(sim_t *s, double time, int64_t rank);

/** Note that something for this rank arrives at `time`; one event is kept for the earliest such
 * time. */
void plb_sim_notice(sim_t *s, int64_t rank, double time);

/** Add an event for the earliest arrival at a rank after t. */
void plb_sim_arm(sim_t *s, int64_t rank, double t);

/** The time at which the neighbours' data for the present iteration of a rank arrive; INFINITY:
 * not known yet. */
double plb_sim_halo(const sim_t *s, int64_t rank);

/** Add a part (its own or a child's) of the statistics of an iteration, or of a maximum, at this
 * rank. */
void plb_sim_add_stats(sim_t *s, int64_t rank, int64_t iteration, double at);
void plb_sim_add_maximum(sim_t *s, int64_t rank, int64_t reach, double at);

/** Pass on what has arrived by t. */
void plb_sim_relay(sim_t *s, int64_t rank, double t);

#endif
