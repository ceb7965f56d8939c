#include "replay/phases.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "replay/ahead.h"
#include "replay/check.h"
#include "measure/estimate.h"
#include "base/exact.h"

/* ---- begin and end -------------------------------------------------------------------------- */

static int rows_of(const plb_phases_t *self)
{
    return !self->opt.estimates ? 0 : self->opt.learns ? PLB_ESTIMATE_ROWS : PLB_ESTIMATE_HERE;
}

int plb_phases_init(plb_phases_t *self, const plb_phases_options_t *opt, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_phases_t){.opt = *opt, .ahead_end = -1};
    const int64_t p = opt->n_ranks;
    PLB_NEW(self->sum, PLB_AHEAD * p);
    PLB_NEW(self->room_of_sums, 2 * PLB_AHEAD * p);
    PLB_NEW(self->total, PLB_AHEAD);
    PLB_NEW(self->time, p);
    PLB_NEW(self->messages, p);
    PLB_NEW(self->sent, p);
    PLB_NEW(self->speed, p);
    PLB_NEW(self->own_ranks, 2 * p);
    PLB_NEW(self->rank_ptr, p + 1);
    for (int64_t r = 0; r < p; r++) {
        self->speed[r] = 1.0;
    }
out:
    if (ret != PLB_OK) {
        plb_phases_free(self);
    }
    return ret;
}

void plb_phases_free(plb_phases_t *self)
{
    void *owned[] = {self->held,       self->was,      self->at,           self->entity,
                     self->rank,       self->from,     self->key,          self->bytes,
                     self->memory,     self->movable,  self->estimate,     self->load,
                     self->spare,      self->order,    self->rank_ptr,     self->own_edge,
                     self->own_amount, self->src,      self->dst,          self->amount,
                     self->speed,      self->sum,      self->room_of_sums, self->total,
                     self->time,       self->messages, self->sent,         self->own_ranks};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        plb_free(owned[i]);
    }
    *self = (plb_phases_t){0};
}

static int64_t largest(const int64_t *ptr, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = ptr[i + 1] - ptr[i] > most ? ptr[i + 1] - ptr[i] : most;
    }
    return most;
}

#define GROW(var, n)                                                                              \
    do {                                                                                          \
        void *grown_ = plb_realloc((var), (size_t)(n), sizeof *(var));                            \
        if (grown_ == NULL) {                                                                     \
            return PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %lld for %s", (long long)(n),     \
                            #var);                                                                \
        }                                                                                         \
        (var) = grown_;                                                                           \
    } while (0)

static int make_room_for_entities(plb_phases_t *self, int64_t n, plb_err_t *err)
{
    if (n > self->room) {
        GROW(self->held, n);
        GROW(self->was, n);
        GROW(self->at, n);
        self->room = n;
    }
    for (; self->n_entities < n; self->n_entities++) {
        self->held[self->n_entities] = self->was[self->n_entities] = -1;
        self->at[self->n_entities] = -1;
    }
    return PLB_OK;
}

/* Estimates and sums are laid out one after the other, with room for the largest phase. */
static int make_room_for_objects(plb_phases_t *self, int64_t n, plb_err_t *err)
{
    n = n > 0 ? n : 1; /* without objects too, a snapshot has arrays */
    if (n <= self->capacity) {
        return PLB_OK;
    }
    const int64_t rows = rows_of(self) + 1;
    GROW(self->entity, n);
    GROW(self->rank, n);
    GROW(self->from, n);
    GROW(self->key, n);
    GROW(self->bytes, n);
    GROW(self->memory, n);
    GROW(self->movable, n);
    GROW(self->order, n);
    GROW(self->load, n);
    GROW(self->estimate, rows * n);
    GROW(self->spare, rows * n);
    self->window = self->estimate + (rows - 1) * self->n;
    self->capacity = n;
    return PLB_OK;
}

static int make_room_for_edges(plb_phases_t *self, int64_t m, plb_err_t *err)
{
    if (m > self->edge_room) {
        GROW(self->src, m);
        GROW(self->dst, m);
        GROW(self->amount, 2 * m);
        self->edge_room = m;
    }
    return PLB_OK;
}

int plb_phases_begin(plb_phases_t *self, const plb_trace_t *t, plb_err_t *err)
{
    int ret = plb_phases_check(t, err);
    if (ret == PLB_OK && t->n_ranks != self->opt.n_ranks) {
        ret = PLB_FAIL(err, PLB_ERR_VALUE, "n_ranks is %d: expected %d", (int)t->n_ranks,
                       (int)self->opt.n_ranks);
    }
    if (ret == PLB_OK) {
        ret = make_room_for_entities(self, t->n_entities, err);
    }
    if (ret == PLB_OK) {
        ret = make_room_for_objects(self, largest(t->task_ptr, t->n_phases), err);
    }
    if (ret == PLB_OK && self->opt.edges) {
        const int64_t m = largest(t->edge_ptr, t->n_phases);
        ret = make_room_for_edges(self, m > self->n_edges ? m : self->n_edges, err);
    }
    self->trace = t;
    self->given = t->speed;
    self->background = t->background;
    self->ahead_end = -1;
    self->sized = t->task_bytes != NULL;
    self->remembers = t->task_memory != NULL;
    return ret;
}

/* Speeds and background of the ranks, copied. */
static const double *own(const double *x, double *room, int32_t p)
{
    if (x != NULL) {
        memmove(room, x, (size_t)p * sizeof *x);
    }
    return x == NULL ? NULL : room;
}

int plb_phases_pause(plb_phases_t *self, plb_err_t *err)
{
    self->given = own(self->given, self->own_ranks, self->opt.n_ranks);
    self->background =
        own(self->background, self->own_ranks + self->opt.n_ranks, self->opt.n_ranks);
    const int64_t m = self->n_edges;
    if (self->edge_src != NULL && self->edge_src != self->own_edge) {
        GROW(self->own_edge, 2 * m + 1);
        GROW(self->own_amount, 2 * m + 1);
        memcpy(self->own_edge, self->edge_src, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_edge + m, self->edge_dst, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_amount, self->edge_bytes, (size_t)m * sizeof *self->own_amount);
        for (int64_t k = 0; k < m; k++) {
            self->own_amount[m + k] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
        }
        self->edge_src = self->own_edge;
        self->edge_dst = self->own_edge + m;
        self->edge_bytes = self->own_amount;
        self->edge_messages = self->own_amount + m;
    }
    self->trace = NULL;
    self->now = NULL;
    return PLB_OK;
}

/* ---- phases that are alike ------------------------------------------------------------------
 * An iterative program has the same objects in most of its phases: what was found out about the
 * one before is true then.
 */

/* Elements from[i] ... from[i + 1] - 1 of x, of `size` bytes, and as many before them. */
static bool repeats(const void *x, size_t size, const int64_t *from, int64_t i)
{
    const char *bytes = x;
    const size_t n = (size_t)(from[i + 1] - from[i]) * size;
    return x == NULL ||
           memcmp(bytes + (size_t)from[i] * size, bytes + (size_t)from[i - 1] * size, n) == 0;
}

static bool as_many(const int64_t *from, int64_t i)
{
    return i > 0 && from[i + 1] - from[i] == from[i] - from[i - 1];
}

static bool same_tasks(const plb_trace_t *t, int64_t i)
{
    return as_many(t->task_ptr, i) &&
           repeats(t->task_entity, sizeof *t->task_entity, t->task_ptr, i);
}

static bool same_edges(const plb_trace_t *t, int64_t i)
{
    return as_many(t->edge_ptr, i) && repeats(t->edge_src, sizeof *t->edge_src, t->edge_ptr, i) &&
           repeats(t->edge_dst, sizeof *t->edge_dst, t->edge_ptr, i) &&
           repeats(t->edge_bytes, sizeof *t->edge_bytes, t->edge_ptr, i) &&
           repeats(t->edge_messages, sizeof *t->edge_messages, t->edge_ptr, i);
}

int plb_trace_repeats(const plb_trace_t *t, uint8_t *out, plb_err_t *err)
{
    const int ret = plb_phases_check(t, err);
    for (int64_t i = 0; ret == PLB_OK && i < t->n_phases; i++) {
        out[i] = !same_tasks(t, i)   ? 0
                 : !same_edges(t, i) ? PLB_REPEATS_TASKS
                                     : PLB_REPEATS_TASKS | PLB_REPEATS_EDGES;
    }
    return ret;
}

bool plb_phases_alike(const plb_trace_t *t, int64_t i)
{
    return t->repeats == NULL || i == 0 ? same_tasks(t, i) : t->repeats[i] & PLB_REPEATS_TASKS;
}

/* ---- the objects that are present ----------------------------------------------------------- */

/* Where the entity of task k starts, or goes on. */
static int32_t place_of(const plb_phases_t *self, int64_t k, bool is_new)
{
    const plb_trace_t *t = self->trace;
    const int32_t e = t->task_entity[k];
    if (self->opt.as_recorded || !t->entity_migratable[e]) {
        return t->task_rank[k];
    }
    if (is_new && t->task_home != NULL) {
        return t->task_home[k];
    }
    return self->held[e] >= 0 ? self->held[e] : t->task_rank[k];
}

/* Estimates and sums follow their objects; new ones have none. */
static void carry_over(plb_phases_t *self, int64_t old_n, int64_t n)
{
    const int rows = rows_of(self) + 1;
    for (int row = 0; row < rows; row++) {
        const double *old = self->estimate + row * old_n;
        double *new = self->spare + row *n;
        for (int64_t k = 0; k < n; k++) {
            new[k] = self->from[k] < 0 ? 0.0 : old[self->from[k]];
        }
    }
    double *swap = self->estimate;
    self->estimate = self->spare;
    self->spare = swap;
    self->window = self->estimate + (rows - 1) * n;
}

/* What is known of an object's size is that of the phase before, if it was there. */
static void take_sizes(plb_phases_t *self, int64_t first, int64_t n)
{
    const plb_trace_t *t = self->trace;
    for (int64_t k = 0; k < n; k++) {
        if (self->from[k] < 0) {
            self->bytes[k] = t->task_bytes == NULL ? 0 : t->task_bytes[first + k];
            self->memory[k] = t->task_memory == NULL ? 0 : t->task_memory[first + k];
        }
    }
}

static void keep_sizes(plb_phases_t *self, int64_t old_n, int64_t n)
{
    int64_t *old = (int64_t *)self->spare; /* as wide; free between two changes */
    for (int pass = 0; pass < 2; pass++) {
        int64_t *x = pass == 0 ? self->bytes : self->memory;
        memcpy(old, x, (size_t)old_n * sizeof *x);
        for (int64_t k = 0; k < n; k++) {
            x[k] = self->from[k] < 0 ? 0 : old[self->from[k]];
        }
    }
}

static int list_objects(plb_phases_t *self, int64_t first, int64_t n, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t old_n = self->n;
    for (int64_t k = 0; k < n; k++) {
        self->from[k] = self->at[t->task_entity[first + k]];
    }
    for (int64_t k = 0; k < old_n; k++) {
        self->at[self->entity[k]] = -1;
    }
    keep_sizes(self, old_n, n);
    carry_over(self, old_n, n);
    self->all_movable = true;
    for (int64_t k = 0; k < n; k++) {
        const int32_t e = t->task_entity[first + k];
        if (self->at[e] >= 0) {
            return PLB_FAIL(err, PLB_ERR_VALUE,
                            "task_entity[%lld] is %d, which has another task in the phase: "
                            "expected one of each",
                            (long long)(first + k), e);
        }
        self->entity[k] = e;
        self->at[e] = (int32_t)k;
        self->key[k] = t->entity_key[e];
        self->movable[k] = t->entity_migratable[e] != 0;
        self->all_movable = self->all_movable && self->movable[k];
    }
    self->n = n;
    take_sizes(self, first, n);
    return PLB_OK;
}

/* The ranks of the phase's objects; whether one of them is elsewhere than in the phase before. */
static bool settle(plb_phases_t *self, int64_t first, bool fresh)
{
    const plb_trace_t *t = self->trace;
    bool moved = fresh;
    for (int64_t k = 0; k < self->n; k++) {
        const bool is_new = fresh && self->from[k] < 0;
        const int32_t r = place_of(self, first + k, is_new);
        moved = moved || r != self->rank[k];
        self->rank[k] = r;
        if (t->entity_migratable[self->entity[k]]) {
            self->held[self->entity[k]] = r;
        }
    }
    return moved;
}

static bool is_present(const plb_phases_t *self, int64_t first, int64_t n)
{
    return n == self->n && (n == 0 || memcmp(self->entity, self->trace->task_entity + first,
                                             (size_t)n * sizeof *self->entity) == 0);
}

int plb_phases_enter(plb_phases_t *self, int64_t i, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], n = t->task_ptr[i + 1] - first;
    const bool known =
        i < self->ahead_end || (i > 0 && self->phase == i - 1 && plb_phases_alike(t, i));
    self->phase = i;
    self->alike = known || is_present(self, first, n);
    int ret = plb_check_tasks(t, i, self->alike, err);
    if (ret == PLB_OK &&
        (self->opt.edges || self->opt.network.alpha + self->opt.network.beta > 0)) {
        ret = plb_check_edges(t, i, err);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    if (!self->alike && (ret = list_objects(self, first, n, err)) != PLB_OK) {
        return ret;
    }
    const bool steady =
        self->alike && (self->opt.as_recorded
                            ? i > 0 && repeats(t->task_rank, sizeof *t->task_rank, t->task_ptr, i)
                            : self->all_movable);
    if (!steady && settle(self, first, !self->alike)) {
        self->ordered = false;
        self->ahead_end = -1;
    }
    return PLB_OK;
}

/* ---- loads of the ranks --------------------------------------------------------------------- */

/* From now on the edges are those of phase i. */
static void take_edges(plb_phases_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    const int64_t e = t->edge_ptr[i];
    self->n_edges = t->edge_ptr[i + 1] - e;
    self->edge_src = t->edge_src + e;
    self->edge_dst = t->edge_dst + e;
    self->edge_bytes = t->edge_bytes + e;
    self->edge_messages = t->edge_messages == NULL ? NULL : t->edge_messages + e;
}

/* The loads of the phase on the ranks where its objects are. */
static const double *loads_here(plb_phases_t *self, const double *recorded, const int32_t *where)
{
    const double *speed = self->trace->measured;
    if (speed == NULL || self->as_it_was) {
        return recorded;
    }
    for (int64_t k = 0; k < self->n; k++) {
        self->load[k] = recorded[k] * (speed[where[k]] / speed[self->rank[k]]);
    }
    return self->load;
}

/* Phases from i on that have the objects of i, at the same places if nothing moves. */
static int64_t steady_until(const plb_phases_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    int64_t end = i + 1;
    const bool can = self->all_movable && t->measured == NULL && !self->opt.as_recorded;
    while (end < i + PLB_AHEAD && end < t->n_phases &&
           (can || (self->opt.as_recorded &&
                    repeats(t->task_rank, sizeof *t->task_rank, t->task_ptr, end))) &&
           plb_phases_alike(t, end) && plb_check_tasks(t, end, true, NULL) == PLB_OK) {
        end++;
    }
    return end;
}

static void add_loads(plb_phases_t *self, int64_t i)
{
    if (i < self->ahead || i >= self->ahead_end) {
        self->ahead = i;
        self->ahead_end = steady_until(self, i);
        plb_ahead_add(self->now, self->n, (int)(self->ahead_end - i), self->rank,
                      self->opt.n_ranks, self->sum, self->total, self->room_of_sums);
    }
    const plb_trace_t *t = self->trace;
    for (int32_t r = 0; r < t->n_ranks; r++) {
        const double load = self->sum[(int64_t)r * PLB_AHEAD + i - self->ahead];
        const double own = t->speed == NULL ? load : load / t->speed[r];
        self->time[r] = t->background == NULL ? own : t->background[r] + own;
    }
}

/* time += alpha * messages + beta * bytes that each rank sends to others. */
static void add_traffic(plb_phases_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    memset(self->messages, 0, (size_t)t->n_ranks * sizeof *self->messages);
    memset(self->sent, 0, (size_t)t->n_ranks * sizeof *self->sent);
    for (int64_t k = t->edge_ptr[i]; k < t->edge_ptr[i + 1]; k++) {
        const int32_t a = self->at[t->edge_src[k]], b = self->at[t->edge_dst[k]];
        if (a >= 0 && b >= 0 && self->rank[a] != self->rank[b]) {
            self->messages[self->rank[a]] += t->edge_messages == NULL ? 1.0 : t->edge_messages[k];
            self->sent[self->rank[a]] += t->edge_bytes[k];
        }
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        self->time[r] +=
            self->opt.network.alpha * self->messages[r] + self->opt.network.beta * self->sent[r];
    }
}

int plb_phases_run(plb_phases_t *self, plb_err_t *err)
{
    (void)err;
    const plb_trace_t *t = self->trace;
    const int64_t i = self->phase, first = t->task_ptr[i];
    self->as_it_was = self->opt.as_recorded ||
                      (t->figures != NULL &&
                       (self->n == 0 || memcmp(self->rank, t->task_rank + first,
                                               (size_t)self->n * sizeof *self->rank) == 0));
    self->now = loads_here(self, t->task_load + first, t->task_rank + first);
    if (t->task_bytes != NULL && self->n > 0) {
        memcpy(self->bytes, t->task_bytes + first, (size_t)self->n * sizeof *self->bytes);
    }
    if (t->task_memory != NULL && self->n > 0) {
        memcpy(self->memory, t->task_memory + first, (size_t)self->n * sizeof *self->memory);
    }
    if (self->opt.own_loads && self->opt.edges) {
        take_edges(self, i);
    }
    add_loads(self, i);
    if (self->opt.network.alpha > 0.0 || self->opt.network.beta > 0.0) {
        add_traffic(self, i);
    }
    plb_metrics_of(self->time, t->n_ranks, &self->metrics);
    return PLB_OK;
}

static const double *figures_of(const plb_phases_t *self)
{
    const double *all = self->trace->figures;
    return all == NULL ? NULL : all + PLB_FIGURES * self->phase;
}

double plb_phases_time(const plb_phases_t *self)
{
    const double *measured = figures_of(self);
    if (measured == NULL) {
        return self->metrics.max;
    }
    const double more = self->metrics.max - measured[PLB_FIGURE_MAX];
    return self->as_it_was ? measured[PLB_FIGURE_TIME]
                           : fmax(measured[PLB_FIGURE_TIME] + more, self->metrics.max);
}

/* Messages between ranks and their bytes. */
static void count_crossing(const plb_phases_t *self, plb_iteration_t *out)
{
    const plb_trace_t *t = self->trace;
    double messages = 0.0, bytes = 0.0;
    for (int64_t k = t->edge_ptr[self->phase]; k < t->edge_ptr[self->phase + 1]; k++) {
        const int32_t a = self->at[t->edge_src[k]], b = self->at[t->edge_dst[k]];
        if (a >= 0 && b >= 0 && self->rank[a] != self->rank[b]) {
            messages += t->edge_messages == NULL ? 1.0 : t->edge_messages[k];
            bytes += t->edge_bytes[k];
        }
    }
    out->messages = llrint(fmin(messages, 9e18));
    out->bytes = llrint(fmin(bytes, 9e18));
}

plb_iteration_t plb_phases_statistics(const plb_phases_t *self, int64_t iteration)
{
    const plb_trace_t *t = self->trace;
    const plb_metrics_t *m = &self->metrics;
    const double *measured = figures_of(self);
    const bool plain = t->speed == NULL && t->background == NULL &&
                       self->opt.network.alpha + self->opt.network.beta == 0.0;
    const double total = plain ? self->total[self->phase - self->ahead] : m->mean * t->n_ranks;
    plb_iteration_t out = {
        .iteration = iteration,
        .time = plb_phases_time(self),
        .max = m->max,
        .mean = total / (double)t->n_ranks,
        .min = m->min,
        .total = total,
        .utilization = m->max > 0.0 ? m->min / m->max : 1.0,
    };
    if (measured != NULL && self->as_it_was) {
        out.utilization = measured[PLB_FIGURE_UTILIZATION];
        out.messages = (int64_t)measured[PLB_FIGURE_MESSAGES];
        out.bytes = (int64_t)measured[PLB_FIGURE_BYTES];
    } else if (self->opt.crossing) {
        count_crossing(self, &out);
    }
    return out;
}

/* ---- what is known of loads ----------------------------------------------------------------- */

/* The present objects by rank, in their order. */
static void order_by_rank(plb_phases_t *self)
{
    const int32_t p = self->opt.n_ranks;
    int64_t *ptr = self->rank_ptr;
    memset(ptr, 0, ((size_t)p + 1) * sizeof *ptr);
    for (int64_t k = 0; k < self->n; k++) {
        ptr[self->rank[k] + 1]++;
    }
    for (int32_t r = 0; r < p; r++) {
        ptr[r + 1] += ptr[r];
    }
    for (int64_t k = 0; k < self->n; k++) { /* ptr[r] runs to the end of r, the start of r + 1 */
        self->order[ptr[self->rank[k]]++] = (int32_t)k;
    }
    memmove(ptr + 1, ptr, (size_t)p * sizeof *ptr);
    ptr[0] = 0;
    self->ordered = true;
}

/* A rank looks at its own objects alone: whether all of them have changed together. */
static void estimate_rank(plb_phases_t *self, int32_t r)
{
    const int64_t n = self->n, begin = self->rank_ptr[r], m = self->rank_ptr[r + 1] - begin;
    double *load = self->spare, *table = self->spare + m;
    for (int64_t j = 0; j < m; j++) {
        const int64_t k = self->order[begin + j];
        load[j] = self->now[k];
        for (int row = 0; row < PLB_ESTIMATE_ROWS; row++) {
            table[row * m + j] = self->estimate[row * n + k];
        }
    }
    for (int64_t j = 0; self->opt.one_by_one && j < m; j++) {
        plb_estimate_one(load[j], j, m, table);
    }
    if (!self->opt.one_by_one) {
        plb_estimate_update(load, m, table);
    }
    for (int64_t j = 0; j < m; j++) {
        for (int row = 0; row < PLB_ESTIMATE_ROWS; row++) {
            self->estimate[row * n + self->order[begin + j]] = table[row * m + j];
        }
    }
}

int plb_phases_leave(plb_phases_t *self, plb_err_t *err)
{
    (void)err;
    if (self->opt.estimates) {
        if (self->opt.learns && !self->ordered) {
            order_by_rank(self);
        }
        for (int32_t r = 0; self->opt.learns && r < self->opt.n_ranks; r++) {
            estimate_rank(self, r);
        }
        if (!self->opt.learns) {
            plb_estimate_mean(self->now, self->n, self->estimate);
        }
        for (int64_t k = 0; k < self->n; k++) {
            self->window[k] += self->now[k];
        }
    }
    self->passes++;
    if (self->opt.edges) {
        take_edges(self, self->phase);
    }
    return PLB_OK;
}

/* ---- for an LB step ------------------------------------------------------------------------- */

static void add_edges(plb_phases_t *self, plb_snapshot_t *s)
{
    double *bytes = self->amount, *messages = self->amount + self->edge_room;
    for (int64_t k = 0; k < self->n_edges; k++) {
        const int32_t a = self->at[self->edge_src[k]], b = self->at[self->edge_dst[k]];
        if (a >= 0 && b >= 0) {
            self->src[s->n_edges] = a;
            self->dst[s->n_edges] = b;
            bytes[s->n_edges] = self->edge_bytes[k];
            messages[s->n_edges] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
            s->n_edges++;
        }
    }
    s->edge_src = self->src;
    s->edge_dst = self->dst;
    s->edge_bytes = bytes;
    s->edge_messages = messages;
}

int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err)
{
    const int ret = self->trace == NULL ? PLB_OK : plb_check_sizes(self->trace, self->phase, err);
    if (ret != PLB_OK) {
        return ret;
    }
    *out = (plb_database_t){
        .snapshot =
            {
                .n_objects = self->n,
                .n_ranks = self->opt.n_ranks,
                .n_components = 1,
                .load = self->opt.own_loads ? self->now : self->estimate,
                .rank = self->rank,
                .key = self->key,
                .bytes = self->sized ? self->bytes : NULL,
                .memory = self->remembers ? self->memory : NULL,
                .migratable = self->movable,
                .speed = self->given,
                .background = self->background,
            },
        .here = self->opt.learns ? self->estimate + PLB_ESTIMATE_HERE * self->n : NULL,
    };
    if (self->opt.edges) {
        add_edges(self, &out->snapshot);
    }
    return PLB_OK;
}

/* What is known of the loads of an object that leaves, as its new rank's seconds. */
static void convert(plb_phases_t *self, int64_t k, double factor)
{
    const int64_t n = self->n;
    self->estimate[PLB_ESTIMATE_MEAN * n + k] /= factor;
    self->estimate[PLB_ESTIMATE_ERROR * n + k] /= factor;
    self->estimate[PLB_ESTIMATE_SPREAD * n + k] /= factor;
    for (int row = PLB_ESTIMATE_HERE; row < rows_of(self); row++) {
        self->estimate[row * n + k] = 0.0;
    }
}

int plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed, plb_err_t *err)
{
    (void)err;
    const bool known = speed != NULL && speed[0] > 0.0;
    for (int64_t e = 0; e < self->n_entities; e++) {
        self->was[e] = -1;
    }
    for (int64_t k = 0; k < self->n; k++) {
        self->was[self->entity[k]] = self->rank[k];
        self->window[k] = 0.0;
        if (rank[k] == self->rank[k]) {
            continue;
        }
        if (self->opt.estimates) {
            convert(self, k, known ? speed[rank[k]] / speed[self->rank[k]] : 1.0);
        }
        self->rank[k] = rank[k];
        if (self->movable[k]) {
            self->held[self->entity[k]] = rank[k];
        }
    }
    for (int32_t r = 0; r < self->opt.n_ranks; r++) {
        self->speed[r] = known ? speed[r] : 1.0;
    }
    self->passes = 0;
    self->ordered = false;
    self->ahead_end = -1;
    return PLB_OK;
}

void plb_phases_drop(plb_phases_t *self, const uint8_t *stays)
{
    const int64_t old_n = self->n;
    int64_t n = 0;
    for (int64_t k = 0; k < old_n; k++) {
        self->from[n] = (int32_t)k;
        n += stays[self->entity[k]] != 0;
        self->at[self->entity[k]] = -1;
    }
    if (old_n > 0) {
        keep_sizes(self, old_n, n);
        carry_over(self, old_n, n);
    }
    self->all_movable = true;
    for (int64_t k = 0; k < n; k++) {
        const int32_t j = self->from[k];
        self->entity[k] = self->entity[j];
        self->rank[k] = self->rank[j];
        self->key[k] = self->key[j];
        self->movable[k] = self->movable[j];
        self->at[self->entity[k]] = (int32_t)k;
        self->all_movable = self->all_movable && self->movable[k];
    }
    self->n = n;
    self->ordered = false;
    self->ahead_end = -1;
}

static double longest_of(const plb_exact_t *sum, const double *background, double passes,
                         int32_t p)
{
    double most = 0.0;
    for (int32_t r = 0; r < p; r++) {
        const double own = plb_exact_value(&sum[r]);
        most = fmax(most, background == NULL ? own : own + passes * background[r]);
    }
    return most;
}

int plb_phases_gain(plb_phases_t *self, double *gain, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->opt.n_ranks;
    const double *given = self->given, *background = self->background;
    plb_exact_t *now = NULL, *then = NULL;
    PLB_NEW0(now, p);
    PLB_NEW0(then, p);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = self->rank[k], before = self->was[self->entity[k]];
        const int32_t s = before < 0 ? r : before;
        const double here = given == NULL ? self->window[k] : self->window[k] / given[r];
        const double there = s == r          ? here
                             : given == NULL ? here * (self->speed[r] / self->speed[s])
                                             : self->window[k] / given[s];
        plb_exact_add(&now[r], here);
        plb_exact_add(&then[s], there);
    }
    const double passes = (double)self->passes;
    *gain = longest_of(then, background, passes, p) - longest_of(now, background, passes, p);
out:
    plb_free(now);
    plb_free(then);
    return ret;
}
