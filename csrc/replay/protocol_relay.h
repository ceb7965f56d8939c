/* Messages of the simulated protocol: statistics go up the tree of ranks, the root decides, and
 * its rulings go down the tree. */
#pragma once

#include "replay/protocol_state.h"

/** Seconds from sending a message to its arrival. */
double plb_sim_hop(const sim_t *s, int64_t bytes);

/** Add an event of a rank. */
void plb_sim_push(sim_t *s, double time, int64_t rank);

/** Make sure that a rank at which a message arrives at `time` has an event at this time or
 * earlier, unless the rank works and does not pass messages on at once. */
void plb_sim_wake(sim_t *s, int64_t rank, double time);

/** Add an event for the earliest arrival at a rank after t. */
void plb_sim_wake_next(sim_t *s, int64_t rank, double t);

/** Return when the neighbours' data for the present iteration of a rank arrive; 0: the rank needs
 * no data; INFINITY: not known yet. */
double plb_sim_halo(const sim_t *s, int64_t rank);

/** Let a rank get, at time `at`, one part of the statistics of an iteration: its own part or that
 * of a child.  plb_sim_add_maximum does this with one part of a maximum, the value `reach`. */
void plb_sim_add_stats(sim_t *s, int64_t rank, int64_t iteration, double at);
void plb_sim_add_maximum(sim_t *s, int64_t rank, int64_t reach, double at);

/** Pass on all messages of a rank that have arrived by t. */
void plb_sim_relay(sim_t *s, int64_t rank, double t);
