#include "replay/replay.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"

/* ---- load sums ------------------------------------------------------------------------------ */

typedef struct pair { /* sum: the rounded sum; rest: the sum of its rounding errors */
    double sum, rest;
} pair_t;

/* Compute sum + rest.  Returns false if errors of `rest` might change the last bit. */
static bool rounds(double sum, double rest, int64_t n, double *out)
{
    const double all = sum + rest, off = (sum - all) + rest;
    /* `rest` is a sum of n rounding errors, each below half a unit of the last place of `sum` */
    const double doubt = 0x1p-104 * (double)n * (double)n * all;
    const double half = 0.5 * fmin(nextafter(all, INFINITY) - all, all - nextafter(all, 0.0));
    *out = all;
    return all == 0.0 || (all > 0x1p-60 && all < 1e300 && fabs(off) + doubt < half);
}

/* Compute sum[n_ranks], the loads of the ranks, exact and rounded once, like those that the ranks
 * of a running program reduce (base/base.h).  The rounding errors are summed, too (Knuth's
 * TwoSum); if this does not determine the last bit, the sum is computed again in exact arithmetic.
 * load[n]: seconds or work; rank[n]: the rank of each task.  room[2 * n_ranks]: scratch memory.
 * Successive objects are often on the same rank, whose sums then stay in registers. */
static void load_sums(const double *load, int64_t n, const int32_t *rank, int32_t n_ranks,
                      double *sum, double *room)
{
    pair_t *of = (pair_t *)room, own = {0.0, 0.0};
    int32_t r = 0;
    memset(of, 0, (size_t)n_ranks * sizeof *of);
    for (int64_t k = 0; k < n; k++) {
        if (rank[k] != r) {
            of[r] = own;
            r = rank[k];
            own = of[r];
        }
        const double now = own.sum + load[k], added = now - own.sum;
        own.rest += (own.sum - (now - added)) + (load[k] - added);
        own.sum = now;
    }
    of[r] = own;
    for (r = 0; r < n_ranks; r++) {
        if (!rounds(of[r].sum, of[r].rest, n, &sum[r])) {
            plb_exact_t exact = {{0}};
            for (int64_t k = 0; k < n; k++) {
                if (rank[k] == r) {
                    plb_exact_add(&exact, load[k]);
                }
            }
            sum[r] = plb_exact_value(&exact);
        }
    }
}

static void take_edges(plb_phases_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    const int64_t e = t->edge_ptr[i];
    self->n_edges = t->edge_ptr[i + 1] - e;
    self->edge_src = t->edge_src + e;
    self->edge_dst = t->edge_dst + e;
    self->edge_bytes = t->edge_bytes + e;
    self->edge_messages = t->edge_messages == NULL ? NULL : t->edge_messages + e;
    self->edge_multicast = t->edge_multicast == NULL ? NULL : t->edge_multicast + e;
}

static const double *loads_here(plb_phases_t *self, int64_t first)
{
    const plb_trace_t *t = self->trace;
    const double *speed = self->in_seconds ? t->speed : t->measured;
    const double *recorded = (self->in_seconds ? t->task_seconds : t->task_load) + first;
    const int32_t *where = t->task_rank + first;
    if (speed == NULL || self->all_as_recorded) {
        return recorded;
    }
    for (int64_t k = 0; k < self->n; k++) {
        self->load[k] = recorded[k] * (speed[where[k]] / speed[self->rank[k]]);
    }
    return self->load;
}

/* Set `part`: the loads of the subphases on the present ranks, as loads_here does for the whole.
 */
static void take_parts(plb_phases_t *self, int64_t first)
{
    const plb_trace_t *t = self->trace;
    const int64_t n = self->n, d = t->n_subphases;
    const double *speed = self->in_seconds ? t->speed : t->measured;
    const int32_t *where = t->task_rank + first;
    for (int64_t i = 0; i < n * d; i++) {
        const int64_t k = i / d;
        const double load = t->task_subphases[first * d + i];
        self->part[i % d * n + k] = speed == NULL || self->all_as_recorded
                                        ? load
                                        : load * (speed[where[k]] / speed[self->rank[k]]);
    }
}

/* Compute the metrics of `time`.  With subphases, `max` is the sum over the subphases of the
 * slowest rank's time; background work and messages are part of the first. */
static void measure(plb_phases_t *self)
{
    const plb_trace_t *t = self->trace;
    const double *pace = plb_phases_pace(self);
    const int32_t p = self->opt.n_ranks, d = t->n_subphases;
    double most = 0.0;
    plb_metrics_of(self->time, p, &self->metrics);
    for (int32_t j = 0; j < d; j++) {
        double slowest = 0.0;
        load_sums(self->part + j * self->n, self->n, self->rank, p, self->part_sum,
                  self->room_of_sums);
        for (int32_t r = 0; r < p; r++) {
            double own = self->part_sum[r] / (pace == NULL ? 1.0 : pace[r]);
            own = j > 0 || t->background == NULL ? own : t->background[r] + own;
            if (j == 0 && plb_network_costs(self->opt.network)) {
                own += self->opt.network.alpha * self->messages[r] +
                       self->opt.network.beta * self->sent[r];
            }
            slowest = own > slowest ? own : slowest;
        }
        most += slowest;
    }
    if (d > 0) {
        plb_metrics_set_max(&self->metrics, most);
    }
}

static void add_loads(plb_phases_t *self)
{
    const plb_trace_t *t = self->trace;
    const double *pace = plb_phases_pace(self);
    load_sums(self->phase_load, self->n, self->rank, t->n_ranks, self->sum, self->room_of_sums);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        const double own = self->sum[r] / (pace == NULL ? 1.0 : pace[r]);
        self->time[r] = t->background == NULL ? own : t->background[r] + own;
    }
}

/* Whether the multicast of edge k, if it has one, has already been counted for the rank `to`. */
static bool reached(const plb_phases_t *self, const int32_t *cast, int64_t k, int32_t to,
                    int64_t *first)
{
    if (cast == NULL || cast[k] == 0) {
        return false;
    }
    if (cast[*first] != cast[k]) {
        *first = k;
    }
    const bool again = self->mark[to] == *first;
    self->mark[to] = *first;
    return again;
}

/* Call `fn` for what goes to other ranks in phase i: once for each edge, but for a multicast once
 * for each rank that has receivers. */
static inline void each_crossing(const plb_phases_t *self, int64_t i, plb_delivery_fn fn,
                                 void *arg)
{
    const plb_trace_t *t = self->trace;
    const int32_t *cast = t->edge_multicast;
    int64_t first = t->edge_ptr[i];
    if (cast != NULL) {
        memset(self->mark, -1, (size_t)t->n_ranks * sizeof *self->mark);
    }
    for (int64_t k = first; k < t->edge_ptr[i + 1]; k++) {
        const int32_t a = self->index_of[t->edge_src[k]], b = self->index_of[t->edge_dst[k]];
        if (a >= 0 && b >= 0 && self->rank[a] != self->rank[b] &&
            !reached(self, cast, k, self->rank[b], &first)) {
            fn(arg, self->rank[a], self->rank[b], t->edge_bytes[k],
               t->edge_messages == NULL ? 1.0 : t->edge_messages[k]);
        }
    }
}

static void add_sent(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    plb_phases_t *self = arg;
    const plb_snapshot_t where = {.node = self->node, .near = self->near};
    self->messages[src] += plb_distance(&where, src, dst, 0) * messages;
    self->sent[src] += plb_distance(&where, src, dst, 1) * bytes;
}

/* Add the cost of the messages that each rank sends to other ranks. */
static void add_traffic(plb_phases_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    memset(self->messages, 0, (size_t)t->n_ranks * sizeof *self->messages);
    memset(self->sent, 0, (size_t)t->n_ranks * sizeof *self->sent);
    each_crossing(self, i, add_sent, self);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        self->time[r] +=
            self->opt.network.alpha * self->messages[r] + self->opt.network.beta * self->sent[r];
    }
}

static const double *figures_of(const plb_phases_t *self)
{
    const double *all = self->trace->figures;
    return all == NULL ? NULL : all + PLB_N_TRACE_FIGURES * self->phase;
}

/* ---- the time of a phase -------------------------------------------------------------------- */

/* Return the seconds of ranks that share cores; all ranks wait at the end of each subphase. */
static double shared_span(const plb_phases_t *self)
{
    double longest = 0.0;
    for (int32_t r = 0; self->n_subphases > 0 && r < self->opt.n_ranks; r++) {
        longest = fmax(longest, self->time[r]);
    }
    const double waits = self->n_subphases > 0 ? fmax(self->metrics.max - longest, 0.0) : 0.0;
    return plb_sharing_time(&self->sharing, self->time) + waits;
}

/* Return the seconds of the slowest rank, with its messages, in the recorded placement. */
static double span_as_recorded(plb_phases_t *self, int64_t first)
{
    const int64_t i = self->phase;
    int32_t *own = self->rank;
    self->rank = (int32_t *)self->trace->task_rank + first; /* the cast is safe, because the array
                                                               is only read */
    self->all_as_recorded = true;
    self->phase_load = loads_here(self, first);
    add_loads(self);
    if (plb_network_costs(self->opt.network)) {
        add_traffic(self, i);
    }
    take_parts(self, first);
    measure(self);
    self->all_as_recorded = false;
    self->rank = own;
    memcpy(self->shared, self->time, (size_t)self->opt.n_ranks * sizeof *self->time);
    return self->sharing.group == NULL || self->trace->waits ? self->metrics.max
                                                             : shared_span(self);
}

/* Subtract from `time` the waits for a core that the loads include.  shared[p]: seconds of the
 * ranks in the recorded placement. */
static void leave_waits_out(plb_phases_t *self)
{
    const plb_trace_t *t = self->trace;
    const double *pace = plb_phases_pace(self);
    const int64_t p = self->opt.n_ranks, first = t->task_ptr[self->phase];
    double *worked = self->shared + p, *end = self->shared;
    plb_sharing_loads(&self->sharing, end, worked);
    for (int64_t r = 0; r < p; r++) {
        worked[r] = end[r] > 0.0 ? 1.0 - worked[r] / end[r] : 0.0; /* the fraction of waits */
    }
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = self->rank[k];
        const double seconds = self->phase_load[k] / (pace == NULL ? 1.0 : pace[r]);
        self->time[r] -= seconds * worked[t->task_rank[first + k]];
    }
    for (int64_t r = 0; r < p; r++) {
        self->time[r] = fmax(self->time[r], 0.0);
    }
}

void plb_phases_run(plb_phases_t *self)
{
    const plb_trace_t *t = self->trace;
    const int64_t i = self->phase, first = t->task_ptr[i];
    const bool costs = plb_network_costs(self->opt.network);
    self->all_as_recorded = self->opt.as_recorded ||
                            ((t->figures != NULL || self->sharing.group != NULL) &&
                             (self->n == 0 || memcmp(self->rank, t->task_rank + first,
                                                     (size_t)self->n * sizeof *self->rank) == 0));
    const bool other = costs && t->figures != NULL;
    if (!self->all_as_recorded && (self->sharing.group != NULL || other)) {
        self->recorded_span = span_as_recorded(self, first);
    } else if (t->figures != NULL) {
        self->recorded_span = figures_of(self)[PLB_FIGURE_MAX];
    }
    self->phase_load = loads_here(self, first);
    plb_phases_take_facts(self, first);
    if (self->opt.own_loads && self->opt.edges) {
        take_edges(self, i);
    }
    add_loads(self);
    if (costs) {
        add_traffic(self, i);
    }
    take_parts(self, first);
    measure(self);
    if (self->sharing.group == NULL || (t->waits && self->all_as_recorded)) {
        self->span = self->metrics.max;
        return;
    }
    if (t->waits) {
        leave_waits_out(self);
    }
    self->span = shared_span(self);
}

double plb_phase_seconds(const double *measured, bool as_recorded, double span,
                         double recorded_span)
{
    const double time = measured == NULL ? 0.0 : measured[PLB_FIGURE_TIME];
    /* far below the largest load: loads are not in seconds (in ms, the ratio is 0.001); a little
     * below it, if the program has reported a background */
    if (measured == NULL || (time > 0.0 && time < PLB_NOTABLE * measured[PLB_FIGURE_MAX])) {
        return span;
    }
    return as_recorded ? time : fmax(span + (time - recorded_span), 0.0);
}

double plb_phases_time(const plb_phases_t *self)
{
    return plb_phase_seconds(figures_of(self), self->all_as_recorded, self->span,
                             self->recorded_span);
}

typedef struct sums {
    double messages, bytes;
} sums_t;

static void add_sums(void *arg, int32_t src, int32_t dst, double bytes, double messages)
{
    sums_t *self = arg;
    self->messages += messages;
    self->bytes += bytes;
}

plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration)
{
    const plb_metrics_t *m = &self->metrics;
    const double *measured = figures_of(self);
    const bool huge = m->max > PLB_EXACT_MOST; /* e.g. because a speed is tiny */
    plb_exact_t sum = {{0}};
    for (int32_t r = 0; !huge && r < self->opt.n_ranks; r++) {
        plb_exact_add(&sum, self->time[r]);
    }
    const double total = huge ? m->mean * self->opt.n_ranks : plb_exact_value(&sum);
    plb_iteration_t out = {
        .iteration = iteration,
        .time = plb_phases_time(self),
        .max = m->max,
        .mean = total / (double)self->opt.n_ranks,
        .min = m->min,
        .total = total,
        .utilization = m->max > 0.0 ? fmin(m->min / m->max, 1.0) : 1.0,
    };
    if (measured != NULL && self->all_as_recorded) {
        out.utilization = measured[PLB_FIGURE_UTILIZATION];
        out.messages = plb_whole(measured[PLB_FIGURE_MESSAGES]);
        out.bytes = plb_whole(measured[PLB_FIGURE_BYTES]);
        out.idle = measured[PLB_FIGURE_IDLE];
    } else if (self->opt.crossing) {
        sums_t sums = {0.0, 0.0};
        each_crossing(self, self->phase, add_sums, &sums);
        out.messages = plb_whole(sums.messages);
        out.bytes = plb_whole(sums.bytes);
    }
    return out;
}

/* ---- load estimates ------------------------------------------------------------------------- */

/* Update the estimates of a rank's objects.  Without opt.one_by_one, all are updated together, so
 * that the estimator can distinguish a change of the rank itself (all loads change) from changes
 * of some objects. */
static void estimate_rank(plb_phases_t *self, int32_t r, const double *loads, double *estimate)
{
    const int64_t n = self->n, begin = self->on.start[r], m = self->on.start[r + 1] - begin;
    double *load = self->spare, *table = self->spare + m;
    for (int64_t j = 0; j < m; j++) {
        const int64_t k = self->on.item[begin + j];
        load[j] = loads[k];
        for (int row = 0; row < PLB_ESTIMATE_ROWS; row++) {
            table[row * m + j] = estimate[row * n + k];
        }
    }
    for (int64_t j = 0; self->opt.one_by_one && j < m; j++) {
        plb_estimate_one(load[j], j, m, PLB_ESTIMATE_ROWS, table);
    }
    if (!self->opt.one_by_one) {
        plb_estimate_update(load, m, table);
    }
    for (int64_t j = 0; j < m; j++) {
        for (int row = 0; row < PLB_ESTIMATE_ROWS; row++) {
            estimate[row * n + self->on.item[begin + j]] = table[row * m + j];
        }
    }
}

/* Update the estimates of the whole or of a subphase. */
static void estimate_all(plb_phases_t *self, const double *loads, double *estimate)
{
    if (!self->opt.learns) {
        plb_estimate_mean(loads, self->n, estimate);
        return;
    }
    for (int32_t r = 0; r < self->opt.n_ranks; r++) {
        estimate_rank(self, r, loads, estimate);
    }
}

int plb_phases_leave(plb_phases_t *self, plb_err_t *err)
{
    if (self->opt.learns && !self->ordered) {
        plb_groups_free(&self->on);
        PLB_PASS(plb_groups_init(&self->on, self->rank, self->n, self->opt.n_ranks, err));
        self->ordered = true;
    }
    if (self->opt.estimates) {
        estimate_all(self, self->phase_load, self->estimate);
        for (int64_t k = 0; k < self->n; k++) {
            self->window[k] += self->phase_load[k];
        }
        for (int64_t j = 0; j < self->trace->n_subphases; j++) {
            double *estimate = self->estimate + (1 + j) * plb_phases_rows(self) * self->n;
            estimate_all(self, self->part + j * self->n, estimate);
        }
        for (int64_t i = 0; i < self->n * self->trace->n_subphases; i++) {
            self->window[self->n + i] += self->part[i];
        }
    }
    const double *background = self->trace->background;
    for (int32_t r = 0; background != NULL && r < self->opt.n_ranks; r++) {
        self->other[r] += background[r];
    }
    if (self->opt.edges) {
        take_edges(self, self->phase);
    }
    return PLB_OK;
}
