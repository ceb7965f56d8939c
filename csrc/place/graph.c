/* The communication graph of a snapshot (plb_parts_graph): for each vertex its neighbours in
 * ascending order, each once, with the sum of the bytes in both directions as weight. */
#include <string.h>

#include "base/mem.h"
#include "partition/partition.h"
#include "place/internal.h"

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
    (void)messages;
    if (a < 0 || b < 0 || a == b) {
        return;
    }
    const int64_t i = self->next[a]++, j = self->next[b]++;
    if (self->entry != NULL) {
        self->entry[i] = (entry_t){bytes, b};
        self->entry[j] = (entry_t){bytes, a};
    }
}

/* Transpose the rows, whose matrix is symmetric: that sorts them.  Entries of the same vertex are
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
