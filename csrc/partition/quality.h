/* Evaluates a partition: each rank counts the edges and nets between parts, in its own rows.
 * Objects are numbered over all ranks; `first` is this rank's first object. */
#pragma once

#include "base/err.h"
#include "base/ints.h"

/* The part of every object that occurs in the rows of this rank. */
typedef struct plb_places {
    int64_t first, n, n_ghosts;
    int32_t n_parts;
    const int32_t *part;       /* [n] part of each object of this rank */
    const int64_t *ghost;      /* [n_ghosts] ids of other ranks' objects, ascending */
    const int32_t *ghost_part; /* [n_ghosts] part of each of these objects */
} plb_places_t;

/* Rows of a graph or nets of a hypergraph: start[n + 1], to[start[n]], all in range. */
typedef struct plb_rows {
    int64_t n;
    plb_ints_t start, to;
    const double *weight; /* of each edge, or of each net; NULL: all are 1 */
} plb_rows_t;

typedef struct plb_scan {
    int64_t loops; /* edges from an object to itself */
    uint64_t skew; /* tells whether the graph is symmetric; see plb_rows_scan */
} plb_scan_t;

/** Check that `start` rises from 0 to n_entries, and that every entry of `to` is in 0 ...
 * n_objects - 1; errors call the arrays `name`.start and `name`.indices.  Count the loops and
 * compute `skew`: its sum over all ranks is 0 if the graph is symmetric, else only with
 * probability 2^-64. */
int plb_rows_scan(const plb_rows_t *rows, const char *name, int64_t n_entries, int64_t first,
                  int64_t n_objects, plb_scan_t *out, plb_err_t *err);

/** Compute sums[1 + n_weights][n_parts]: the number of objects of each part, and the sum of each
 * column of weight[n][n_weights].  PLB_ERR_RANGE: a part is out of range. */
int plb_part_sums(const int32_t *part, int64_t n, int32_t n_parts, const double *weight,
                  int32_t n_weights, double *sums, plb_err_t *err);

/** Compute for each part: cut[n_parts], the number of edges from it to other parts;
 * cut_weight[n_parts], their weight; and boundary[n_parts], the number of its objects with such an
 * edge.  *volume: the sum over the objects of the number of other parts in which an object has
 * neighbours.  *pair: part * n_parts + other for each of the n_pairs pairs of parts with an edge
 * from one to the other, in any order; the caller frees it with plb_free. */
int plb_quality_graph(const plb_rows_t *graph, const plb_places_t *places, double *cut,
                      double *cut_weight, int64_t *boundary, double *volume, int64_t **pair,
                      int64_t *n_pairs, plb_err_t *err);

/** Sum over the nets: *connectivity: weight * (number of parts that the net touches - 1); *cut:
 * weights of nets that touch several parts. */
int plb_quality_nets(const plb_rows_t *nets, const plb_places_t *places, double *connectivity,
                     double *cut, plb_err_t *err);
