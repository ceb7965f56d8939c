#include "whatif/pairing.h"

#include <string.h>

#include "base/mem.h"
#include "whatif/ops_check.h"

/* A channel: messages in it are received in the order in which they were sent. */
typedef struct channel {
    int32_t source, target, comm, tag;
    int64_t number; /* -1: this place of the table is free */
} channel_t;

typedef struct channels {
    channel_t *at;
    uint64_t mask;
    int64_t n;
} channels_t;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t place_of(const channel_t *c)
{
    const uint64_t ends = (uint64_t)(uint32_t)c->source << 32 | (uint32_t)c->target;
    const uint64_t what = (uint64_t)(uint32_t)c->comm << 32 | (uint32_t)c->tag;
    return mix(ends + mix(what));
}

static bool same(const channel_t *a, const channel_t *b)
{
    return a->source == b->source && a->target == b->target && a->comm == b->comm &&
           a->tag == b->tag;
}

/* Where the channel is, or would be. */
static channel_t *look(const channels_t *table, const channel_t *wanted)
{
    uint64_t i = place_of(wanted) & table->mask;
    while (table->at[i].number >= 0 && !same(&table->at[i], wanted)) {
        i = (i + 1) & table->mask;
    }
    return &table->at[i];
}

static int table_of(channels_t *table, uint64_t size, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_NEW(table->at, size);
    table->mask = size - 1;
    for (uint64_t i = 0; i < size; i++) {
        table->at[i].number = -1;
    }
out:
    return ret;
}

static int grow(channels_t *table, plb_err_t *err)
{
    channels_t larger = {NULL, 0, table->n};
    const int ret = table_of(&larger, 2 * (table->mask + 1), err);
    if (ret != PLB_OK) {
        return ret;
    }
    for (uint64_t i = 0; i <= table->mask; i++) {
        if (table->at[i].number >= 0) {
            *look(&larger, &table->at[i]) = table->at[i];
        }
    }
    plb_free(table->at);
    *table = larger;
    return PLB_OK;
}

/* Number of the channel, a new one where there is none yet; negative: an error. */
static int64_t number_of(channels_t *table, channel_t wanted, plb_err_t *err)
{
    channel_t *at = look(table, &wanted);
    if (at->number < 0) {
        if (2 * (uint64_t)(table->n + 1) > table->mask) {
            const int ret = grow(table, err);
            if (ret != PLB_OK) {
                return ret;
            }
            at = look(table, &wanted);
        }
        *at = wanted;
        at->number = table->n++;
    }
    return at->number;
}

static int count(const plb_streams_t *s, plb_pairing_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    PLB_NEW0(out->send_start, s->n_ranks + 1);
    PLB_NEW0(out->receive_start, s->n_ranks + 1);
    PLB_NEW0(out->requests, s->n_ranks);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int64_t sends = 0, receives = 0;
        for (int64_t i = 0; i < s->n[r]; i++) {
            const plb_op_t *op = &s->op[r][i];
            PLB_TRY(plb_op_check(op, r, i, s->n_ranks, &s->comms, err));
            sends += plb_op_is_send(op);
            receives += plb_op_is_receive(op);
            if (plb_op_has_request(op) && op->request >= out->requests[r]) {
                out->requests[r] = op->request + 1;
            }
        }
        out->send_start[r + 1] = out->send_start[r] + sends;
        out->receive_start[r + 1] = out->receive_start[r] + receives;
    }
out:
    return ret;
}

/* Channel of each send, and what each receive turned out to take: a wildcard that was resolved
 * when the receive was complete is told by its WAIT. */
static int look_through(const plb_streams_t *s, const plb_pairing_t *p, channels_t *table,
                        int64_t *channel, channel_t *wanted, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *pending = NULL;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int64_t send = p->send_start[r], receive = p->receive_start[r];
        plb_free(pending);
        PLB_NEW(pending, p->requests[r]);
        memset(pending, -1, (size_t)p->requests[r] * sizeof *pending);
        for (int64_t i = 0; i < s->n[r]; i++) {
            const plb_op_t *op = &s->op[r][i];
            if (plb_op_is_send(op)) {
                const channel_t c = {r, op->peer, op->comm, op->tag, 0};
                if ((channel[send++] = number_of(table, c, err)) < 0) {
                    ret = PLB_ERR_NOMEM;
                    goto out;
                }
            } else if (plb_op_is_receive(op)) {
                wanted[receive] = (channel_t){op->peer, r, op->comm, op->tag, op->flags};
            }
            if (op->kind == PLB_OP_IRECV) {
                pending[op->request] = receive;
            } else if (op->kind == PLB_OP_ISEND || op->kind == PLB_OP_ICOLL) {
                pending[op->request] = -1;
            } else if (op->kind == PLB_OP_WAIT && pending[op->request] >= 0) {
                channel_t *w = &wanted[pending[op->request]];
                w->source = op->flags & PLB_OP_CANCELLED    ? -1
                            : w->number & PLB_OP_ANY_SOURCE ? op->peer
                                                            : w->source;
                w->tag = w->number & PLB_OP_ANY_TAG ? op->tag : w->tag;
                pending[op->request] = -1;
            }
            receive += plb_op_is_receive(op);
        }
    }
out:
    plb_free(pending);
    return ret;
}

/* The k-th receive of a channel takes its k-th send. */
static int pair(plb_pairing_t *p, const channels_t *table, const int64_t *channel,
                const channel_t *wanted, int64_t sends, int64_t receives, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *start = NULL, *order = NULL, *end = NULL;
    PLB_NEW0(start, table->n + 2);
    PLB_NEW(order, sends);
    for (int64_t i = 0; i < sends; i++) {
        start[channel[i] + 2]++;
    }
    for (int64_t c = 0; c < table->n; c++) {
        start[c + 2] += start[c + 1];
    }
    for (int64_t i = 0; i < sends; i++) {
        order[start[channel[i] + 1]++] = i;
    }
    /* start[c + 1] is the end of channel c now, start[c] its beginning. */
    int64_t *next = start;
    PLB_NEW(end, table->n);
    memcpy(end, start + 1, (size_t)table->n * sizeof *end);
    p->unreceived = sends;
    for (int64_t i = 0; i < receives; i++) {
        const int64_t c = wanted[i].source < 0 ? -1 : look(table, &wanted[i])->number;
        const bool found = c >= 0 && next[c] < end[c];
        p->send_of[i] = found ? order[next[c]++] : -1;
        p->unreceived -= found;
        p->unsent += !found;
    }
out:
    PLB_FREE(start, order, end);
    return ret;
}

int plb_pairing_make(const plb_streams_t *streams, plb_pairing_t *out, plb_err_t *err)
{
    int64_t *channel = NULL;
    channel_t *wanted = NULL;
    channels_t table = {NULL, 0, 0};
    memset(out, 0, sizeof *out);
    int ret = count(streams, out, err);
    if (ret != PLB_OK) {
        return ret;
    }
    const int64_t sends = out->send_start[streams->n_ranks];
    const int64_t receives = out->receive_start[streams->n_ranks];
    PLB_NEW(out->send_of, receives);
    PLB_NEW(channel, sends);
    PLB_NEW(wanted, receives);
    if ((ret = table_of(&table, 64, err)) == PLB_OK &&
        (ret = look_through(streams, out, &table, channel, wanted, err)) == PLB_OK) {
        ret = pair(out, &table, channel, wanted, sends, receives, err);
    }
out:
    PLB_FREE(table.at, channel, wanted);
    return ret;
}

void plb_pairing_free(plb_pairing_t *self)
{
    PLB_FREE(self->send_start, self->receive_start, self->send_of, self->requests);
}
