/* Multilevel partitions of hypergraphs: coarsen step by step, partition the coarsest hypergraph,
 * and refine on each finer level (Karypis and Kumar 1999). */
#ifndef PLB_PARTITION_MULTILEVEL_H
#define PLB_PARTITION_MULTILEVEL_H

#include "partition/hypergraph.h"

/** Compute limit[n_parts], the largest allowed weight of each part: the imbalance times its share
 * of the total weight.  If vertices are too few or too heavy for this limit, it is the weight in a
 * greedy distribution. */
int plb_partition_limits(const plb_question_t *in, const plb_hypergraph_t *hg, int64_t *limit,
                         plb_err_t *err);

/** Partition from scratch, by recursive multilevel bisection. */
int plb_hypergraph_partition(const plb_hypergraph_t *self, const plb_limits_t *limits,
                             plb_rng_t *rng, int32_t *part, int64_t *after, plb_err_t *err);

/** Do one V-cycle over a partition: coarsen only within its parts, refine on the way back (Karypis
 * and Kumar 1999, 4.2).  The result is dropped if its connectivity - 1 is higher, or if it
 * exceeds limits that part[] keeps.  *after: connectivity - 1. */
int plb_hypergraph_cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                         int32_t *part, int64_t *after, plb_err_t *err);

#endif
