/* What strategies that ask a partitioner share: the objects of a snapshot as vertices, the ranks
 * as parts.
 *
 * A vertex is an object that may migrate.  The objects that may not are one more vertex for each
 * rank, without weight and fixed there, so that objects which communicate with them are drawn to
 * that rank; partitioners that take no fixed vertices do without.  Their load, background and
 * speed are in the parts' shares.  / */
#ifndef PLB_PLACE_KIT_PARTS_H
#define PLB_PLACE_KIT_PARTS_H

#include <stdbool.h>

#include "partition/question.h"
#include "place/kit/problem.h"

typedef struct plb_parts {
    plb_problem_t problem;
    plb_question_t question;
    int32_t n;       /* vertices that are objects; those of fixed objects follow */
    double per_byte; /* weight of a byte in one iteration's communication */
    int32_t *vertex; /* [n_objects] of an object, or -1 */
    int32_t *weight, *fixed, *old, *old_cost;
    double *share;
    int32_t *start, *to, *edge_weight;
    int32_t *net_start, *pin, *net_weight;
} plb_parts_t;

/** Vertices, weights and shares.  Owns its arrays, borrows `in`. */
int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err);
void plb_parts_free(plb_parts_t *self);

/** Edges between vertices, weighted by bytes in both directions; a multicast is an edge to each
 *  receiver.  Neighbours are ascending; if the snapshot's edges already are, they are borrowed. */
int plb_parts_graph(plb_parts_t *self, plb_err_t *err);

/** A net for each multicast, sender and receivers, and for each edge, weighted by bytes. */
int plb_parts_nets(plb_parts_t *self, plb_err_t *err);

/** Ask for few migrations: leaving a rank costs the object's bytes once, while communication
 * counts `iterations` times.  After the graph or the nets.  Objects without `bytes` cost the mean
 * bytes that an object communicates in one iteration. */
int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err);

/** The cut of a graph, and what leaving the ranks costs, in the same units. */
int64_t plb_parts_cost(const plb_parts_t *self, const int32_t *part);

/** Renumber parts of equal share so that few bytes move (relabel.h; 1 per object if unknown),
 * unless fixed vertices determine the numbers. */
int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err);

/** Ask a library by name: PLB_ERR_MISSING if it has not been loaded.  Calls the tick before and
 * after.
 */
int plb_parts_ask(const plb_parts_t *self, const char *library, const plb_opts_t *opts,
                  int32_t *part, plb_err_t *err);

/** Give each object a rank.  Memory limits are kept; moves (as in CommAwareRefineLB without
 * exchanges) and then swaps (as in RefineSwapLB) bring ranks below `imbalance` times the average
 * if they can. */
int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance,
                    const plb_opts_t *opts, int32_t *out, plb_err_t *err);

/** Run a strategy that cuts the graph from scratch with its library; its first parameter is the
 *  imbalance.  / */
int plb_parts_run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
                  int32_t *out, plb_err_t *err);

/* Parameters that several of these strategies have. */
#define PLB_PARAM_IMBALANCE                                                                       \
    {                                                                                             \
        "imbalance", "", "largest time of a rank over the average", 1.03, 1.001, 10.0             \
    }
#define PLB_PARAM_ITERATIONS                                                                      \
    {                                                                                             \
        "iterations", "iterations",                                                               \
            "between balancings: so often communication counts, a migration once; 0: migrations " \
            "are "                                                                                \
            "free",                                                                               \
            0.0, 0.0, 1e9                                                                         \
    }
#define PLB_PARAM_CYCLES                                                                          \
    {                                                                                             \
        "cycles", "", "V-cycles that refine the answer, on all levels", 3.0, 0.0, 1000.0          \
    }

#endif
