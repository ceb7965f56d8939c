#include "whatif/simulator/internal.h"

#include <string.h>

#include "base/base.h"

static double link_of(const plb_whatif_t *self, const double *matrix, int32_t src, int32_t dst)
{
    const plb_target_t *t = self->target;
    return matrix[(int64_t)t->node[t->place[src]] * t->n_nodes + t->node[t->place[dst]]];
}

int plb_slot_open(plb_whatif_t *self, int32_t rank, int32_t slot, plb_err_t *err)
{
    process_t *process = &self->process[rank];
    if (slot >= process->n_slots) {
        const int64_t had = process->n_slots;
        PLB_PASS_GROW(process->slot, process->n_slots, slot + 1);
        memset(process->slot + had, 0, (size_t)(process->n_slots - had) * sizeof *process->slot);
    }
    process->slot[slot] = (slot_t){.state = SLOT_OPEN, .cause_rank = -1};
    return PLB_OK;
}

void plb_slot_complete(plb_whatif_t *self, int32_t rank, int32_t slot, double when,
                       int32_t cause_rank, int64_t cause_op)
{
    process_t *process = &self->process[rank];
    process->slot[slot] = (slot_t){when, cause_op, cause_rank, SLOT_DONE};
    if (process->state == WAITING && process->waits_for == slot) {
        plb_agenda_set(self, owner_wake(self, rank), when);
    }
}

verdict_t plb_slot_wait(plb_whatif_t *self, int32_t rank, int32_t slot)
{
    process_t *process = &self->process[rank];
    if (slot >= process->n_slots || process->slot[slot].state == SLOT_FREE) {
        return NEXT;
    }
    slot_t *one = &process->slot[slot];
    if (one->state == SLOT_DONE && one->done <= self->now) {
        one->state = SLOT_FREE;
        return NEXT;
    }
    process->waits_for = slot;
    plb_agenda_set(self, owner_wake(self, rank), one->state == SLOT_DONE ? one->done : INFINITY);
    return WAIT;
}

/* --- channels --- */

static int64_t key_of(const plb_whatif_t *self, uint32_t context, int32_t src, int32_t dst)
{
    return ((int64_t)context * self->n_ranks + src) * self->n_ranks + dst;
}

static int channel_of(plb_whatif_t *self, uint32_t context, int32_t src, int32_t dst, int32_t *out,
                      plb_err_t *err)
{
    const int64_t had = self->channels.n;
    PLB_PASS(plb_keys_add(&self->channels, key_of(self, context, src, dst), out, err));
    PLB_PASS_GROW(self->channel, self->room_channels, self->channels.n);
    if (*out == had) {
        self->channel[*out] = (channel_t){dst, -1, -1, -1, -1};
    }
    return PLB_OK;
}

/* --- pools --- */

/* Get an unused entry of a pool, or a new one. */
#define POOL(name)                                                                                \
    static int new_##name(plb_whatif_t *self, int32_t *out, plb_err_t *err)                       \
    {                                                                                             \
        if (self->free_##name >= 0) {                                                             \
            *out = self->free_##name;                                                             \
            self->free_##name = self->name[*out].next;                                            \
            return PLB_OK;                                                                        \
        }                                                                                         \
        PLB_PASS_GROW(self->name, self->room_##name##s, self->n_##name##s + 1);                   \
        *out = self->n_##name##s++;                                                               \
        return PLB_OK;                                                                            \
    }
POOL(message)
POOL(post)

static void drop_message(plb_whatif_t *self, int32_t m)
{
    self->message[m].next = self->free_message;
    self->free_message = m;
}

/* --- a match --- */

/* The receive, and the send if its sender waits, are complete when the data have arrived. */
static void transfer(plb_whatif_t *self, const message_t *m, int32_t dst, int32_t slot)
{
    const double alpha = link_of(self, self->target->alpha, m->src, dst);
    const double data = link_of(self, self->target->beta, m->src, dst) * (double)m->bytes;
    if (m->slot < 0) {
        const double there = m->at + data;
        plb_slot_complete(self, dst, slot, there > self->now ? there : self->now, m->src, m->op);
        return;
    }
    const double done = self->now + 2.0 * alpha + data;
    plb_slot_complete(self, dst, slot, done, m->src, m->op);
    plb_slot_complete(self, m->src, m->slot, done, dst, self->process[dst].at);
}

/* Match a message, which is no longer in any list, with a receive.  If the receiver is not in a
 * call, a rendezvous message waits for the receiver's next call. */
static void match(plb_whatif_t *self, int32_t m, int32_t dst, int32_t slot, bool in_call)
{
    message_t *one = &self->message[m];
    if (one->slot >= 0 && !in_call) {
        one->into = slot;
        one->next = self->process[dst].rendezvous;
        self->process[dst].rendezvous = m;
        return;
    }
    transfer(self, one, dst, slot);
    drop_message(self, m);
}

void plb_message_progress(plb_whatif_t *self, int32_t rank)
{
    int32_t m = self->process[rank].rendezvous;
    self->process[rank].rendezvous = -1;
    while (m >= 0) {
        const int32_t next = self->message[m].next;
        transfer(self, &self->message[m], rank, self->message[m].into);
        drop_message(self, m);
        m = next;
    }
}

/* --- sending --- */

int plb_message_send(plb_whatif_t *self, int32_t dst, uint32_t context, message_t message,
                     plb_err_t *err)
{
    int32_t channel = -1, m = -1;
    PLB_PASS(channel_of(self, context, message.src, dst, &channel, err));
    PLB_PASS(new_message(self, &m, err));
    message.at = self->now + link_of(self, self->target->alpha, message.src, dst);
    message.channel = channel;
    message.behind = -1;
    self->message[m] = message;
    process_t *to = &self->process[dst];
    message_t *const all = self->message;
    /* sorted by arrival, ties in order of sending; nearly always, a message goes to the end */
    int32_t before = to->flying_last;
    while (before >= 0 && all[before].at > all[m].at) {
        before = all[before].prev;
    }
    all[m].prev = before;
    all[m].next = before >= 0 ? all[before].next : to->flying;
    *(before >= 0 ? &all[before].next : &to->flying) = m;
    *(all[m].next >= 0 ? &all[all[m].next].prev : &to->flying_last) = m;
    plb_agenda_set(self, dst, all[to->flying].at);
    return PLB_OK;
}

/* --- receiving --- */

static int32_t take_post(plb_whatif_t *self, channel_t *channel, int32_t p, int32_t before)
{
    post_t *const all = self->post;
    *(before >= 0 ? &all[before].next : &channel->post) = all[p].next;
    if (channel->post_last == p) {
        channel->post_last = before;
    }
    all[p].next = self->free_post;
    self->free_post = p;
    return all[p].slot;
}

void plb_message_arrive(plb_whatif_t *self, int32_t rank)
{
    process_t *to = &self->process[rank];
    const int32_t m = to->flying;
    message_t *one = &self->message[m];
    to->flying = one->next;
    *(to->flying >= 0 ? &self->message[to->flying].prev : &to->flying_last) = -1;
    plb_agenda_set(self, rank, to->flying >= 0 ? self->message[to->flying].at : INFINITY);

    channel_t *channel = &self->channel[one->channel];
    int32_t before = -1, p = channel->post;
    while (p >= 0 && self->post[p].tag != one->tag) {
        before = p;
        p = self->post[p].next;
    }
    if (p >= 0) {
        match(self, m, rank, take_post(self, channel, p, before), to->state == WAITING);
        return;
    }
    *(channel->last >= 0 ? &self->message[channel->last].behind : &channel->first) = m;
    channel->last = m;
    to->n_there++;
    if (to->probing) {
        plb_agenda_set(self, owner_wake(self, rank), self->now);
    }
}

int32_t plb_message_find(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                         int32_t tag)
{
    const int32_t c =
        src < 0 ? -1 : plb_keys_find(&self->channels, key_of(self, context, src, rank));
    int32_t m = c < 0 ? -1 : self->channel[c].first;
    while (m >= 0 && self->message[m].tag != tag) {
        m = self->message[m].behind;
    }
    return m;
}

int plb_message_receive(plb_whatif_t *self, int32_t rank, uint32_t context, int32_t src,
                        int32_t tag, int32_t slot, plb_err_t *err)
{
    const int32_t m = plb_message_find(self, rank, context, src, tag);
    if (m >= 0) {
        message_t *const all = self->message;
        channel_t *channel = &self->channel[all[m].channel];
        int32_t before = -1;
        for (int32_t i = channel->first; i != m; i = all[i].behind) {
            before = i;
        }
        *(before >= 0 ? &all[before].behind : &channel->first) = all[m].behind;
        if (channel->last == m) {
            channel->last = before;
        }
        self->process[rank].n_there--;
        match(self, m, rank, slot, true);
        return PLB_OK;
    }
    int32_t p = -1, number = -1;
    PLB_PASS(new_post(self, &p, err));
    PLB_PASS(channel_of(self, context, src, rank, &number, err));
    channel_t *channel = &self->channel[number];
    self->post[p] = (post_t){tag, slot, -1};
    *(channel->post_last >= 0 ? &self->post[channel->post_last].next : &channel->post) = p;
    channel->post_last = p;
    return PLB_OK;
}

void plb_message_cancel(plb_whatif_t *self, int32_t rank, int32_t slot)
{
    /* slow, but rare: most programs cancel receives only just before they end */
    for (int32_t c = 0; c < self->channels.n; c++) {
        channel_t *channel = &self->channel[c];
        int32_t before = -1, p = channel->dst == rank ? channel->post : -1;
        while (p >= 0 && self->post[p].slot != slot) {
            before = p;
            p = self->post[p].next;
        }
        if (p >= 0) {
            take_post(self, channel, p, before);
            return;
        }
    }
}
