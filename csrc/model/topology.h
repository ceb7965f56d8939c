/* Machines with distances (trees and tori): hop-bytes (the sum of bytes times hops), and a mapping
 * of parts to places with few hop-bytes.  A place is a leaf of the tree or a point of the torus.
 * Places are numbered from left to right in a tree, and in row-major order in a torus. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef enum plb_topology_kind { PLB_TREE, PLB_TORUS } plb_topology_kind_t;

enum { PLB_TOPOLOGY_LEVELS = 16 };

typedef struct plb_topology {
    plb_topology_kind_t kind;
    int n_levels;
    /* tree: number of children of each vertex, by level, root first; torus: length by dimension */
    int32_t size[PLB_TOPOLOGY_LEVELS];
    int32_t n_places; /* the product of the sizes */
} plb_topology_t;

/** Check size[n_levels], and fill in `self`. */
int plb_topology_init(plb_topology_t *self, plb_topology_kind_t kind, const int64_t *size,
                      int n_levels, plb_err_t *err);

/* Bytes that parts send to each other, like a sparse matrix (CSR); as many parts as places. */
typedef struct plb_flows {
    /* [n_places + 1] part a sends the entries start[a] ... start[a + 1] - 1 */
    const int64_t *start;
    const int32_t *to;
    const double *bytes;
} plb_flows_t;

/** Return the hop-bytes with part a at place[a]. */
double plb_hop_bytes(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place);

/** Compute *most, the bytes over the most loaded link; a cable is two links, one per direction.
 * In a torus, messages go the shorter way (ties: positive direction), first dimension first. */
int plb_topology_link(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *place,
                      double *most, plb_err_t *err);

/** Reorder place[n_places] to lower the hop-bytes.  Part a only gets a place that a part with the
 * same group[] has at first.  The same input always gives the same result. */
int plb_topology_map(const plb_topology_t *self, const plb_flows_t *flows, const int32_t *group,
                     int32_t *place, plb_err_t *err);
