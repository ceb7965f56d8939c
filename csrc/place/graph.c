/* The communication graph of a snapshot (plb_parts_graph): for each vertex its neighbours in
 * ascending order, each once, with the sum of the bytes in both directions as weight. */
#include <string.h>

#include "base/mem.h"
#include "partition/partition.h"
#include "place/internal.h"

/* ---- edges that are already sorted by sender ------------------------------------------------ */

enum { LONG_ROW = 64 }; /* longest row that sort_rows sorts, because its time is quadratic */

/* Set start[n + 1], each sender's first edge; return false if edges are not sorted by sender. */
static bool find_rows(const plb_snapshot_t *in, int32_t *start)
{
    int32_t v = -1;
    const int32_t *src = in->edge_src, m = (int32_t)in->n_edges;
    for (int32_t e = 0; e < m; e++) {
        if (src[e] < v) {
            return false;
        }
        while (v < src[e]) {
            start[++v] = e;
        }
    }
    while (v < (int32_t)in->n_objects) {
        start[++v] = m;
    }
    return true;
}

static bool in_order(const int32_t *start, int32_t n, const int32_t *to)
{
    for (int32_t v = 0; v < n; v++) {
        bool good = true;
        for (int32_t e = start[v] + 1; e < start[v + 1]; e++) {
            good &= to[e - 1] < to[e];
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

/* Sort each row (a sender's edges); return false if a row is too long.  Each entry's new index is
 * the number of smaller entries: this avoids the unpredictable branches of compare and swap. */
static bool sort_rows(const int32_t *start, int32_t n, const int32_t *to, const double *bytes,
                      int32_t *sorted, double *sorted_bytes)
{
    for (int32_t v = 0; v < n; v++) {
        const int32_t first = start[v], size = start[v + 1] - first;
        const int32_t *row = to + first;
        if (size > LONG_ROW) {
            return false;
        }
        for (int32_t i = 0; i < size; i++) {
            const int32_t w = row[i];
            int32_t at = first;
            for (int32_t j = 0; j < i; j++) {
                at += row[j] <= w;
            }
            for (int32_t j = i + 1; j < size; j++) {
                at += row[j] < w;
            }
            sorted[at] = w;
            sorted_bytes[at] = bytes[first + i];
        }
    }
    return true;
}

/* Set bytes[] of each edge to the sum over both directions; return false if an edge has no reverse
 * edge, or if there is a loop or a double edge.  In a symmetric graph, row w begins with all v < w
 * that have an edge to w, in ascending order.  The rows v are visited in this order, so entry
 * next[w] is always the reverse edge (w, v). */
static bool add_directions(const int32_t *start, int32_t n, const int32_t *to, int32_t *next,
                           double *bytes)
{
    memcpy(next, start, (size_t)n * sizeof *next);
    for (int32_t v = 0; v < n; v++) {
        /* neighbours must strictly ascend: then there are no loops and no double edges */
        int32_t last = v;
        for (int32_t e = next[v]; e < start[v + 1]; e++) {
            const int32_t w = to[e], other = next[w];
            if (w <= last || other >= start[w + 1] || to[other] != v) {
                return false;
            }
            bytes[e] = bytes[other] = bytes[e] + bytes[other];
            next[w] = other + 1;
            last = w;
        }
    }
    return true;
}

static int set_edge_weights(plb_parts_t *self, const double *bytes, plb_err_t *err)
{
    const int32_t m = self->start[self->question.n_vertices];
    self->per_byte = plb_scale_of(bytes, m);
    PLB_PASS_NEW(self->edge_weight, m);
    for (int32_t i = 0; i < m; i++) {
        self->edge_weight[i] = plb_scaled(bytes[i], self->per_byte, 1);
    }
    self->question.start = self->start;
    self->question.edge_weight = self->edge_weight;
    return PLB_OK;
}

/* Take the snapshot's edges if they are sorted, else a sorted copy; false: neither is possible. */
static bool order_edges(plb_parts_t *self, double *bytes)
{
    const plb_snapshot_t *in = self->problem.in;
    const int32_t n = (int32_t)in->n_objects;
    if (!find_rows(in, self->start)) {
        return false;
    }
    if (in_order(self->start, n, in->edge_dst)) {
        self->question.to = in->edge_dst;
        if (in->n_edges > 0) {
            memcpy(bytes, in->edge_bytes, (size_t)in->n_edges * sizeof *bytes);
        }
        return true;
    }
    self->question.to = self->to = plb_malloc((size_t)in->n_edges, sizeof *self->to);
    return self->to != NULL &&
           sort_rows(self->start, n, in->edge_dst, in->edge_bytes, self->to, bytes);
}

/* Use the snapshot's edges as the graph, if possible; *done: whether it was possible. */
static int take_edges(plb_parts_t *self, bool *done, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *next = NULL;
    double *bytes = NULL;
    const plb_snapshot_t *in = self->problem.in;
    *done = false;
    if (self->problem.object != NULL || in->n_multicasts > 0 || in->n_edges > INT32_MAX) {
        return ret;
    }
    PLB_NEW(next, in->n_objects);
    PLB_NEW(bytes, in->n_edges);
    *done = order_edges(self, bytes) &&
            add_directions(self->start, (int32_t)in->n_objects, self->question.to, next, bytes);
    ret = *done ? set_edge_weights(self, bytes, err) : ret;
out:
    if (!*done) {
        plb_free(self->to);
        self->to = NULL;
    }
    PLB_FREE(next, bytes);
    return ret;
}

/* ---- any edges and multicasts --------------------------------------------------------------- */

typedef void (*pair_fn)(void *arg, int32_t a, int32_t b, double bytes);

/* Call fn for the vertices of two objects, if both have one and these differ.  vertex NULL:
 * objects and vertices have the same numbers. */
static inline void visit(const int32_t *vertex, int32_t src, int32_t dst, double bytes, pair_fn fn,
                         void *arg)
{
    const int32_t a = vertex == NULL ? src : vertex[src], b = vertex == NULL ? dst : vertex[dst];
    if (a >= 0 && b >= 0 && a != b) {
        fn(arg, a, b, bytes);
    }
}

/* Call fn for each edge, and for each receiver of each multicast. */
static inline void each_pair(const plb_parts_t *self, pair_fn fn, void *arg)
{
    const plb_snapshot_t *in = self->problem.in;
    const int32_t *vertex = self->problem.object == NULL ? NULL : self->vertex;
    for (int64_t e = 0; e < in->n_edges; e++) {
        visit(vertex, in->edge_src[e], in->edge_dst[e], in->edge_bytes[e], fn, arg);
    }
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            visit(vertex, in->multicast_src[e], in->multicast_dst[i], in->multicast_bytes[e], fn,
                  arg);
        }
    }
}

typedef struct entry {
    double bytes;
    int32_t to;
} entry_t;

/* The entries of row v are start[v] ... end[v] - 1. */
typedef struct rows {
    int64_t *start, *end; /* [n_vertices + 1] */
    entry_t *entry;
} rows_t;

static void rows_free(rows_t *self)
{
    PLB_FREE(self->start, self->end, self->entry);
}

/* Both directions: `sent` has a row for each sender, `received` a row for each receiver. */
typedef struct both {
    rows_t sent, received;
} both_t;

static inline void put(rows_t *self, int32_t v, int32_t to, double bytes)
{
    self->entry[self->end[v]++] = (entry_t){bytes, to};
}

static void count_pair(void *arg, int32_t a, int32_t b, double bytes)
{
    (void)bytes;
    both_t *both = arg;
    both->sent.start[a + 1]++;
    both->received.start[b + 1]++;
}

static void put_received(void *arg, int32_t a, int32_t b, double bytes)
{
    put(&((both_t *)arg)->received, b, a, bytes);
}

/* Begin empty rows, with space for the numbers of entries that were counted in `start`. */
static int rows_begin(rows_t *self, int32_t n, plb_err_t *err)
{
    for (int32_t v = 0; v < n; v++) {
        self->start[v + 1] += self->start[v];
    }
    PLB_PASS_NEW(self->end, n + 1);
    PLB_PASS_NEW(self->entry, self->start[n]);
    memcpy(self->end, self->start, (size_t)(n + 1) * sizeof *self->end);
    return PLB_OK;
}

/* Transpose the rows: put each entry of row v into the row of its vertex `to`.  The entries of a
 * new row come in ascending order; entries of the same vertex are merged. */
static void transpose(const rows_t *from, int32_t n, rows_t *out)
{
    memcpy(out->end, out->start, (size_t)(n + 1) * sizeof *out->end);
    for (int32_t v = 0; v < n; v++) {
        for (int64_t i = from->start[v]; i < from->end[v]; i++) {
            const entry_t *e = &from->entry[i];
            const int64_t last = out->end[e->to] - 1;
            if (last >= out->start[e->to] && out->entry[last].to == v) {
                out->entry[last].bytes += e->bytes;
            } else {
                put(out, e->to, v, e->bytes);
            }
        }
    }
}

/* Merge the sorted rows v of both directions into to[] and bytes[]; return the new length. */
static int32_t merge(const both_t *both, int32_t v, int32_t *to, double *bytes)
{
    int32_t m = 0;
    const entry_t *a = both->sent.entry + both->sent.start[v];
    const entry_t *b = both->received.entry + both->received.start[v];
    const entry_t *a_end = both->sent.entry + both->sent.end[v];
    const entry_t *b_end = both->received.entry + both->received.end[v];
    while (a < a_end || b < b_end) {
        if (a < a_end && b < b_end && a->to == b->to) {
            to[m] = a->to;
            bytes[m++] = a++->bytes + b++->bytes;
        } else {
            const entry_t *e = b == b_end || (a < a_end && a->to < b->to) ? a++ : b++;
            to[m] = e->to;
            bytes[m++] = e->bytes;
        }
    }
    return m;
}

/* Make sorted rows of both directions: transposed rows are sorted. */
static int sort_pairs(const plb_parts_t *self, both_t *both, plb_err_t *err)
{
    const int32_t n = self->question.n_vertices;
    PLB_PASS_NEW0_EACH(n + 1, both->sent.start, both->received.start);
    each_pair(self, count_pair, both);
    PLB_PASS(rows_begin(&both->sent, n, err));
    PLB_PASS(rows_begin(&both->received, n, err));
    each_pair(self, put_received, both);
    transpose(&both->received, n, &both->sent);
    transpose(&both->sent, n, &both->received);
    return PLB_OK;
}

static int merge_pairs(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    both_t both = {0};
    double *bytes = NULL;
    const int32_t n = self->question.n_vertices;
    PLB_TRY(sort_pairs(self, &both, err));
    const int64_t most = 2 * both.sent.start[n];
    if (most > INT32_MAX) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE,
                       "the edges between objects have %lld ends: expected fewer than 2^31",
                       (long long)most);
        goto out;
    }
    PLB_NEW_EACH(most, self->to, bytes);
    self->start[0] = 0;
    for (int32_t v = 0; v < n; v++) {
        const int32_t at = self->start[v];
        self->start[v + 1] = at + merge(&both, v, self->to + at, bytes + at);
    }
    self->question.to = self->to;
    ret = set_edge_weights(self, bytes, err);
out:
    rows_free(&both.sent);
    rows_free(&both.received);
    plb_free(bytes);
    return ret;
}

int plb_parts_graph(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    bool done;
    PLB_NEW(self->start, self->question.n_vertices + 1);
    ret = take_edges(self, &done, err);
    ret = ret == PLB_OK && !done ? merge_pairs(self, err) : ret;
out:
    return ret;
}

/* ---- hypergraph ----------------------------------------------------------------------------- */

/* The hypergraph of a snapshot (plb_parts_nets): a net for each multicast and each edge. */

/* Add an object as pin `at`, unless the net has it or it is no vertex.  Return the next index. */
static int32_t add_pin(plb_parts_t *self, int32_t object, int32_t stamp, int32_t *seen, int32_t at)
{
    const int32_t v = self->vertex[object];
    if (v >= 0 && seen[v] != stamp) {
        seen[v] = stamp;
        self->pin[at++] = v;
    }
    return at;
}

/* Make a net of the pins since the previous net, up to index `at`, if there are at least two. */
static void end_net(plb_parts_t *self, int32_t *n_nets, int32_t at, double bytes, double *weight)
{
    if (at - self->net_start[*n_nets] > 1) {
        weight[(*n_nets)++] = bytes;
        self->net_start[*n_nets] = at;
    }
}

static int32_t fill_nets(plb_parts_t *self, int32_t *seen, double *weight)
{
    const plb_snapshot_t *in = self->problem.in;
    int32_t n = 0, stamp = 0;
    self->net_start[0] = 0;
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        int32_t at = add_pin(self, in->multicast_src[e], ++stamp, seen, self->net_start[n]);
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            at = add_pin(self, in->multicast_dst[i], stamp, seen, at);
        }
        end_net(self, &n, at, in->multicast_bytes[e], weight);
    }
    for (int64_t e = 0; e < in->n_edges; e++) {
        int32_t at = add_pin(self, in->edge_src[e], ++stamp, seen, self->net_start[n]);
        at = add_pin(self, in->edge_dst[e], stamp, seen, at);
        end_net(self, &n, at, in->edge_bytes[e], weight);
    }
    return n;
}

int plb_parts_nets(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *seen = NULL;
    double *weight = NULL;
    const plb_snapshot_t *in = self->problem.in;
    const int64_t nets = in->n_multicasts + in->n_edges;
    const int64_t pins = in->n_multicasts + in->n_pins + 2 * in->n_edges;
    PLB_FAIL_IF(pins > INT32_MAX - 1, err, PLB_ERR_VALUE,
                "the edges and multicasts have %lld pins: expected fewer than 2^31 - 1",
                (long long)pins);
    PLB_NEW(self->net_start, nets + 1);
    PLB_NEW(self->pin, pins);
    PLB_NEW_EACH(nets, self->net_weight, weight);
    PLB_NEW0(seen, self->question.n_vertices);
    const int32_t n = fill_nets(self, seen, weight);
    self->per_byte = plb_scale_of(weight, n);
    for (int32_t e = 0; e < n; e++) {
        self->net_weight[e] = plb_scaled(weight[e], self->per_byte, 1);
    }
    self->question.n_nets = n;
    self->question.net_start = self->net_start;
    self->question.pin = self->pin;
    self->question.net_weight = self->net_weight;
out:
    PLB_FREE(seen, weight);
    return ret;
}
