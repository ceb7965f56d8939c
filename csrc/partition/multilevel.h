/* Partitions of hypergraphs by many levels: coarser and coarser ones are made, the coarsest is
 * partitioned, and each finer one refined (Karypis and Kumar 1999). */
#ifndef PLB_PARTITION_MULTILEVEL_H
#define PLB_PARTITION_MULTILEVEL_H

#include "partition/hypergraph.h"

/** limit[n_parts]: the imbalance times each part's share of the weight; where vertices are too few
 *  or too heavy for that, what a greedy spread of them keeps. */
int plb_partition_limits(const plb_question_t *in, const plb_hypergraph_t *hg, int64_t *limit,
                         plb_err_t *err);

/** A partition from nothing: recursive bisection, each of many levels. */
int plb_hypergraph_partition(const plb_hypergraph_t *self, const plb_limits_t *limits,
                             plb_rng_t *rng, int32_t *part, int64_t *after, plb_err_t *err);

/** One V-cycle over a partition: coarsen only within its parts, refine on the way back (Karypis
 *  and Kumar 1999, 4.2).  The result is taken unless connectivity - 1 is higher, or it breaks
 *  limits that part[] keeps.  *after: connectivity - 1. */
int plb_hypergraph_cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                         int32_t *part, int64_t *after, plb_err_t *err);

#endif
