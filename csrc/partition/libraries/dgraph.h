/* Colours and orders of a distributed graph, by Zoltan and PT-Scotch. */
#pragma once

#include <mpi.h>
#include <stdint.h>

#include "base/base.h"

/* The vertices of a rank and their edges.  The graph is symmetric and has no loops. */
typedef struct plb_dgraph {
    int32_t n;
    const int32_t *start;  /* [n + 1] where each vertex's edges begin */
    const int32_t *to;     /* [start[n]] numbers of the neighbours among all vertices */
    const int32_t *number; /* [n] the vertices' own numbers, ascending by 1; an order needs none */
    const int32_t *owner;  /* [start[n]] ranks of the neighbours; an order needs none */
} plb_dgraph_t;

/** Colour the vertices by Zoltan_Color: color[n], from 0 on, differs from the colours of all
 * vertices within `distance` (1 or 2) edges.  Collective and blocking, like plb_ptscotch_order.
 * Neither function allocates memory: a rank that failed would not come to the library, in which
 * the other ranks wait for it. */
int plb_zoltan_color(MPI_Comm comm, const plb_dgraph_t *graph, int distance, int32_t *color,
                     plb_err_t *err);

/* The blocks of an order: block b has the vertices with new numbers first[b] ... first[b+1]-1; a
 * parent block separates its children. */
typedef struct plb_blocks {
    int32_t n;
    int32_t *first;  /* [n + 1] */
    int32_t *parent; /* [n]; -1: none */
} plb_blocks_t;

/** Order the vertices by PT-Scotch, or, on one rank, by Scotch: perm[n] is the new number of each
 * vertex in a nested dissection of the whole graph.  On rank 0, *blocks is set; the caller
 * allocates its arrays, with one entry more than the whole graph has vertices. */
int plb_ptscotch_order(MPI_Comm comm, const plb_dgraph_t *graph, int32_t *perm,
                       plb_blocks_t *blocks, plb_err_t *err);
