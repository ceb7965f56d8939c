/* What is measured: statistics of iterations, estimates of loads, learned speeds, evaluation of
 * placements, and a benchmark. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"
#include "model/model.h"

/* The record of statistics that ranks reduce in each iteration (Menon 3.4), and the operator that
 * merges two records.
 *
 * Menon reduces average load, maximum load and minimum utilization.  This record also has what the
 * cost model needs (3.5, eq. 3.6), and what shows whether all ranks contributed to the same
 * iteration.  The merge is associative and commutative to the last bit: sums of seconds are exact
 * (base/base.h); all other fields are integers, maxima and minima. */

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
    X(hidden_max, double, MAX, "s", "longest time for which a rank computed while data moved")    \
    X(failed_rank, int64_t, MIN, "", "lowest rank that failed; INT64_MAX: none")                  \
    X(n_phases, int64_t, SAME, "", "number of phases; 0: the program names none")

enum { PLB_STATS_MIXED = 1, PLB_MOST_PHASES = 8 };

typedef struct plb_stats {
#define X(name, type, rule, unit, help) type name;
    PLB_STATS(X)
#undef X
    int64_t flags; /* PLB_STATS_MIXED: contributions differed in a SAME field; else 0 */
    /* Of each phase, in seconds: load of the most loaded rank; total load. */
    double phase_max[PLB_MOST_PHASES];
    plb_exact_t phase_sum[PLB_MOST_PHASES];
} plb_stats_t;

/** Set each field to the neutral element of its rule; the caller sets those with the rule SAME. */
void plb_stats_init(plb_stats_t *self);

/** Merge `other` into `self`, which keeps the larger value if a SAME field differs. */
void plb_stats_merge(plb_stats_t *self, const plb_stats_t *other);

/** Set the phases of a rank's record; seconds[d]: its load in each, d <= PLB_MOST_PHASES. */
void plb_stats_set_phases(plb_stats_t *self, const double *seconds, int64_t d);

/** Return the seconds of an iteration without messages: the load of the most loaded rank.  With
 * phases, at whose ends all ranks wait, it is the sum over the phases of the load of the rank that
 * is the most loaded in each. */
double plb_stats_max(const plb_stats_t *self);

/** Utilization, load / (load + idle); 1 if both are 0.  Menon eq. 3.2 has this name, but prints
 * idle / (load + idle), the fraction of idle time.  Menon 3.7.3 ("utilization is low (or idle time
 * is high)") shows that load / (load + idle) is meant. */
static inline double plb_utilization(double load, double idle)
{
    const double total = load + idle;
    return total > 0.0 ? load / total : 1.0;
}

/* Estimates an object's load (seconds) in the next iteration from its earlier loads on all ranks.
 *
 * This is exponential smoothing.  Its gain is the tracking signal |smoothed error| / smoothed
 * |error| (Trigg and Leach, Operational Research Quarterly 18, 1967) of the previous iteration
 * (Shone, in the same volume).  Noise gives a small gain.  A drift or a sudden change, whose
 * errors have one sign, gives a large gain.  A single spike has little effect, because the gain
 * that it causes is applied to the next load, which is normal.  (The mean since the last LB step
 * would follow a sudden change slowly, and would rest on few loads if LB steps are frequent.)
 *
 * A second estimator of the same kind uses only the iterations since the object came to its
 * present rank; from its estimates the speeds of the ranks are learned (plb_learner_t).  It
 * starts again if the sum of the rank's loads changes abruptly, e.g. because of a power cap, and
 * stays changed in the next iteration.  Otherwise the loads were a spike, and are dropped. */

/* Rows of the table, [PLB_ESTIMATE_ROWS][n] float64; all zero for a new object.  If no speeds are
 * learned, the first PLB_ESTIMATE_HERE rows are enough. */
enum {
    PLB_ESTIMATE_MEAN,   /* the smoothed load, which is the estimate */
    PLB_ESTIMATE_COUNT,  /* number of iterations */
    PLB_ESTIMATE_ERROR,  /* smoothed error */
    PLB_ESTIMATE_SPREAD, /* smoothed |error| */
    PLB_ESTIMATE_HERE,   /* four rows: the same values, but only from iterations on the present
                            rank; 0 if the object has just arrived */
    PLB_ESTIMATE_ASIDE = 2 * PLB_ESTIMATE_HERE, /* a load set aside, because it may be a spike */
    PLB_ESTIMATE_ROWS
};

/** Add the loads of an iteration.  An object's first load is a warm-up: the next replaces it. */
void plb_estimate_update(const double *load, int64_t n, double *table);

/** Add the loads of an iteration only to the first four rows. */
void plb_estimate_mean(const double *load, int64_t n, double *table);

/** Estimate out[n], the seconds by which each load changes per iteration: the smoothed error times
 * the tracking signal, which is small if the errors are only noise. */
void plb_estimate_drift(const double *table, int64_t n, double *out);

/** Add the load of object i only; the table has `rows` rows.  Unlike plb_estimate_update, this
 * function does not test whether the rank has changed. */
void plb_estimate_one(double load, int64_t i, int64_t n, int64_t rows, double *table);

/* Finds out whether the seconds that the ranks report as work contain waiting for other ranks.
 *
 * Elapsed time around a call that itself communicates (a solver, `lammps run 10`) is as long on
 * all ranks as on the slowest one: max/mean is 1.00, whatever the imbalance.  Such seconds have
 * three marks, in each of many steps:
 *   - they are as long as the whole step: everything that waits is in them;
 *   - they differ little between ranks;
 *   - they differ much less between ranks than from step to step.  Times of work itself vary on
 *     each rank independently, so the variation of their mean from step to step is smaller than
 *     the difference between ranks. */

enum {
    PLB_WAIT_CHECK_FIRST = PLB_FEW,       /* the first steps do not count: the program starts up */
    PLB_WAIT_CHECK_STEPS = 2 * PLB_WINDOW /* number of steps that are looked at together */
};

typedef struct plb_wait_check {
    bool noticed; /* whether the marks were found; later steps are not looked at */
    int64_t n;    /* number of steps so far */
    double mean[PLB_WAIT_CHECK_STEPS]; /* mean load of each step, seconds */
    double spread, step; /* sums over these steps: max - min of the loads, length of the step */
} plb_wait_check_t;

/** Observe the merged record of a step.  seconds: the length of the step; 0: not known.  Sets
 * self->noticed. */
void plb_wait_check_observe(plb_wait_check_t *self, const plb_stats_t *all, double seconds);

/* Learns the speeds of ranks in a running program.  In: after each LB step, the mean time of each
 * object on its rank.  Out: log_speed[p].
 *
 * The time of an object is its work divided by the speed of its rank.  So an object that moves
 * from rank a to rank b takes exp(s_a - s_b) times as long there; s are the logarithms of the
 * speeds.  (Dasgupta 2013 assumes that all objects are equal; here, only objects that have moved
 * count, and each is compared with itself.)  s is fitted to the changes of all objects that moved
 * in the last intervals between placements, by least squares with Huber's weights: stragglers, and
 * objects whose work has changed, have little influence.  Older intervals count less, so speeds
 * that change are followed.  The user's own estimates of the work count as times on one more rank.
 *
 * LB steps move objects whose load has just changed.  If their work changes while they move, this
 * looks like a difference between ranks.  But only real speeds also predict the next interval, and
 * do not change the times of objects that stay.  So speeds are used only after they have predicted
 * the changes of objects that moved later, and better than the assumption that all ranks are alike
 * (`evidence`), or if they explain nearly all changes of the last interval. */

enum {
    /* number of remembered intervals between placements: the oldest has a weight of 0.1 */
    PLB_LEARNER_INTERVALS = 7,
    /* Of more than twice this many objects per rank, a sample is used, with about this many.
     * tuned: objects of a rank; with 128, the speeds of 40 random programs are off by 3.04 %
     * (median), not by less than 3 % (tests/measure/test_speeds.py) */
    PLB_LEARNER_SAMPLE = 250,
};

/* The objects under one placement, by ascending key. */
typedef struct plb_timings {
    int64_t n, room; /* number of objects; capacity of the arrays */
    int64_t *key;
    int32_t *rank;
    double *y;      /* log seconds */
    double *work;   /* log of the user's own estimate of the work, in any unit; NAN: none */
    double *weight; /* short times are noisier, so they have less weight */
} plb_timings_t;

/* Objects that have moved, those of the oldest interval first. */
typedef struct plb_moved {
    int64_t n, room;
    int32_t *from, *to;
    double *change; /* change of log seconds, minus that of the objects that have not moved */
    double *weight;
} plb_moved_t;

typedef struct plb_learner {
    int32_t p;
    bool unlike; /* true: log_speed is valid and in use; false: all ranks count as equally fast */
    double *log_speed; /* [p] logarithms of the speeds; the mean of the known ones is 0 */
    double *guess;     /* [p + 1] like log_speed, from the most recent fit, even if it is not in
                          use; the last entry is for the user's estimates */
    double *error;     /* [p + 1] standard errors of `guess`; infinite: unknown */
    double sigma;      /* noise of a change of log seconds, from the median residual of the fit */
    double noise;      /* the sigma by which the last interval was judged */
    bool surprised;    /* whether the speeds failed to predict the last interval */
    double evidence;   /* evidence for the speeds: the fraction of an interval's changes that they
                          have predicted, summed over the intervals; older ones count less */
    double unmoved;    /* sum of the squared changes of the objects that did not move in the last
                          interval in which others did */
    int32_t doubts;    /* number of fits since the last one that showed different speeds */
    plb_timings_t last, now;
    plb_moved_t moved;
    int64_t begin[PLB_LEARNER_INTERVALS + 1]; /* first move of each remembered interval */
    int32_t n_intervals;
} plb_learner_t;

/** Begin without observations, for p >= 1 ranks. */
int plb_learner_init(plb_learner_t *self, int32_t p, plb_err_t *err);
void plb_learner_free(plb_learner_t *self);

/** Observe the times of n objects under a placement, each the mean of several iterations; objects
 * without a time (0, negative or NAN) are left out.  work[n] (NULL: none): the user's own
 * estimates of the work, in any unit; 0: no estimate for this object.  Of very many objects, only
 * a sample is used, at most this `fraction`.  Fastest with sorted keys.  PLB_ERR_RANGE: a rank not
 * in 0 ... p-1; PLB_ERR_VALUE: an infinite time or work, or a duplicate key. */
int plb_learner_observe(plb_learner_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                        const double *seconds, const double *work, double fraction,
                        plb_err_t *err);

/** Whether the object is in a sample of this fraction of all objects.  Only the key decides, so
 * that an object is still sampled after its migration. */
static inline bool plb_is_sampled(int64_t key, double fraction)
{
    return fraction >= 1.0 || (double)plb_mix64((uint64_t)key) < fraction * 0x1p64;
}

/** Compute speed[p], within 1e-30 ... 1e30, the domain of speeds.  Returns false if all ranks
 * count as equally fast: then all speeds are 1. */
bool plb_learner_speeds(const plb_learner_t *self, double *speed);

/* Evaluates a placement: messages, memory and migrations.  An edge delivers its bytes to the
 * receiver's rank.  A multicast delivers its bytes once to each rank that has receivers. */

/* X(type, name, unit, help); types: double or int64_t.  Python's Evaluation has the same names. */
#define PLB_EVALUATION(X)                                                                         \
    X(double, cut, "bytes", "bytes of the edges between different ranks")                         \
    X(double, connectivity, "bytes",                                                              \
      "sum over the multicasts: bytes times the number of other ranks with receivers "            \
      "(connectivity - 1)")                                                                       \
    X(double, bytes_local, "bytes", "bytes delivered within a rank")                              \
    X(double, bytes_node, "bytes", "bytes delivered between ranks of a node")                     \
    X(double, bytes_network, "bytes", "bytes delivered between nodes")                            \
    X(double, hop_bytes, "bytes",                                                                 \
      "bytes times the number of links that they pass in the tree of ranks, nodes and network: "  \
      "2 within a node, 4 between nodes")                                                         \
    X(double, messages_local, "", "messages delivered within a rank")                             \
    X(double, messages_node, "", "messages delivered between ranks of a node")                    \
    X(double, messages_network, "", "messages delivered between nodes")                           \
    X(double, sent_max, "bytes", "largest sum of bytes that one rank sends to other ranks")       \
    X(double, received_max, "bytes",                                                              \
      "largest sum of bytes that one rank receives from other ranks")                             \
    X(double, link_max, "bytes", "largest sum of bytes that one rank sends to one other rank")    \
    X(int64_t, link_src, "", "the rank that sends link_max; -1: no rank sends to another")        \
    X(int64_t, link_dst, "", "the rank that receives link_max; -1: no rank sends to another")     \
    X(double, neighbours_mean, "", "mean number of ranks that a rank sends to or receives from")  \
    X(int64_t, neighbours_max, "",                                                                \
      "largest number of ranks that a rank sends to or receives from")                            \
    X(int64_t, memory_max, "bytes", "largest memory of objects and shared blocks on a rank")      \
    X(int64_t, migrations, "", "number of objects that change their rank")                        \
    X(int64_t, migration_bytes, "bytes",                                                          \
      "bytes that these migrations send; 0 if the snapshot has no sizes of objects")

typedef struct plb_evaluation {
#define X(type, name, unit, help) type name;
    PLB_EVALUATION(X)
#undef X
} plb_evaluation_t;

/** Evaluate the placement rank[] (NULL: the present one), in linear time. */
int plb_evaluate(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                 plb_err_t *err);

/** Run a benchmark for `seconds` of wall time; return its number of steps, each a multiplication
 * and an addition of doubles in the first-level cache.  *cpu_seconds: its processor time. */
double plb_drum_benchmark(double seconds, double *cpu_seconds);
