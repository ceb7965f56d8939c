/* Messages of the simulated protocol, up and down the tree of ranks. */
#pragma once

#include "replay/protocol_state.h"

/** Seconds from sending a message to its arrival. */
double plb_sim_hop(const sim_t *s, int64_t bytes);

/** Add an event of a rank. */
void plb_sim_push(sim_t *s, double time, int64_t rank);

/** Wake a rank at `time`, when a message arrives.  While it works, a rank is only woken if it
 * passes messages on immediately. */
void plb_sim_wake(sim_t *s, int64_t rank, double time);

/** Wake a rank at the earliest arrival of a message after t. */
void plb_sim_wake_next(sim_t *s, int64_t rank, double t);

/** Return when the neighbours' data for the present iteration of a rank arrive; 0: the rank needs
 * no data; INFINITY: not known yet. */
double plb_sim_halo(const sim_t *s, int64_t rank);

/** Give a rank one part of the statistics of an iteration, at time `at`: its own part or that of a
 * child.  plb_sim_add_maximum: one part of a maximum, the value `reach`. */
void plb_sim_add_stats(sim_t *s, int64_t rank, int64_t iteration, double at);
void plb_sim_add_maximum(sim_t *s, int64_t rank, int64_t reach, double at);

/** Pass on all messages of a rank that have arrived by t. */
void plb_sim_relay(sim_t *s, int64_t rank, double t);
