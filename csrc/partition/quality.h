/* Evaluates a partition: each rank counts the edges and nets between parts, in its own rows.
 *
 * Objects are numbered over all ranks; `first` is this rank's first object. */
#pragma once

#include "base/err.h"
#include "base/ints.h"

/* The part of every object that occurs in the rows of this rank. */
typedef struct plb_places {
    int64_t first, n, n_ghosts;
    int32_t n_parts;
    const int32_t *part;       /* [n] part of each object of this rank */
    const int64_t *ghost;      /* [n_ghosts] ids of objects of other ranks, ascending */
    const int32_t *ghost_part; /* [n_ghosts] parts of these objects */
} plb_places_t;

/* Rows of a graph or nets of a hypergraph: start[n + 1], to[start[n]], all in range. */
typedef struct plb_rows {
    int64_t n;
    plb_ints_t start, to;
    const double *weight; /* weight of each edge, or of each net; NULL: all are 1 */
} plb_rows_t;

typedef struct plb_scan {
    int64_t loops; /* number of edges from an object to itself */
    uint64_t skew; /* a sum of hashes of the edges; if the graph is symmetric, the sum of `skew`
                      over all ranks is 0 */
} plb_scan_t;

/** Check that `start` rises from 0 to n_entries, and that every entry of `to` is in 0 ...
 * n_objects - 1; errors call the arrays `name`.start and `name`.indices.  Then count the loops and
 * compute `skew`: if a graph is not symmetric, the sum of `skew` over all ranks is 0 only with a
 * probability of 2^-64. */
int plb_rows_scan(const plb_rows_t *rows, const char *name, int64_t n_entries, int64_t first,
                  int64_t n_objects, plb_scan_t *out, plb_err_t *err);

/** Compute sums[1 + n_weights][n_parts]: first the number of objects of each part, then, for each
 * column of weight[n][n_weights], the sum over the objects of each part.  PLB_ERR_RANGE: a part is
 * out of range. */
int plb_part_sums(const int32_t *part, int64_t n, int32_t n_parts, const double *weight,
                  int32_t n_weights, double *sums, plb_err_t *err);

/** Compute for each part: cut[n_parts], the number of edges from it to other parts;
 * cut_weight[n_parts], the weight of these edges; and boundary[n_parts], the number of the part's
 * objects with such an edge.  *volume: the sum over the objects of the number of other parts in
 * which the object has neighbours.  *pair: the number part * n_parts + other for each of the
 * n_pairs pairs of parts with an edge from one to the other, in any order; the caller frees it
 * with plb_free. */
int plb_quality_graph(const plb_rows_t *graph, const plb_places_t *places, double *cut,
                      double *cut_weight, int64_t *boundary, double *volume, int64_t **pair,
                      int64_t *n_pairs, plb_err_t *err);

/** Compute two sums over the nets: *connectivity, the sum of weight * (number of parts that the
 * net touches - 1); *cut, the sum of the weights of nets that touch several parts. */
int plb_quality_nets(const plb_rows_t *nets, const plb_places_t *places, double *connectivity,
                     double *cut, plb_err_t *err);
