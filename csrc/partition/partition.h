/* Parts of graphs, of hypergraphs and of points. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/base.h"

/* Scales loads and bytes to the 32-bit integers that partitioning libraries take. */

/* Largest sum of weights: half of 2^31, because libraries add both directions of each edge. */
enum { PLB_MOST_WEIGHT = 1 << 30 };

/** The factor that scales the sum of x[n] to PLB_MOST_WEIGHT; 1 if all values are integers and
 * their sum is not larger.  No value may be negative. */
static inline double plb_scale_of(const double *x, int64_t n)
{
    double total = 0.0;
    bool whole = true;
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
        whole = whole && x[i] <= PLB_MOST_WEIGHT && x[i] == (double)(int32_t)x[i];
    }
    return total == 0.0 || (whole && total <= PLB_MOST_WEIGHT)
               ? 1.0
               : fmin(PLB_MOST_WEIGHT / total, DBL_MAX);
}

/** Return x * scale, rounded to nearest, but in `least` ... PLB_MOST_WEIGHT.  With `least` 0,
 * values that are tiny compared with the sum become 0. */
static inline int32_t plb_scaled(double x, double scale, int32_t least)
{
    const double y = x * scale + 0.5;
    const int32_t whole = y < PLB_MOST_WEIGHT ? (int32_t)y : PLB_MOST_WEIGHT;
    return whole < least ? least : whole;
}

/* A question to any partitioner: vertices, their connections, and the number and sizes of parts.
 *
 * Each library has a small file in libraries/, which is built into a Python module of its own
 * that may be absent; plb_partitioner_install puts the library into the table in question.c. */

/* What a partitioner can use, as bits; other questions are refused. */
enum {
    PLB_TAKES_GRAPH = 1,
    PLB_TAKES_HYPERGRAPH = 2,
    PLB_TAKES_COORDS = 4,
    PLB_TAKES_WEIGHTS = 8, /* several weights per vertex */
    PLB_TAKES_FIXED = 16,
    PLB_TAKES_OLD = 32, /* present parts of vertices, and costs of leaving them */
};

typedef struct plb_question {
    int32_t n_vertices, n_parts;
    int32_t n_weights; /* number of weights of each vertex */
    /* [n_vertices * n_weights] weight[v * n_weights + c] is weight c of vertex v, zero or more;
     * for each c, the sum is below 2^31; NULL: all are 1 */
    const int32_t *weight;
    const double *share; /* [n_parts] shares of the total weight, 0 or more; NULL: equal */

    /* A symmetric graph: v has the neighbours to[start[v]] ... to[start[v + 1] - 1], and each edge
     * occurs in both directions.  NULL: no graph. */
    const int32_t *start, *to;
    const int32_t *edge_weight; /* [edges] weight of each entry of `to`, above zero; the sum is
                                   below 2^31; NULL: all are 1 */

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
    const char *name; /* name of its package, as in pylb.optional */
    const char *version;
    unsigned takes;
    /** Compute part[n_vertices]; undefined after an error.  `in` has been checked: there are
     * enough vertices for all parts, and there are edges, pins or coordinates.  At least one share
     * is above zero. */
    int (*run)(const plb_question_t *in, int32_t *part, plb_err_t *err);
} plb_partitioner_t;

/* pylb's own partitioner for graphs and hypergraphs, always in the table as "pylb".  Its objective
 * is connectivity - 1 (see below).  It does no V-cycles; plb_partition_improve does. */
extern const plb_partitioner_t plb_builtin;

/** Put a library into the table.  *self must stay valid.  No partitioner may run meanwhile. */
int plb_partitioner_install(const plb_partitioner_t *self, plb_err_t *err);

const plb_partitioner_t *plb_partitioner_find(const char *name);

/** Check ranges and sums, not the symmetry of the graph.  Errors name array, index and value. */
int plb_partition_check(const plb_question_t *in, plb_err_t *err);

/** Let a library answer the question.  Cases that libraries handle badly are solved here: fewer
 * vertices than parts, weights that are all zero, no connections.  The answer is checked: parts
 * are in range, and fixed vertices in their parts.  Then plb_partition_repair follows.
 * PLB_ERR_VALUE or PLB_ERR_RANGE: a value is wrong, or the library does not take a part of the
 * question; PLB_ERR_LIBRARY: the library has failed. */
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

/* Rows of a graph or nets of a hypergraph on one rank: start[n + 1], to[start[n]].  Objects are
 * numbered over all ranks. */
typedef struct plb_rows {
    int64_t n;
    plb_ints_t start, to;
} plb_rows_t;

typedef struct plb_scan {
    int64_t loops; /* edges from an object to itself */
    uint64_t skew; /* tells whether the graph is symmetric; see plb_rows_scan */
} plb_scan_t;

/** Check that `start` rises from 0 to n_entries, and that every entry of `to` is in 0 ...
 * n_objects - 1; errors call the arrays `name`.start and `name`.indices.  `first` is this rank's
 * first object.  Count the loops and compute `skew`: its sum over all ranks is 0 if the graph is
 * symmetric; otherwise it is 0 only with probability 2^-64. */
int plb_rows_scan(const plb_rows_t *rows, const char *name, int64_t n_entries, int64_t first,
                  int64_t n_objects, plb_scan_t *out, plb_err_t *err);

/* Hypergraphs, and connectivity - 1.
 *
 * connectivity - 1 is the sum over the nets of weight * (parts that the net touches - 1).  This is
 * the volume of multicasts, if each part gets each message once (Catalyurek and Aykanat 1999). */

typedef struct plb_hypergraph {
    int32_t n_vertices, n_nets;
    /* vertices of net e, each once: pin[net_start[e]] ... pin[net_start[e + 1] - 1] */
    int32_t *net_start, *pin;
    /* nets of vertex v: net[vertex_start[v]] ... net[vertex_start[v + 1] - 1] */
    int32_t *vertex_start, *net;
    int32_t *weight;     /* [n_vertices] */
    int64_t *net_weight; /* [n_nets], above zero; the sum may exceed 2^31, because nets, edges and
                            costs of leaving old parts are added */
    int32_t *fixed; /* [n_vertices] part that a vertex must get, or -1; NULL: no vertex is fixed */
} plb_hypergraph_t;

/* Nets with more pins are ignored by clustering, and after a move their vertices are not looked at
 * again: they take much time and change little.
 * tuned: pins; nets of up to 2,000 pins: with 100 or 1,600, connectivity - 1 is 0.5 % smaller or
 * larger, in 0.8 or 1.3 times the time */
enum { PLB_LARGE_NET = 400 };

static inline int32_t plb_pins_of(const plb_hypergraph_t *self, int32_t e)
{
    return self->net_start[e + 1] - self->net_start[e];
}

static inline int32_t plb_nets_of(const plb_hypergraph_t *self, int32_t v)
{
    return self->vertex_start[v + 1] - self->vertex_start[v];
}

/** Make the hypergraph of a question.  An edge of its graph is a net with two vertices.  Nets with
 * one vertex or no weight are left out, and duplicate pins count once.  If there is an old
 * partition, each part gets an extra vertex of weight 0, fixed in this part.  For each vertex, a
 * net of weight old_cost joins it to the extra vertex of its old part (Catalyurek et al. 2007). */
int plb_hypergraph_init(plb_hypergraph_t *self, const plb_question_t *in, plb_err_t *err);
void plb_hypergraph_free(plb_hypergraph_t *self);

typedef struct plb_limits {
    int32_t n_parts;
    const int64_t *limit; /* [n_parts * n_weights] largest allowed weights of each part */
    int32_t n_weights;
    const int32_t *weight; /* [n_vertices * n_weights]; NULL: weights of the hypergraph, one
                              each */
} plb_limits_t;

typedef struct plb_quality {
    int64_t connectivity; /* connectivity - 1 */
    bool keeps;           /* whether all parts keep their limits */
} plb_quality_t;

/** Refine a partition by k-way local searches (Fiduccia and Mattheyses).  Before the searches,
 * vertices leave each part that is above its limit, those with the smallest loss first, until the
 * part keeps it, or no part has room for them.  connectivity - 1 increases only if the limits
 * require it.  rng NULL: do not search. */
int plb_hypergraph_refine(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                          int32_t *part, plb_quality_t *after, plb_err_t *err);

/** Partition by recursive multilevel bisection if `fresh`, and refine; then do `cycles` V-cycles.
 */
int plb_hypergraph_partition(const plb_hypergraph_t *self, const plb_limits_t *limits,
                             plb_rng_t *rng, bool fresh, int32_t cycles, int32_t *part,
                             plb_err_t *err);

/** Make two parts: part 0 grows from vertex `start` until its weight reaches `target`; part 1 has
 * the other vertices.  Fixed vertices are in their parts. */
int plb_hypergraph_grow(const plb_hypergraph_t *self, int32_t start, int64_t target, int32_t *part,
                        plb_err_t *err);

/** Compute limit[n_parts], the largest allowed weight of each part: the imbalance times the part's
 * share of the total weight.  If even a greedy distribution of the vertices exceeds these limits,
 * its largest ratio of weight to share replaces the imbalance. */
int plb_partition_limits(const plb_question_t *in, int64_t *limit, plb_err_t *err);

/* Renumbers new parts such that the objects that stay in their part have a large total size.
 * Parts that get no number by this rule are numbered such that many objects stay on their rank
 * (Oliker and Biswas, PLUM, 1998; by their heuristic, at least half of the best size stays). */

/* With more parts than this, ranks are ignored: a table of all pairs (rank, part) would take more
 * than 128 MiB. */
enum { PLB_REMAP_MOST = 4096 };

typedef struct plb_new_names {
    int32_t n_parts, n_ranks; /* part q is on rank floor(q * n_ranks / n_parts) */
    const double *share; /* [n_parts] only parts of equal share swap numbers; NULL: all equal */
    const bool *fixed;   /* [n_parts] whether a part must keep its number; NULL: none must */

    int64_t n_kept;      /* pairs of a new and an old part that have objects in common */
    const int32_t *part; /* [n_kept] new part; each pair (part, old) occurs once */
    const int32_t *old;  /* [n_kept] old part */
    const double *kept;  /* [n_kept] total size of the objects that the pair has in common */

    const double *on_rank; /* [n_ranks][n_parts] total size of each new part's objects on each
                              rank; NULL: ranks do not matter */
} plb_new_names_t;

/** Compute name[n_parts], the new numbers, a permutation.  Parts keep their numbers unless others
 * are better.  PLB_ERR_RANGE: `part` or `old` is out of range. */
int plb_remap(const plb_new_names_t *in, int32_t *name, plb_err_t *err);

/** Like plb_remap, for a placement.  Item i, 0 ... n - 1, is on rank now[i] and in part[i], and
 * has the weight counts[i] (NULL: 1).  Part r may only become a rank s with kind[r] == kind[s]
 * (NULL: any rank).  name[p]: the rank that gets each of the p parts. */
int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err);

/** Count the entries of each column of the Cholesky factor L of a symmetric graph, with the
 * diagonal: column[n], in the new order.  perm[n]: new number of each vertex.  PLB_ERR_VALUE: perm
 * is no permutation.  Time O(entries of L), memory O(n) (symbolic part of Davis' LDL, 2005). */
int plb_cholesky_fill(int32_t n, const int64_t *start, const int32_t *to, const int32_t *perm,
                      int64_t *column, plb_err_t *err);
