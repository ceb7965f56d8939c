/* The cost model: seconds of an iteration and of an LB step under a placement.
 *
 * In an iteration each rank takes
 *     background + load / speed + alpha * messages + beta * bytes          (Menon eq. 3.6)
 * where messages and bytes are those that the rank sends to other ranks; between two ranks of one
 * node they count as the fractions near[2] of the snapshot, if it has these (plb_distance).  An
 * edge goes to the receiver's rank, a multicast once to each rank that has receivers.  Each such
 * delivery is one message, unless the snapshot has edge_messages or multicast_messages.
 *
 * An LB step takes
 *     steps + strategy + migration
 * where `steps` is the constant part (to gather the load database, and the collective steps),
 * `strategy` is the time to compute the placement, and `migration` is the time of the busiest
 * rank: `handling` seconds for each object that it packs or unpacks, and the time of one message
 * to each rank that receives objects from it. */
#pragma once

#include <stdbool.h>

#include "model/snapshot.h"

typedef struct plb_network {
    double alpha; /* seconds per message, between nodes */
    double beta;  /* seconds per byte, between nodes */
} plb_network_t;

static inline bool plb_network_costs(plb_network_t self)
{
    return self.alpha > 0.0 || self.beta > 0.0;
}

/** Compute time[n_ranks], the seconds of an iteration, including messages, with the objects on
 * rank[] (NULL: on their present ranks). */
int plb_phase_times(const plb_snapshot_t *in, const int32_t *rank, plb_network_t network,
                    double *time, plb_err_t *err);

/* X(name, unit, help). */
#define PLB_LB_COST(X)                                                                            \
    X(alpha, "s", "time for each message")                                                        \
    X(beta, "s", "time for each byte that is sent")                                               \
    X(steps, "s", "time of an LB step in which nothing moves, without the time of the strategy")  \
    X(handling, "s", "time for each object that is packed or unpacked")                           \
    X(pace, "",                                                                                   \
      "seconds of the run's clock for each second of computing; 1, unless ranks are virtual")

typedef struct plb_lb_cost {
#define X(name, unit, help) double name;
    PLB_LB_COST(X)
#undef X
} plb_lb_cost_t;

/** Compute the seconds that the busiest rank needs to move the objects from in->rank to `rank`. */
int plb_migration_seconds(const plb_lb_cost_t *self, const plb_snapshot_t *in, const int32_t *rank,
                          double *seconds, plb_err_t *err);

/** Estimate the seconds of the first LB step, without the time of the strategy.  The busiest rank
 * is assumed to pack `objects` objects, to unpack as many, and to send `bytes` bytes. */
double plb_first_cost(const plb_lb_cost_t *self, int64_t objects, int64_t bytes, int32_t n_ranks);
