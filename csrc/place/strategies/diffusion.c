/* DiffusionLB: load flows between ranks whose objects communicate, and objects follow the flow.
 *
 * Step 1, links.  Each rank chooses the ranks with which its objects exchange the most bytes; two
 * ranks are linked if each has chosen the other.  In addition, weak links form a de Bruijn graph,
 * which connects all ranks in log2(p) steps.
 *
 * Step 2, flow.  b_i > 0 is the excess of rank i above the threshold, which is `overload` times
 * the average, or a lower bound for any placement if that is higher.  The excess flows to the
 * ranks below the average, which have b_i < 0: each gets the same fraction of the load that it
 * lacks.  The smallest flow along the links that achieves this is
 *
 *     flow(i -> j) = weight (x_i - x_j),  where L x = b,
 *
 * and L is the Laplacian of the links (Hu and Blake, An improved diffusion algorithm for dynamic
 * load balancing, Parallel Computing 25, 1999; there all ranks end with the average, and x is
 * called lambda).  Conjugate gradients solve the system; each step takes two rounds.  Neighbours
 * send only their residuals, from which every rank also computes its neighbours' directions and
 * solutions, with exactly the same bits.
 *
 * Step 3, objects.  Each rank sends objects along its links, by the rule of CommAwareRefineLB
 * (plb_shed): first those whose move saves the most bytes per second of their load.  A rank passes
 * load on only after it has received this load.
 *
 * Step 4.  The agents of gossip.c remove the remaining imbalance. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "place/internal.h"

enum { PARAM_NEIGHBOURS = PLB_GOSSIP_N_PARAMS, N_PARAMS };

enum kind {
    NOTE_EDGE = 100, /* my object `other_id` sends `bytes` to your object `id` */
    NOTE_LINK,       /* I choose you as a neighbour */
    NOTE_RESIDUAL,   /* my residual of the conjugate gradients */
    NOTE_OBJECT,     /* an object that moves along a link */
    NOTE_TIE,        /* my object `id` (now yours) exchanges `bytes` with `other_id` on `rank` */
    NOTE_NO_ROOM,    /* your object, for which I have no memory; its ties follow */
    NOTE_MOVED,      /* object `id` is now on `rank` */
};

enum phase { GREET, CHOOSE, LINK, MULTIPLY, UPDATE, MOVE, GOSSIP };

/* Indices into the tally (strategy.h).  Each comment begins with the phases that write the number.
 */
enum {
    SUM_BEYOND = 0,   /* CHOOSE: sum of load - threshold over the ranks above the threshold */
    SUM_LACKING = 1,  /* CHOOSE: sum of average - load over the ranks below the average */
    SUM_SQUARES = 0,  /* LINK, UPDATE: sum of the squared residuals */
    MAX_RESIDUAL = 0, /* LINK, UPDATE: largest residual */
    SUM_ENERGY = 0,   /* MULTIPLY: the scalar product p L p of the conjugate gradients */
    COUNT_SENT = 0,   /* MOVE: number of objects that were sent */
};

/* A guard: the most steps of the solver, and rounds in which objects move. */
enum { MOST_STEPS = 200 };
enum { DE_BRUIJN = 6 }; /* largest number of neighbours of a rank in the de Bruijn graph */

/* Weight of a link of the de Bruijn graph.
 * tuned: weight, that of other links is 1; with 0.01, a hot spot on a grid takes 30 % more
 * migrations; with 1, noise on a grid cuts as much as GossipLB does */
static const double WEAK = 0.1;

typedef struct link {
    int32_t rank;
    double weight;
    double r, p, x; /* residual, direction and solution of that rank */
    double flow;    /* load that must still go to that rank; negative: that must come from it */
    int32_t number; /* index of that rank in this round's outflow_t; 0: no object goes there */
} link_t;

typedef struct partner {
    int32_t rank;
    double bytes;
} partner_t;

/* An object of this rank exchanges `bytes` with a partner; both are numbers in `ids`. */
typedef struct tie {
    int32_t object, peer;
    double bytes;
} tie_t;

typedef struct diffusion {
    plb_gossip_t gossip; /* begins with the plb_agent_t */
    int most_links, phase, steps;
    double limit;          /* seconds: the threshold, see step 2 */
    double scale;          /* average load of a rank */
    double margin;         /* as a fraction of the average: smaller flows are not worth a
                              migration, and the solver ends at this residual */
    double r, p, x, gamma; /* values of this rank, as in link_t; gamma: the last SUM_SQUARES */
    plb_keys_t ids;        /* numbers of the objects of which this agent knows */
    int32_t *where;        /* [ids.n] rank of each of them, as far as this agent knows */
    tie_t *tie;            /* [n_ties] ties of the objects here; a tie between two of them twice */
    int64_t where_room, n_ties, ties_room;
    link_t *link; /* [n_links] in ascending order of the ranks */
    int32_t n_links;
    int64_t under_way; /* bytes of objects that left in the previous round, and can come back */
} diffusion_t;

/* ---- communication of objects --------------------------------------------------------------- */

/* Report the edges of this rank's objects to the receivers' ranks, which do not know them. */
static int greet(diffusion_t *self, plb_err_t *err)
{
    plb_agent_t *agent = &self->gossip.agent;
    const plb_share_t *share = agent->share;
    for (int64_t e = 0; e < share->n_edges; e++) {
        if (share->edge_peer_rank[e] != share->rank) {
            PLB_PASS(PLB_POST(agent, err, .peer = share->edge_peer_rank[e], .kind = NOTE_EDGE,
                              .id = share->edge_peer_id[e],
                              .other_id = share->id[share->edge_object[e]],
                              .bytes = share->edge_bytes[e]));
        }
    }
    return PLB_OK;
}

/* Return the number of an object; if the object is new, it gets the next number, and is on `rank`.
 */
static int number_of(diffusion_t *self, int64_t id, int32_t rank, int32_t *number, plb_err_t *err)
{
    const int64_t before = self->ids.n;
    PLB_PASS_GROW(self->where, self->where_room, before + 1);
    PLB_PASS(plb_keys_add(&self->ids, id, number, err));
    if (self->ids.n > before) {
        self->where[*number] = rank;
    }
    return PLB_OK;
}

static int add_tie(diffusion_t *self, int32_t object, int64_t peer_id, int32_t where, double bytes,
                   plb_err_t *err)
{
    int32_t peer = -1;
    PLB_PASS(number_of(self, peer_id, where, &peer, err));
    PLB_PASS_GROW(self->tie, self->ties_room, self->n_ties + 1);
    self->tie[self->n_ties++] = (tie_t){object, peer, bytes};
    return PLB_OK;
}

/* List the ties of all objects of this rank, in both directions. */
static int list_ties(diffusion_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    const plb_share_t *share = self->gossip.agent.share;
    int32_t k = -1;
    PLB_PASS(plb_keys_init(&self->ids, share->n, err));
    for (int64_t i = 0; i < share->n; i++) { /* object i has the number i */
        PLB_PASS(number_of(self, share->id[i], share->rank, &k, err));
    }
    for (int64_t e = 0; e < share->n_edges; e++) {
        const int32_t from = share->edge_object[e], rank = share->edge_peer_rank[e];
        const int64_t peer = share->edge_peer_id[e];
        const double bytes = share->edge_bytes[e];
        PLB_PASS(add_tie(self, from, peer, rank, bytes, err));
        if (rank == share->rank) {
            const int32_t to = plb_keys_find(&self->ids, peer);
            PLB_PASS(add_tie(self, to, share->id[from], rank, bytes, err));
        }
    }
    for (int64_t i = 0; i < n_in; i++) {
        const int32_t to = plb_keys_find(&self->ids, in[i].id);
        PLB_PASS(add_tie(self, to, in[i].other_id, in[i].peer, in[i].bytes, err));
    }
    return PLB_OK;
}

/* Order partners, or links, by rank, which is the first member of both structs. */
static int by_rank(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b)
{
    const partner_t *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : by_rank(a, b);
}

/* Choose the ranks to link (step 1); ties: the lowest ranks. */
static int choose(diffusion_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t n = 0;
    partner_t *partner = NULL;
    plb_agent_t *agent = &self->gossip.agent;
    PLB_NEW(partner, self->n_ties);
    for (int64_t k = 0; k < self->n_ties; k++) {
        const int32_t where = self->where[self->tie[k].peer];
        if (where != agent->share->rank) {
            partner[n++] = (partner_t){where, self->tie[k].bytes};
        }
    }
    qsort(partner, (size_t)n, sizeof *partner, by_rank);
    int64_t different = 0;
    for (int64_t k = 0; k < n; k++) {
        if (different > 0 && partner[different - 1].rank == partner[k].rank) {
            partner[different - 1].bytes += partner[k].bytes;
        } else {
            partner[different++] = partner[k];
        }
    }
    qsort(partner, (size_t)different, sizeof *partner, by_bytes);
    n = different < self->most_links ? different : self->most_links;
    qsort(partner, (size_t)n, sizeof *partner, by_rank);
    PLB_NEW(self->link, n + DE_BRUIJN);
    for (int64_t k = 0; k < n; k++) {
        self->link[self->n_links++] = (link_t){.rank = partner[k].rank, .weight = 1.0};
        PLB_TRY(PLB_POST(agent, err, .peer = partner[k].rank, .kind = NOTE_LINK));
    }
out:
    plb_free(partner);
    return ret;
}

/* ---- links ---------------------------------------------------------------------------------- */

static void add_link(diffusion_t *self, int64_t rank)
{
    if (rank == self->gossip.agent.share->rank) {
        return;
    }
    for (int32_t k = 0; k < self->n_links; k++) {
        if (self->link[k].rank == rank) {
            return;
        }
    }
    self->link[self->n_links++] = (link_t){.rank = (int32_t)rank, .weight = WEAK};
}

/* Keep the links that both sides chose, and add those of the de Bruijn graph: i -> 2 i and
 * i -> 2 i + 1, modulo p, in both directions. */
static void make_links(diffusion_t *self, const plb_note_t *in, int64_t n_in)
{
    const int64_t i = self->gossip.agent.share->rank, p = self->gossip.agent.share->n_ranks;
    int32_t both = 0;
    int64_t at = 0;
    for (int32_t k = 0; k < self->n_links; k++) {
        while (at < n_in && in[at].peer < self->link[k].rank) {
            at++;
        }
        if (at < n_in && in[at].peer == self->link[k].rank) {
            self->link[both++] = self->link[k];
        }
    }
    self->n_links = both;
    add_link(self, 2 * i % p);
    add_link(self, (2 * i + 1) % p);
    for (int64_t bit = 0; bit < 2; bit++) {
        for (int64_t turn = 0; turn < 2; turn++) {
            const int64_t twice = i - bit + turn * p; /* solve 2 j = i - bit modulo p */
            if (twice >= 0 && twice % 2 == 0 && twice / 2 < p) {
                add_link(self, twice / 2);
            }
        }
    }
    qsort(self->link, (size_t)self->n_links, sizeof *self->link, by_rank);
}

/* ---- flow ----------------------------------------------------------------------------------- */

/* Return this rank's load above what takes it `seconds`, as a multiple of the average load. */
static double excess(const diffusion_t *self, double seconds)
{
    const plb_agent_t *agent = &self->gossip.agent;
    return (agent->now.load - plb_agent_allowed(agent, seconds)) / self->scale;
}

static int tell_residual(diffusion_t *self, plb_err_t *err)
{
    plb_agent_t *agent = &self->gossip.agent;
    for (int32_t k = 0; k < self->n_links; k++) {
        PLB_PASS(PLB_POST(agent, err, .peer = self->link[k].rank, .kind = NOTE_RESIDUAL,
                          .residual = self->r));
    }
    agent->mine.sum[SUM_SQUARES] = self->r * self->r;
    agent->mine.max[MAX_RESIDUAL] = fabs(self->r);
    return PLB_OK;
}

/* Set p to r + beta p, for this rank and its neighbours.  gamma: SUM_SQUARES.  Contribute to the
 * scalar product p L p over all links: each end of a link contributes half of the link's term. */
static void multiply(diffusion_t *self, const plb_note_t *in, double gamma)
{
    const double beta = self->steps == 0 ? 0.0 : gamma / self->gamma;
    double energy = 0.0;
    self->gamma = gamma;
    self->p = self->r + beta * self->p;
    for (int32_t k = 0; k < self->n_links; k++) {
        link_t *link = &self->link[k];
        link->r = in[k].residual;
        link->p = link->r + beta * link->p;
        energy += 0.5 * link->weight * (self->p - link->p) * (self->p - link->p);
    }
    self->gossip.agent.mine.sum[SUM_ENERGY] = energy;
}

static void update(diffusion_t *self, double energy)
{
    const double alpha = energy > 0.0 ? self->gamma / energy : 0.0;
    double product = 0.0;
    for (int32_t k = 0; k < self->n_links; k++) {
        link_t *link = &self->link[k];
        product += link->weight * (self->p - link->p);
        link->x += alpha * link->p;
    }
    self->x += alpha * self->p;
    self->r -= alpha * product;
    self->steps++;
}

/* ---- objects -------------------------------------------------------------------------------- */

/* What a rank must decide in a round: which of its objects go along which link.  Rank 0 of this
 * problem is this rank.  Each other rank stands for a link, and has one fixed object, which stands
 * for all objects on that link's rank.  Rank 0 is above the limit by just the load that must go,
 * and each other rank is below it by the flow that its link still needs. */
typedef struct outflow {
    double limit;
    plb_snapshot_t in;
    int32_t *number;    /* [n] number of each object of this rank */
    int32_t *at;        /* [ids.n] object with this number; -1: it is not on this rank */
    link_t **link;      /* [in.n_ranks] link of each rank from 1 on */
    int32_t *rank, *to; /* [in.n_objects] ranks before and after */
    double *load, *background, *bytes;
    uint8_t *migratable;
    int32_t *src, *dst;
} outflow_t;

/* Return the link to a rank; NULL: there is none. */
static link_t *find_link(const diffusion_t *self, int32_t rank)
{
    int64_t k = 0;
    PLB_BISECT(k, self->n_links, i, self->link[i].rank >= rank)
    return k < self->n_links && self->link[k].rank == rank ? &self->link[k] : NULL;
}

/* List this rank and its links.  The fraction `part` of each link's flow counts, if it is above
 * the margin. */
static int outflow_ranks(outflow_t *self, diffusion_t *from, double part, plb_err_t *err)
{
    const double margin = from->margin * from->scale, load = from->gossip.agent.now.load;
    double most = 0.0, out = -margin;
    int32_t p = 1;
    PLB_PASS_NEW_EACH((int64_t)from->n_links + 1, self->background, self->link);
    for (int32_t k = 0; k < from->n_links; k++) {
        const double flow = part * from->link[k].flow;
        from->link[k].number = flow > margin ? p : 0;
        if (flow > margin) {
            self->link[p] = &from->link[k];
            self->background[p++] = -flow - margin;
            most = fmax(most, flow + margin);
            out += flow;
        }
    }
    self->limit = load + most;
    self->background[0] = out - load;
    for (int32_t r = 0; r < p; r++) {
        self->background[r] += self->limit;
    }
    self->in = (plb_snapshot_t){
        .n_components = 1, .n_ranks = p, .n_objects = from->gossip.agent.now.n + p};
    return PLB_OK;
}

/* List the objects and their ties; a tie between two objects of this rank is listed only once. */
static int outflow_objects(outflow_t *self, const diffusion_t *from, plb_err_t *err)
{
    const plb_entry_t *entry = from->gossip.agent.now.entry;
    const int32_t n = (int32_t)from->gossip.agent.now.n, all = (int32_t)self->in.n_objects;
    int64_t *m = &self->in.n_edges;
    PLB_PASS_NEW_EACH(all, self->number, self->rank, self->to, self->load, self->migratable);
    PLB_PASS_NEW_EACH(from->n_ties, self->src, self->dst, self->bytes);
    PLB_PASS_NEW(self->at, from->ids.n);
    memset(self->at, -1, (size_t)from->ids.n * sizeof *self->at);
    for (int32_t i = 0; i < all; i++) {
        self->rank[i] = i < n ? 0 : i - n;
        self->load[i] = i < n ? entry[i].load : 0.0;
        self->migratable[i] = i < n && !entry[i].pinned;
    }
    for (int32_t i = 0; i < n; i++) {
        self->number[i] = plb_keys_find(&from->ids, entry[i].id);
        self->at[self->number[i]] = i;
    }
    for (int64_t k = 0; k < from->n_ties; k++) {
        const tie_t *tie = &from->tie[k];
        const link_t *link = find_link(from, from->where[tie->peer]);
        const int32_t i = self->at[tie->object], r = link == NULL ? 0 : link->number;
        const int32_t j = r > 0 ? n + r : self->at[tie->peer];
        if (j > i && i >= 0) {
            self->src[*m] = i;
            self->dst[*m] = j;
            self->bytes[(*m)++] = tie->bytes;
        }
    }
    self->in.rank = self->rank;
    self->in.load = self->load;
    self->in.background = self->background;
    self->in.migratable = self->migratable;
    self->in.edge_src = self->src;
    self->in.edge_dst = self->dst;
    self->in.edge_bytes = self->bytes;
    return PLB_OK;
}

/* After the objects that leave, send their ties; inform the partners' ranks, too. */
static int send_ties(diffusion_t *self, const outflow_t *out, plb_err_t *err)
{
    plb_agent_t *agent = &self->gossip.agent;
    int64_t kept = 0;
    for (int64_t k = 0; k < self->n_ties; k++) {
        const tie_t tie = self->tie[k];
        const int32_t to = self->where[tie.object], peer = self->where[tie.peer];
        const int64_t id = self->ids.key[tie.object], other = self->ids.key[tie.peer];
        if (out->at[tie.object] < 0 || out->to[out->at[tie.object]] == 0) {
            self->tie[kept++] = tie;
            continue;
        }
        PLB_PASS(PLB_POST(agent, err, .peer = to, .kind = NOTE_TIE, .id = id, .other_id = other,
                          .rank = peer, .bytes = tie.bytes));
        if (peer != agent->share->rank && peer != to) {
            PLB_PASS(PLB_POST(agent, err, .peer = peer, .kind = NOTE_MOVED, .id = id, .rank = to));
        }
    }
    self->n_ties = kept;
    return PLB_OK;
}

/* Send objects along the links whose flow leaves this rank, in total at most this rank's excess:
 * load that only passes through must first arrive. */
static int give_along_links(diffusion_t *self, plb_err_t *err)
{
    outflow_t out = {0};
    plb_agent_t *agent = &self->gossip.agent;
    const double budget = (excess(self, agent->average) + self->margin) * self->scale;
    double sum = 0.0, most = 0.0;
    int ret = PLB_OK;
    for (int32_t k = 0; k < self->n_links; k++) {
        sum += fmax(self->link[k].flow, 0.0);
        most = fmax(self->link[k].flow, most);
    }
    const double part = sum > 0.0 ? fmin(1.0, budget / sum) : 0.0;
    if (part * most <= self->margin * self->scale) {
        return PLB_OK;
    }
    PLB_TRY(outflow_ranks(&out, self, part, err));
    PLB_TRY(outflow_objects(&out, self, err));
    PLB_TRY(plb_shed(&out.in, out.limit, out.to, err));
    for (int64_t k = 0; k < agent->now.n; k++) {
        if (out.to[k] > 0) {
            out.link[out.to[k]]->flow -= agent->now.entry[k].load;
            self->where[out.number[k]] = out.link[out.to[k]]->rank;
        }
    }
    for (int64_t k = agent->now.n - 1; k >= 0; k--) {
        /* plb_agent_give moves the last entry, which this loop has already seen, to index k */
        if (out.to[k] > 0) {
            self->under_way += agent->now.entry[k].memory;
            agent->mine.count[COUNT_SENT]++;
            PLB_TRY(plb_agent_give(agent, k, out.link[out.to[k]]->rank, NOTE_OBJECT, err));
        }
    }
    ret = send_ties(self, &out, err);
out:
    PLB_FREE(out.number, out.at, out.link, out.rank, out.to, out.load, out.background,
             out.migratable, out.src, out.dst, out.bytes);
    return ret;
}

/* Take the objects for which there is memory, with their ties; return the others with theirs. */
static int take_in(diffusion_t *self, const plb_note_t *in, int64_t n_in, plb_err_t *err)
{
    plb_agent_t *agent = &self->gossip.agent;
    int64_t room = plb_agent_room(agent) - self->under_way;
    for (int64_t k = 0; k < n_in; k++) { /* memory for objects that come back is not free */
        room -= in[k].kind == NOTE_NO_ROOM ? in[k].memory : 0;
    }
    self->under_way = 0;
    for (int64_t k = 0; k < n_in; k++) {
        plb_note_t note = in[k];
        const int32_t object = plb_keys_find(&self->ids, note.id);
        const bool here = object >= 0 && self->where[object] == agent->share->rank;
        if (note.kind == NOTE_MOVED) {
            if (object >= 0 && !here) {
                self->where[object] = note.rank;
            }
        } else if (note.kind == NOTE_TIE && here) {
            PLB_PASS(add_tie(self, object, note.other_id, note.rank, note.bytes, err));
        } else if (note.kind == NOTE_TIE || (note.kind == NOTE_OBJECT && note.memory > room)) {
            if (note.kind == NOTE_OBJECT && object >= 0) {
                self->where[object] = note.peer; /* its ties, which follow, go back, too */
            }
            note.kind = note.kind == NOTE_TIE ? NOTE_TIE : NOTE_NO_ROOM;
            PLB_PASS(plb_agent_post(agent, note, err));
        } else {
            link_t *link = find_link(self, note.peer);
            int32_t number = -1;
            room -= note.kind == NOTE_OBJECT ? note.memory : 0;
            PLB_PASS(number_of(self, note.id, agent->share->rank, &number, err));
            self->where[number] = agent->share->rank;
            /* an object that came back ends the flow of its link */
            link->flow = note.kind == NOTE_OBJECT ? link->flow + note.load : 0.0;
            PLB_PASS(plb_agent_take(agent, &note, err));
        }
    }
    return PLB_OK;
}

/* ---- rounds --------------------------------------------------------------------------------- */

static void forget_ties(diffusion_t *self)
{
    plb_keys_free(&self->ids);
    PLB_FREE(self->where, self->tie);
    self->where = NULL;
    self->tie = NULL;
    self->n_ties = 0;
}

static int round_of(plb_agent_t *agent, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    bool *settled, plb_err_t *err)
{
    diffusion_t *self = (diffusion_t *)agent;
    switch (self->phase) {
    case GREET:
        self->scale = agent->average * agent->mean_speed;
        self->limit = fmax(self->gossip.overload * agent->average, agent->least);
        self->margin = fmin(fmax(self->gossip.overload - 1.0, PLB_WORTH), PLB_NOISE);
        if (agent->before <= self->limit) { /* no rank is above the limit */
            self->phase = GOSSIP;
            return plb_gossip_agent.round(agent, in, n_in, all, settled, err);
        }
        self->phase = CHOOSE;
        return greet(self, err);
    case CHOOSE:
        agent->mine.sum[SUM_BEYOND] = fmax(excess(self, self->limit), 0.0);
        agent->mine.sum[SUM_LACKING] = fmax(-excess(self, agent->average), 0.0);
        PLB_PASS(list_ties(self, in, n_in, err));
        self->phase = LINK;
        return choose(self, err);
    case LINK: {
        make_links(self, in, n_in);
        const double beyond = all->sum[SUM_BEYOND], lacking = all->sum[SUM_LACKING];
        const double over = excess(self, self->limit), more = excess(self, agent->average);
        self->r = over > 0.0                   ? over /* b_i of step 2 */
                  : beyond > 0.0 && more < 0.0 ? more * (beyond / lacking)
                                               : 0.0;
        self->phase = MULTIPLY;
        return tell_residual(self, err);
    }
    case MULTIPLY:
        if (all->max[MAX_RESIDUAL] <= self->margin || self->steps == MOST_STEPS) {
            for (int32_t k = 0; k < self->n_links; k++) {
                link_t *link = &self->link[k];
                link->flow = self->scale * link->weight * (self->x - link->x);
            }
            self->phase = MOVE;
            self->steps = 0;
            return give_along_links(self, err);
        }
        multiply(self, in, all->sum[SUM_SQUARES]);
        self->phase = UPDATE;
        return PLB_OK;
    case UPDATE:
        update(self, all->sum[SUM_ENERGY]);
        self->phase = MULTIPLY;
        return tell_residual(self, err);
    case MOVE:
        PLB_PASS(take_in(self, in, n_in, err));
        if (all->count[COUNT_SENT] > 0) {
            return ++self->steps < MOST_STEPS ? give_along_links(self, err) : PLB_OK;
        }
        self->phase = GOSSIP;
        forget_ties(self);
        return plb_gossip_agent.round(agent, NULL, 0, all, settled, err);
    default:
        return plb_gossip_agent.round(agent, in, n_in, all, settled, err);
    }
}

/* ---- the agents ----------------------------------------------------------------------------- */

static int start(plb_agent_t *agent, const plb_opts_t *opts, plb_err_t *err)
{
    diffusion_t *self = (diffusion_t *)agent;
    self->most_links = (int)opts->params[PARAM_NEIGHBOURS];
    PLB_PASS(plb_gossip_agent.start(agent, opts, err));
    self->gossip.from_home = false; /* a second search would undo the moves along the links */
    return PLB_OK;
}

static int64_t known(const plb_agent_t *agent)
{
    const diffusion_t *self = (const diffusion_t *)agent;
    return plb_gossip_agent.known(agent) + self->n_links + self->ids.n + self->n_ties;
}

static void stop(plb_agent_t *agent)
{
    diffusion_t *self = (diffusion_t *)agent;
    forget_ties(self);
    plb_free(self->link);
    plb_gossip_agent.stop(agent);
}

static const plb_param_t params[] = {
    PLB_GOSSIP_PARAMS,
    {"neighbours", "",
     "largest number of ranks with which a rank is linked because of communication", 8, 0, 1024},
};

static const plb_agent_type_t type = {sizeof(diffusion_t), start, round_of, known, stop};

const plb_strategy_t plb_strategy_diffusion = {
    .name = "DiffusionLB",
    .help = "distributed: load flows between communicating ranks, objects go to their partners",
    .source = "Hu and Blake, Parallel Computing 25, 1999",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_COMM | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = N_PARAMS,
    .run = plb_strategy_in_rounds,
    .agent = &type,
};
