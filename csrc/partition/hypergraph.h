/* Hypergraphs, their contraction, and connectivity - 1.
 *
 * connectivity - 1 is the sum over the nets of weight * (parts that the net touches - 1).  This is
 * the volume of multicasts, if each part gets each message once (Catalyurek and Aykanat 1999). */
#pragma once

#include "base/rng.h"
#include "partition/question.h"

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

/** Merge the vertices of each cluster 0 ... n - 1 into one vertex; vertices of cluster -1 are left
 * out.  Nets with the same clusters become one net, with the sum of their weights; nets with fewer
 * than two clusters are left out.  `out` owns its arrays. */
int plb_hypergraph_contract(const plb_hypergraph_t *fine, const int32_t *cluster, int32_t n,
                            plb_hypergraph_t *out, plb_err_t *err);

/** Group vertices that share heavy nets into *n clusters of weight up to `most` (heavier vertices
 * stay alone); cluster[n_vertices] is the cluster of each vertex.  Vertices of a cluster have the
 * same label (label NULL: no labels), and its fixed vertices are fixed in the same part. */
int plb_hypergraph_cluster(const plb_hypergraph_t *self, const int32_t *label, int64_t most,
                           plb_rng_t *rng, int32_t *cluster, int32_t *n, plb_err_t *err);

int plb_hypergraph_connectivity(const plb_hypergraph_t *self, const int32_t *part, int32_t n_parts,
                                int64_t *out, plb_err_t *err);

typedef struct plb_limits {
    int32_t n_parts;
    const int64_t *limit; /* [n_parts * n_weights] largest allowed weights of each part */
    int32_t n_weights;
    const int32_t *weight; /* [n_vertices * n_weights]; NULL: the hypergraph's own, one a vertex */
} plb_limits_t;

/** Refine a partition by k-way local searches (Fiduccia and Mattheyses).  Before the searches,
 * vertices leave each part that is above its limit until the part keeps it, if possible.
 * connectivity - 1 (*after: the final one) increases only if the limits require it. */
int plb_hypergraph_refine(const plb_hypergraph_t *self, const plb_limits_t *limits, plb_rng_t *rng,
                          int32_t *part, int64_t *after, plb_err_t *err);

/** Only move vertices out of parts that are above their limits, those with the smallest loss
 * first, until all parts keep their limits or no part has room for them. */
int plb_hypergraph_relieve(const plb_hypergraph_t *self, const plb_limits_t *limits, int32_t *part,
                           plb_err_t *err);

/** Make two parts: part 0 grows from vertex `start` until its weight reaches `target`; part 1 has
 * the other vertices.  Fixed vertices are in their parts. */
int plb_hypergraph_grow(const plb_hypergraph_t *self, int32_t start, int64_t target, int32_t *part,
                        plb_err_t *err);
