/* The agents of GossipLB and HierarchicalLB.  A rank that can take load (a receiver) tells random
 * other ranks, which pass this on.  Overloaded ranks give objects to the receivers of which they
 * have heard.  HierarchicalLB does this within each node first, then among all ranks.
 *
 * This follows TemperedLB (Lifflander et al., Optimizing distributed load balancing for workloads
 * with time-varying imbalance, CLUSTER 2021, after Menon and Kale's Grapevine, SC 2013).  An
 * iteration is some rounds of gossip, and then one round of transfers, whose receivers are drawn
 * with a probability that grows with the load that they can take.  The differences:
 * - A transfer is an offer, and the receiver returns objects that do not fit.  In TemperedLB
 *   several ranks may overload one receiver, and the maximum rises until a later iteration is
 *   better.  Here no iteration raises the maximum.
 * - A rank remembers a bounded number of receivers, however many ranks there are.
 * - If a rank has more to give than all receivers that it knows can take below the limit, each of
 *   them takes a share, and may exceed the limit by up to half of the giver's excess.  If few of
 *   many ranks have load, the number of iterations is then logarithmic, not linear, in the number
 *   of ranks per loaded rank.
 * - A rank gives the largest objects that fit into its excess, so that few migrate.
 * - If few ranks are overloaded, these ask random ranks for receivers.  This takes fewer notes
 *   than gossip to all ranks.
 * - While ranks aim at a limit that cannot be reached, many objects migrate for little gain.  So
 *   if the first limit was missed, a second search begins from the placement before the LB step,
 *   with a limit that was reached.
 *
 * The first limit is max(overload x average, lower bound for any placement).  The paper calls the
 * limit target_max_load. */
#include <math.h>

#include "base/base.h"
#include "place/internal.h"

/* Kinds of notes. */
enum kind {
    NOTE_ROOM,    /* `rank` can take `load` and `memory` */
    NOTE_ASK,     /* which ranks do you know that can take load? */
    NOTE_CEILING, /* you may take objects of mine until your time is `seconds` */
    NOTE_SLACK,   /* what you return for my object may need up to `memory` bytes more */
    NOTE_OFFER,   /* an object that I offer you */
    NOTE_SWAP,    /* an object that I offer you in exchange for a smaller one */
    NOTE_RETURN,  /* your object, which does not fit here, or an object in exchange for it */
};

/* Indices into the tally. */
enum {
    COUNT_OVERLOADED = 0, /* number of overloaded ranks */
    COUNT_TAKEN = 1,      /* number of objects that ranks took in the previous iteration */
    MAX_TIME = 0,         /* seconds of the slowest rank */
    SUM_AWAY = 0,         /* number of objects that are not on their home rank */
};

enum {
    /* A rank remembers at most this many other ranks, and passes on at most four times as many
     * notes (with the default fan-out: all) in a round of gossip.
     * tuned: ranks; with a quarter, 2 to 7 % more migrations */
    KNOWN = 128,
    ASK_ROUNDS = 3, /* number of rounds before the offers if ranks ask: tell, ask, reply */
};

/* Overloaded ranks ask other ranks for receivers if at most this fraction of all is overloaded: if
 * they never ask, the search takes three to eight times as long. */
static const double ASK_BELOW = 0.25; /* tuned: fraction of the ranks; above */

/* An iteration makes no progress if the objects that found a new rank are fewer than the rest to 1
 * of PLB_PART of the overloaded ranks, because a few always find one by chance; or if more than
 * PLB_PART of the overloaded ranks still are, while objects are swapped or stay within nodes.
 * After PLB_WINDOW such iterations in a row, a limit is given up: with 3, HierarchicalLB ends
 * 0.9 % slower. */

/* The lowest limit is searched closer, because the result may exceed it by as much again. */
static const double CLOSE = PLB_CLOSE / 2.0;

/* ---- receivers: the ranks that can take load ------------------------------------------------ */

/* Return the k-th of the ranks to which this rank may write, including itself. */
static int32_t member(const plb_gossip_t *self, int32_t k)
{
    return self->within_node ? self->agent.share->neighbour[k] : k;
}

/* Write up to n_wanted different random ranks, except this one, to `to`; return how many. */
static int draw(plb_gossip_t *self, int n_wanted, int32_t *to)
{
    const plb_share_t *share = self->agent.share;
    const int32_t n = self->within_node ? share->n_neighbours : share->n_ranks;
    int drawn = 0;
    if (n - 1 <= n_wanted) {
        for (int32_t k = 0; k < n; k++) {
            if (member(self, k) != share->rank) {
                to[drawn++] = member(self, k);
            }
        }
        return drawn;
    }
    while (drawn < n_wanted) {
        const int32_t r = member(self, (int32_t)plb_rng_below(&self->rng, (uint64_t)n));
        bool again = r == share->rank;
        for (int k = 0; k < drawn; k++) {
            again = again || to[k] == r;
        }
        if (!again) {
            to[drawn++] = r;
        }
    }
    return drawn;
}

/* Remember a receiver.  If the list is full, the receiver replaces a random entry, so that all
 * receivers of which this rank has heard are in the list with about the same probability. */
static void remember(plb_gossip_t *self, const plb_note_t *note)
{
    bool is_known = note->rank == self->agent.share->rank;
    for (int32_t k = 0; k < self->n_known && !is_known; k++) {
        is_known = self->known[k].rank == note->rank;
    }
    if (is_known) {
        return;
    }
    const plb_receiver_t r = {note->rank, false, note->load, note->memory};
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

/* Return the load that this rank offers to take.  It is 0 if an object of mean memory does not
 * fit, because the rank would have to return the object.  During swaps memory does not count,
 * because each object replaces another one. */
static double free_load(const plb_gossip_t *self)
{
    const plb_agent_t *agent = &self->agent;
    const int64_t usual =
        agent->now.n > 0 && !self->swapping ? agent->now.memory / agent->now.n : 0;
    return plb_agent_room(agent) < usual ? 0.0 : self->allowed - agent->now.load;
}

/* Tell n ranks about this rank, if it can take load, and about the other ranks that it knows. */
static int tell(plb_gossip_t *self, const int32_t *to, int n, plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    const plb_receiver_t me = {agent->share->rank, false, free_load(self), plb_agent_room(agent)};
    const int32_t most = 4 * KNOWN / self->fan_out,
                  n_told = self->n_known < most ? self->n_known : most;
    for (int k = 0; k < n; k++) {
        for (int32_t j = me.room > 0.0 ? -1 : 0; j < n_told; j++) {
            const plb_receiver_t *r = j < 0 ? &me : &self->known[j];
            if (r->rank != to[k]) {
                PLB_PASS(PLB_POST(agent, err, .peer = to[k], .kind = NOTE_ROOM, .rank = r->rank,
                                  .load = r->room, .memory = r->memory));
            }
        }
    }
    return PLB_OK;
}

/* Tell random other ranks about the known receivers, and about this rank if it is one. */
static int spread(plb_gossip_t *self, plb_err_t *err)
{
    int32_t to[PLB_GOSSIP_MOST_FAN_OUT];
    if (free_load(self) <= 0.0 && self->n_known == 0) {
        return PLB_OK;
    }
    return tell(self, to, draw(self, self->fan_out, to), err);
}

/* Ask as many ranks as can fill the list `known`: each can answer with itself and with about
 * fan_out receivers that it has heard of. */
static int ask(plb_gossip_t *self, plb_err_t *err)
{
    int32_t to[PLB_GOSSIP_MOST_FAN_OUT];
    const int wanted = self->most_known / (self->fan_out + 1);
    const int n_wanted = wanted < PLB_GOSSIP_MOST_FAN_OUT ? wanted : PLB_GOSSIP_MOST_FAN_OUT;
    const int n = draw(self, n_wanted, to);
    for (int k = 0; k < n; k++) {
        PLB_PASS(PLB_POST(&self->agent, err, .peer = to[k], .kind = NOTE_ASK));
    }
    return PLB_OK;
}

/* Whether this rank has too much load; or too little memory, and an object that could leave. */
static bool overloaded(const plb_gossip_t *self)
{
    const plb_holding_t *now = &self->agent.now;
    const bool full = self->agent.crowded && plb_agent_room(&self->agent) < 0;
    for (int64_t k = 0; full && k < now->n; k++) {
        if (!now->entry[k].pinned && now->entry[k].memory > 0) {
            return true;
        }
    }
    return now->load > self->allowed + PLB_ROUNDING * self->limit * self->agent.share->speed;
}

/* ---- offers --------------------------------------------------------------------------------- */

/* Return the load that a rank could take in objects like this one; 0: not even this one. */
static double chance(const plb_receiver_t *r, const plb_entry_t *e)
{
    if (r->room < e->load || r->memory < e->memory) {
        return 0.0;
    }
    const double most = e->memory > 0 ? (double)r->memory / (double)e->memory * e->load : r->room;
    return most < r->room ? most : r->room;
}

/* Draw a known rank for an object, with a probability proportional to `chance`; -1: none. */
static int32_t choose(plb_gossip_t *self, const plb_entry_t *e)
{
    double total = 0.0;
    for (int32_t k = 0; k < self->n_known; k++) {
        total += chance(&self->known[k], e);
    }
    if (total <= 0.0) {
        return -1;
    }
    double left = plb_rng_uniform(&self->rng) * total;
    int32_t last = -1;
    for (int32_t k = 0; k < self->n_known && (last < 0 || left >= 0.0); k++) {
        const double own = chance(&self->known[k], e);
        if (own > 0.0) {
            left -= own;
            last = k;
        }
    }
    return last;
}

/* Offer entry k to a known rank that can take it; *offered: whether there is one. */
static int offer(plb_gossip_t *self, int64_t k, double ceiling, bool *offered, plb_err_t *err)
{
    const plb_entry_t e = self->agent.now.entry[k];
    const int32_t j = choose(self, &e);
    *offered = j >= 0;
    if (j < 0) {
        return PLB_OK;
    }
    plb_receiver_t *r = &self->known[j];
    if (ceiling > self->limit && !r->has_ceiling) {
        r->has_ceiling = true;
        PLB_PASS(PLB_POST(&self->agent, err, .peer = r->rank, .kind = NOTE_CEILING,
                          .seconds = ceiling));
    }
    r->room -= e.load;
    r->memory -= e.memory;
    return plb_agent_give(&self->agent, k, r->rank, NOTE_OFFER, err);
}

/* Return the time up to which the known ranks may take objects: the limit or, if they cannot take
 * the whole excess and offers may leave the node, a later time.  In this second case, this rank
 * keeps 1 / (n_known + 1) of the excess; each known rank's `room` grows by the same factor. */
static double raise_ceiling(plb_gossip_t *self, double *excess)
{
    double total = 0.0;
    for (int32_t k = 0; k < self->n_known; k++) {
        total += self->known[k].room;
    }
    if (self->within_node || *excess <= total || total <= 0.0) {
        return self->limit;
    }
    *excess *= self->n_known / (self->n_known + 1.0);
    for (int32_t k = 0; *excess > total && k < self->n_known; k++) {
        self->known[k].room *= *excess / total;
    }
    return 0.5 * (self->limit + plb_agent_time(&self->agent, self->agent.now.load));
}

/* Offer the lightest object that alone removes the excess, if there is one. */
static int offer_one(plb_gossip_t *self, double *excess, double ceiling, plb_err_t *err)
{
    const plb_agent_t *agent = &self->agent;
    int64_t best = -1;
    bool offered = false;
    for (int64_t k = 0; k < agent->now.n; k++) {
        const plb_entry_t *e = &agent->now.entry[k];
        if (!e->pinned && e->load >= *excess &&
            (best < 0 || e->load < agent->now.entry[best].load)) {
            best = k;
        }
    }
    if (best >= 0) {
        const double load = agent->now.entry[best].load;
        PLB_PASS(offer(self, best, ceiling, &offered, err));
        *excess -= offered ? load : 0.0;
    }
    return PLB_OK;
}

/* Offer one object if that is enough; else the heaviest ones that fit the excess, then the
 * lightest that removes what remains. */
static int offer_load(plb_gossip_t *self, double *excess, double ceiling, plb_err_t *err)
{
    int64_t n;
    PLB_PASS(plb_agent_sort(&self->agent, &n, err));
    PLB_PASS(offer_one(self, excess, ceiling, err));
    for (int64_t k = n - 1; *excess > 0.0 && k >= 0; k--) {
        const double load = self->agent.now.entry[k].load;
        if (load > 0.0 && load <= *excess) {
            bool offered;
            PLB_PASS(offer(self, k, ceiling, &offered, err));
            *excess -= offered ? load : 0.0;
        }
    }
    return *excess > 0.0 ? offer_one(self, excess, ceiling, err) : PLB_OK;
}

/* Find the object to offer because memory is short: the smallest one with at least `need` bytes,
 * else the largest one.  Only objects with less than `under` bytes count.  -1: there is none. */
static int64_t find_bulky(const plb_agent_t *agent, int64_t need, int64_t under)
{
    int64_t best = -1;
    for (int64_t k = 0; k < agent->now.n; k++) {
        const plb_entry_t *e = &agent->now.entry[k];
        if (e->pinned || e->memory <= 0 || e->memory >= under) {
            continue;
        }
        const int64_t most = best < 0 ? 0 : agent->now.entry[best].memory;
        if (best < 0 || (most < need ? e->memory > most : e->memory >= need && e->memory < most)) {
            best = k;
        }
    }
    return best;
}

/* Offer objects until the remaining ones fit into this rank's memory limit.  If no known rank can
 * take an object, offer smaller ones. */
static int offer_memory(plb_gossip_t *self, plb_err_t *err)
{
    int64_t under = INT64_MAX;
    plb_agent_t *agent = &self->agent;
    while (plb_agent_room(agent) < 0) {
        bool offered = false;
        const int64_t k = find_bulky(agent, -plb_agent_room(agent), under);
        if (k < 0) {
            break;
        }
        const int64_t memory = agent->now.entry[k].memory;
        PLB_PASS(offer(self, k, self->limit, &offered, err));
        under = offered ? under : memory;
    }
    return PLB_OK;
}

/* Offer a random object to each of up to fan_out known ranks, in exchange for a smaller one. */
static int offer_swaps(plb_gossip_t *self, int64_t room, plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    const int32_t most = self->n_known < self->fan_out ? self->n_known : self->fan_out;
    for (int32_t j = 0; j < most && agent->now.n > 0; j++) {
        const int32_t other =
            j + (int32_t)plb_rng_below(&self->rng, (uint64_t)(self->n_known - j));
        const plb_receiver_t r = self->known[other];
        self->known[other] = self->known[j];
        self->known[j] = r;
        const int64_t k = (int64_t)plb_rng_below(&self->rng, (uint64_t)agent->now.n);
        if (!agent->now.entry[k].pinned && agent->now.entry[k].load > 0.0) {
            if (room >= most && agent->share->memory_limit >= 0) {
                PLB_PASS(PLB_POST(agent, err, .peer = r.rank, .kind = NOTE_SLACK,
                                  .memory = room / most));
            }
            PLB_PASS(plb_agent_give(agent, k, r.rank, NOTE_SWAP, err));
        }
    }
    return PLB_OK;
}

/* Offer excess memory, then excess load, then swaps. */
static int offer_excess(plb_gossip_t *self, plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    if (!overloaded(self) || self->n_known == 0) {
        return PLB_OK;
    }
    /* offered objects can come back, so their memory is not free */
    const int64_t room = plb_agent_room(agent);
    PLB_PASS(offer_memory(self, err));
    double excess = agent->now.load - self->allowed;
    if (excess <= PLB_ROUNDING * self->limit * agent->share->speed) {
        return PLB_OK;
    }
    const double ceiling = raise_ceiling(self, &excess);
    PLB_PASS(offer_load(self, &excess, ceiling, err));
    return self->swapping && excess > 0.0 ? offer_swaps(self, room, err) : PLB_OK;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Find the smallest object whose return lets this rank take the object of a swap; -1: none. */
static int64_t find_smaller(const plb_gossip_t *self, const plb_note_t *note, int64_t slack)
{
    const plb_agent_t *agent = &self->agent;
    const double least = agent->now.load + note->load - self->allowed;
    const double most = note->load - PLB_ROUNDING * self->limit * agent->share->speed;
    int64_t best = -1;
    for (int64_t k = 0; k < agent->now.n; k++) {
        const plb_entry_t *e = &agent->now.entry[k];
        if (!e->pinned && e->load >= least && e->load < most &&
            e->memory - note->memory <= slack &&
            note->memory - e->memory <= plb_agent_room(agent) &&
            (best < 0 || e->load < agent->now.entry[best].load)) {
            best = k;
        }
    }
    return best;
}

/* Take an object if it fits (into `allowed` and the memory), or if it is offered as a swap and a
 * smaller object can be returned for it; otherwise return the object itself. */
static int answer_one(plb_gossip_t *self, plb_note_t note, double allowed, int64_t slack,
                      plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    const bool fits =
        agent->now.load + note.load <= allowed && note.memory <= plb_agent_room(agent);
    const int64_t k = !fits && note.kind == NOTE_SWAP ? find_smaller(self, &note, slack) : -1;
    if (k >= 0) {
        PLB_PASS(plb_agent_give(agent, k, note.peer, NOTE_RETURN, err));
    }
    if (fits || k >= 0) {
        self->taken++;
        return plb_agent_take(agent, &note, err);
    }
    note.kind = NOTE_RETURN;
    return plb_agent_post(agent, note, err);
}

static int answer(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    int32_t from = -1;
    double allowed = self->allowed;
    int64_t slack = 0;
    for (int64_t k = 0; k < n_in; k++) {
        if (in[k].peer != from) {
            from = in[k].peer;
            allowed = self->allowed;
            slack = 0;
        }
        if (in[k].kind == NOTE_SLACK) {
            slack = in[k].memory;
        } else if (in[k].kind == NOTE_CEILING) {
            allowed = plb_agent_allowed(&self->agent, in[k].seconds);
        } else {
            PLB_PASS(answer_one(self, in[k], allowed, slack, err));
        }
    }
    return PLB_OK;
}

/* ---- an iteration --------------------------------------------------------------------------- */

static void set_limit(plb_gossip_t *self, double limit)
{
    self->limit = limit;
    self->allowed = plb_agent_allowed(&self->agent, limit);
    self->stalled = 0;
}

/* Set the next limit, after a limit was reached or given up: halfway between `failed` and the time
 * of the slowest rank.  Return false if the search is over: each limit was reached, or these two
 * are close. */
static bool next_limit(plb_gossip_t *self, bool reached, double longest)
{
    self->failed = reached ? self->failed : self->limit;
    /* seconds that one rank of mean speed would take for all work */
    const double all = self->agent.share->n_ranks * self->agent.average;
    const double more = self->failed / PLB_PART; /* 0 if `failed` is 0 */
    if (self->agent.crowded && !reached && longest <= self->failed && self->failed <= all &&
        more > self->failed) {
        set_limit(self, more); /* only memory limits are exceeded: allow more time */
        return true;
    }
    const double next = 0.5 * (self->failed + longest);
    /* if times are below 1e-290 s, rounding can leave no limit between `failed` and `longest` */
    const bool stuck = next <= self->failed || (reached && next >= self->limit);
    if (self->failed == 0.0 || longest - self->failed <= CLOSE * self->failed || stuck) {
        return false;
    }
    set_limit(self, next);
    return true;
}

/* Whether the search is over; if not, a new limit may be set.  All ranks do the same, because this
 * depends only on the tally. */
static bool is_over(plb_gossip_t *self, const plb_tally_t *all)
{
    const int64_t n_overloaded = all->count[COUNT_OVERLOADED];
    const bool few_helped = (double)n_overloaded > PLB_PART * self->n_overloaded;
    const bool idle =
        self->iteration > 0 &&
        ((double)all->count[COUNT_TAKEN] <= (1.0 - PLB_PART) * (double)n_overloaded ||
         ((self->swapping || self->within_node) && few_helped));
    self->n_overloaded = (double)n_overloaded;
    self->stalled = idle ? self->stalled + 1 : 0;
    if (self->stalled > 0 && self->within_node) { /* from now on, objects may leave their node */
        self->within_node = false;
        self->stalled = 0;
    }
    self->swapping = self->swapping || self->stalled > 0;
    if (self->iteration == self->n_iterations) {
        return true;
    }
    return (n_overloaded == 0 || self->stalled == PLB_WINDOW) &&
           (self->again || !next_limit(self, n_overloaded == 0, all->max[MAX_TIME]));
}

/* Exchange the objects that are on this rank now with `best`: all agents do this in the same
 * round, when no object is under way. */
static void exchange_best(plb_gossip_t *self)
{
    const plb_holding_t now = self->agent.now;
    self->agent.now = self->best;
    self->best = now;
}

/* After the first search: begin a second one if the first limit was not reached (and if objects
 * migrate, and from_home is set).  After the second search: keep its placement if this keeps the
 * limit and has fewer migrations, else take that of the first search. */
static int conclude(plb_gossip_t *self, const plb_tally_t *all, bool *settled, plb_err_t *err)
{
    const bool missed = self->failed > 0.0 && all->sum[SUM_AWAY] > 0.0;
    *settled = self->again || !self->from_home || !missed;
    if (!*settled) {
        PLB_PASS(plb_agent_home(&self->agent, &self->best, err));
        exchange_best(self);
        self->again = true;
        self->n_away = all->sum[SUM_AWAY];
        self->swapping = false;
        self->within_node = self->by_node;
        self->iteration = -1;
        set_limit(self, (1.0 + CLOSE) * all->max[MAX_TIME]);
        return PLB_OK;
    }
    if (self->again && (all->count[COUNT_OVERLOADED] > 0 || all->sum[SUM_AWAY] >= self->n_away)) {
        exchange_best(self);
    }
    return PLB_OK;
}

static int begin(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    if (self->iteration == 0 && !self->again) {
        set_limit(self, fmax(self->overload * agent->average, agent->least));
    }
    for (int64_t k = 0; k < n_in; k++) {
        if (in[k].kind == NOTE_RETURN) {
            PLB_PASS(plb_agent_take(agent, &in[k], err));
        }
    }
    self->n_known = 0;
    self->n_heard = 0;
    agent->mine.count[COUNT_OVERLOADED] = overloaded(self);
    agent->mine.count[COUNT_TAKEN] = self->taken;
    agent->mine.max[MAX_TIME] = plb_agent_time(agent, agent->now.load);
    agent->mine.sum[SUM_AWAY] = (double)agent->now.n_away;
    self->taken = 0;
    return spread(self, err);
}

/* Do one of the rounds before the answers: offers in the last one, gossip or questions before. */
static int talk(plb_gossip_t *self, int step, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    for (int64_t k = 0; k < n_in; k++) {
        if (in[k].kind == NOTE_ROOM) {
            remember(self, &in[k]);
        }
    }
    if (step == (self->asking ? ASK_ROUNDS : self->n_rounds)) {
        return offer_excess(self, err);
    }
    if (!self->asking) {
        return spread(self, err);
    }
    for (int64_t k = 0; k < n_in; k++) {
        if (in[k].kind == NOTE_ASK) {
            PLB_PASS(tell(self, &in[k].peer, 1, err));
        }
    }
    return step == 1 && overloaded(self) ? ask(self, err) : PLB_OK;
}

static int round_of(plb_agent_t *agent, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    bool *settled, plb_err_t *err)
{
    plb_gossip_t *self = (plb_gossip_t *)agent;
    const int step = self->step++;
    if (step == 0) {
        return begin(self, in, n_in, err);
    }
    if (step == 1) {
        const double limit = self->limit;
        const bool over = is_over(self, all);
        if (over) {
            PLB_PASS(conclude(self, all, settled, err));
            if (*settled) {
                return PLB_OK;
            }
        }
        if (over || self->limit != limit) { /* a new limit changes what ranks can take */
            self->iteration++;
            self->step = 1;
            return begin(self, in, n_in, err);
        }
        self->asking = self->n_rounds >= ASK_ROUNDS && !self->within_node &&
                       (double)all->count[COUNT_OVERLOADED] <= ASK_BELOW * agent->share->n_ranks;
    }
    if (step > (self->asking ? ASK_ROUNDS : self->n_rounds)) {
        self->step = 0;
        self->iteration++;
        return answer(self, in, n_in, err);
    }
    return talk(self, step, in, n_in, err);
}

/* ---- the agents ----------------------------------------------------------------------------- */

/* `known` has room for a bounded number of receivers; n_rounds is less than `rounds` if fewer
 * reach all ranks. */
static int start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    plb_gossip_t *self = (plb_gossip_t *)agent;
    const plb_share_t *share = agent->share;
    const int most_rounds = (int)opts->params[PLB_GOSSIP_ROUNDS];
    self->overload = opts->params[PLB_GOSSIP_OVERLOAD];
    self->fan_out = (int)opts->params[PLB_GOSSIP_FAN_OUT];
    self->n_iterations = (int)opts->params[PLB_GOSSIP_ITERATIONS];
    self->within_node = self->by_node;
    self->from_home = true;
    plb_rng_init(&self->rng, opts->seed);
    plb_rng_init(&self->rng, plb_rng_next(&self->rng) + (uint64_t)share->rank);
    double reached = self->fan_out;
    for (self->n_rounds = 1; self->n_rounds < most_rounds && reached < share->n_ranks - 1;
         self->n_rounds++) {
        reached *= self->fan_out;
    }
    self->most_known = KNOWN;
    PLB_PASS_NEW(self->known, self->most_known);
    return PLB_OK;
}

static int start_by_node(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    ((plb_gossip_t *)agent)->by_node = agent->share->n_neighbours > 0;
    return start(agent, opts, err);
}

static int64_t known(const plb_agent_t *agent)
{
    const plb_gossip_t *self = (const plb_gossip_t *)agent;
    return self->n_known + self->best.n;
}

static void stop(plb_agent_t *agent)
{
    plb_gossip_t *self = (plb_gossip_t *)agent;
    PLB_FREE(self->known, self->best.entry);
}

const plb_agent_type_t plb_gossip_agent = {sizeof(plb_gossip_t), start, round_of, known, stop};

static const plb_agent_type_t by_node = {sizeof(plb_gossip_t), start_by_node, round_of, known,
                                         stop};

static const plb_param_t params[] = {PLB_GOSSIP_PARAMS};

const plb_strategy_t plb_strategy_gossip = {
    .name = "GossipLB",
    .help =
        "distributed: underloaded ranks tell random ranks what they can take, overloaded ranks "
        "give objects to underloaded ones",
    .source = "Lifflander et al., CLUSTER 2021 (vt's TemperedLB)",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = PLB_GOSSIP_N_PARAMS,
    .run = plb_strategy_in_rounds,
    .agent = &plb_gossip_agent,
};

const plb_strategy_t plb_strategy_hierarchical = {
    .name = "HierarchicalLB",
    .help = "distributed: like GossipLB, first within each node, then among all ranks",
    .source = "Menon, future work; Lifflander et al., CLUSTER 2021",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY | PLB_LOOKS_NODES,
    .params = params,
    .n_params = PLB_GOSSIP_N_PARAMS,
    .run = plb_strategy_in_rounds,
    .agent = &by_node,
};
