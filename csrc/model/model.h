/* Snapshots, ranks that share cores, and the costs of an iteration and of an LB step. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* The snapshot of the load database, which all parts of pylb exchange: a struct of arrays that the
 * caller owns.  Units are seconds and bytes.
 *
 * The time of a rank in one iteration, without messages (plb_phase_times adds these), is
 *     background[r] + (sum of load[i] over the objects on r) / speed[r]
 * so `load` is the time of an object on a rank of speed 1. */

typedef struct plb_snapshot {
    int64_t n_objects;
    int32_t n_ranks;
    int32_t n_components;  /* number of loads per object: 1, or one per phase or processor kind */
    const double *load;    /* [n_objects * n_components] all loads of object 0, then of 1, ... */
    const int32_t *rank;   /* [n_objects] the present rank of each object */
    const int64_t *key;    /* [n_objects] identifies each object for the whole run; or NULL */
    const int64_t *nbytes; /* [n_objects] or NULL: bytes that a migration sends */
    const int64_t *memory; /* [n_objects] or NULL: bytes of memory that the object needs */
    const uint8_t *migratable; /* [n_objects] 1: may migrate, 0: must stay; NULL: all are 1 */
    const double *coords;      /* [n_objects * 3] position of each object, or NULL */

    /* Edges: messages from object to object in one iteration. */
    int64_t n_edges;
    const int32_t *edge_src, *edge_dst;
    const double *edge_bytes, *edge_messages; /* edge_messages is NULL: one message on each edge */
    /* Multicasts: messages from one object to several objects in one iteration (hyperedges). */
    int64_t n_multicasts, n_pins;   /* n_pins: number of receivers of all multicasts */
    const int32_t *multicast_src;   /* [n_multicasts] the sender */
    const int64_t *multicast_start; /* [n_multicasts + 1] where each multicast's receivers begin */
    const int32_t *multicast_dst;   /* [n_pins] the receivers of multicast 0, of 1, ... */
    const double *multicast_bytes;  /* [n_multicasts] bytes to each rank with receivers */
    const double *multicast_messages; /* [n_multicasts] messages to each such rank; NULL: 1 */

    /* Blocks: data that objects share; a rank has a block once for all its objects. */
    int32_t n_blocks;
    const int32_t *block;       /* [n_objects] or NULL: the object's block; -1: none */
    const int64_t *block_bytes; /* [n_blocks] bytes of memory */
    const int32_t *home;        /* [n_blocks] or NULL: the home rank of each block */

    const double *speed; /* [n_ranks * n_speeds] speeds of rank 0, then of 1, ...; NULL: all 1 */
    int32_t n_speeds;    /* 0 or 1: a rank has one speed; n_components: one for each load */
    const double *background;    /* [n_ranks] or NULL: seconds of other work */
    const int64_t *memory_limit; /* [n_ranks] bytes; NULL: no limits */
    /* [n_ranks] bytes that all ranks of the node of rank r may use together; NULL: no limits */
    const int64_t *node_memory_limit;
    const int32_t *node; /* [n_ranks] node of each rank, or NULL: each rank is a node */
    const double
        *near; /* [2] or NULL: what a message and a byte between two ranks of one node cost,
                  as fractions (0 ... 1) of their cost between nodes; needs `node` */
} plb_snapshot_t;

/** Check that every value is finite and in its range, and that `nbytes` and `memory` each add up
 * to less than 2^63.  The error names the array and, for a single value, its index and the value.
 */
int plb_snapshot_check(const plb_snapshot_t *self, plb_err_t *err);

/** Check that a placement has valid ranks, and moves only objects that may migrate. */
int plb_snapshot_check_placement(const plb_snapshot_t *self, const int32_t *rank, plb_err_t *err);

/** Return the speed of rank r for component k of the loads. */
static inline double plb_speed_in(const plb_snapshot_t *self, int32_t r, int32_t k)
{
    return self->speed == NULL  ? 1.0
           : self->n_speeds > 1 ? self->speed[(int64_t)r * self->n_speeds + k]
                                : self->speed[r];
}

static inline double plb_speed(const plb_snapshot_t *self, int32_t r)
{
    return plb_speed_in(self, r, 0);
}

static inline double plb_background(const plb_snapshot_t *self, int32_t r)
{
    return self->background == NULL ? 0.0 : self->background[r];
}

/** Return the key of object i; without keys, its index. */
static inline long long plb_key(const plb_snapshot_t *self, int64_t i)
{
    return self->key == NULL ? i : self->key[i];
}

static inline int plb_may_migrate(const plb_snapshot_t *self, int64_t i)
{
    return self->migratable == NULL || self->migratable[i];
}

/** Return the cost of a message (k = 0) or a byte (k = 1) from rank a to rank b, as a fraction of
 * its cost between nodes. */
static inline double plb_distance(const plb_snapshot_t *self, int32_t a, int32_t b, int k)
{
    return a == b                                                 ? 0.0
           : self->near != NULL && self->node[a] == self->node[b] ? self->near[k]
                                                                  : 1.0;
}

/* Called for a delivery: what an edge or a multicast sends in an iteration from rank src to rank
 * dst, which can be the same rank. */
typedef void (*plb_delivery_fn)(void *arg, int32_t src, int32_t dst, double bytes,
                                double messages);

/** Call `fn` for each edge, in order; the objects are on rank[n_objects]. */
static inline void plb_each_edge(const plb_snapshot_t *in, const int32_t *rank, plb_delivery_fn fn,
                                 void *arg)
{
    for (int64_t e = 0; e < in->n_edges; e++) {
        fn(arg, rank[in->edge_src[e]], rank[in->edge_dst[e]], in->edge_bytes[e],
           in->edge_messages == NULL ? 1.0 : in->edge_messages[e]);
    }
}

/** Call `fn` for each multicast, once for each rank with receivers; mark[p]: scratch memory. */
static inline void plb_each_multicast(const plb_snapshot_t *in, const int32_t *rank, int64_t *mark,
                                      plb_delivery_fn fn, void *arg)
{
    for (int32_t r = 0; r < in->n_ranks; r++) {
        mark[r] = -1;
    }
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        const int32_t src = rank[in->multicast_src[e]];
        const double messages = in->multicast_messages == NULL ? 1.0 : in->multicast_messages[e];
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            const int32_t dst = rank[in->multicast_dst[i]];
            if (mark[dst] != e) {
                mark[dst] = e;
                fn(arg, src, dst, in->multicast_bytes[e], messages);
            }
        }
    }
}

/** Call `fn` for each edge, and for each receiver of a multicast as for an edge; src and dst are
 * objects. */
static inline void plb_each_pair(const plb_snapshot_t *in, plb_delivery_fn fn, void *arg)
{
    for (int64_t e = 0; e < in->n_edges; e++) {
        fn(arg, in->edge_src[e], in->edge_dst[e], in->edge_bytes[e],
           in->edge_messages == NULL ? 1.0 : in->edge_messages[e]);
    }
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            fn(arg, in->multicast_src[e], in->multicast_dst[i], in->multicast_bytes[e],
               in->multicast_messages == NULL ? 1.0 : in->multicast_messages[e]);
        }
    }
}

/** Write the number of each rank's node to number[n_ranks]: 0 ... *n - 1, in the order of the
 * nodes' first ranks.  Without `node`, each rank is a node. */
int plb_snapshot_nodes(const plb_snapshot_t *self, int32_t *number, int32_t *n, plb_err_t *err);

/** Compute held[n_ranks], the bytes of memory on each rank if object i is on rank[i];
 * of_node[n_ranks], the bytes on all ranks of the rank's node; and, unless NULL, ranks[n_ranks],
 * the number of these ranks. */
int plb_snapshot_held(const plb_snapshot_t *self, const int32_t *rank, int64_t *held,
                      int64_t *of_node, int64_t *ranks, plb_err_t *err);

/** Compute the largest fraction of its memory limit that a rank or a node uses if object i is on
 * rank[i]; NAN: there are no limits. */
int plb_snapshot_full(const plb_snapshot_t *self, const int32_t *rank, double *full,
                      plb_err_t *err);

/** Replace several loads per object by their sum, which the caller frees.  PLB_ERR_VALUE: a rank
 * has several speeds. */
int plb_snapshot_sum(plb_snapshot_t *self, double **sum, plb_err_t *err);

/** Compute time[n_ranks], the seconds of an iteration without messages, with the objects on rank[]
 * (NULL: on their present ranks).  Loads are added in the order of the objects, so that the
 * same input always gives the same bits.  Only the first component of loads counts. */
void plb_snapshot_rank_times(const plb_snapshot_t *self, const int32_t *rank, double *time);

/** Return the seconds at which all ranks that get a part of `work` end, if it is divided in the
 * best proportion.  base[p]: seconds that each rank needs in addition; pace[p]: work per second.
 */
double plb_level(const double *base, const double *pace, int32_t p, double work);

typedef struct plb_change {
    double *before, *after; /* [n_ranks] seconds of each rank; arrays of the caller */
    int64_t migrations, bytes;
} plb_change_t;

/** Check a placement; compute the ranks' times before and after it (without messages), the number
 * of objects that move, and their bytes (0 if the snapshot has no `nbytes`). */
int plb_snapshot_compare(const plb_snapshot_t *self, const int32_t *rank, plb_change_t *out,
                         plb_err_t *err);

/* Checks of the elements x[i0] ... x[end - 1] of arrays that come from outside.  If x is NULL,
 * nothing is checked.  The error names the array and the element. */

/** Check that each element is in 0 ... limit - 1.  PLB_ERR_RANGE if not. */
int plb_check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                    plb_err_t *err);

/** Check `node` and `near` of a snapshot. */
int plb_check_nodes(const int32_t *node, const double *near, int32_t n_ranks, plb_err_t *err);

/** Check that each element is in least ... 1e30; least >= 0.  PLB_ERR_VALUE if not. */
int plb_check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                  plb_err_t *err);

/** Check that each element is a number of bytes, zero or more.  PLB_ERR_VALUE if not. */
int plb_check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err);

/* Metrics of imbalance, computed from the ranks' times of one iteration.  The literature defines
 * imbalance in several ways, so each metric has its own name. */

/* X(name, unit, help).  Python's Metrics has the same names. */
#define PLB_METRICS(X)                                                                            \
    X(max, "s", "time of the most loaded rank: the time of the iteration")                        \
    X(mean, "s", "mean time of the ranks: on equal ranks, no placement has a lower max")          \
    X(min, "s", "time of the least loaded rank")                                                  \
    X(std, "s", "standard deviation over the p ranks (sum of squares divided by p)")              \
    X(max_over_mean, "", "max/mean, 1 is perfect (Charm++'s ratio; lambda in the literature)")    \
    X(percent, "%", "100 (max/mean - 1); vt and LBAF call (max/mean - 1) the imbalance I")        \
    X(efficiency, "", "mean/max (load balance of POP and TALP)")                                  \
    X(idle_mean, "s", "mean over the ranks of max - time (I_av, Dasgupta eq. 1)")                 \
    X(idle_max, "s", "max - min (I_m, Dasgupta eq. 2)")

typedef struct plb_metrics {
#define X(name, unit, help) double name;
    PLB_METRICS(X)
#undef X
} plb_metrics_t;

/** Set the time of an iteration, `max`, and the metrics that follow from it. */
void plb_metrics_set_max(plb_metrics_t *self, double max);

/** Compute every metric of time[n], n >= 1.  If all times are 0, the ratios are 1: no rank waits.
 * (Dasgupta's eq. 1 sums over P and divides by C; both mean the number of cores, n here.) */
void plb_metrics_of(const double *time, int32_t n, plb_metrics_t *out);

/** Compute the metrics of the ranks' times without messages, with the objects on rank[] (NULL: on
 * their present ranks).  If objects have several loads, these are phases with a barrier after
 * each: `max` is the sum over the phases of the slowest rank. */
int plb_snapshot_metrics(const plb_snapshot_t *self, const int32_t *rank, plb_metrics_t *out,
                         plb_err_t *err);

/* The time of an iteration on ranks that share cores.
 *
 * A core never idles while a rank waits for one, so n ranks with loads x(i) (seconds of a core)
 * that share c cores need at least max(x(1), ..., x(n), (x(1) + ... + x(n)) / c) seconds (R.
 * McNaughton, Scheduling with deadlines and loss functions, Management Science 6, 1959), and an
 * operating system comes near to that: a rank with much to do keeps its core, and the others share
 * the rest.  (Equal shares of the cores at all times would give 44 ms for loads of 36, 8, 8 and 8
 * ms on two cores; 36 ms is the bound, and 37 to 40 ms were measured.)  The iteration lasts until
 * the last rank of all groups has finished. */

typedef struct plb_sharing {
    int32_t n_ranks;
    int32_t *group;     /* [n_ranks] */
    double *cores;      /* [n_ranks] number of cores of each group */
    int32_t *size;      /* [n_ranks] number of ranks of each group */
    double *sum, *most; /* [n_ranks] scratch memory */
} plb_sharing_t;

/** Ranks r with the same number group[r], 0 ... p - 1, share cores[r] cores, which is above 0.
 * `self` owns its arrays. */
int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err);
void plb_sharing_free(plb_sharing_t *self);

/** Return the number of cores per rank, at most 1, if all ranks share cores; else 1. */
double plb_sharing_share(const plb_sharing_t *self);

/** Return the seconds of an iteration whose ranks need load[n_ranks] seconds of a core. */
double plb_sharing_time(const plb_sharing_t *self, const double *load);

/** Compute load[n_ranks], the seconds of a core that each rank needed.  end[n_ranks]: its seconds
 * including waits for a core.  If a group's ranks need more than its cores can provide in the
 * longest of them, all ranks of the group are assumed to have waited for the same fraction. */
void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load);

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

/** Add to time[n_ranks] the seconds of the messages that each rank sends in an iteration. */
int plb_add_messages(const plb_snapshot_t *in, const int32_t *rank, plb_network_t network,
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
