/* What strategies that use a partitioner have in common: objects of a snapshot become vertices,
 * ranks become parts.
 *
 * A vertex is an object that may migrate.  If some objects may not migrate, and the partitioner
 * takes fixed vertices, each rank has an additional vertex for all its fixed objects.  This vertex
 * has no weight, is fixed in the rank's part, and attracts the objects that communicate with it.
 * A part's share follows from the rank's speed, background and fixed objects. */
#pragma once

#include <stdbool.h>

#include "partition/partition.h"
#include "place/kit/problem.h"

typedef struct plb_parts {
    plb_problem_t problem;
    plb_question_t question;
    int32_t n;       /* number of vertices that are objects; the ranks' vertices follow */
    double per_byte; /* edge or net weight for each byte that is sent in an iteration */
    int32_t *vertex; /* [n_objects] vertex of each object; -1: the object has none */
    /* arrays that `question` borrows */
    int32_t *weight, *fixed, *old, *old_cost;
    double *share;
    int32_t *start, *to, *edge_weight;
    int32_t *net_start, *pin, *net_weight;
} plb_parts_t;

/** Set vertices, weights and shares.  `self` owns its arrays and borrows `in`. */
int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err);
void plb_parts_free(plb_parts_t *self);

/** Add the edges between vertices.  The weight of an edge is the sum of the bytes in both
 * directions; a multicast is an edge to each receiver.  The neighbours of a vertex are ascending;
 * if the snapshot's edges already have this order, `self` borrows them. */
int plb_parts_graph(plb_parts_t *self, plb_err_t *err);

/** Add a net for each multicast (sender and receivers) and for each edge.  The weight of a net is
 * the number of bytes that are sent in an iteration. */
int plb_parts_nets(plb_parts_t *self, plb_err_t *err);

/** Add the cost of migrations.  Call this after plb_parts_graph or plb_parts_nets.  An object that
 * leaves its rank costs its bytes once, and communication costs its bytes `iterations` times.  If
 * the snapshot has no `bytes`, each object costs the mean bytes that an object sends in one
 * iteration. */
int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err);

/** Return the cut of the graph plus the cost of migrations, in units of the edge weights.  Call
 * this after plb_parts_graph and plb_parts_keep. */
int64_t plb_parts_cost(const plb_parts_t *self, const int32_t *part);

/** Renumber parts that have equal shares such that few bytes move (relabel.h); an object counts as
 * its `bytes` plus 1, or as 1 byte if the snapshot has no `bytes`.  Does nothing if there are
 * fixed vertices, which determine the numbers. */
int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err);

/** Let a library, given by name, compute part[].  PLB_ERR_MISSING: the library was not loaded. */
int plb_parts_ask(const plb_parts_t *self, const char *library, int32_t *part, plb_err_t *err);

/** Set the rank of each object to its part.  Then bring ranks below `imbalance` times the average,
 * if possible, as in CommAwareRefineLB without exchanges, then as in RefineSwapLB.  Memory limits
 * are kept. */
int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance, int32_t *out,
                    plb_err_t *err);

/** Run a strategy that lets its library partition from scratch: the nets if the library takes
 * nets, else the graph.  The strategy's first parameter is the imbalance. */
int plb_parts_run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
                  int32_t *out, plb_err_t *err);

#define PLB_PARAM_IMBALANCE                                                                       \
    {                                                                                             \
        "imbalance", "", "largest allowed ratio of a rank's time to the average", 1.03, 1.001,    \
            10.0                                                                                  \
    }
#define PLB_PARAM_ITERATIONS                                                                      \
    {                                                                                             \
        "iterations", "iterations",                                                               \
            "number of iterations between LB steps: communication counts this many times, a "     \
            "migration once; 0: "                                                                 \
            "migrations are free",                                                                \
            0.0, 0.0, 1e9                                                                         \
    }
#define PLB_PARAM_CYCLES                                                                          \
    {                                                                                             \
        "cycles", "", "number of V-cycles that refine the partition", 3.0, 0.0, 1000.0            \
    }
