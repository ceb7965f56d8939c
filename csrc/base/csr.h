/* Compressed rows (CSR): directed edges, sorted by first vertex; and items, sorted by group. */
#pragma once

#include <stdint.h>

#include "base/err.h"

typedef struct plb_csr {
    int64_t n_rows, n_edges;
    int64_t *start; /* [n_rows + 1] edges of row v: start[v] ... start[v + 1] - 1 */
    int32_t *to;    /* [n_edges] the vertex to which the edge goes */
    int64_t *edge;  /* [n_edges] index e of the edge src[e] -> dst[e]; ascending within each row */
} plb_csr_t;

/** Sort the edges src[m] -> dst[m] of a graph of n vertices into rows; within a row they keep
 * their order.  `self` owns its arrays.  PLB_ERR_RANGE: an end is not a vertex. */
int plb_csr_init(plb_csr_t *self, int64_t n, const int32_t *src, const int32_t *dst, int64_t m,
                 plb_err_t *err);
void plb_csr_free(plb_csr_t *self);

/* n items in groups: group g has the items item[start[g] ... start[g + 1] - 1], ascending. */
typedef struct plb_groups {
    int64_t *start; /* [n_groups + 1] where the items of each group begin */
    int32_t *item;  /* [n] items, group by group */
} plb_groups_t;

/** Put item i into group[i], 0 ... n_groups - 1.  `self` owns its arrays; free it also after a
 * failure. */
int plb_groups_init(plb_groups_t *self, const int32_t *group, int64_t n, int32_t n_groups,
                    plb_err_t *err);
void plb_groups_free(plb_groups_t *self);
