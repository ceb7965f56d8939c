#include <string.h>

#include "base/base.h"
#include "place/internal.h"

/* ---- a snapshot split by rank --------------------------------------------------------------- */

typedef struct shares {
    plb_share_t *share;          /* [p] input of each rank's agent (strategy.h) */
    plb_groups_t objects, ranks; /* objects grouped by rank, ranks by node */
    int64_t *edges;              /* [p + 1] end of each rank's edges */
    int64_t *id;
    double *load;
    int64_t *memory;
    uint8_t *migratable;
    int32_t *node;  /* [p] number of each rank's node, from 0 */
    int32_t *place; /* [n] index of each object among those of its rank */
    int32_t *edge_object, *edge_peer_rank;
    int64_t *edge_peer_id;
    double *edge_bytes;
} shares_t;

static int share_objects(shares_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    const int64_t n = in->n_objects;
    int ret = plb_groups_init(&self->objects, in->rank, n, in->n_ranks, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(n, self->id, self->load, self->place);
    if (in->memory != NULL && in->memory_limit != NULL) {
        PLB_NEW(self->memory, n);
    }
    if (in->migratable != NULL) {
        PLB_NEW(self->migratable, n);
    }
    for (int64_t k = 0; k < n; k++) {
        const int32_t i = self->objects.item[k];
        self->id[k] = i;
        self->load[k] = in->load[i];
        self->place[i] = (int32_t)(k - self->objects.start[in->rank[i]]);
        if (self->memory != NULL) {
            self->memory[k] = in->memory[i];
        }
        if (self->migratable != NULL) {
            self->migratable[k] = in->migratable[i];
        }
    }
out:
    return ret;
}

typedef struct lister {
    shares_t *to;
    const plb_snapshot_t *in;
    bool counts; /* first pass: count the edges of each rank; second pass: write them */
} lister_t;

/* An edge belongs to the sender's rank; a multicast counts as an edge to each receiver. */
static void list_edge(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    const lister_t *self = arg;
    const int32_t r = self->in->rank[src];
    if (self->counts) {
        self->to->edges[r + 1]++;
        return;
    }
    const int64_t at = self->to->edges[r]++;
    self->to->edge_object[at] = self->to->place[src];
    self->to->edge_peer_id[at] = dst;
    self->to->edge_peer_rank[at] = self->in->rank[dst];
    self->to->edge_bytes[at] = bytes;
}

static int share_edges(shares_t *self, const plb_snapshot_t *in, plb_err_t *err)
{
    const int64_t m = in->n_edges + in->n_pins;
    PLB_PASS_NEW0(self->edges, in->n_ranks + 1);
    PLB_PASS_NEW_EACH(m, self->edge_object, self->edge_peer_id, self->edge_peer_rank,
                      self->edge_bytes);
    plb_each_pair(in, list_edge, &(lister_t){self, in, true});
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->edges[r + 1] += self->edges[r];
    }
    plb_each_pair(in, list_edge, &(lister_t){self, in, false});
    return plb_interrupted(PLB_INTERRUPT_NOW);
}

/* Return the share of rank r (strategy.h); it points to the arrays of `self`. */
static plb_share_t share_of(const shares_t *self, const plb_snapshot_t *in, bool lenient,
                            int32_t r)
{
    const int64_t begin = self->objects.start[r], edge = r == 0 ? 0 : self->edges[r - 1];
    plb_share_t out = {
        .rank = r,
        .n_ranks = in->n_ranks,
        .speed = plb_speed(in, r),
        .background = plb_background(in, r),
        .memory_limit = self->memory == NULL ? -1 : in->memory_limit[r],
        .lenient = lenient,
        .n = self->objects.start[r + 1] - begin,
        .id = self->id + begin,
        .load = self->load + begin,
        .memory = self->memory == NULL ? NULL : self->memory + begin,
        .migratable = self->migratable == NULL ? NULL : self->migratable + begin,
        .n_edges = self->edges[r] - edge,
        .edge_object = self->edge_object + edge,
        .edge_peer_id = self->edge_peer_id + edge,
        .edge_peer_rank = self->edge_peer_rank + edge,
        .edge_bytes = self->edge_bytes + edge,
    };
    if (self->ranks.start != NULL) {
        const int64_t *start = &self->ranks.start[self->node[r]];
        out.neighbour = self->ranks.item + start[0];
        out.n_neighbours = (int32_t)(start[1] - start[0]);
    }
    return out;
}

static int shares_init(shares_t *self, const plb_snapshot_t *in, bool lenient, plb_err_t *err)
{
    PLB_PASS(share_objects(self, in, err));
    PLB_PASS(share_edges(self, in, err));
    int32_t n_nodes = 0;
    if (in->node != NULL) {
        PLB_PASS_NEW(self->node, in->n_ranks);
        PLB_PASS(plb_snapshot_nodes(in, self->node, &n_nodes, err));
    }
    if (n_nodes > 1) {
        PLB_PASS(plb_groups_init(&self->ranks, self->node, in->n_ranks, n_nodes, err));
    }
    PLB_PASS_NEW(self->share, in->n_ranks);
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->share[r] = share_of(self, in, lenient, r);
    }
    return PLB_OK;
}

/* ---- the driver ----------------------------------------------------------------------------- */

typedef struct driver {
    int32_t p;
    plb_agent_t **agent; /* [p] agent of each rank */
    plb_note_t *inbox; /* notes to all ranks: those to rank r are start[r] ... start[r + 1] - 1 */
    int64_t *start;    /* [p + 2] where the notes to each rank begin */
    int64_t room;
    plb_tally_t all;
    int32_t *last; /* [p] the rank that most recently wrote to each rank in this round */
} driver_t;

static int driver_init(driver_t *self, const plb_agent_type_t *type, const shares_t *shares,
                       const plb_snapshot_t *in, const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    self->p = in->n_ranks;
    PLB_NEW0(self->agent, self->p);
    PLB_NEW0(self->start, self->p + 2);
    PLB_NEW(self->last, self->p);
    for (int32_t r = 0; r < self->p; r++) {
        self->agent[r] = plb_agent_new(type, &shares->share[r], opts, err);
        if (self->agent[r] == NULL) {
            ret = err->code;
            goto out;
        }
    }
out:
    return ret;
}

static void merge_tallies(driver_t *self)
{
    plb_exact_t sum[PLB_TALLY_SUMS] = {{{0}}};
    plb_tally_t all = {0};
    for (int32_t r = 0; r < self->p; r++) {
        const plb_tally_t *mine = &self->agent[r]->mine;
        for (int k = 0; k < PLB_TALLY_SUMS; k++) {
            plb_exact_add(&sum[k], mine->sum[k]);
        }
        for (int k = 0; k < PLB_TALLY_MAXIMA; k++) {
            all.max[k] = mine->max[k] > all.max[k] ? mine->max[k] : all.max[k];
        }
        for (int k = 0; k < PLB_TALLY_COUNTS; k++) {
            all.count[k] += mine->count[k];
        }
    }
    for (int k = 0; k < PLB_TALLY_SUMS; k++) {
        all.sum[k] = plb_exact_value(&sum[k]);
    }
    self->all = all;
}

static void count_traffic(driver_t *self, plb_traffic_t *traffic)
{
    memset(self->last, -1, (size_t)self->p * sizeof *self->last);
    traffic->rounds++;
    for (int32_t r = 0; r < self->p; r++) {
        const plb_agent_t *agent = self->agent[r];
        for (int64_t k = 0; k < agent->n_notes; k++) {
            const int32_t to = agent->note[k].peer;
            traffic->messages[r] += self->last[to] != r;
            self->last[to] = r;
        }
        traffic->bytes[r] += agent->n_notes * (int64_t)sizeof *agent->note;
        traffic->held[r] = agent->held;
    }
}

/* Sort all notes by receiver, and those of a receiver by sender. */
static int carry(driver_t *self, plb_err_t *err)
{
    int64_t total = 0;
    memset(self->start, 0, (size_t)(self->p + 2) * sizeof *self->start);
    for (int32_t r = 0; r < self->p; r++) {
        const plb_agent_t *agent = self->agent[r];
        for (int64_t k = 0; k < agent->n_notes; k++) {
            self->start[agent->note[k].peer + 2]++;
        }
        total += agent->n_notes;
    }
    PLB_PASS_GROW(self->inbox, self->room, total);
    for (int32_t r = 0; r < self->p; r++) {
        self->start[r + 2] += self->start[r + 1];
    }
    for (int32_t r = 0; r < self->p; r++) {
        const plb_agent_t *agent = self->agent[r];
        for (int64_t k = 0; k < agent->n_notes; k++) {
            plb_note_t *to = &self->inbox[self->start[agent->note[k].peer + 1]++];
            *to = agent->note[k];
            to->peer = r;
        }
    }
    return PLB_OK;
}

/* All agents run in the caller's thread: a search has hundreds of rounds, and on a busy machine
 * each of them would wait for the slowest thread. */
static int run_all(driver_t *self, plb_traffic_t *traffic, plb_err_t *err)
{
    for (;;) {
        for (int32_t r = 0; r < self->p; r++) {
            const int64_t begin = self->start[r], n_notes = self->start[r + 1] - begin;
            PLB_PASS(
                plb_agent_round(self->agent[r], self->inbox + begin, n_notes, &self->all, err));
            PLB_PASS(plb_interrupted(1 << 10));
        }
        if (traffic != NULL) {
            count_traffic(self, traffic);
        }
        if (self->agent[0]->done) {
            return PLB_OK;
        }
        merge_tallies(self);
        PLB_PASS(carry(self, err));
        PLB_PASS(plb_interrupted(self->p));
    }
}

int plb_rounds_run(const plb_agent_type_t *type, const plb_snapshot_t *in, const plb_opts_t *opts,
                   int32_t *out, plb_traffic_t *traffic, plb_err_t *err)
{
    shares_t shares = {0};
    driver_t driver = {0};
    plb_err_t own = {0, ""};
    err = err == NULL ? &own : err;
    int ret = PLB_OK;
    PLB_FAIL_IF(in->n_components != 1, err, PLB_ERR_VALUE,
                "an object has %d loads: expected 1 for a distributed strategy", in->n_components);
    PLB_TRY(shares_init(&shares, in, opts->lenient, err));
    PLB_TRY(driver_init(&driver, type, &shares, in, opts, err));
    PLB_TRY(run_all(&driver, traffic, err));
    for (int32_t r = 0; r < in->n_ranks; r++) {
        const plb_share_t *share = &shares.share[r];
        for (int64_t i = 0; i < share->n; i++) {
            out[share->id[i]] = driver.agent[r]->answer[i];
        }
    }
out:
    for (int32_t r = 0; driver.agent != NULL && r < in->n_ranks; r++) {
        plb_agent_destroy(driver.agent[r]);
    }
    PLB_FREE(driver.agent, driver.inbox, driver.start, driver.last);
    plb_groups_free(&shares.objects);
    plb_groups_free(&shares.ranks);
    PLB_FREE(shares.share, shares.edges, shares.id, shares.load, shares.memory, shares.migratable,
             shares.node, shares.place, shares.edge_object, shares.edge_peer_rank,
             shares.edge_peer_id, shares.edge_bytes);
    return ret;
}

int plb_strategy_in_rounds(const plb_strategy_t *self, const plb_snapshot_t *in,
                           const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    return plb_rounds_run(self->agent, in, opts, out, NULL, err);
}
