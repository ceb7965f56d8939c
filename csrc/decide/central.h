/* Would the work on rank 0 take too large a part of an LB step?  If so, a distributed strategy is
 * used instead of a central one.
 *
 * A central strategy needs the loads of all n objects on rank 0.  Rank 0 places them and sends the
 * moves back.  Before the first LB step, rank 0 is expected to need
 *
 *     n * (WORK + beta * FACTS) + messages * beta * EDGE                               seconds,
 *
 * and a distributed placement on p ranks (alpha, beta: seconds per message and per byte)
 *
 *     ceil(log2(p)) * (2 * ROUNDS * (alpha + beta * RECORD) + NOTES * (alpha + beta * NOTE))
 *     + ROUNDS * ROUND                                                                 seconds.
 *
 * After an LB step of a kind (central or distributed), the shortest measured time of this kind is
 * used instead, because a busy machine can make any LB step slower.  (For rank 0 it is the
 * shortest time per object, and the result is limited to MOST times the expected time.)
 *
 * The distributed strategy is used if the load database does not fit into rank 0's memory, or if
 *   - rank 0 takes at least SHORT,
 *   - rank 0 takes longer than the distributed placement, and longer than the migrations of the
 *     last LB step, and
 *   - the time saved is more than the time that the greater imbalance of the distributed strategy
 *     loses until the next LB step.
 *
 * The constants (central.c) are ours.  They were measured with BestFitLB and GossipLB for 10^3 to
 * 10^7 objects on 2 to 10^5 ranks (benchmarks/scale.py). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/cost.h"

/* The cost of earlier LB steps. */
typedef struct plb_central {
    int64_t limit;     /* memory limit of rank 0 in bytes; negative: none */
    double per_object; /* shortest measured seconds on rank 0 per object; NAN: none yet */
    double rounds;     /* shortest measured seconds of a distributed placement; NAN: none yet */
    double moving;     /* seconds of the migrations in the last LB step */
} plb_central_t;

/* An LB step whose strategy is to be chosen. */
typedef struct plb_central_case {
    int32_t n_ranks;
    int64_t n_objects;
    int64_t messages; /* number of messages between ranks in an iteration */
    plb_network_t network;
    double mean;           /* seconds: mean load of the ranks */
    double left;           /* max/mean that a central strategy leaves; NAN: not known */
    double left_in_rounds; /* max/mean that a distributed strategy leaves; NAN: not known */
    double iterations;     /* expected number until the next LB step */
} plb_central_case_t;

typedef struct plb_central_answer {
    bool in_rounds;  /* use the distributed strategy */
    bool considered; /* rank 0 takes too long or lacks memory, so `in_rounds` was considered */
    double bytes;    /* size of the load database if it exceeds rank 0's memory limit; else 0 */
    double root;     /* seconds of a central placement on rank 0 */
    double rounds;   /* seconds of the distributed placement */
    double loss;     /* seconds lost by the greater imbalance until the next LB step */
} plb_central_answer_t;

plb_central_t plb_central_begin(void);

plb_central_answer_t plb_central_compare(const plb_central_t *self, const plb_central_case_t *at);

/** moving: seconds of the LB step's migrations; placing: of its other parts; NAN: unknown. */
void plb_central_balanced(plb_central_t *self, bool in_rounds, int64_t n_objects, double placing,
                          double moving);

/** Write the comparison as a part of a sentence, if the distributed strategy was considered. */
void plb_central_say(const plb_central_answer_t *answer, const char *central, const char *other,
                     char *out, size_t size);
