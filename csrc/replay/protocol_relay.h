/* The protocol on its way: messages go up and down the tree of ranks, and the root decides. */
#ifndef PLB_REPLAY_PROTOCOL_RELAY_H
#define PLB_REPLAY_PROTOCOL_RELAY_H

#include "replay/protocol_state.h"

/** Seconds from sending a message to its arrival. */
double plb_sim_hop(const sim_t *s, int64_t bytes);

/** An event of a rank. */
void plb_sim_push(sim_t *s, double time, int64_t rank);

/** Something for this rank arrives at `time`: one event waits for the earliest such time. */
void plb_sim_notice(sim_t *s, int64_t rank, double time);

/** An event for the earliest of what is under way to a rank and later than t. */
void plb_sim_arm(sim_t *s, int64_t rank, double t);

/** When its neighbours' data for the iteration that it runs are here; infinity: not known yet. */
double plb_sim_halo(const sim_t *s, int64_t rank);

/** A part of the statistics of an iteration, or of a maximum, is at this rank: its own or a
 *  child's. */
void plb_sim_add_stats(sim_t *s, int64_t rank, int64_t iteration, double at);
void plb_sim_add_maximum(sim_t *s, int64_t rank, int64_t reach, double at);

/** What has arrived by t is passed on. */
void plb_sim_relay(sim_t *s, int64_t rank, double t);

#endif
