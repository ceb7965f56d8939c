/* The agents of GossipLB and HierarchicalLB.  A rank that can take load tells random other ranks,
 * which pass this on to further ranks.  Overloaded ranks give objects to the ranks of which they
 * have heard in this way.  HierarchicalLB does this within each node first, then among all ranks.
 *
 * This follows TemperedLB (Lifflander et al., Optimizing distributed load balancing for workloads
 * with time-varying imbalance, CLUSTER 2021, after Menon and Kale's Grapevine, SC 2013).  An
 * iteration is some rounds of gossip, and then one round of transfers, whose receivers are drawn
 * with a probability that grows with the load that they can take.  The differences:
 * - A transfer is an offer, and the receiver returns objects that do not fit.  In TemperedLB
 *   several ranks may overload one receiver, and the maximum rises until a later iteration is
 *   better.  Here no iteration raises the maximum.
 * - A rank remembers a bounded number of other ranks, however many there are.
 * - A rank may have more to give than all ranks that it knows of can take below the limit.  Then
 *   each of these takes a share, and may exceed the limit by up to half of the giver's excess.  So
 *   load on few of many ranks spreads in a number of iterations that is logarithmic, not linear,
 *   in the number of ranks per loaded rank.
 * - A rank gives the largest objects that fit into its excess, so that few migrate.
 *
 * The limit is max(overload x average, lower bound for any placement).  The paper calls it
 * target_max_load. */
#include "place/kit/gossip.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/ints.h"
#include "base/mem.h"
#include "place/kit/rounds.h"

enum {
    /* a rank remembers at most KNOWN x fan-out x rounds other ranks, and never more than MOST */
    KNOWN = 8,
    MOST = 512,   /* a rank passes on at most this many notes in a round of gossip */
    PATIENCE = 5, /* after this many iterations in a row without progress, the limit is given up */
};

/* An excess below this fraction of the limit may be due to the rounding of sums. */
static const double SLACK = 1e-9;

/* With swaps or within nodes, an iteration makes no progress if more than this fraction of the
 * overloaded ranks are still overloaded. */
static const double IDLE = 0.9;

/* An iteration makes no progress if the number of objects that found a new rank is below this
 * fraction of the number of overloaded ranks.  Among very many ranks, a few objects always find
 * one by chance. */
static const double FEW = 0.02;

/* The search for the lowest limit that can be reached ends when the limit is known to within this
 * fraction. */
static const double CLOSE = 0.002;

/* If only memory limits keep the ranks from reaching the limit, it is raised by this factor. */
static const double MORE = 1.1;

enum kind {
    NOTE_ROOM,    /* `rank` can take `load` and `memory` */
    NOTE_CEILING, /* you may take objects of mine until your time is `seconds` */
    NOTE_SLACK,   /* an object that you return for one of mine may need `memory` bytes more than
                     mine */
    NOTE_OFFER,   /* an object that I offer you */
    NOTE_SWAP,    /* an object that I offer you in exchange for a smaller one */
    NOTE_RETURN,  /* an object of yours that did not fit, or one in exchange for it */
};

/* Indices into the tally. */
enum {
    COUNT_OVERLOADED = 0, /* number of overloaded ranks */
    COUNT_TAKEN = 1,      /* number of objects that were taken in the previous iteration */
    MAX_TIME = 0,         /* seconds of the slowest rank */
};

static bool overloaded(const plb_gossip_t *self)
{
    if (self->agent.crowded && plb_agent_crowded(&self->agent)) {
        return true;
    }
    return self->agent.load > self->allowed + SLACK * self->limit * self->agent.share->speed;
}

/* ---- gossip --------------------------------------------------------------------------------- */

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

/* Write up to fan_out different random ranks, except this one, to to[fan_out]; return how many. */
static int draw(plb_gossip_t *self, int32_t *to)
{
    const int32_t n = n_members(self);
    int drawn = 0;
    if (n - 1 <= self->fan_out) {
        for (int32_t k = 0; k < n; k++) {
            if (member(self, k) != self->agent.share->rank) {
                to[drawn++] = member(self, k);
            }
        }
        return drawn;
    }
    while (drawn < self->fan_out) {
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
 * heard_of; it rarely is.  Sets this bit. */
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

/* Remember a rank that can take load.  If the list is full, the rank replaces a random entry, so
 * that all ranks of which this rank has heard stay in the list with the same probability. */
static void remember(plb_gossip_t *self, const plb_note_t *note)
{
    if (note->rank == self->agent.share->rank) {
        return;
    }
    if (is_known(self, note->rank)) {
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

static int tell(plb_gossip_t *self, int32_t to, plb_receiver_t r, plb_err_t *err)
{
    return PLB_POST(&self->agent, err, .peer = to, .kind = NOTE_ROOM, .rank = r.rank,
                    .load = r.room, .memory = r.memory);
}

/* Return the load that this rank offers to take.  It is 0 if no further object of the mean size
 * fits into the rank's memory, because the rank would have to return it.  During swaps memory does
 * not count, because each object replaces another one. */
static double free_load(const plb_gossip_t *self)
{
    const plb_agent_t *agent = &self->agent;
    const int64_t usual = agent->n > 0 && !self->swapping ? agent->memory / agent->n : 0;
    return plb_agent_room(agent) < usual ? 0.0 : self->allowed - agent->load;
}

/* Tell random other ranks about this rank, if it can take load, and about the other ranks that it
 * knows. */
static int spread(plb_gossip_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t to[PLB_GOSSIP_MOST_FAN_OUT];
    const plb_agent_t *agent = &self->agent;
    const plb_receiver_t me = {agent->share->rank, false, free_load(self), plb_agent_room(agent)};
    if (me.room <= 0.0 && self->n_known == 0) {
        return PLB_OK;
    }
    const int n = draw(self, to);
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

/* ---- offers --------------------------------------------------------------------------------- */

/* Return the load that a rank could take in objects like this one; 0: it cannot take this one. */
static double chance(const plb_receiver_t *r, const plb_entry_t *e)
{
    if (r->room < e->load || r->memory < e->memory) {
        return 0.0;
    }
    const double most = e->memory > 0 ? (double)r->memory / (double)e->memory * e->load : r->room;
    return most < r->room ? most : r->room;
}

/* Draw a known rank that can take this object, with a probability proportional to `chance`; -1:
 * there is none. */
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
    const plb_entry_t e = self->agent.entry[k];
    const int32_t j = choose(self, &e);
    int ret = PLB_OK;
    *offered = j >= 0;
    if (j < 0) {
        return PLB_OK;
    }
    plb_receiver_t *r = &self->known[j];
    if (ceiling > self->limit && !r->has_ceiling) {
        r->has_ceiling = true;
        ret =
            PLB_POST(&self->agent, err, .peer = r->rank, .kind = NOTE_CEILING, .seconds = ceiling);
    }
    PLB_THEN(plb_agent_give(&self->agent, k, r->rank, NOTE_OFFER, err));
    r->room -= e.load;
    r->memory -= e.memory;
    return ret;
}

/* If the known ranks cannot take the whole excess, keep an equal share of it, 1 / (n_known + 1),
 * and let them take the rest, in proportion to their `room`.  Returns the time up to which they
 * may take objects: the limit or, in this case, a later time. */
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
    return 0.5 * (self->limit + plb_agent_time(&self->agent, self->agent.load));
}

/* Offer the smallest object that alone removes the whole excess, if there is one. */
static int offer_one(plb_gossip_t *self, int64_t n, double excess, double ceiling, bool *offered,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    double most = 0.0;
    for (int32_t k = 0; k < self->n_known; k++) {
        most = fmax(most, self->known[k].room);
    }
    *offered = false;
    const plb_entry_t *entry = self->agent.entry;
    int64_t k = 0;
    PLB_BISECT(k, n, i, entry[i].load >= excess)
    for (; ret == PLB_OK && !*offered && k < n && entry[k].load <= most; k++) {
        ret = offer(self, k, ceiling, offered, err);
    }
    return ret;
}

/* Offer the largest objects that fit into the excess, then the smallest object that removes the
 * rest of it. */
static int offer_several(plb_gossip_t *self, int64_t n, double *excess, double ceiling,
                         plb_err_t *err)
{
    int ret = PLB_OK;
    bool offered = false;
    int64_t last = -1;
    const plb_agent_t *agent = &self->agent;
    for (int64_t k = n - 1; ret == PLB_OK && *excess > 0.0 && k >= 0; k--) {
        const double load = agent->entry[k].load;
        if (load > 0.0 && load <= *excess) {
            ret = offer(self, k, ceiling, &offered, err);
            *excess -= offered ? load : 0.0;
        }
    }
    for (int64_t k = 0; ret == PLB_OK && *excess > 0.0 && k < agent->n; k++) {
        const plb_entry_t *e = &agent->entry[k];
        if (!e->pinned && e->load >= *excess && (last < 0 || e->load < agent->entry[last].load)) {
            last = k;
        }
    }
    if (ret == PLB_OK && last >= 0) {
        const double load = agent->entry[last].load;
        ret = offer(self, last, ceiling, &offered, err);
        *excess -= offered ? load : 0.0;
    }
    return ret;
}

/* Find the object to offer because memory is short.  It is the smallest one with `need` bytes or
 * more, else the largest one; only objects with less than `under` bytes count.  -1: there is
 * none. */
static int64_t find_bulky(const plb_agent_t *agent, int64_t need, int64_t under)
{
    int64_t best = -1;
    for (int64_t k = 0; k < agent->n; k++) {
        const plb_entry_t *e = &agent->entry[k];
        if (e->pinned || e->memory <= 0 || e->memory >= under) {
            continue;
        }
        const int64_t most = best < 0 ? 0 : agent->entry[best].memory;
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
    int ret = PLB_OK;
    int64_t under = INT64_MAX;
    plb_agent_t *agent = &self->agent;
    while (ret == PLB_OK && plb_agent_room(agent) < 0) {
        bool offered = false;
        const int64_t k = find_bulky(agent, -plb_agent_room(agent), under);
        if (k < 0) {
            break;
        }
        const int64_t memory = agent->entry[k].memory;
        ret = offer(self, k, self->limit, &offered, err);
        under = offered ? under : memory;
    }
    return ret;
}

/* Nothing fits: offer a random object to each of up to fan_out known ranks, in exchange for a
 * smaller one. */
static int offer_swaps(plb_gossip_t *self, int64_t room, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_agent_t *agent = &self->agent;
    const int32_t most = self->n_known < self->fan_out ? self->n_known : self->fan_out;
    for (int32_t j = 0; ret == PLB_OK && j < most && agent->n > 0; j++) {
        const int32_t other =
            j + (int32_t)plb_rng_below(&self->rng, (uint64_t)(self->n_known - j));
        const plb_receiver_t r = self->known[other];
        self->known[other] = self->known[j];
        self->known[j] = r;
        const int64_t k = (int64_t)plb_rng_below(&self->rng, (uint64_t)agent->n);
        if (!agent->entry[k].pinned && agent->entry[k].load > 0.0) {
            if (room >= most && agent->share->memory_limit >= 0) {
                ret = PLB_POST(agent, err, .peer = r.rank, .kind = NOTE_SLACK,
                               .memory = room / most);
            }
            PLB_THEN(plb_agent_give(agent, k, r.rank, NOTE_SWAP, err));
        }
    }
    return ret;
}

/* Offer the excess load: one object if that is enough, else several. */
static int offer_excess(plb_gossip_t *self, plb_err_t *err)
{
    int64_t n = 0;
    bool offered = false;
    plb_agent_t *agent = &self->agent;
    if (!overloaded(self) || self->n_known == 0) {
        return PLB_OK;
    }
    /* offered objects may come back, so their memory is not free */
    const int64_t room = plb_agent_room(agent);
    int ret = offer_memory(self, err);
    double excess = agent->load - self->allowed;
    if (ret != PLB_OK || excess <= SLACK * self->limit * agent->share->speed) {
        return ret;
    }
    const double ceiling = raise_ceiling(self, &excess);
    ret = plb_agent_sort(agent, &n, err);
    PLB_THEN(offer_one(self, n, excess, ceiling, &offered, err));
    if (ret == PLB_OK && !offered) {
        ret = offer_several(self, n, &excess, ceiling, err);
    }
    return ret == PLB_OK && !offered && self->swapping && excess > 0.0
               ? offer_swaps(self, room, err)
               : ret;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Find the smallest object whose return lets this rank take the object of a swap; -1: there is
 * none. */
static int64_t find_smaller(const plb_gossip_t *self, const plb_note_t *note, int64_t slack)
{
    const plb_agent_t *agent = &self->agent;
    const double least = agent->load + note->load - self->allowed;
    const double most = note->load - SLACK * self->limit * agent->share->speed;
    int64_t best = -1;
    for (int64_t k = 0; k < agent->n; k++) {
        const plb_entry_t *e = &agent->entry[k];
        if (!e->pinned && e->load >= least && e->load < most &&
            e->memory - note->memory <= slack &&
            note->memory - e->memory <= plb_agent_room(agent) &&
            (best < 0 || e->load < agent->entry[best].load)) {
            best = k;
        }
    }
    return best;
}

/* Take an object if this rank's load then stays within `allowed`, or if a smaller object can be
 * returned for it; otherwise return the object itself. */
static int answer_one(plb_gossip_t *self, plb_note_t note, double allowed, int64_t slack,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    plb_agent_t *agent = &self->agent;
    const bool fits = agent->load + note.load <= allowed && note.memory <= plb_agent_room(agent);
    const int64_t k = !fits && note.kind == NOTE_SWAP ? find_smaller(self, &note, slack) : -1;
    if (k >= 0) {
        ret = plb_agent_give(agent, k, note.peer, NOTE_RETURN, err);
    }
    if (ret == PLB_OK && (fits || k >= 0)) {
        self->taken++;
        return plb_agent_take(agent, &note, err);
    }
    note.kind = NOTE_RETURN;
    return ret == PLB_OK ? plb_agent_post(agent, note, err) : ret;
}

static int answer(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t from = -1;
    double allowed = self->allowed;
    int64_t slack = 0;
    for (int64_t k = 0; ret == PLB_OK && k < n_in; k++) {
        if (in[k].peer != from) {
            from = in[k].peer;
            allowed = self->allowed;
            slack = 0;
        }
        if (in[k].kind == NOTE_SLACK) {
            slack = in[k].memory;
            continue;
        }
        if (in[k].kind == NOTE_CEILING) {
            allowed = plb_agent_allowed(&self->agent, in[k].seconds);
        } else {
            ret = answer_one(self, in[k], allowed, slack, err);
        }
    }
    return ret;
}

static int take_back(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int64_t k = 0; ret == PLB_OK && k < n_in; k++) {
        ret = in[k].kind == NOTE_RETURN ? plb_agent_take(&self->agent, &in[k], err) : PLB_OK;
    }
    return ret;
}

/* ---- an iteration --------------------------------------------------------------------------- */

static void set_limit(plb_gossip_t *self, double limit)
{
    self->limit = limit;
    self->allowed = plb_agent_allowed(&self->agent, limit);
    self->stalled = 0;
}

/* Set the next limit, after one was reached or given up: halfway between the highest limit that
 * was not reached and the time of the slowest rank.  Returns false if these two are close: the
 * search is over. */
static bool next_limit(plb_gossip_t *self, bool reached, double longest)
{
    self->failed = reached ? self->failed : self->limit;
    /* seconds that one rank would take for all work */
    const double all = self->agent.share->n_ranks * self->agent.average;
    const double more = MORE * self->failed; /* equal to `failed` if this is 0 */
    if (self->agent.crowded && !reached && longest <= self->failed && self->failed <= all &&
        more > self->failed) {
        set_limit(self, more); /* only the memory limits are exceeded: allow more time */
        return true;
    }
    if (self->failed == 0.0 || longest - self->failed <= CLOSE * self->failed) {
        return false;
    }
    set_limit(self, 0.5 * (self->failed + longest));
    return true;
}

/* Whether the strategy ends.  All ranks get the same answer, because it depends only on the
 * tally. */
static bool is_over(plb_gossip_t *self, const plb_tally_t *all)
{
    const int64_t n_overloaded = all->count[COUNT_OVERLOADED];
    const bool few_helped = (double)n_overloaded > IDLE * self->n_overloaded;
    const bool idle =
        self->iteration > 0 && ((double)all->count[COUNT_TAKEN] <= FEW * (double)n_overloaded ||
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
    return (n_overloaded == 0 || self->stalled == PATIENCE) &&
           !next_limit(self, n_overloaded == 0, all->max[MAX_TIME]);
}

static int begin(plb_gossip_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    plb_agent_t *agent = &self->agent;
    if (self->iteration == 0) {
        set_limit(self, fmax(self->overload * agent->average, agent->least));
    }
    const int ret = take_back(self, in, n_in, err);
    self->n_known = 0;
    self->n_heard = 0;
    memset(self->heard_of, 0, sizeof self->heard_of);
    agent->mine.count[COUNT_OVERLOADED] = overloaded(self);
    agent->mine.count[COUNT_TAKEN] = self->taken;
    agent->mine.max[MAX_TIME] = plb_agent_time(agent, agent->load);
    self->taken = 0;
    return ret == PLB_OK ? spread(self, err) : ret;
}

int plb_gossip_round(plb_agent_t *agent, const plb_note_t *in, int64_t n_in,
                     const plb_tally_t *all, bool *settled, plb_err_t *err)
{
    plb_gossip_t *self = (plb_gossip_t *)agent;
    const int step = self->step++;
    if (step == 0) {
        return begin(self, in, n_in, err);
    }
    if (step == 1) {
        const double limit = self->limit;
        *settled = is_over(self, all);
        if (*settled) {
            return PLB_OK;
        }
        if (self->limit != limit) { /* what ranks have reported holds for the old limit */
            self->iteration++;
            self->step = 1;
            return begin(self, in, n_in, err);
        }
    }
    if (step > self->n_rounds) {
        self->step = 0;
        self->iteration++;
        return answer(self, in, n_in, err);
    }
    for (int64_t k = 0; k < n_in; k++) {
        remember(self, &in[k]);
    }
    return step < self->n_rounds ? spread(self, err) : offer_excess(self, err);
}

/* ---- the agents ----------------------------------------------------------------------------- */

int plb_gossip_start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    plb_gossip_t *self = (plb_gossip_t *)agent;
    const plb_share_t *share = agent->share;
    self->overload = opts->params[PLB_GOSSIP_OVERLOAD];
    self->fan_out = (int)opts->params[PLB_GOSSIP_FAN_OUT];
    self->n_iterations = (int)opts->params[PLB_GOSSIP_ITERATIONS];
    /* in this many rounds, news can reach all ranks; more are useless */
    double reached = self->fan_out;
    for (self->n_rounds = 1;
         self->n_rounds < (int)opts->params[PLB_GOSSIP_ROUNDS] && reached < share->n_ranks - 1;
         self->n_rounds++) {
        reached *= self->fan_out;
    }
    const int32_t most = KNOWN * self->fan_out * self->n_rounds;
    self->most_known = most < MOST ? most : MOST;
    plb_rng_init(&self->rng, opts->seed);
    plb_rng_init(&self->rng, plb_rng_next(&self->rng) + (uint64_t)share->rank);
    PLB_PASS_NEW(self->known, self->most_known);
    return PLB_OK;
}

int64_t plb_gossip_known(const plb_agent_t *agent)
{
    return ((const plb_gossip_t *)agent)->n_known;
}

void plb_gossip_stop(plb_agent_t *agent)
{
    plb_free(((plb_gossip_t *)agent)->known);
}
