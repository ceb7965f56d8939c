/* A question to any partitioner: vertices, their connections, and the number and sizes of parts.
 *
 * Each library has a small file in libraries/, which is built into a Python module of its own
 * that may be absent; plb_partitioner_install puts the library into the table in question.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What a partitioner can use, as bits; other questions are refused. */
enum {
    PLB_TAKES_GRAPH = 1,
    PLB_TAKES_HYPERGRAPH = 2,
    PLB_TAKES_COORDS = 4,
    PLB_TAKES_WEIGHTS = 8, /* more than one weight per vertex */
    PLB_TAKES_FIXED = 16,
    PLB_TAKES_OLD = 32, /* a present part of each vertex, and the cost of leaving it */
};

typedef struct plb_question {
    int32_t n_vertices, n_parts;
    int32_t n_weights; /* of each vertex */
    /* [n_vertices * n_weights] weight[v * n_weights + c] is weight c of vertex v, zero or more;
     * for each c, the sum is below 2^31; NULL: all are 1 */
    const int32_t *weight;
    const double *share; /* [n_parts] of the total weight, zero or more, any unit; NULL: equal */

    /* a symmetric graph: v has the neighbours to[start[v]] ... to[start[v + 1] - 1]; each edge
     * occurs in both directions; NULL: no graph */
    const int32_t *start, *to;
    const int32_t *edge_weight; /* [edges] of each entry of `to`, above zero; the sum is below
                                   2^31; NULL: all are 1 */

    int32_t n_nets; /* nets of a hypergraph: net e has the vertices pin[net_start[e]] ...
                       pin[net_start[e + 1] - 1]; net_start NULL: no hypergraph */
    const int32_t *net_start, *pin;
    const int32_t *net_weight; /* [n_nets] zero or more; the sum is below 2^31; NULL: all are 1 */

    int32_t n_dims;       /* 1 ... 3; 0: no coordinates */
    const double *coords; /* [n_vertices * n_dims] vertex by vertex */

    const int32_t *fixed; /* [n_vertices] part that a vertex must get, or -1; NULL: all are -1 */
    const int32_t *old;   /* [n_vertices] present part; -1: new vertex; NULL: from scratch */
    const int32_t *old_cost; /* [n_vertices] cost of leaving the present part, in the unit of edge
                                or net weights; the sum is below 2^31; NULL: all are 1 */

    double imbalance; /* largest allowed weight of a part, relative to its share; above 1 */
    int32_t seed;     /* zero or more */
    int n_options;    /* the library's own options */
    const char *const *option; /* [2 * n_options] name, value, ... */
} plb_question_t;

typedef struct plb_partitioner {
    const char *name; /* of its package, as in pylb.optional */
    const char *version;
    unsigned takes;
    /** Compute part[n_vertices]; undefined after an error.  `in` has been checked: there are
     * enough vertices for all parts, and there are edges, pins or coordinates.  At least one share
     * is above zero; a share is zero only if vertices are fixed in its part. */
    int (*run)(const plb_question_t *in, int32_t *part, plb_err_t *err);
} plb_partitioner_t;

/* pylb's own partitioner for graphs and hypergraphs, always in the table as "pylb".  Its objective
 * is connectivity - 1 (hypergraph.h).  It does no V-cycles; plb_partition_improve does. */
extern const plb_partitioner_t plb_builtin;

/** Put a library into the table.  *self must stay valid.  No partitioner may run meanwhile. */
int plb_partitioner_install(const plb_partitioner_t *self, plb_err_t *err);

const plb_partitioner_t *plb_partitioner_find(const char *name);

/** Check ranges and sums, not the symmetry of the graph.  Errors name array, index and value. */
int plb_partition_check(const plb_question_t *in, plb_err_t *err);

/** Let a library answer the question.  Cases that libraries handle badly are solved here: parts
 * without a share, fewer vertices than parts, weights that are all zero, no connections.  The
 * answer is checked: parts are in range, and fixed vertices in their parts.  Then
 * plb_partition_repair follows.  PLB_ERR_VALUE or PLB_ERR_RANGE: a value is wrong,
 * or the library does not take a part of the question; PLB_ERR_LIBRARY: it has failed. */
int plb_partition_run(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                      plb_err_t *err);

/** Repair a partition of a checked question.  Vertices that are not fixed leave parts without a
 * share.  If a part weighs more than `imbalance` times its share, vertices leave it, those with
 * the least loss of the objective first, until the tolerance holds; if such moves do not suffice,
 * the heaviest vertices are packed again.  Then each empty part with a share gets a vertex, if
 * possible. */
int plb_partition_repair(const plb_question_t *in, int32_t *part, plb_err_t *err);

/** Improve a partition of a checked question: bring it within its limits, refine it, then do
 * `cycles` V-cycles.  The objective: connectivity - 1 of nets, the cut of edges, and the cost of
 * leaving old parts.  Parts may become empty; parts without a share may keep vertices without
 * weight. */
int plb_partition_improve(const plb_question_t *in, int32_t cycles, int32_t *part, plb_err_t *err);
