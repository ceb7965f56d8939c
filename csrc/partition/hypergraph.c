#include "partition/partition.h"

#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/sort.h"

void plb_hypergraph_free(plb_hypergraph_t *self)
{
    PLB_FREE(self->net_start, self->pin, self->vertex_start, self->net, self->weight,
             self->net_weight, self->fixed);
    *self = (plb_hypergraph_t){0};
}

/* Allocate space for nets, which are added later. */
static int begin(plb_hypergraph_t *self, int32_t n_vertices, int64_t n_nets, int64_t n_pins,
                 bool fixed, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_hypergraph_t){.n_vertices = n_vertices};
    PLB_FAIL_IF(n_nets > INT32_MAX - 1 || n_pins > INT32_MAX - 1, err, PLB_ERR_VALUE,
                "%lld nets with %lld pins: expected fewer than 2^31 - 1 of each",
                (long long)n_nets, (long long)n_pins);
    PLB_NEW(self->net_start, n_nets + 1);
    PLB_NEW(self->pin, n_pins);
    PLB_NEW(self->net_weight, n_nets);
    PLB_NEW(self->weight, n_vertices);
    if (fixed) {
        PLB_NEW(self->fixed, n_vertices);
    }
    self->net_start[0] = 0;
out:
    return ret;
}

static int transpose(plb_hypergraph_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = self->n_vertices;
    PLB_NEW0(self->vertex_start, n + 2);
    PLB_NEW(self->net, self->net_start[self->n_nets]);
    for (int32_t i = 0; i < self->net_start[self->n_nets]; i++) {
        self->vertex_start[self->pin[i] + 2]++;
    }
    for (int32_t v = 0; v < n; v++) {
        self->vertex_start[v + 2] += self->vertex_start[v + 1];
    }
    for (int32_t e = 0; e < self->n_nets; e++) {
        PLB_TRY(plb_interrupted(plb_pins_of(self, e)));
        for (int32_t i = self->net_start[e]; i < self->net_start[e + 1]; i++) {
            self->net[self->vertex_start[self->pin[i] + 1]++] = e;
        }
    }
out:
    return ret;
}

/* Add a net with the pins map[pin[i]] (map NULL: pin[i]), each once; -1: no pin.  If fewer than
 * two pins remain, or the weight is 0, no net is added.  seen[v]: `stamp` of the most recent net
 * with vertex v; each net has a different stamp. */
static void add_net(plb_hypergraph_t *self, const int32_t *pin, int32_t n, const int32_t *map,
                    int64_t weight, int32_t stamp, int32_t *seen)
{
    const int32_t first = self->net_start[self->n_nets];
    int32_t at = first;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = map == NULL ? pin[i] : map[pin[i]];
        if (v >= 0 && seen[v] != stamp) {
            seen[v] = stamp;
            self->pin[at++] = v;
        }
    }
    if (at - first > 1 && weight > 0) {
        self->net_weight[self->n_nets++] = weight;
        self->net_start[self->n_nets] = at;
    }
}

static int add_nets_of(plb_hypergraph_t *self, const plb_question_t *in, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = in->n_vertices;
    int32_t *seen = NULL, stamp = 0;
    PLB_NEW0(seen, self->n_vertices);
    for (int32_t e = 0; e < in->n_nets; e++) {
        const int32_t from = in->net_start[e], pins = in->net_start[e + 1] - from;
        PLB_TRY(plb_interrupted(2 + pins));
        add_net(self, in->pin + from, pins, NULL, in->net_weight == NULL ? 1 : in->net_weight[e],
                ++stamp, seen);
    }
    for (int32_t v = 0; in->start != NULL && v < n; v++) {
        PLB_TRY(plb_interrupted(4 * ((int64_t)in->start[v + 1] - in->start[v])));
        for (int32_t j = in->start[v]; j < in->start[v + 1]; j++) {
            if (in->to[j] > v) {
                const int32_t ends[2] = {v, in->to[j]};
                add_net(self, ends, 2, NULL, in->edge_weight == NULL ? 1 : in->edge_weight[j],
                        ++stamp, seen);
            }
        }
    }
    for (int32_t v = 0; in->old != NULL && v < n; v++) {
        if (in->old[v] >= 0) {
            const int32_t ends[2] = {v, n + in->old[v]};
            add_net(self, ends, 2, NULL, in->old_cost == NULL ? 1 : in->old_cost[v], ++stamp,
                    seen);
        }
    }
out:
    plb_free(seen);
    return ret;
}

int plb_hypergraph_init(plb_hypergraph_t *self, const plb_question_t *in, plb_err_t *err)
{
    const int32_t n = in->n_vertices, parts = in->old == NULL ? 0 : in->n_parts;
    const int64_t pins = in->n_nets > 0 ? in->net_start[in->n_nets] : 0;
    const int64_t pairs = (in->start == NULL ? 0 : in->start[n]) + (parts > 0 ? n : 0);
    int ret = begin(self, n + parts, in->n_nets + pairs, pins + 2 * pairs,
                    in->fixed != NULL || parts > 0, err);
    if (ret != PLB_OK) {
        goto out;
    }
    for (int32_t v = 0; v < n + parts; v++) {
        const bool own = v < n;
        self->weight[v] = !own                 ? 0
                          : in->weight == NULL ? 1
                                               : in->weight[(int64_t)v * in->n_weights];
        if (self->fixed != NULL) {
            self->fixed[v] = !own ? v - n : in->fixed == NULL ? -1 : in->fixed[v];
        }
    }
    PLB_TRY(add_nets_of(self, in, err));
    PLB_TRY(transpose(self, err));
out:
    if (ret != PLB_OK) {
        plb_hypergraph_free(self);
    }
    return ret;
}

/* ---- contraction ---------------------------------------------------------------------------- */

/* The hash does not depend on the order of the pins. */
static uint64_t fingerprint(const plb_hypergraph_t *self, int32_t e)
{
    uint64_t h = 0;
    for (int32_t i = self->net_start[e]; i < self->net_start[e + 1]; i++) {
        uint64_t x = (uint64_t)self->pin[i] * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
        x ^= x >> 32;
        h += x * 0xd6e8feb86659fd93u;
    }
    return h ^ (uint64_t)plb_pins_of(self, e);
}

/* Before the call, no entry of seen[] may equal `stamp`. */
static bool same_pins(const plb_hypergraph_t *self, int32_t a, int32_t b, int32_t stamp,
                      int32_t *seen)
{
    if (plb_pins_of(self, a) != plb_pins_of(self, b)) {
        return false;
    }
    for (int32_t i = self->net_start[a]; i < self->net_start[a + 1]; i++) {
        seen[self->pin[i]] = stamp;
    }
    for (int32_t i = self->net_start[b]; i < self->net_start[b + 1]; i++) {
        if (seen[self->pin[i]] != stamp) {
            return false;
        }
    }
    return true;
}

static void drop_merged(plb_hypergraph_t *self)
{
    int32_t kept = 0, at = 0;
    for (int32_t e = 0; e < self->n_nets; e++) {
        const int32_t from = self->net_start[e], n = plb_pins_of(self, e);
        if (self->net_weight[e] == 0) {
            continue;
        }
        memmove(self->pin + at, self->pin + from, (size_t)n * sizeof *self->pin);
        self->net_weight[kept] = self->net_weight[e];
        /* kept <= e, so this entry was read before */
        self->net_start[kept++] = at;
        at += n;
    }
    self->net_start[kept] = at;
    self->n_nets = kept;
}

static int merge_nets(plb_hypergraph_t *self, int32_t stamp, int32_t *seen, plb_err_t *err)
{
    int ret = PLB_OK;
    double *print = NULL;
    plb_loads_t order = {0};
    PLB_NEW(print, self->n_nets);
    for (int32_t e = 0; e < self->n_nets; e++) {
        PLB_TRY(plb_interrupted(1 + plb_pins_of(self, e)));
        print[e] = (double)(fingerprint(self, e) >> 11); /* 53 bits: a double holds them */
    }
    PLB_TRY(plb_loads_sorted(&order, print, self->n_nets, PLB_ASCENDING, err));
    for (int32_t i = 1, first = 0; i < self->n_nets; i++) {
        const plb_item_t a = order.item[first], b = order.item[i];
        PLB_TRY(plb_interrupted(4 + plb_pins_of(self, a.id)));
        if (a.key != b.key || !same_pins(self, a.id, b.id, ++stamp, seen)) {
            first = i;
            continue;
        }
        self->net_weight[a.id] += self->net_weight[b.id];
        self->net_weight[b.id] = 0;
    }
    drop_merged(self);
out:
    plb_loads_free(&order);
    plb_free(print);
    return ret;
}

int plb_hypergraph_contract(const plb_hypergraph_t *fine, const int32_t *cluster, int32_t n,
                            plb_hypergraph_t *out, plb_err_t *err)
{
    int32_t *seen = NULL;
    int ret = begin(out, n, fine->n_nets, fine->net_start[fine->n_nets], fine->fixed != NULL, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW0(seen, n);
    memset(out->weight, 0, (size_t)n * sizeof *out->weight);
    for (int32_t c = 0; out->fixed != NULL && c < n; c++) {
        out->fixed[c] = -1;
    }
    for (int32_t v = 0; v < fine->n_vertices; v++) {
        const int32_t c = cluster[v];
        if (c < 0) {
            continue;
        }
        out->weight[c] += fine->weight[v];
        if (fine->fixed != NULL && fine->fixed[v] >= 0) {
            out->fixed[c] = fine->fixed[v];
        }
    }
    for (int32_t e = 0; e < fine->n_nets; e++) {
        PLB_TRY(plb_interrupted(2 + plb_pins_of(fine, e)));
        add_net(out, fine->pin + fine->net_start[e], plb_pins_of(fine, e), cluster,
                fine->net_weight[e], e + 1, seen);
    }
    PLB_TRY(merge_nets(out, fine->n_nets, seen, err));
    PLB_TRY(transpose(out, err));
out:
    plb_free(seen);
    if (ret != PLB_OK) {
        plb_hypergraph_free(out);
    }
    return ret;
}

/* ---- clusters ------------------------------------------------------------------------------- */

/* Clustering ignores nets with more pins than this: they take much time and change little. */
enum { LARGE_NET = 400 };

typedef struct clusters {
    const plb_hypergraph_t *hg;
    const int32_t *label;
    int64_t most, *weight; /* most: largest allowed weight of a cluster; weight: of each cluster */
    int32_t *of, *fixed;   /* [n_vertices] of: the vertex whose cluster each vertex has joined, or
                              itself; fixed: fixed part of each cluster, or -1 */
    double *score;         /* how strongly each cluster is connected with the current vertex */
    int32_t *beside, n_beside;
} clusters_t;

static bool may_join(const clusters_t *self, int32_t v, int32_t c)
{
    const plb_hypergraph_t *hg = self->hg;
    if (hg->fixed != NULL && hg->fixed[v] >= 0 && self->fixed[c] >= 0 &&
        hg->fixed[v] != self->fixed[c]) {
        return false;
    }
    return (self->label == NULL || self->label[v] == self->label[c]) &&
           self->weight[c] + hg->weight[v] <= self->most;
}

/* Rate the neighbouring clusters of v; return the number of pins that were visited. */
static int64_t rate(clusters_t *self, int32_t v)
{
    const plb_hypergraph_t *hg = self->hg;
    int64_t visited = 0;
    self->n_beside = 0;
    for (int32_t j = hg->vertex_start[v]; j < hg->vertex_start[v + 1]; j++) {
        const int32_t e = hg->net[j], size = plb_pins_of(hg, e);
        if (size > LARGE_NET) {
            continue;
        }
        const double share = (double)hg->net_weight[e] / (size - 1);
        visited += size;
        for (int32_t i = hg->net_start[e]; i < hg->net_start[e + 1]; i++) {
            const int32_t c = self->of[hg->pin[i]];
            if (self->score[c] == 0.0) {
                self->beside[self->n_beside++] = c;
            }
            self->score[c] += share;
        }
    }
    return visited;
}

/* Return the cluster for which score / (1 + weight) is largest, among those that v may join (ties:
 * the lowest number); v's own cluster if there is none.  Resets the scores to 0. */
static int32_t choose(clusters_t *self, int32_t v)
{
    int32_t best = v;
    double most = 0.0;
    for (int32_t i = 0; i < self->n_beside; i++) {
        const int32_t c = self->beside[i];
        if (c != v && may_join(self, v, c)) {
            const double score = self->score[c] / (1.0 + (double)self->weight[c]);
            if (score > most || (score == most && c < best)) {
                best = c;
                most = score;
            }
        }
        self->score[c] = 0.0;
    }
    return best;
}

static int32_t number(const clusters_t *self, int32_t *cluster)
{
    int32_t n = 0;
    for (int32_t v = 0; v < self->hg->n_vertices; v++) {
        cluster[v] = self->of[v] == v ? n++ : -1;
    }
    for (int32_t v = 0; v < self->hg->n_vertices; v++) {
        cluster[v] = cluster[self->of[v]];
    }
    return n;
}

static void shuffle(int32_t *x, int32_t n, plb_rng_t *rng)
{
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = (int32_t)plb_rng_below(rng, (uint64_t)i + 1), t = x[i];
        x[i] = x[j];
        x[j] = t;
    }
}

int plb_hypergraph_cluster(const plb_hypergraph_t *self, const int32_t *label, int64_t most,
                           plb_rng_t *rng, int32_t *cluster, int32_t *n, plb_err_t *err)
{
    int ret = PLB_OK;
    clusters_t c = {.hg = self, .label = label, .most = most};
    int32_t *order = NULL, *size = NULL;
    PLB_NEW_EACH(self->n_vertices, order, size, c.of, c.fixed, c.weight);
    PLB_NEW0(c.score, self->n_vertices);
    PLB_NEW(c.beside, self->n_vertices);
    for (int32_t v = 0; v < self->n_vertices; v++) {
        order[v] = c.of[v] = v;
        size[v] = 1;
        c.weight[v] = self->weight[v];
        c.fixed[v] = self->fixed == NULL ? -1 : self->fixed[v];
    }
    shuffle(order, self->n_vertices, rng);
    for (int32_t i = 0; i < self->n_vertices; i++) {
        const int32_t v = order[i];
        /* v stays if it has joined another cluster, or another vertex has joined its cluster */
        if (c.of[v] != v || size[v] > 1) {
            continue;
        }
        PLB_TRY(plb_interrupted(32 + rate(&c, v)));
        const int32_t to = choose(&c, v);
        if (to != v) {
            c.of[v] = to;
            size[to]++;
            c.weight[to] += c.weight[v];
            c.fixed[to] = c.fixed[to] >= 0 ? c.fixed[to] : c.fixed[v];
        }
    }
    *n = number(&c, cluster);
out:
    PLB_FREE(order, size, c.of, c.fixed, c.weight, c.score, c.beside);
    return ret;
}

/* ---- connectivity - 1 ----------------------------------------------------------------------- */

int plb_hypergraph_connectivity(const plb_hypergraph_t *self, const int32_t *part, int32_t n_parts,
                                int64_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *seen = NULL;
    PLB_NEW0(seen, n_parts);
    *out = 0;
    for (int32_t e = 0; e < self->n_nets; e++) {
        int64_t parts = 0;
        for (int32_t i = self->net_start[e]; i < self->net_start[e + 1]; i++) {
            parts += seen[part[self->pin[i]]] != e + 1;
            seen[part[self->pin[i]]] = e + 1;
        }
        *out += parts > 1 ? self->net_weight[e] * (parts - 1) : 0;
    }
out:
    plb_free(seen);
    return ret;
}
