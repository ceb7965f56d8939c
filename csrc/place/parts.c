#include "place/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "place/refine.h"
#include "place/scale.h"

void plb_parts_free(plb_parts_t *self)
{
    plb_problem_free(&self->problem);
    plb_free(self->vertex);
    plb_free(self->weight);
    plb_free(self->fixed);
    plb_free(self->old);
    plb_free(self->old_cost);
    plb_free(self->share);
    plb_free(self->start);
    plb_free(self->to);
    plb_free(self->edge_weight);
    plb_free(self->net_start);
    plb_free(self->pin);
    plb_free(self->net_weight);
    *self = (plb_parts_t){0};
}

/* ---- vertices and shares
 * ---------------------------------------------------------------------------- */

/* The time at which all ranks end together, and what each may then have of the objects that may
 * migrate.  Ranks that are busy for longer with the rest get nothing, and are left out of it. */
static void fill_shares(plb_parts_t *self, double movable)
{
    const plb_snapshot_t *in = self->problem.in;
    bool changed = movable > 0.0;
    double total = 0.0;
    for (int32_t r = 0; r < in->n_ranks; r++) {
        self->share[r] = 1.0;
    }
    while (changed) {
        double work = movable, speed = 0.0;
        total = 0.0;
        for (int32_t r = 0; r < in->n_ranks; r++) {
            const double b = in->background == NULL ? 0.0 : in->background[r];
            if (self->share[r] > 0.0) {
                work += self->problem.fixed[r] + b * plb_speed(in, r);
                speed += plb_speed(in, r);
            }
        }
        const double average = work / speed;
        changed = false;
        for (int32_t r = 0; r < in->n_ranks; r++) {
            const double b = in->background == NULL ? 0.0 : in->background[r];
            const double room = (average - b) * plb_speed(in, r) - self->problem.fixed[r];
            if (self->share[r] > 0.0) {
                changed = changed || room <= 0.0;
                self->share[r] = fmax(room, 0.0);
                total += self->share[r];
            }
        }
        changed = changed && total > 0.0;
    }
    for (int32_t r = 0; !(total > 0.0) && r < in->n_ranks; r++) {
        self->share[r] = 1.0; /* loads too small to matter, or none */
    }
}

static bool all_equal(const double *share, int32_t n)
{
    for (int32_t r = 1; r < n; r++) {
        if (share[r] != share[0]) {
            return false;
        }
    }
    return true;
}

static int fill_weights(plb_parts_t *self, double *movable, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    double *load = NULL;
    PLB_NEW(load, self->n);
    *movable = 0.0;
    for (int32_t v = 0; v < self->n; v++) {
        load[v] = in->load[plb_problem_object(&self->problem, v)];
        *movable += load[v];
    }
    const double scale = plb_scale_of(load, self->n);
    for (int32_t v = 0; v < self->question.n_vertices; v++) {
        self->weight[v] = v < self->n ? plb_scaled(load[v], scale, 0) : 0;
    }
out:
    plb_free(load);
    return ret;
}

/* Which vertex an object is. */
static void number_objects(plb_parts_t *self, bool anchors)
{
    const plb_snapshot_t *in = self->problem.in;
    for (int64_t i = 0, v = 0; i < in->n_objects; i++) {
        if (plb_may_migrate(in, i)) {
            self->vertex[i] = (int32_t)v++;
        } else {
            self->vertex[i] = anchors ? self->n + in->rank[i] : -1;
        }
    }
    for (int32_t v = 0; anchors && v < self->question.n_vertices; v++) {
        self->fixed[v] = v < self->n ? -1 : v - self->n;
    }
}

int plb_parts_init(plb_parts_t *self, const plb_snapshot_t *in, bool takes_fixed, double imbalance,
                   uint64_t seed, plb_err_t *err)
{
    *self = (plb_parts_t){.per_byte = 1.0};
    int ret = plb_problem_init(&self->problem, in, err);
    if (ret != PLB_OK) {
        goto out;
    }
    const int64_t n = self->problem.n, p = in->n_ranks;
    const bool anchors = takes_fixed && n < in->n_objects;
    if (n + p > INT32_MAX) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "%lld objects: expected fewer than 2^31 with the ranks",
                       (long long)n);
        goto out;
    }
    self->n = (int32_t)n;
    PLB_NEW(self->vertex, in->n_objects);
    PLB_NEW(self->weight, n + p);
    PLB_NEW(self->share, p);
    if (anchors) {
        PLB_NEW(self->fixed, n + p);
    }
    self->question = (plb_partition_t){.n_vertices = (int32_t)(n + (anchors ? p : 0)),
                                       .n_parts = in->n_ranks,
                                       .n_weights = 1,
                                       .weight = self->weight,
                                       .fixed = self->fixed,
                                       .imbalance = imbalance,
                                       .seed = (int32_t)(seed & INT32_MAX)};
    number_objects(self, anchors);
    double movable = 0.0;
    ret = fill_weights(self, &movable, err);
    if (ret == PLB_OK) {
        fill_shares(self, movable);
        self->question.share = all_equal(self->share, in->n_ranks) ? NULL : self->share;
    }
out:
    if (ret != PLB_OK) {
        plb_parts_free(self);
    }
    return ret;
}

/* ---- the hypergraph
 * ----------------------------------------------------------------------------------- */

/* Add a pin to the net that ends at `at`, unless it has it or it is none. */
static int32_t add_pin(plb_parts_t *self, int32_t object, int32_t stamp, int32_t *seen, int32_t at)
{
    const int32_t v = self->vertex[object];
    if (v >= 0 && seen[v] != stamp) {
        seen[v] = stamp;
        self->pin[at++] = v;
    }
    return at;
}

/* Keep the net from the last one's end to `at`, if it connects something. */
static void end_net(plb_parts_t *self, int32_t *n_nets, int32_t at, double bytes, double *weight)
{
    if (at - self->net_start[*n_nets] > 1) {
        weight[(*n_nets)++] = bytes;
        self->net_start[*n_nets] = at;
    }
}

static int32_t fill_nets(plb_parts_t *self, int32_t *seen, double *weight)
{
    const plb_snapshot_t *in = self->problem.in;
    int32_t n = 0, stamp = 0;
    self->net_start[0] = 0;
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        int32_t at = add_pin(self, in->multicast_src[e], ++stamp, seen, self->net_start[n]);
        for (int64_t i = in->multicast_start[e]; i < in->multicast_start[e + 1]; i++) {
            at = add_pin(self, in->multicast_dst[i], stamp, seen, at);
        }
        end_net(self, &n, at, in->multicast_bytes[e], weight);
    }
    for (int64_t e = 0; e < in->n_edges; e++) {
        int32_t at = add_pin(self, in->edge_src[e], ++stamp, seen, self->net_start[n]);
        at = add_pin(self, in->edge_dst[e], stamp, seen, at);
        end_net(self, &n, at, in->edge_bytes[e], weight);
    }
    return n;
}

int plb_parts_nets(plb_parts_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *seen = NULL;
    double *weight = NULL;
    const plb_snapshot_t *in = self->problem.in;
    const int64_t nets = in->n_multicasts + in->n_edges;
    const int64_t pins = in->n_multicasts + in->n_pins + 2 * in->n_edges;
    if (pins > INT32_MAX - 1) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "%lld pins: expected fewer than 2^31",
                        (long long)pins);
    }
    PLB_NEW(self->net_start, nets + 1);
    PLB_NEW(self->pin, pins);
    PLB_NEW(self->net_weight, nets);
    PLB_NEW(weight, nets);
    PLB_NEW0(seen, self->question.n_vertices);
    const int32_t n = fill_nets(self, seen, weight);
    self->per_byte = plb_scale_of(weight, n);
    for (int32_t e = 0; e < n; e++) {
        self->net_weight[e] = plb_scaled(weight[e], self->per_byte, 1);
    }
    self->question.n_nets = n;
    self->question.net_start = self->net_start;
    self->question.pin = self->pin;
    self->question.net_weight = self->net_weight;
out:
    plb_free(seen);
    plb_free(weight);
    return ret;
}

/* ---- migration cost
 * -------------------------------------------------------------------------------------- */

/* Bytes that stand for an object whose own are not known: what it sends in an iteration. */
static double bytes_of_unknown(const plb_snapshot_t *in)
{
    double total = 0.0;
    for (int64_t e = 0; e < in->n_edges; e++) {
        total += in->edge_bytes[e];
    }
    for (int64_t e = 0; e < in->n_multicasts; e++) {
        total += in->multicast_bytes[e];
    }
    return in->n_objects > 0 ? total / (double)in->n_objects : 0.0;
}

int plb_parts_keep(plb_parts_t *self, double iterations, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    const int32_t n = self->question.n_vertices;
    const double unknown = bytes_of_unknown(in);
    double *cost = NULL, total = 0.0;
    PLB_NEW(cost, n);
    PLB_NEW(self->old, n);
    PLB_NEW(self->old_cost, n);
    for (int32_t v = 0; v < n; v++) {
        const int32_t i = v < self->n ? plb_problem_object(&self->problem, v) : -1;
        const double bytes = i < 0 ? 0.0 : in->bytes == NULL ? unknown : (double)in->bytes[i];
        self->old[v] = i < 0 ? v - self->n : in->rank[i];
        cost[v] = bytes / iterations * self->per_byte;
        total += cost[v];
    }
    const double shrink = total > PLB_MOST_WEIGHT ? PLB_MOST_WEIGHT / total : 1.0;
    for (int32_t v = 0; v < n; v++) { /* at least 1: of two equal choices the one that stays */
        self->old_cost[v] = plb_scaled(cost[v], shrink, v < self->n);
    }
    self->question.old = self->old;
    self->question.old_cost = self->old_cost;
out:
    plb_free(cost);
    return ret;
}

int64_t plb_parts_cost(const plb_parts_t *self, const int32_t *part)
{
    const plb_partition_t *q = &self->question;
    int64_t twice = 0, moved = 0;
    for (int32_t v = 0; v < q->n_vertices; v++) {
        for (int32_t j = q->start[v]; j < q->start[v + 1]; j++) {
            twice += part[v] != part[q->to[j]] ? q->edge_weight[j] : 0;
        }
        moved += part[v] != q->old[v] ? q->old_cost[v] : 0;
    }
    return twice / 2 + moved;
}

/* ---- labels
 * ----------------------------------------------------------------------------------------------
 */

typedef struct overlap {
    int32_t part, rank;
} overlap_t;

typedef struct overlaps {
    overlap_t *pair;
    double *bytes;
    int64_t n;
} overlaps_t;

/* Bytes (1 an object where they are not known) of each part that lie on each rank now. */
static int find_overlaps(const plb_parts_t *self, const int32_t *part, overlaps_t *out,
                         plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem.in;
    const int32_t p = in->n_ranks;
    int64_t *start = NULL, *at = NULL;
    int32_t *order = NULL;
    PLB_NEW0(start, p + 2);
    PLB_NEW(order, self->n);
    PLB_NEW(at, p);
    PLB_NEW(out->pair, self->n);
    PLB_NEW(out->bytes, self->n);
    for (int32_t v = 0; v < self->n; v++) {
        start[part[v] + 2]++;
    }
    for (int32_t r = 0; r < p; r++) {
        start[r + 2] += start[r + 1];
        at[r] = -1;
    }
    for (int32_t v = 0; v < self->n; v++) {
        order[start[part[v] + 1]++] = v;
    }
    for (int32_t r = 0; r < p; r++) {
        const int64_t first = out->n;
        for (int64_t k = start[r]; k < start[r + 1]; k++) {
            const int32_t i = plb_problem_object(&self->problem, order[k]), now = in->rank[i];
            const double bytes = in->bytes == NULL ? 1.0 : 1.0 + (double)in->bytes[i];
            if (at[now] < first) {
                at[now] = out->n;
                out->pair[out->n] = (overlap_t){r, now};
                out->bytes[out->n++] = 0.0;
            }
            out->bytes[at[now]] += bytes;
        }
    }
out:
    plb_free(start);
    plb_free(at);
    plb_free(order);
    return ret;
}

static int by_share(const void *a, const void *b)
{
    const plb_item_t *x = a, *y = b;
    return plb_item_before(*x, *y) ? -1 : plb_item_before(*y, *x);
}

/* Parts that have no rank yet to ranks that have no part yet, of equal share. */
static int name_the_rest(const plb_parts_t *self, const uint8_t *taken, int32_t *name,
                         plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->question.n_parts;
    plb_item_t *part = NULL, *rank = NULL;
    int32_t n = 0, m = 0;
    PLB_NEW(part, p);
    PLB_NEW(rank, p);
    for (int32_t r = 0; r < p; r++) {
        if (name[r] < 0) {
            part[n++] = (plb_item_t){self->share[r], r};
        }
        if (!taken[r]) {
            rank[m++] = (plb_item_t){self->share[r], r};
        }
    }
    qsort(part, (size_t)n, sizeof *part, by_share);
    qsort(rank, (size_t)m, sizeof *rank, by_share);
    for (int32_t k = 0; k < n; k++) {
        name[part[k].id] = rank[k].id;
    }
out:
    plb_free(part);
    plb_free(rank);
    return ret;
}

int plb_parts_relabel(const plb_parts_t *self, int32_t *part, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->question.n_parts;
    overlaps_t overlaps = {NULL, NULL, 0};
    plb_loads_t order = {0};
    int32_t *name = NULL;
    uint8_t *taken = NULL;
    if (self->fixed != NULL) {
        return ret;
    }
    PLB_NEW(name, p);
    PLB_NEW0(taken, p);
    ret = find_overlaps(self, part, &overlaps, err);
    if (ret == PLB_OK) {
        ret = plb_loads_init(&order, overlaps.bytes, overlaps.n, PLB_DESCENDING, err);
    }
    if (ret != PLB_OK) {
        goto out;
    }
    plb_loads_sort(&order, overlaps.n);
    for (int32_t r = 0; r < p; r++) {
        name[r] = -1;
    }
    for (int64_t k = 0; k < overlaps.n; k++) {
        const overlap_t at = overlaps.pair[order.item[k].id];
        if (name[at.part] < 0 && !taken[at.rank] && self->share[at.part] == self->share[at.rank]) {
            name[at.part] = at.rank;
            taken[at.rank] = 1;
        }
    }
    ret = name_the_rest(self, taken, name, err);
    for (int32_t v = 0; ret == PLB_OK && v < self->n; v++) {
        part[v] = name[part[v]];
    }
out:
    plb_loads_free(&order);
    plb_free(overlaps.pair);
    plb_free(overlaps.bytes);
    plb_free(name);
    plb_free(taken);
    return ret;
}

/* ---- the question
 * ----------------------------------------------------------------------------------------- */

static int tick(const plb_opts_t *opts)
{
    return opts->tick == NULL ? PLB_OK : opts->tick(opts->tick_arg);
}

int plb_parts_ask(const plb_parts_t *self, const char *library, const plb_opts_t *opts,
                  int32_t *part, plb_err_t *err)
{
    const plb_partitioner_t *with = plb_partitioner_find(library);
    if (with == NULL) {
        return PLB_FAIL(err, PLB_ERR_MISSING, "%s has not been loaded", library);
    }
    int ret = tick(opts);
    ret = ret == PLB_OK ? plb_partition_run(with, &self->question, part, err) : ret;
    return ret == PLB_OK ? tick(opts) : ret;
}

/* ---- the placement
 * --------------------------------------------------------------------------------------- */

int plb_parts_place(const plb_parts_t *self, const int32_t *part, double imbalance,
                    const plb_opts_t *opts, int32_t *out, plb_err_t *err)
{
    const plb_snapshot_t *in = self->problem.in;
    for (int64_t i = 0; i < in->n_objects; i++) {
        out[i] = plb_may_migrate(in, i) ? part[self->vertex[i]] : in->rank[i];
    }
    int ret = plb_problem_repair(&self->problem, out, opts, err);
    if (ret == PLB_OK) {
        ret = plb_refine_comm_aware(&self->problem, imbalance, false, out, opts, err);
    }
    return ret == PLB_OK ? plb_refine_swap(&self->problem, imbalance, out, opts, err) : ret;
}

int plb_parts_run(const plb_strategy_t *strategy, const plb_snapshot_t *in, const plb_opts_t *opts,
                  int32_t *out, plb_err_t *err)
{
    plb_parts_t parts;
    int32_t *part = NULL;
    const double imbalance = opts->params[0];
    const plb_partitioner_t *with = plb_partitioner_find(strategy->library);
    const bool takes_fixed = with != NULL && with->takes & PLB_TAKES_FIXED;
    int ret = plb_parts_init(&parts, in, takes_fixed, imbalance, opts->seed, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(part, parts.question.n_vertices);
    if ((ret = plb_parts_graph(&parts, err)) ||
        (ret = plb_parts_ask(&parts, strategy->library, opts, part, err)) ||
        (ret = plb_parts_relabel(&parts, part, err))) {
        goto out;
    }
    ret = plb_parts_place(&parts, part, imbalance, opts, out, err);
out:
    plb_free(part);
    plb_parts_free(&parts);
    return ret;
}
