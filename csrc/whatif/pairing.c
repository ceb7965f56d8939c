#include "whatif/whatif.h"

#include <string.h>

#include "base/csr.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/mem.h"

/* A channel: the messages with the same sender, receiver, communicator and tag. */
typedef struct channel {
    int32_t source, target, comm, tag;
} channel_t;

typedef struct channels {
    /* ends: numbers of the pairs (source, target); what: numbers of the pairs (communicator, tag);
     * both: numbers of the channels, which are pairs of these two numbers */
    plb_keys_t ends, what, both;
} channels_t;

static int64_t join(int32_t a, int32_t b)
{
    return (int64_t)((uint64_t)(uint32_t)a << 32 | (uint32_t)b);
}

static int add_channel(channels_t *self, const channel_t *c, int32_t *number, plb_err_t *err)
{
    int32_t ends, what;
    PLB_PASS(plb_keys_add(&self->ends, join(c->source, c->target), &ends, err));
    PLB_PASS(plb_keys_add(&self->what, join(c->comm, c->tag), &what, err));
    return plb_keys_add(&self->both, join(ends, what), number, err);
}

static int32_t find_channel(const channels_t *self, const channel_t *c)
{
    const int32_t ends = plb_keys_find(&self->ends, join(c->source, c->target));
    const int32_t what = plb_keys_find(&self->what, join(c->comm, c->tag));
    return ends < 0 || what < 0 ? -1 : plb_keys_find(&self->both, join(ends, what));
}

/* The channel of a receive's message, as far as the operations so far determine it. */
typedef struct wanted {
    channel_t channel;
    uint8_t flags; /* flags of the receive's operation */
} wanted_t;

static int count(const plb_streams_t *s, plb_pairing_t *out, plb_err_t *err)
{
    PLB_PASS_NEW0(out->send_start, s->n_ranks + 1);
    PLB_PASS_NEW0(out->receive_start, s->n_ranks + 1);
    PLB_PASS_NEW0(out->requests, s->n_ranks);
    for (int32_t r = 0; r < s->n_ranks; r++) {
        int64_t sends = 0, receives = 0;
        for (int64_t i = 0; i < s->n[r]; i++) {
            const plb_op_t *op = &s->op[r][i];
            PLB_PASS(plb_interrupted(4));
            PLB_PASS(plb_op_check(op, r, i, s->n_ranks, &s->comms, err));
            sends += plb_op_is_send(op);
            receives += plb_op_is_receive(op);
            if (plb_op_has_request(op) && op->request >= out->requests[r]) {
                out->requests[r] = op->request + 1;
            }
        }
        out->send_start[r + 1] = out->send_start[r] + sends;
        out->receive_start[r + 1] = out->receive_start[r] + receives;
    }
    return PLB_OK;
}

/* Find the channel of each send and of each receive.  If a nonblocking receive has a wildcard, its
 * WAIT has the source or the tag. */
static int find_channels(const plb_streams_t *s, const plb_pairing_t *p, channels_t *table,
                         int32_t *channel, wanted_t *wanted, plb_err_t *err)
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
            PLB_TRY(plb_interrupted(8));
            if (plb_op_is_send(op)) {
                const channel_t c = {r, op->peer, op->comm, op->tag};
                PLB_TRY(add_channel(table, &c, &channel[send++], err));
            } else if (plb_op_is_receive(op)) {
                wanted[receive] = (wanted_t){{op->peer, r, op->comm, op->tag}, op->flags};
            }
            if (op->kind == PLB_OP_IRECV) {
                pending[op->request] = receive;
            } else if (op->kind == PLB_OP_ISEND || op->kind == PLB_OP_ICOLL) {
                pending[op->request] = -1;
            } else if (op->kind == PLB_OP_WAIT && pending[op->request] >= 0) {
                const uint8_t flags = wanted[pending[op->request]].flags;
                channel_t *c = &wanted[pending[op->request]].channel;
                c->source = op->flags & PLB_OP_CANCELLED ? -1
                            : flags & PLB_OP_ANY_SOURCE  ? op->peer
                                                         : c->source;
                c->tag = flags & PLB_OP_ANY_TAG ? op->tag : c->tag;
                pending[op->request] = -1;
            }
            receive += plb_op_is_receive(op);
        }
    }
out:
    plb_free(pending);
    return ret;
}

static int pair(plb_pairing_t *p, const channels_t *table, const int32_t *channel,
                const wanted_t *wanted, int64_t sends, int64_t receives, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_groups_t sent = {0};
    int64_t *taken = NULL; /* number of sends of each channel that are paired already */
    PLB_NEW0(taken, table->both.n);
    PLB_TRY(plb_groups_init(&sent, channel, sends, (int32_t)table->both.n, err));
    p->unreceived = sends;
    for (int64_t i = 0; i < receives; i++) {
        PLB_TRY(plb_interrupted(16));
        const channel_t *its = &wanted[i].channel;
        const int32_t c = its->source < 0 ? -1 : find_channel(table, its);
        const bool found = c >= 0 && sent.start[c] + taken[c] < sent.start[c + 1];
        p->send_of[i] = found ? sent.item[sent.start[c] + taken[c]++] : -1;
        p->unreceived -= found;
        p->unsent += !found;
    }
out:
    plb_groups_free(&sent);
    plb_free(taken);
    return ret;
}

int plb_pairing_make(const plb_streams_t *streams, plb_pairing_t *out, plb_err_t *err)
{
    int32_t *channel = NULL;
    wanted_t *wanted = NULL;
    channels_t table = {0};
    memset(out, 0, sizeof *out);
    int ret;
    PLB_TRY(count(streams, out, err));
    const int64_t sends = out->send_start[streams->n_ranks];
    const int64_t receives = out->receive_start[streams->n_ranks];
    PLB_NEW(out->send_of, receives);
    PLB_NEW(channel, sends);
    PLB_NEW(wanted, receives);
    PLB_TRY(find_channels(streams, out, &table, channel, wanted, err));
    PLB_TRY(pair(out, &table, channel, wanted, sends, receives, err));
out:
    plb_keys_free(&table.ends);
    plb_keys_free(&table.what);
    plb_keys_free(&table.both);
    PLB_FREE(channel, wanted);
    return ret;
}

void plb_pairing_free(plb_pairing_t *self)
{
    PLB_FREE(self->send_start, self->receive_start, self->send_of, self->requests);
}
