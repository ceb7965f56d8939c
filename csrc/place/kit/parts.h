/* Common to strategies that use a partitioner: objects of a snapshot are vertices, ranks are
 * parts.
 *
 * A vertex is an object that may migrate.  The objects of a rank that may not migrate are together
 * one more vertex, without weight and fixed there.  It draws objects that communicate with them to
 * that rank; it is left out if the partitioner takes no fixed vertices.  Their load, and the
 * rank's background and speed, are in the parts' shares. */
#ifndef PLB_PLACE_KIT_PARTS_H
#define PLB_PLACE_KIT_PARTS_H

#include <stdbool.h>

#include "partition/question.h"
#include "place/kit/problem.h"

typedef struct plb_parts {
    plb_problem_t problem;
    plb_question_t question;
    int32_t n;       /* number of vertices that are objects; the fixed vertices follow */
    double per_byte; /* weight of a byte that is sent in an iteration */
    int32_t *vertex; /* [n_objects] vertex of each object, or -1 */
    int32_t *weight, *fixed, *old, *old_cost;
    double *share;
    int32_t *start, *to, *edge_weight;
    int32_t *net_start, *pin, *net_weight;
} plb_parts_t;

/** Set vertices, weights and shares.  Owns its arrays, borrows `in`. */
int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err);
void plb_parts_free(plb_parts_t *self);

/** Add the edges between vertices, weighted by bytes in both directions; a multicast is an edge
 * to each receiver.  Neighbours are ascending; if the snapshot's edges are already so, they are
 * borrowed. */
int plb_parts_graph(plb_parts_t *self, plb_err_t *err);

/** Add a net for each multicast (sender and receivers) and for each edge, weighted by bytes. */
int plb_parts_nets(plb_parts_t *self, plb_err_t *err);

/** Add a cost of migrations: leaving a rank costs the object's bytes once, communication counts
 * `iterations` times.  After the graph or the nets.  Objects without `bytes` cost the mean bytes
 * that an object communicates in one iteration. */
int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err);

/** The cut of a graph plus the cost of leaving ranks, in the same units. */
int64_t plb_parts_cost(const plb_parts_t *self, const int32_t *part);

/** Renumber parts of equal share so that few bytes move (relabel.h; an unknown size counts 1),
 * unless fixed vertices determine the numbers. */
int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err);

/** Call a library by name: PLB_ERR_MISSING if it has not been loaded. */
int plb_parts_ask(const plb_parts_t *self, const char *library, int32_t *part, plb_err_t *err);

/** Give each object a rank.  Memory limits are kept; moves (as in CommAwareRefineLB without
 * exchanges) and then swaps (as in RefineSwapLB) bring ranks below `imbalance` times the average
 * if they can. */
int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance, int32_t *out,
                    plb_err_t *err);

/** Run a strategy that partitions the graph (the nets, if its library takes nets) from
 * scratch with its library; its first parameter is the imbalance. */
int plb_parts_run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
                  int32_t *out, plb_err_t *err);

/* Parameters that several of these strategies have. */
#define PLB_PARAM_IMBALANCE                                                                       \
    {                                                                                             \
        "imbalance", "", "largest allowed ratio of a rank's time to the average", 1.03, 1.001,    \
            10.0                                                                                  \
    }
#define PLB_PARAM_ITERATIONS                                                                      \
    {                                                                                             \
        "iterations", "iterations",                                                               \
            "between LB steps: communication counts this many times, a migration once; 0: "       \
            "migrations are free",                                                                \
            0.0, 0.0, 1e9                                                                         \
    }
#define PLB_PARAM_CYCLES                                                                          \
    {                                                                                             \
        "cycles", "", "V-cycles that refine the answer", 3.0, 0.0, 1000.0                         \
    }

#endif
