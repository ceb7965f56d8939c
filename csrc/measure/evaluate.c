#include "measure/measure.h"

#include <string.h>

#include "base/csr.h"
#include "base/mem.h"

typedef struct work {
    const plb_snapshot_t *in;
    const int32_t *rank;
    plb_evaluation_t *out;
    double *between; /* where bytes between ranks are added: out->cut or out->connectivity */
    int64_t *out_start, *in_start; /* [p + 1] where each rank begins: in `to`, and in `from` */
    int64_t *out_next, *in_next;   /* [p] where the next delivery is written in `to` and `from` */
    int32_t *to, *from; /* [deliveries between ranks] to: the receivers, sorted by sender; from:
                           the senders, sorted by receiver */
    double *bytes;      /* [deliveries between ranks] bytes, in the order of `to` */
    double *received;   /* [p] bytes that each rank receives */
    double *pair;       /* [p] bytes from the present sender to each rank */
    int64_t *mark;      /* [p] scratch memory */
} work_t;

/* Call `fn` for every delivery, also within a rank, always in the same order. */
static inline void deliveries(work_t *self, plb_delivery_fn fn)
{
    self->between = &self->out->cut;
    plb_each_edge(self->in, self->rank, fn, self);
    self->between = &self->out->connectivity;
    plb_each_multicast(self->in, self->rank, self->mark, fn, self);
}

static inline int32_t node_of(const plb_snapshot_t *in, int32_t r)
{
    return in->node == NULL ? r : in->node[r];
}

static void count(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    work_t *self = arg;
    plb_evaluation_t *out = self->out;
    if (src == dst) {
        out->bytes_local += bytes;
        out->messages_local += messages;
        return;
    }
    self->out_start[src + 1]++;
    self->in_start[dst + 1]++;
    self->received[dst] += bytes;
    *self->between += bytes;
    if (node_of(self->in, src) == node_of(self->in, dst)) {
        out->bytes_node += bytes;
        out->messages_node += messages;
    } else {
        out->bytes_network += bytes;
        out->messages_network += messages;
    }
}

static void fill(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    work_t *self = arg;
    (void)messages;
    if (src != dst) {
        const int64_t i = self->out_next[src]++;
        self->to[i] = dst;
        self->bytes[i] = bytes;
        self->from[self->in_next[dst]++] = src;
    }
}

static void add_rank(work_t *self, int32_t r)
{
    plb_evaluation_t *out = self->out;
    const int64_t begin = self->out_start[r], end = self->out_start[r + 1];
    int64_t neighbours = 0;
    double sent = 0.0;
    for (int64_t i = begin; i < end; i++) {
        const int32_t o = self->to[i];
        if (self->mark[o] != r) {
            self->mark[o] = r;
            self->pair[o] = 0.0;
            neighbours++;
        }
        self->pair[o] += self->bytes[i];
        sent += self->bytes[i];
    }
    for (int64_t i = begin; i < end; i++) { /* ties: lowest sender, lowest receiver */
        const int32_t o = self->to[i];
        const double bytes = self->pair[o];
        if (out->link_src < 0 || bytes > out->link_max ||
            (bytes == out->link_max && out->link_src == r && o < out->link_dst)) {
            out->link_max = bytes;
            out->link_src = r;
            out->link_dst = o;
        }
    }
    for (int64_t i = self->in_start[r]; i < self->in_start[r + 1]; i++) {
        neighbours += self->mark[self->from[i]] != r;
        self->mark[self->from[i]] = r;
    }
    out->sent_max = sent > out->sent_max ? sent : out->sent_max;
    out->received_max =
        self->received[r] > out->received_max ? self->received[r] : out->received_max;
    out->neighbours_mean += (double)neighbours / self->in->n_ranks;
    out->neighbours_max = neighbours > out->neighbours_max ? neighbours : out->neighbours_max;
}

static void free_work(work_t *self)
{
    PLB_FREE(self->out_start, self->in_start, self->out_next, self->in_next, self->to, self->from,
             self->bytes, self->received, self->pair, self->mark);
}

static void add_up(int64_t *start, int64_t *next, int32_t p)
{
    for (int32_t r = 0; r < p; r++) {
        start[r + 1] += start[r];
        next[r] = start[r];
    }
}

static int messages(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = in->n_ranks;
    work_t self = {.in = in, .rank = rank, .out = out};
    PLB_NEW0_EACH((int64_t)p + 1, self.out_start, self.in_start);
    PLB_NEW_EACH(p, self.out_next, self.in_next);
    PLB_NEW0(self.received, p);
    PLB_NEW_EACH(p, self.pair, self.mark);
    deliveries(&self, count);
    add_up(self.out_start, self.out_next, p);
    add_up(self.in_start, self.in_next, p);
    PLB_NEW_EACH(self.out_start[p], self.to, self.bytes);
    PLB_NEW(self.from, self.in_start[p]);
    deliveries(&self, fill);
    memset(self.mark, 0xff, (size_t)p * sizeof *self.mark);
    for (int32_t r = 0; r < p; r++) {
        add_rank(&self, r);
    }
out:
    free_work(&self);
    return ret;
}

/* Add the shared blocks to the memory that each rank uses, each block once per rank. */
static int blocks(const plb_snapshot_t *in, const int32_t *rank, int64_t *used, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_groups_t on = {0}; /* objects by rank */
    int32_t *holder = NULL;
    PLB_TRY(plb_groups_init(&on, rank, in->n_objects, in->n_ranks, err));
    PLB_NEW(holder, in->n_blocks);
    memset(holder, 0xff, (size_t)in->n_blocks * sizeof *holder);
    for (int64_t j = 0; j < in->n_objects; j++) {
        const int32_t r = rank[on.item[j]], b = in->block[on.item[j]];
        if (b >= 0 && holder[b] != r) {
            holder[b] = r;
            used[r] += in->block_bytes[b];
        }
    }
out:
    plb_groups_free(&on);
    plb_free(holder);
    return ret;
}

static int memory(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                  plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *used = NULL;
    PLB_NEW0(used, in->n_ranks);
    for (int64_t i = 0; in->memory != NULL && i < in->n_objects; i++) {
        used[rank[i]] += in->memory[i];
    }
    ret = in->block != NULL ? blocks(in, rank, used, err) : PLB_OK;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        out->memory_max = used[r] > out->memory_max ? used[r] : out->memory_max;
    }
out:
    plb_free(used);
    return ret;
}

static void moves(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out)
{
    for (int64_t i = 0; i < in->n_objects; i++) {
        if (rank[i] != in->rank[i]) {
            out->migrations++;
            out->migration_bytes += in->nbytes == NULL ? 0 : in->nbytes[i];
        }
    }
}

int plb_evaluate(const plb_snapshot_t *in, const int32_t *rank, plb_evaluation_t *out,
                 plb_err_t *err)
{
    *out = (plb_evaluation_t){.link_src = -1, .link_dst = -1};
    rank = rank == NULL ? in->rank : rank;
    PLB_PASS(plb_snapshot_check_placement(in, rank, err));
    PLB_PASS(messages(in, rank, out, err));
    PLB_PASS(memory(in, rank, out, err));
    moves(in, rank, out);
    out->hop_bytes = 2.0 * out->bytes_node + 4.0 * out->bytes_network;
    return PLB_OK;
}
