/* The record of statistics that ranks reduce in each iteration (Menon 3.4), and the operator that
 * merges two records.
 *
 * Menon reduces average load, maximum load and minimum utilization.  This record also has what the
 * cost model needs (3.5, eq. 3.6), and what shows whether all ranks contributed to the same
 * iteration.  The merge is associative and commutative to the last bit: sums of seconds are exact
 * (base/exact.h); all other fields are integers, maxima and minima. */
#pragma once

#include <stdint.h>

#include "base/exact.h"

/* X(name, C type, rule, unit, help); the struct and the merge come from this table; Python's Stats
 * has the same names.  Rules: SUM, MAX, MIN, SAME (if contributions differ, PLB_STATS_MIXED is
 * set), AT_MAX (the lowest rank with load_max). */
#define PLB_STATS(X)                                                                              \
    X(kind, int64_t, SAME, "", "kind of the collective step")                                     \
    X(iteration, int64_t, SAME, "", "number of the iteration")                                    \
    X(arguments, int64_t, SAME, "",                                                               \
      "fingerprint of arguments that must be equal on all "                                       \
      "ranks")                                                                                    \
    X(n_ranks, int64_t, SUM, "", "number of ranks that ran this iteration")                       \
    X(n_objects, int64_t, SUM, "", "number of objects")                                           \
    X(n_changed, int64_t, SUM, "", "number of objects added or removed since the previous step")  \
    X(n_ended, int64_t, SUM, "", "number of ranks that had ended their loop")                     \
    X(n_rebalanced, int64_t, SUM, "", "number of ranks that carried out the advised LB step")     \
    X(load_sum, plb_exact_t, SUM, "s", "total load of the objects")                               \
    X(idle_sum, plb_exact_t, SUM, "s", "total idle time of the ranks")                            \
    X(load_max, double, MAX, "s", "load of the most loaded rank")                                 \
    X(load_min, double, MIN, "s", "load of the least loaded rank")                                \
    X(load_max_rank, int64_t, AT_MAX, "", "the most loaded rank (of several: the lowest)")        \
    X(utilization_min, double, MIN, "", "lowest load / (load + idle) of a rank")                  \
    X(messages, int64_t, SUM, "", "number of messages between objects on different ranks")        \
    X(message_bytes, int64_t, SUM, "B",                                                           \
      "bytes of the messages between objects on different ranks")                                 \
    X(messages_open, int64_t, SUM, "",                                                            \
      "number of messages that must be forwarded, or whose data pylb may be unable to restore")   \
    X(time_max, double, MAX, "s", "longest iteration, by the rank's clock")                       \
    X(cost_max, double, MAX, "s", "time of the most recent LB step on the slowest rank")          \
    X(failed_rank, int64_t, MIN, "", "lowest rank that failed; INT64_MAX: none")

enum { PLB_STATS_MIXED = 1 };

typedef struct plb_stats {
#define X(name, type, rule, unit, help) type name;
    PLB_STATS(X)
#undef X
    int64_t flags; /* PLB_STATS_MIXED: contributions differed in a SAME field; else 0 */
} plb_stats_t;

/** Set each field to the neutral element of its rule; the caller sets those with the rule SAME. */
void plb_stats_init(plb_stats_t *self);

/** Merge `other` into `self`, which keeps the larger value if a SAME field differs. */
void plb_stats_merge(plb_stats_t *self, const plb_stats_t *other);

/** Utilization, load / (load + idle); 1 if both are 0.  Menon eq. 3.2 has this name, but prints
 * idle / (load + idle), the fraction of idle time.  Menon 3.7.3 ("utilization is low (or idle time
 * is high)") shows that load / (load + idle) is meant. */
double plb_utilization(double load, double idle);
