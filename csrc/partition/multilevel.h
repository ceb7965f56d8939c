/* Multilevel partitions of hypergraphs: coarsen step by step, partition the coarsest hypergraph,
 * and refine on each finer level (Karypis and Kumar 1999). */
#pragma once

#include "partition/hypergraph.h"

/** Compute limit[n_parts], the largest allowed weight of each part: the imbalance times its share
 * of the total weight.  If even a greedy distribution of the vertices exceeds this (vertices are
 * few or heavy), its largest ratio of weight to share replaces the imbalance. */
int plb_partition_limits(const plb_question_t *in, const plb_hypergraph_t *hg, int64_t *limit,
                         plb_err_t *err);

/** Partition from scratch, by recursive multilevel bisection. */
int plb_hypergraph_partition(const plb_hypergraph_t *self, const plb_limits_t *limits,
                             plb_rng_t *rng, int32_t *part, int64_t *after, plb_err_t *err);

/** Do one V-cycle over a partition: coarsen only within its parts, refine on the way back (Karypis
 * and Kumar 1999, 4.2).  part[] is replaced only if the result keeps the limits and part[] does
 * not, or if both or neither keep them and the connectivity - 1 of the result is not higher.
 * *after: connectivity - 1. */
int plb_hypergraph_cycle(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                         int32_t *part, int64_t *after, plb_err_t *err);
