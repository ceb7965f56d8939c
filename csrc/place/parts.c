#include "place/internal.h"

#include <math.h>
#include <string.h>

#include "base/base.h"
#include "partition/partition.h"

void plb_parts_free(plb_parts_t *self)
{
    plb_problem_free(&self->problem);
    plb_groups_free(&self->ranks);
    PLB_FREE(self->node, self->vertex, self->weight, self->fixed, self->old, self->old_cost,
             self->share, self->start, self->to, self->edge_weight, self->net_start, self->pin,
             self->net_weight);
    *self = (plb_parts_t){0};
}

/* ---- vertices and shares -------------------------------------------------------------------- */

static int fill_weights(plb_parts_t *self, double *movable, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    double *load = NULL;
    PLB_NEW(load, self->n);
    *movable = 0.0;
    for (int32_t v = 0; v < self->n; v++) {
        load[v] = in->load[plb_problem_object(&self->problem, v)];
        *movable += load[v];
    }
    const double scale = plb_scale_of(load, self->n);
    for (int32_t v = 0; v < self->question.n_vertices; v++) {
        self->weight[v] = v < self->n ? plb_scaled(load[v], scale, 0) : 0;
    }
out:
    plb_free(load);
    return ret;
}

/* Set vertex[] and fixed[].  anchors: whether each rank has a vertex for its fixed objects. */
static void number_objects(plb_parts_t *self, bool anchors)
{
    const plb_snapshot_t *in = self->problem.in;
    for (int64_t i = 0, v = 0; i < in->n_objects; i++) {
        if (plb_may_migrate(in, i)) {
            self->vertex[i] = (int32_t)v++;
        } else {
            self->vertex[i] = anchors ? self->n + in->rank[i] : -1;
        }
    }
    for (int32_t v = 0; anchors && v < self->question.n_vertices; v++) {
        self->fixed[v] = v < self->n ? -1 : v - self->n;
    }
}

/* Number the nodes, if there are distances, several nodes, and ranks that share a node. */
static int number_nodes(plb_parts_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->problem.in;
    const int32_t p = in->n_ranks;
    if (in->near == NULL) {
        return PLB_OK;
    }
    PLB_PASS_NEW(self->node, p);
    PLB_PASS(plb_snapshot_nodes(in, self->node, &self->n_nodes, err));
    PLB_PASS(plb_groups_init(&self->ranks, self->node, p, self->n_nodes, err));
    if (self->n_nodes == 1 || self->n_nodes == p) {
        plb_free(self->node);
        self->node = NULL;
    }
    return PLB_OK;
}

int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err)
{
    *self = (plb_parts_t){.per_byte = 1.0};
    int ret = plb_problem_init(&self->problem, in, err);
    if (ret != PLB_OK) {
        goto out;
    }
    const int64_t n = self->problem.n, p = in->n_ranks;
    const bool anchors = takes_fixed && n < in->n_objects;
    if (n + p > INT32_MAX) {
        ret = PLB_FAIL(
            err, PLB_ERR_VALUE,
            "%lld objects that may migrate: expected fewer than 2^31 objects and ranks in total",
            (long long)n);
        goto out;
    }
    self->n = (int32_t)n;
    PLB_NEW(self->vertex, in->n_objects);
    PLB_NEW(self->weight, n + p);
    PLB_NEW(self->share, p);
    if (anchors) {
        PLB_NEW(self->fixed, n + p);
    }
    self->question = (plb_question_t){.n_vertices = (int32_t)(n + (anchors ? p : 0)),
                                      .n_parts = in->n_ranks,
                                      .n_weights = 1,
                                      .weight = self->weight,
                                      .fixed = self->fixed,
                                      .imbalance = imbalance,
                                      .seed = (int32_t)(seed & INT32_MAX)};
    number_objects(self, anchors);
    PLB_TRY(number_nodes(self, err));
    double movable = 0.0;
    PLB_TRY(fill_weights(self, &movable, err));
    PLB_TRY(plb_problem_shares(&self->problem, movable, self->share, err));
    self->question.share = plb_all_equal(self->share, in->n_ranks) ? NULL : self->share;
out:
    if (ret != PLB_OK) {
        plb_parts_free(self);
    }
    return ret;
}

/* ---- the communication graph ---------------------------------------------------------------- */

typedef struct entry {
    double bytes;
    int32_t to;
} entry_t;

typedef struct filler {
    const plb_parts_t *parts;
    int64_t *next;  /* the next entry of each row */
    entry_t *entry; /* NULL: only count */
} filler_t;

/* Put the pair of two objects into the rows of both, if they are different vertices. */
static void put_pair(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    const filler_t *self = arg;
    const int32_t a = self->parts->vertex[src], b = self->parts->vertex[dst];
    if (a < 0 || b < 0 || a == b) {
        return;
    }
    const int64_t i = self->next[a]++, j = self->next[b]++;
    if (self->entry != NULL) {
        self->entry[i] = (entry_t){bytes, b};
        self->entry[j] = (entry_t){bytes, a};
    }
}

/* Sort the rows: transpose their matrix, which is symmetric.  Entries of the same vertex are
 * merged. */
static void sort_rows(const entry_t *entry, const int64_t *first, int32_t n, int64_t *end,
                      int32_t *to, double *bytes)
{
    memcpy(end, first, (size_t)n * sizeof *end);
    for (int32_t v = 0; v < n; v++) {
        for (int64_t i = first[v]; i < first[v + 1]; i++) {
            const int32_t w = entry[i].to;
            const int64_t at = end[w];
            if (at > first[w] && to[at - 1] == v) {
                bytes[at - 1] += entry[i].bytes;
            } else {
                to[at] = v;
                bytes[at] = entry[i].bytes;
                end[w]++;
            }
        }
    }
}

int plb_parts_graph(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = self->question.n_vertices;
    int64_t *first = NULL, *end = NULL;
    entry_t *entry = NULL;
    double *bytes = NULL;
    int32_t m = 0;
    PLB_NEW0(first, (int64_t)n + 1);
    PLB_NEW(end, n);
    PLB_NEW(self->start, (int64_t)n + 1);
    plb_each_pair(self->problem.in, put_pair, &(filler_t){self, first + 1, NULL});
    for (int32_t v = 0; v < n; v++) {
        first[v + 1] += first[v];
    }
    PLB_TRY(first[n] <= INT32_MAX
                ? PLB_OK
                : PLB_FAIL(err, PLB_ERR_VALUE,
                           "the edges between objects have %lld ends: expected fewer than 2^31",
                           (long long)first[n]));
    PLB_NEW_EACH(first[n], entry, self->to, bytes, self->edge_weight);
    memcpy(end, first, (size_t)n * sizeof *end);
    plb_each_pair(self->problem.in, put_pair, &(filler_t){self, end, entry});
    sort_rows(entry, first, n, end, self->to, bytes);
    for (int32_t v = 0; v < n; v++) { /* close the gaps of merged entries */
        self->start[v] = m;
        for (int64_t i = first[v]; i < end[v]; i++, m++) {
            self->to[m] = self->to[i];
            bytes[m] = bytes[i];
        }
    }
    self->start[n] = m;
    self->per_byte = plb_scale_of(bytes, m);
    for (int32_t i = 0; i < m; i++) {
        self->edge_weight[i] = plb_scaled(bytes[i], self->per_byte, 1);
    }
    self->question.start = self->start;
    self->question.to = self->to;
    self->question.edge_weight = self->edge_weight;
out:
    PLB_FREE(first, end, entry, bytes);
    return ret;
}

/* ---- migration cost ------------------------------------------------------------------------- */

int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    const int32_t n = self->question.n_vertices;
    double *cost = NULL, total = 0.0, sent = 0.0;
    for (int64_t e = 0; e < in->n_edges; e++) {
        sent += in->edge_bytes[e];
    }
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        sent += in->multicast_bytes[e];
    }
    const double unknown = in->n_objects > 0 ? sent / (double)in->n_objects : 0.0;
    PLB_NEW_EACH(n, cost, self->old, self->old_cost);
    for (int32_t v = 0; v < n; v++) {
        const int32_t i = v < self->n ? plb_problem_object(&self->problem, v) : -1;
        const double bytes = i < 0 ? 0.0 : in->nbytes == NULL ? unknown : (double)in->nbytes[i];
        self->old[v] = i < 0 ? v - self->n : in->rank[i];
        cost[v] = bytes / iterations * self->per_byte;
        total += cost[v];
    }
    const double shrink = total > PLB_MOST_WEIGHT ? PLB_MOST_WEIGHT / total : 1.0;
    for (int32_t v = 0; v < n; v++) { /* at least 1: in a tie, the object then stays */
        self->old_cost[v] = plb_scaled(cost[v], shrink, v < self->n);
    }
    self->question.old = self->old;
    self->question.old_cost = self->old_cost;
out:
    plb_free(cost);
    return ret;
}

/* Renumber whole nodes with all their parts, if all nodes and their ranks are equal. */
static int relabel_nodes(const plb_parts_t *self, const int32_t *now, const double *bytes,
                         int32_t *part, plb_err_t *err)
{
    const plb_groups_t *ranks = &self->ranks;
    const int32_t m = self->n_nodes, each = self->problem.in->n_ranks / m;
    int32_t *from = NULL, *to = NULL, *name = NULL, *place = NULL;
    int ret = PLB_OK;
    for (int32_t k = 0; k <= m; k++) {
        if (self->question.share != NULL || ranks->start[k] != (int64_t)k * each) {
            return ret;
        }
    }
    PLB_NEW_EACH(self->n, from, to);
    PLB_NEW(name, m);
    PLB_NEW(place, self->problem.in->n_ranks);
    for (int32_t k = 0; k < self->problem.in->n_ranks; k++) {
        place[ranks->item[k]] = k % each;
    }
    for (int32_t v = 0; v < self->n; v++) {
        from[v] = self->node[now[v]];
        to[v] = self->node[part[v]];
    }
    PLB_TRY(plb_relabel(self->n, from, to, bytes, m, NULL, name, err));
    for (int32_t v = 0; v < self->n; v++) {
        part[v] = ranks->item[name[to[v]] * each + place[part[v]]];
    }
out:
    PLB_FREE(from, to, name, place);
    return ret;
}

int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    int32_t *now = NULL, *name = NULL;
    double *bytes = NULL, *kind = NULL;
    if (self->fixed != NULL) {
        return ret;
    }
    PLB_NEW_EACH(self->n, now, bytes);
    PLB_NEW_EACH(in->n_ranks, name, kind);
    double most = 0.0;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        most = fmax(most, 2.0 * self->share[r]);
    }
    for (int32_t r = 0; r < in->n_ranks;
         r++) { /* ranks of different nodes are of different kinds */
        kind[r] = self->node == NULL ? self->share[r] : self->share[r] + self->node[r] * most;
    }
    for (int32_t v = 0; v < self->n; v++) {
        const int32_t i = plb_problem_object(&self->problem, v);
        now[v] = in->rank[i];
        bytes[v] = in->nbytes == NULL ? 1.0 : 1.0 + (double)in->nbytes[i];
    }
    if (self->node != NULL) {
        PLB_TRY(relabel_nodes(self, now, bytes, part, err));
    }
    PLB_TRY(plb_relabel(self->n, now, part, bytes, in->n_ranks, kind, name, err));
    for (int32_t v = 0; v < self->n; v++) {
        part[v] = name[part[v]];
    }
out:
    PLB_FREE(now, bytes, name, kind);
    return ret;
}

/* ---- the question --------------------------------------------------------------------------- */

/* Partitioners bisect recursively, so that parts with close indices are close in the graph.  With
 * distances, the parts of a node therefore get consecutive indices. */
static int ask_by_node(const plb_parts_t *self, const plb_partitioner_t *with, int32_t *part,
                       plb_err_t *err)
{
    plb_question_t q = self->question;
    const int32_t *rank = self->ranks.item, p = q.n_parts; /* rank of each part */
    int32_t *number = NULL, *fixed = NULL;
    double *share = NULL;
    int ret = PLB_OK;
    PLB_NEW_EACH(p, number, share);
    PLB_NEW(fixed, q.n_vertices);
    for (int32_t k = 0; k < p; k++) {
        number[rank[k]] = k;
        share[k] = self->share[rank[k]];
    }
    for (int32_t v = 0; q.fixed != NULL && v < q.n_vertices; v++) {
        fixed[v] = q.fixed[v] < 0 ? -1 : number[q.fixed[v]];
    }
    q.share = q.share == NULL ? NULL : share;
    q.fixed = q.fixed == NULL ? NULL : fixed;
    PLB_TRY(plb_partition_run(with, &q, part, err));
    for (int32_t v = 0; v < q.n_vertices; v++) {
        part[v] = rank[part[v]];
    }
out:
    PLB_FREE(number, share, fixed);
    return ret;
}

int plb_parts_ask(const plb_parts_t *self, const char *library, int32_t *part, plb_err_t *err)
{
    const plb_partitioner_t *with = plb_partitioner_find(library);
    PLB_FAIL_IF(with == NULL, err, PLB_ERR_MISSING, "%s has not been loaded", library);
    PLB_PASS(plb_interrupted(PLB_INTERRUPT_NOW));
    PLB_PASS(self->node != NULL && self->question.old == NULL
                 ? ask_by_node(self, with, part, err)
                 : plb_partition_run(with, &self->question, part, err));
    return plb_interrupted(PLB_INTERRUPT_NOW);
}

int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance, int32_t *out,
                    plb_err_t *err)
{
    const plb_snapshot_t *in = self->problem.in;
    for (int64_t i = 0; i < in->n_objects; i++) {
        out[i] = plb_may_migrate(in, i) ? part[self->vertex[i]] : in->rank[i];
    }
    PLB_PASS(plb_start_repaired(in, out, err));
    PLB_PASS(plb_refine_comm(in, imbalance, false, NULL, out, err));
    const uint64_t seed = (uint64_t)self->question.seed;
    return plb_refine(in, imbalance, PLB_ALL_STEPS, seed, out, err);
}
