#include "measure/measure.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

typedef struct work {
    const plb_snapshot_t *in;
    plb_evaluation_t *out;
    double *between; /* where bytes between ranks are added: out->cut or out->connectivity */
    /* [n] the deliveries between ranks */
    int32_t *src, *dst;
    double *bytes;
    int64_t n;
} work_t;

static inline int32_t node_of(const plb_snapshot_t *in, int32_t r)
{
    return in->node == NULL ? r : in->node[r];
}

static void add(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    work_t *self = arg;
    plb_evaluation_t *out = self->out;
    if (src == dst) {
        out->bytes_local += bytes;
        out->messages_local += messages;
        return;
    }
    *self->between += bytes;
    if (node_of(self->in, src) == node_of(self->in, dst)) {
        out->bytes_node += bytes;
        out->messages_node += messages;
    } else {
        out->bytes_network += bytes;
        out->messages_network += messages;
    }
    self->src[self->n] = src;
    self->dst[self->n] = dst;
    self->bytes[self->n++] = bytes;
}

/* sent, received: the deliveries by rank; mark[p], pair[p]: scratch memory. */
static void add_rank(const work_t *self, int32_t r, const plb_groups_t *sent,
                     const plb_groups_t *received, int32_t *mark, double *pair)
{
    plb_evaluation_t *out = self->out;
    int64_t neighbours = 0;
    double all = 0.0;
    for (int64_t i = sent->start[r]; i < sent->start[r + 1]; i++) {
        const int32_t o = self->dst[sent->item[i]];
        neighbours += mark[o] != r;
        pair[o] = (mark[o] == r ? pair[o] : 0.0) + self->bytes[sent->item[i]];
        mark[o] = r;
        all += self->bytes[sent->item[i]];
    }
    out->sent_max = fmax(out->sent_max, all);
    for (int64_t i = sent->start[r]; i < sent->start[r + 1]; i++) {
        const int32_t o = self->dst[sent->item[i]]; /* ties: lowest sender, lowest receiver */
        if (out->link_src < 0 || pair[o] > out->link_max ||
            (pair[o] == out->link_max && out->link_src == r && o < out->link_dst)) {
            out->link_max = pair[o];
            out->link_src = r;
            out->link_dst = o;
        }
    }
    all = 0.0;
    for (int64_t i = received->start[r]; i < received->start[r + 1]; i++) {
        const int32_t o = self->src[received->item[i]];
        neighbours += mark[o] != r;
        mark[o] = r;
        all += self->bytes[received->item[i]];
    }
    out->received_max = fmax(out->received_max, all);
    out->neighbours_mean += (double)neighbours / self->in->n_ranks;
    out->neighbours_max = neighbours > out->neighbours_max ? neighbours : out->neighbours_max;
}

static int messages(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = in->n_ranks;
    work_t self = {.in = in, .out = out, .between = &out->cut};
    plb_groups_t sent = {0}, received = {0};
    int32_t *mark = NULL;
    int64_t *seen = NULL;
    double *pair = NULL;
    PLB_NEW_EACH(p, mark, seen, pair);
    PLB_NEW_EACH(in->n_edges + in->n_pins, self.src, self.dst, self.bytes); /* enough for all */
    memset(mark, 0xff, (size_t)p * sizeof *mark);
    plb_each_edge(in, rank, add, &self);
    self.between = &out->connectivity;
    plb_each_multicast(in, rank, seen, add, &self);
    if (self.n > INT32_MAX) {
        ret = PLB_FAIL(err, PLB_ERR_RANGE, "%lld messages between ranks: expected fewer than 2^31",
                       (long long)self.n);
        goto out;
    }
    PLB_TRY(plb_groups_init(&sent, self.src, self.n, p, err));
    PLB_TRY(plb_groups_init(&received, self.dst, self.n, p, err));
    for (int32_t r = 0; r < p; r++) {
        add_rank(&self, r, &sent, &received, mark, pair);
    }
out:
    plb_groups_free(&sent);
    plb_groups_free(&received);
    PLB_FREE(mark, seen, pair, self.src, self.dst, self.bytes);
    return ret;
}

int plb_evaluate(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                 plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *held = NULL, *of_node = NULL;
    *out = (plb_evaluation_t){.link_src = -1, .link_dst = -1};
    rank = rank == NULL ? in->rank : rank;
    PLB_PASS(plb_snapshot_check_placement(in, rank, err));
    PLB_PASS(messages(in, rank, out, err));
    PLB_NEW_EACH(in->n_ranks, held, of_node);
    PLB_TRY(plb_snapshot_held(in, rank, held, of_node, NULL, err));
    for (int32_t r = 0; r < in->n_ranks; r++) {
        out->memory_max = held[r] > out->memory_max ? held[r] : out->memory_max;
    }
    for (int64_t i = 0; i < in->n_objects; i++) {
        if (rank[i] != in->rank[i]) {
            out->migrations++;
            out->migration_bytes += in->nbytes == NULL ? 0 : in->nbytes[i];
        }
    }
    out->hop_bytes = 2.0 * out->bytes_node + 4.0 * out->bytes_network;
out:
    PLB_FREE(held, of_node);
    return ret;
}
