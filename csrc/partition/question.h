/* A question to any partitioner: vertices, their connections, and the number and sizes of
 * parts.
 *
 * Each library has a small file in libraries/, which is built into a Python module of its own
 * that may be absent; plb_partitioner_install puts the library into the table in question.c. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* What a partitioner can use, as bits.  A question that contains anything else is refused. */
enum {
    PLB_TAKES_GRAPH = 1,
    PLB_TAKES_HYPERGRAPH = 2,
    PLB_TAKES_COORDS = 4,
    PLB_TAKES_WEIGHTS = 8, /* more than one weight per vertex */
    PLB_TAKES_FIXED = 16,
    /* repartitioning: a present part of each vertex, and the cost of leaving it */
    PLB_TAKES_OLD = 32,
};

typedef struct plb_question {
    int32_t n_vertices, n_parts;
    int32_t n_weights; /* number of weights of each vertex */
    /* [n_vertices * n_weights] weight[v * n_weights + c] is weight c of vertex v, zero or more;
     * for each c, the sum over the vertices is below 2^31; NULL: all are 1 */
    const int32_t *weight;
    /* [n_parts] share of the total weight, zero or more, in any unit; NULL: equal shares */
    const double *share;

    const int32_t *start, *to;  /* a symmetric graph: the neighbours of v are to[start[v]] ...
                                   to[start[v + 1] - 1]; each edge occurs in both directions; NULL:
                                   no graph */
    const int32_t *edge_weight; /* [edges] weight of each entry of `to`, above zero; the sum is
                                   below 2^31; NULL: all are 1 */

    int32_t n_nets; /* number of nets of a hypergraph; the vertices of net e are pin[net_start[e]]
                       ... pin[net_start[e + 1] - 1]; net_start NULL: no hypergraph */
    const int32_t *net_start, *pin;
    const int32_t *net_weight; /* [n_nets] zero or more; the sum is below 2^31; NULL: all are 1 */

    int32_t n_dims;       /* number of coordinates of a vertex, 1 ... 3; 0: there are none */
    const double *coords; /* [n_vertices * n_dims] coordinates, vertex by vertex */

    /* [n_vertices] the part that a vertex must get, or -1; NULL: all are -1 */
    const int32_t *fixed;
    /* [n_vertices] present part; -1: the vertex is new; NULL: partition from scratch */
    const int32_t *old;
    const int32_t *old_cost; /* [n_vertices] cost of leaving the present part, in units of edge or
                                net weight; the sum is below 2^31; NULL: all are 1 */

    double imbalance;          /* largest allowed weight of a part, divided by the part's share of
                                  the total weight; above 1 */
    int32_t seed;              /* zero or more */
    int n_options;             /* the library's own options */
    const char *const *option; /* [2 * n_options] name, value, name, value, ... */
} plb_question_t;

typedef struct plb_partitioner {
    const char *name;    /* name of its package, as in pylb.optional */
    const char *version; /* version of the library */
    unsigned takes;
    /** Compute part[n_vertices].  `in` has been checked: there are enough vertices for all parts,
     * and there are edges, pins or coordinates.  At least one share is above zero; a share is zero
     * only if vertices are fixed in its part.  After an error part[] is undefined. */
    int (*run)(const plb_question_t *in, int32_t *part, plb_err_t *err);
    /* Not NULL: the library does not check for signals, and therefore answers large questions in a
     * thread of its own (base/aside.h); *left is the number of running calls whose callers were
     * interrupted by a signal.  NULL: the library runs in the caller's thread. */
    atomic_int *left;
    void (*watch)(void); /* while `run` runs in a thread of its own, the thread that waits calls
                            this every few milliseconds; or NULL */
} plb_partitioner_t;

/* pylb's own partitioner, always in the table as "pylb": it partitions graphs and hypergraphs,
 * with the objective connectivity - 1.  It does no V-cycles; plb_partition_improve does. */
extern const plb_partitioner_t plb_builtin;

/** Put a library into the table, under its name.  *self must stay valid.  Do not call this while a
 * partitioner runs. */
int plb_partitioner_install(const plb_partitioner_t *self, plb_err_t *err);

/** Return the partitioner with that name; NULL: it is not installed. */
const plb_partitioner_t *plb_partitioner_find(const char *name);

/** Check every value of a question: ranges and sums.  The symmetry of the graph is not checked.
 * Errors name array, index and value. */
int plb_partition_check(const plb_question_t *in, plb_err_t *err);

/** Let a library answer the question.  Cases that libraries handle badly are solved here: parts
 * without a share, fewer vertices than parts, weights that are all zero, no connections.  The
 * answer is checked: every part must be in range, and fixed vertices must be in their parts.  Then
 * plb_partition_keep_shares fills empty parts.  PLB_ERR_VALUE or PLB_ERR_RANGE: a value is wrong,
 * or the library does not take something in the question; PLB_ERR_LIBRARY: the library has
 * failed. */
int plb_partition_run(const plb_partitioner_t *with, const plb_question_t *in, int32_t *part,
                      plb_err_t *err);

/** First, vertices that are not fixed leave the parts without a share.  Then each empty part with
 * a share gets one vertex, if possible, from the part with the most vertices that are not
 * fixed. */
int plb_partition_keep_shares(const plb_question_t *in, int32_t *part, plb_err_t *err);

/** Improve a partition of a checked question: bring it within its limits, refine it, then do
 * `cycles` V-cycles.  The objective is connectivity - 1 of nets and the cut of edges, plus the
 * cost of leaving the old parts.  A part may become empty, and a part without a share may keep
 * vertices without weight. */
int plb_partition_improve(const plb_question_t *in, int32_t cycles, int32_t *part, plb_err_t *err);
