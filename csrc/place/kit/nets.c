/* The hypergraph of a snapshot (plb_parts_nets): a net for each multicast and each edge. */
#include "base/mem.h"
#include "partition/partition.h"
#include "place/kit/parts.h"

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
