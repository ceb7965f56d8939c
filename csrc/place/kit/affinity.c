#include "place/kit/affinity.h"

#include <stdbool.h>

#include "base/interrupt.h"
#include "base/mem.h"

/* The position in a loop over the edges, then over the receivers of each multicast. */
typedef struct walk {
    const plb_snapshot_t *in;
    double alpha, beta;
    int64_t edge, multicast, pin;
    int32_t from, to;
    double cost;
} walk_t;

static double cost_of(const walk_t *self, const double *bytes, const double *messages, int64_t e)
{
    return self->alpha * (messages == NULL ? 1.0 : messages[e]) + self->beta * bytes[e];
}

static bool next(walk_t *self)
{
    const plb_snapshot_t *in = self->in;
    if (self->edge < in->n_edges) {
        const int64_t e = self->edge++;
        self->from = in->edge_src[e];
        self->to = in->edge_dst[e];
        self->cost = cost_of(self, in->edge_bytes, in->edge_messages, e);
        return true;
    }
    while (self->multicast < in->n_multicasts &&
           self->pin == in->multicast_start[self->multicast + 1]) {
        self->multicast++;
    }
    if (self->multicast == in->n_multicasts) {
        return false;
    }
    self->from = in->multicast_src[self->multicast];
    self->to = in->multicast_dst[self->pin++];
    self->cost = cost_of(self, in->multicast_bytes, in->multicast_messages, self->multicast);
    return true;
}

static void count(plb_affinity_t *self, walk_t walk, const int32_t *rank, const uint8_t *wanted)
{
    while (next(&walk)) {
        if (walk.from != walk.to) {
            self->start[walk.from] += wanted[rank[walk.from]];
            self->start[walk.to] += wanted[rank[walk.to]];
        }
    }
    int64_t sum = 0;
    /* start[i] becomes the end of the entries of object i; enter() moves it to their beginning */
    for (int64_t i = 0; i <= walk.in->n_objects; i++) {
        sum += self->start[i];
        self->start[i] = sum;
    }
}

static void enter(plb_affinity_t *self, int32_t i, int32_t other, double sent, double received)
{
    const int64_t k = --self->start[i];
    self->other[k] = other;
    self->sent[k] = sent;
    self->received[k] = received;
}

int plb_affinity_init(plb_affinity_t *self, const plb_snapshot_t *in, const int32_t *rank,
                      const uint8_t *wanted, double alpha, double beta, plb_err_t *err)
{
    const walk_t begin = {.in = in, .alpha = alpha, .beta = beta};
    *self = (plb_affinity_t){0};
    PLB_PASS_NEW0(self->start, in->n_objects + 1);
    count(self, begin, rank, wanted);
    const int64_t entries = self->start[in->n_objects];
    PLB_PASS_NEW_EACH(entries, self->other, self->sent, self->received);
    for (walk_t walk = begin; next(&walk);) {
        PLB_PASS(plb_interrupted(4));
        if (walk.from == walk.to) {
            continue;
        }
        if (wanted[rank[walk.from]]) {
            enter(self, walk.from, walk.to, walk.cost, 0.0);
        }
        if (wanted[rank[walk.to]]) {
            enter(self, walk.to, walk.from, 0.0, walk.cost);
        }
    }
    return PLB_OK;
}

void plb_affinity_free(plb_affinity_t *self)
{
    PLB_FREE(self->start, self->other, self->sent, self->received);
    *self = (plb_affinity_t){0};
}

void plb_affinity_of_ranks(const plb_snapshot_t *in, const int32_t *rank, double alpha,
                           double beta, double *comm)
{
    for (walk_t walk = {.in = in, .alpha = alpha, .beta = beta}; next(&walk);) {
        if (rank[walk.from] != rank[walk.to]) {
            comm[rank[walk.from]] += walk.cost;
        }
    }
}
