#include "place/kit/receivers.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

enum {
    /* a rank remembers at most KNOWN x fan-out x rounds other ranks, and never more than MOST */
    KNOWN = 8,
    MOST = 512, /* a rank passes on at most this many notes in a round of gossip */
};

/* Return the number of ranks to which this rank may write, including itself. */
static int32_t n_members(const plb_gossip_t *self)
{
    const plb_share_t *share = self->agent.share;
    return self->within_node && share->n_neighbours > 0 ? share->n_neighbours : share->n_ranks;
}

static int32_t member(const plb_gossip_t *self, int32_t k)
{
    const plb_share_t *share = self->agent.share;
    return self->within_node && share->n_neighbours > 0 ? share->neighbour[k] : k;
}

/* Write up to n_wanted different random ranks, except this one, to `to`; return how many. */
static int draw(plb_gossip_t *self, int n_wanted, int32_t *to)
{
    const int32_t n = n_members(self);
    int drawn = 0;
    if (n - 1 <= n_wanted) {
        for (int32_t k = 0; k < n; k++) {
            if (member(self, k) != self->agent.share->rank) {
                to[drawn++] = member(self, k);
            }
        }
        return drawn;
    }
    while (drawn < n_wanted) {
        const int32_t r = member(self, (int32_t)plb_rng_below(&self->rng, (uint64_t)n));
        bool again = r == self->agent.share->rank;
        for (int k = 0; k < drawn; k++) {
            again = again || to[k] == r;
        }
        if (!again) {
            to[drawn++] = r;
        }
    }
    return drawn;
}

/* Whether this rank remembers `rank`.  The list is searched only if the bit of `rank` is set in
 * heard_of, which is rare for new ranks.  Sets this bit. */
static bool is_known(plb_gossip_t *self, int32_t rank)
{
    const uint32_t bit = (uint32_t)plb_mix64((uint64_t)rank) % (64 * PLB_GOSSIP_WORDS);
    uint64_t *word = &self->heard_of[bit / 64];
    const uint64_t mask = (uint64_t)1 << bit % 64;
    const bool maybe = (*word & mask) != 0;
    *word |= mask;
    for (int32_t k = 0; maybe && k < self->n_known; k++) {
        if (self->known[k].rank == rank) {
            return true;
        }
    }
    return false;
}

/* Remember a receiver.  If the list is full, the receiver replaces a random entry, so that all
 * receivers of which this rank has heard are in the list with about the same probability. */
static void remember(plb_gossip_t *self, const plb_note_t *note)
{
    if (note->rank == self->agent.share->rank) {
        return;
    }
    if (is_known(self, note->rank)) {
        return;
    }
    const plb_receiver_t r = {note->rank, false, note->load, note->memory, note->id};
    self->n_heard++;
    if (self->n_known < self->most_known) {
        self->known[self->n_known++] = r;
        return;
    }
    const int64_t k = (int64_t)plb_rng_below(&self->rng, (uint64_t)self->n_heard);
    if (k < self->most_known) {
        self->known[k] = r;
    }
}

void plb_receivers_hear(plb_gossip_t *self, const plb_note_t *in, int64_t n_in)
{
    for (int64_t k = 0; k < n_in; k++) {
        if (in[k].kind == PLB_NOTE_ROOM) {
            remember(self, &in[k]);
        }
    }
}

void plb_receivers_forget(plb_gossip_t *self)
{
    self->n_known = 0;
    self->n_heard = 0;
    memset(self->heard_of, 0, sizeof self->heard_of);
}

int plb_receivers_init(plb_gossip_t *self, int most_rounds, plb_err_t *err)
{
    double reached = self->fan_out;
    for (self->n_rounds = 1;
         self->n_rounds < most_rounds && reached < self->agent.share->n_ranks - 1;
         self->n_rounds++) {
        reached *= self->fan_out;
    }
    const int32_t most = KNOWN * self->fan_out * self->n_rounds;
    self->most_known = most < MOST ? most : MOST;
    PLB_PASS_NEW(self->known, self->most_known);
    return PLB_OK;
}

static int tell(plb_gossip_t *self, int32_t to, plb_receiver_t r, plb_err_t *err)
{
    return PLB_POST(&self->agent, err, .peer = to, .kind = PLB_NOTE_ROOM, .rank = r.rank,
                    .id = r.n_objects, .load = r.room, .memory = r.memory);
}

/* Return the load that this rank offers to take.  It is 0 if an object of mean memory does not
 * fit, because the rank would have to return the object.  During swaps memory does not count,
 * because each object replaces another one. */
static double free_load(const plb_gossip_t *self)
{
    const plb_agent_t *agent = &self->agent;
    const int64_t usual = agent->n > 0 && !self->swapping ? agent->memory / agent->n : 0;
    return plb_agent_room(agent) < usual ? 0.0 : self->allowed - agent->load;
}

/* Tell n ranks about this rank, if it can take load, and about the other ranks that it knows. */
static int tell_all(plb_gossip_t *self, const int32_t *to, int n, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_agent_t *agent = &self->agent;
    const plb_receiver_t me = {agent->share->rank, false, free_load(self), plb_agent_room(agent),
                               agent->n};
    const int32_t n_told =
        self->n_known < MOST / self->fan_out ? self->n_known : MOST / self->fan_out;
    for (int k = 0; ret == PLB_OK && k < n; k++) {
        ret = me.room > 0.0 ? tell(self, to[k], me, err) : PLB_OK;
        for (int32_t j = 0; ret == PLB_OK && j < n_told; j++) {
            ret = self->known[j].rank == to[k] ? PLB_OK : tell(self, to[k], self->known[j], err);
        }
    }
    return ret;
}

int plb_receivers_spread(plb_gossip_t *self, plb_err_t *err)
{
    int32_t to[PLB_GOSSIP_MOST_FAN_OUT];
    if (free_load(self) <= 0.0 && self->n_known == 0) {
        return PLB_OK;
    }
    return tell_all(self, to, draw(self, self->fan_out, to), err);
}

/* Ask as many ranks as can fill the list `known`: each can answer with itself and with about
 * fan_out receivers that it has heard of. */
int plb_receivers_ask(plb_gossip_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t to[PLB_GOSSIP_MOST_FAN_OUT];
    const int wanted = self->most_known / (self->fan_out + 1);
    const int n_wanted = wanted < PLB_GOSSIP_MOST_FAN_OUT ? wanted : PLB_GOSSIP_MOST_FAN_OUT;
    const int n = draw(self, n_wanted, to);
    for (int k = 0; ret == PLB_OK && k < n; k++) {
        ret = PLB_POST(&self->agent, err, .peer = to[k], .kind = PLB_NOTE_ASK);
    }
    return ret;
}

int plb_receivers_reply(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int64_t k = 0; ret == PLB_OK && k < n_in; k++) {
        ret = in[k].kind == PLB_NOTE_ASK ? tell_all(self, &in[k].peer, 1, err) : PLB_OK;
    }
    return ret;
}
