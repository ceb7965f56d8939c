/* Multilevel partitions of hypergraphs: coarsen step by step, partition the coarsest hypergraph,
 * and refine on each finer level (Karypis and Kumar 1999). */
#pragma once

#include "partition/hypergraph.h"

/** Compute limit[n_parts], the largest allowed weight of each part: the imbalance times the part's
 * share of the total weight.  If even a greedy distribution of the vertices exceeds these limits,
 * its largest ratio of weight to share replaces the imbalance. */
int plb_partition_limits(const plb_question_t *in, const plb_hypergraph_t *hg, int64_t *limit,
                         plb_err_t *err);

/** Partition by recursive multilevel bisection, then refine.  *after: connectivity - 1. */
int plb_hypergraph_partition(const plb_hypergraph_t *self, const plb_limits_t *limits,
                             plb_rng_t *rng, int32_t *part, int64_t *after, plb_err_t *err);

/** Do one V-cycle over a partition: coarsen only within its parts, refine on the way back (Karypis
 * and Kumar 1999, 4.2).  The result replaces part[] if only the result keeps the limits, or if
 * both or neither keep them and its connectivity - 1 (*after: the final one) is no higher. */
int plb_hypergraph_cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                         int32_t *part, int64_t *after, plb_err_t *err);
