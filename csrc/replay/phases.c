#include "replay/replay.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/base.h"
#include "model/model.h"

/* ---- trace check ------------------------------------------------------------------------- */

static int check_ptr(const char *name, const int64_t *ptr, int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(ptr[0] != 0, err, PLB_ERR_VALUE, "%s[0] is %lld: expected 0", name,
                (long long)ptr[0]);
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(ptr[i + 1] < ptr[i], err, PLB_ERR_VALUE,
                    "%s[%lld] is %lld: expected %lld or more", name, (long long)i + 1,
                    (long long)ptr[i + 1], (long long)ptr[i]);
    }
    return PLB_OK;
}

int plb_trace_check(const plb_trace_t *t, plb_err_t *err)
{
    PLB_FAIL_IF(t->n_ranks < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more",
                t->n_ranks);
    PLB_PASS(check_ptr("task_ptr", t->task_ptr, t->n_phases, err));
    PLB_PASS(check_ptr("edge_ptr", t->edge_ptr, t->n_phases, err));
    PLB_FAIL_IF(t->task_seconds != NULL && t->speed == NULL, err, PLB_ERR_VALUE,
                "task_seconds is given, but no speed: expected both");
    PLB_PASS(plb_check_f64("speed", t->speed, 0, t->n_ranks, 1e-30, err));
    PLB_PASS(plb_check_f64("background", t->background, 0, t->n_ranks, 0.0, err));
    PLB_PASS(plb_check_i64("memory_limit", t->memory_limit, 0, t->n_ranks, err));
    PLB_PASS(plb_check_i64("node_memory_limit", t->node_memory_limit, 0, t->n_ranks, err));
    PLB_PASS(plb_check_nodes(t->node, t->near, t->n_ranks, err));
    PLB_PASS(plb_check_f64("measured", t->measured, 0, t->n_ranks, 1e-30, err));
    return PLB_OK;
}

/* Called just before the phase is replayed, so that the replay finds the arrays in the cache. */
int plb_trace_check_tasks(const plb_trace_t *t, int64_t i, bool alike, plb_err_t *err)
{
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    if (!alike) {
        PLB_PASS(plb_check_index("task_entity", t->task_entity, a, b, t->n_entities, err));
    }
    PLB_PASS(plb_check_index("task_rank", t->task_rank, a, b, t->n_ranks, err));
    PLB_PASS(plb_check_index("task_home", t->task_home, a, b, t->n_ranks, err));
    PLB_PASS(plb_check_f64("task_load", t->task_load, a, b, 0.0, err));
    PLB_PASS(plb_check_f64("task_seconds", t->task_seconds, a, b, 0.0, err));
    const int64_t d = t->n_subphases;
    PLB_PASS(plb_check_f64("task_subphases", t->task_subphases, a * d, b * d, 0.0, err));
    /* loads are seconds * speed: a user may have changed the loads, but not the seconds */
    for (int64_t k = a; t->task_seconds != NULL && k < b; k++) {
        const double work = t->task_seconds[k] * t->speed[t->task_rank[k]];
        PLB_FAIL_IF(
            fabs(work - t->task_load[k]) > 1e-9 * work, err, PLB_ERR_VALUE,
            "task_load[%lld] is %g: expected %g (task_seconds times speed), or no task_seconds",
            (long long)k, t->task_load[k], work);
    }
    return PLB_OK;
}

/* ---- phase step -------------------------------------------------------------------------- */

/* Get the indices of the ends of edge k among the present objects; false: an end is absent. */
static bool ends_of(const plb_phases_t *self, int64_t k, int32_t *src, int32_t *dst)
{
    *src = self->index_of[self->edge_src[k]];
    *dst = self->index_of[self->edge_dst[k]];
    return *src >= 0 && *dst >= 0;
}

static int32_t cast_of(const plb_phases_t *self, int64_t k)
{
    return self->edge_multicast == NULL ? 0 : self->edge_multicast[k];
}

/* Copy bytes and messages of edge k to entry i of the database's edges. */
static void put_amount(plb_phases_t *self, int64_t k, int64_t i)
{
    self->amount[i] = self->edge_bytes[k];
    self->amount[self->edge_room + i] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
}

static void add_edges(plb_phases_t *self, plb_snapshot_t *s)
{
    int32_t src, dst;
    for (int64_t k = 0; k < self->n_edges; k++) {
        if (cast_of(self, k) == 0 && ends_of(self, k, &src, &dst)) {
            self->src[s->n_edges] = src;
            self->dst[s->n_edges] = dst;
            put_amount(self, k, s->n_edges++);
        }
    }
    s->edge_src = self->src;
    s->edge_dst = self->dst;
    s->edge_bytes = self->amount;
    s->edge_messages = self->amount + self->edge_room;
}

/* Append the multicasts to the arrays of the edges. */
static void add_multicasts(plb_phases_t *self, plb_snapshot_t *s)
{
    const int64_t e = s->n_edges;
    int64_t c = 0, pins = 0;
    int32_t src, dst, last = 0;
    for (int64_t k = 0; k < self->n_edges; k++) {
        const int32_t cast = cast_of(self, k);
        if (cast != 0 && ends_of(self, k, &src, &dst)) {
            if (cast != last) {
                self->src[e + c] = src;
                self->start[c] = pins;
                put_amount(self, k, e + c++);
            }
            last = cast;
            self->dst[e + pins++] = dst;
        }
    }
    if (c == 0) {
        return;
    }
    self->start[c] = pins;
    s->n_multicasts = c;
    s->n_pins = pins;
    s->multicast_src = self->src + e;
    s->multicast_start = self->start;
    s->multicast_dst = self->dst + e;
    s->multicast_bytes = self->amount + e;
    s->multicast_messages = self->amount + self->edge_room + e;
}

/* Convert loads or drifts from seconds on the present ranks to `work`, which is returned. */
static double *as_work(const plb_phases_t *self, const double *seconds, double *work)
{
    for (int64_t k = 0; k < self->n; k++) {
        work[k] = seconds[k] * self->trace_speed[self->rank[k]];
    }
    return work;
}

/* Check that no sum over present objects can overflow.  Their values may be of earlier phases. */
static int check_sum(const char *name, const int64_t *x, int64_t n, plb_err_t *err)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
        PLB_FAIL_IF(__builtin_add_overflow(sum, x[k], &sum), err, PLB_ERR_VALUE,
                    "%s: the sum of all objects is 2^63 or more: expected less", name);
    }
    return PLB_OK;
}

int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err)
{
    if (self->trace != NULL) { /* check the data of the tasks that only an LB step reads */
        const plb_trace_t *t = self->trace;
        const int64_t a = t->task_ptr[self->phase], b = t->task_ptr[self->phase + 1];
        const double *coords = t->task_coords == NULL ? NULL : t->task_coords + 3 * a;
        PLB_PASS(plb_check_i64("task_bytes", t->task_bytes, a, b, err));
        PLB_PASS(plb_check_i64("task_memory", t->task_memory, a, b, err));
        PLB_PASS(plb_check_f64("task_work", t->task_work, a, b, 0.0, err));
        PLB_PASS(plb_check_coords(coords, b - a, 3, err));
    }
    for (int64_t k = 0; self->n_blocks > 0 && k < self->n; k++) {
        PLB_FAIL_IF(self->block[k] < -1 || self->block[k] >= self->n_blocks, err, PLB_ERR_RANGE,
                    "task_block of entity %d is %d: expected -1 or the index of one of %d blocks",
                    (int)self->entity[k], (int)self->block[k], (int)self->n_blocks);
    }
    PLB_PASS(check_sum("task_bytes", self->bytes, self->has_bytes ? self->n : 0, err));
    PLB_PASS(check_sum("task_memory", self->memory, self->has_memory ? self->n : 0, err));
    *out = (plb_database_t){
        .snapshot =
            {
                .n_objects = self->n,
                .n_ranks = self->opt.n_ranks,
                .n_components = 1,
                .load = self->opt.own_loads ? self->phase_load : self->estimate,
                .rank = self->rank,
                .key = self->key,
                .nbytes = self->has_bytes ? self->bytes : NULL,
                .memory = self->has_memory ? self->memory : NULL,
                .migratable = self->movable,
                .coords = self->has_coords ? self->coords : NULL,
                .n_blocks = self->n_blocks,
                .block = self->n_blocks > 0 ? self->block : NULL,
                .block_bytes = self->n_blocks > 0 ? self->block_bytes : NULL,
                .home = self->n_blocks > 0 && self->has_homes ? self->block_home : NULL,
                .memory_limit = self->memory_limit,
                .node_memory_limit = self->node_memory_limit,
                .node = self->node,
                .near = self->near,
                .speed = self->trace_speed,
                .background = self->background,
            },
        .here = self->opt.learns ? self->estimate + PLB_ESTIMATE_HERE * self->n : NULL,
        .work = self->has_work ? self->work : NULL,
    };
    if (self->opt.estimates && !self->opt.own_loads) {
        plb_estimate_drift(self->estimate, self->n, self->drift);
        out->drift = self->in_seconds ? as_work(self, self->drift, self->drift) : self->drift;
    }
    if (self->in_seconds) {
        out->snapshot.load = as_work(self, out->snapshot.load, self->spare);
    }
    const int64_t d = self->n_subphases, n = self->n, rows = plb_phases_rows(self);
    if (d > 0 && (self->opt.own_loads || self->opt.estimates)) {
        for (int64_t i = 0; i < n * d; i++) {
            const int64_t row = rows * (1 + i % d);
            const double load = self->opt.own_loads ? self->part[i % d * n + i / d]
                                                    : self->estimate[row * n + i / d];
            self->parts[i] = self->in_seconds ? load * self->trace_speed[self->rank[i / d]] : load;
            if (self->opt.learns) {
                self->spare[i] = self->estimate[(row + PLB_ESTIMATE_HERE) * n + i / d];
            }
        }
        out->here = self->opt.learns ? self->spare : NULL;
        out->snapshot.load = self->parts;
        out->snapshot.n_components = (int32_t)d;
    }
    if (self->opt.edges) {
        add_edges(self, &out->snapshot);
        add_multicasts(self, &out->snapshot);
    }
    return PLB_OK;
}

void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed, bool goes_on)
{
    const bool known = speed != NULL && speed[0] > 0.0;
    for (int64_t e = 0; e < self->n_entities && !goes_on; e++) {
        self->rank_before[e] = -1;
    }
    for (int64_t k = 0; k < self->n; k++) {
        int32_t *before = &self->rank_before[self->entity[k]];
        *before = *before < 0 ? self->rank[k] : *before;
        for (int64_t row = 0; row <= self->n_subphases; row++) {
            self->window[row * self->n + k] = 0.0;
        }
        if (rank[k] == self->rank[k]) {
            continue;
        }
        /* Convert the load estimates to seconds on the new rank, which is `factor` times faster.
         * Forget those that use only iterations on the old rank. */
        const double factor = known ? speed[rank[k]] / speed[self->rank[k]] : 1.0;
        for (int row = 0; row < plb_phases_all_rows(self); row++) {
            const int kind = row % plb_phases_rows(self);
            double *x = &self->estimate[row * self->n + k];
            *x = kind >= PLB_ESTIMATE_HERE ? 0.0 : kind == PLB_ESTIMATE_COUNT ? *x : *x / factor;
        }
        self->rank[k] = rank[k];
        if (self->movable[k]) {
            self->rank_of[self->entity[k]] = rank[k];
        }
    }
    for (int32_t r = 0; r < self->opt.n_ranks; r++) {
        self->speed[r] = known ? speed[r] : 1.0;
    }
    memset(self->other, 0, (size_t)self->opt.n_ranks * sizeof *self->other);
    self->ordered = false;
}

/* Return the largest time of a rank.  other may be NULL: no other work. */
static double longest_of(const plb_exact_t *sum, const double *other, int32_t p)
{
    double most = 0.0;
    for (int32_t r = 0; r < p; r++) {
        const double own = plb_exact_value(&sum[r]);
        most = fmax(most, other == NULL ? own : own + other[r]);
    }
    return most;
}

/* Add window[n] of the present objects to the sums of their ranks, now and before the last move.
 */
static void add_window(const plb_phases_t *self, const double *window, plb_exact_t *now,
                       plb_exact_t *then)
{
    const double *given = plb_phases_pace(self);
    memset(now, 0, (size_t)self->opt.n_ranks * sizeof *now);
    memset(then, 0, (size_t)self->opt.n_ranks * sizeof *then);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = self->rank[k], before = self->rank_before[self->entity[k]];
        const int32_t s = before < 0 ? r : before;
        const double here = given == NULL ? window[k] : window[k] / given[r];
        const double there = s == r          ? here
                             : given == NULL ? here * (self->speed[r] / self->speed[s])
                                             : window[k] / given[s];
        plb_exact_add(&now[r], here);
        plb_exact_add(&then[s], there);
    }
}

int plb_phases_sums(plb_phases_t *self, double *was, double *now, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->opt.n_ranks, d = self->n_subphases;
    plb_exact_t *here = NULL, *there = NULL;
    *was = *now = 0.0;
    PLB_NEW_EACH(p, here, there);
    for (int32_t row = d > 0 ? 1 : 0; row <= d; row++) {
        const double *other = row <= 1 ? self->other : NULL; /* other work is part of the first
                                                                subphase */
        add_window(self, self->window + row * self->n, here, there);
        *was += longest_of(there, other, p);
        *now += longest_of(here, other, p);
    }
out:
    PLB_FREE(here, there);
    return ret;
}

/* ---- begin and end -------------------------------------------------------------------------- */

int plb_phases_init(plb_phases_t *self, const plb_phases_options_t *opt, plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_phases_t){.opt = *opt};
    const int64_t p = opt->n_ranks;
    PLB_NEW_EACH(p, self->sum, self->part_sum);
    PLB_NEW_EACH(2 * p, self->room_of_sums, self->own_ranks, self->own_limit, self->shared);
    PLB_NEW_EACH(p, self->time, self->messages, self->sent, self->speed, self->own_node,
                 self->mark);
    PLB_NEW0(self->other, p);
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
    PLB_FREE(self->rank_of, self->rank_before, self->index_of, self->entity, self->rank,
             self->from, self->key, self->bytes, self->memory, self->movable, self->estimate,
             self->load, self->drift, self->spare, self->own_edge, self->own_amount, self->src,
             self->dst, self->amount, self->speed, self->sum, self->room_of_sums, self->time,
             self->messages, self->sent, self->own_ranks, self->own_limit, self->own_node,
             self->coords, self->work, self->other, self->start, self->mark, self->shared,
             self->part, self->parts, self->part_sum, self->block, self->block_bytes,
             self->block_home);
    plb_groups_free(&self->on);
    plb_sharing_free(&self->sharing);
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

/* Check the blocks of the trace, for at most n objects, and make room for them. */
static int make_room_for_blocks(plb_phases_t *self, const plb_trace_t *t, int64_t n,
                                plb_err_t *err)
{
    const int32_t b = t->task_block == NULL ? 0 : t->n_blocks;
    PLB_PASS(plb_check_i64("block_bytes", t->block_bytes, 0, b, err));
    PLB_PASS(plb_check_index("block_home", t->block_home, 0, b, t->n_ranks, err));
    for (int32_t k = 0; k < b; k++) {
        PLB_FAIL_IF(t->block_bytes[k] > (INT64_MAX >> 1) / (n + 1), err, PLB_ERR_RANGE,
                    "block_bytes[%d] is %lld: expected bytes whose sum over all objects fits "
                    "into 64 bits",
                    (int)k, (long long)t->block_bytes[k]);
    }
    if (b > self->n_blocks) {
        PLB_PASS_RENEW_EACH(b, self->block_bytes, self->block_home);
    }
    return PLB_OK;
}

/* The array `window` is the last rows of the array `estimate`. */
static int make_room_for_objects(plb_phases_t *self, int64_t n, plb_err_t *err)
{
    const int64_t rows = plb_phases_all_rows(self) + 1 + self->n_subphases;
    n = n > 0 ? n : 1; /* at least 1, because a snapshot without objects needs arrays, too */
    if (n <= self->capacity) {
        return PLB_OK;
    }
    PLB_PASS_RENEW_EACH(n, self->entity, self->rank, self->from, self->key, self->bytes,
                        self->memory, self->work, self->block);
    PLB_PASS_RENEW_EACH(n, self->movable, self->load, self->drift);
    PLB_PASS_RENEW(self->coords, 3 * n);
    PLB_PASS_RENEW_EACH(rows * n, self->estimate, self->spare);
    PLB_PASS_RENEW_EACH(self->n_subphases * n + 1, self->part, self->parts);
    self->window = self->estimate + plb_phases_all_rows(self) * self->n;
    self->capacity = n;
    return PLB_OK;
}

/* Copy `size` bytes to `room`, and return the copy; NULL if x is NULL. */
static const void *own(const void *x, void *room, size_t size)
{
    return x == NULL ? NULL : memcpy(room, x, size);
}

int plb_phases_begin(plb_phases_t *self, const plb_trace_t *t, plb_err_t *err)
{
    const size_t p = (size_t)self->opt.n_ranks, size = p * sizeof *self->own_ranks;
    self->trace = t;
    self->in_seconds = t->task_seconds != NULL;
    self->has_bytes = t->task_bytes != NULL;
    self->has_memory = t->task_memory != NULL;
    self->has_coords = t->task_coords != NULL;
    self->has_work = t->task_work != NULL;
    PLB_PASS(plb_trace_check(t, err));
    PLB_FAIL_IF(t->n_ranks != self->opt.n_ranks, err, PLB_ERR_VALUE, "n_ranks is %d: expected %d",
                (int)t->n_ranks, (int)self->opt.n_ranks);
    PLB_FAIL_IF(t->n_subphases > PLB_MOST_PHASES || (t->n_subphases != self->n_subphases &&
                                                     self->capacity > 0 && t->n_subphases > 0),
                err, PLB_ERR_VALUE, "tasks have %d subphases: expected %d, at most %d",
                (int)t->n_subphases, (int)self->n_subphases, PLB_MOST_PHASES);
    self->n_subphases = self->capacity > 0 ? self->n_subphases : t->n_subphases;
    if (t->n_entities > self->room) {
        PLB_PASS_RENEW_EACH(t->n_entities, self->rank_of, self->rank_before, self->index_of);
        self->room = t->n_entities;
    }
    for (; self->n_entities < t->n_entities; self->n_entities++) {
        self->rank_of[self->n_entities] = self->rank_before[self->n_entities] = -1;
        self->index_of[self->n_entities] = -1;
    }
    PLB_PASS(make_room_for_objects(self, largest(t->task_ptr, t->n_phases), err));
    PLB_PASS(make_room_for_blocks(self, t, self->capacity, err));
    if (self->opt.edges) {
        const int64_t most = largest(t->edge_ptr, t->n_phases);
        const int64_t m = most > self->n_edges ? most : self->n_edges;
        if (m > self->edge_room) {
            PLB_PASS_RENEW_EACH(m, self->src, self->dst);
            PLB_PASS_RENEW(self->start, m + 1);
            PLB_PASS_RENEW(self->amount, 2 * m);
            self->edge_room = m;
        }
    }
    if (t->core_group != NULL && self->sharing.group == NULL) {
        PLB_PASS(plb_sharing_init(&self->sharing, t->core_group, t->group_cores, t->n_ranks, err));
    }
    self->trace_speed = own(t->speed, self->own_ranks, size);
    self->background = own(t->background, self->own_ranks + p, size);
    self->memory_limit = own(t->memory_limit, self->own_limit, size);
    self->node_memory_limit = own(t->node_memory_limit, self->own_limit + p, size);
    self->node = own(t->node, self->own_node, p * sizeof *self->own_node);
    self->near = own(t->near, self->own_near, sizeof self->own_near);
    return PLB_OK;
}

int plb_phases_pause(plb_phases_t *self, plb_err_t *err)
{
    const int64_t m = self->n_edges;
    if (self->edge_src != NULL && self->edge_src != self->own_edge) {
        PLB_PASS_RENEW(self->own_edge, 3 * m + 1);
        PLB_PASS_RENEW(self->own_amount, 2 * m + 1);
        memcpy(self->own_edge, self->edge_src, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_edge + m, self->edge_dst, (size_t)m * sizeof *self->own_edge);
        memcpy(self->own_amount, self->edge_bytes, (size_t)m * sizeof *self->own_amount);
        for (int64_t k = 0; k < m; k++) {
            self->own_amount[m + k] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
        }
        if (self->edge_multicast != NULL) {
            memcpy(self->own_edge + 2 * m, self->edge_multicast,
                   (size_t)m * sizeof *self->own_edge);
            self->edge_multicast = self->own_edge + 2 * m;
        }
        self->edge_src = self->own_edge;
        self->edge_dst = self->own_edge + m;
        self->edge_bytes = self->own_amount;
        self->edge_messages = self->own_amount + m;
    }
    self->trace = NULL;
    self->phase_load = NULL;
    return PLB_OK;
}

/* ---- the objects that are present ----------------------------------------------------------- */

static int32_t rank_in_phase(const plb_phases_t *self, int64_t k, bool is_new)
{
    const plb_trace_t *t = self->trace;
    const int32_t e = t->task_entity[k];
    if (self->opt.as_recorded || !t->entity_migratable[e]) {
        return t->task_rank[k];
    }
    if (is_new && t->task_home != NULL) {
        return t->task_home[k];
    }
    return self->rank_of[e] >= 0 ? self->rank_of[e] : t->task_rank[k];
}

/* Move estimates and `window` to the new indices of their objects; they are 0 for new objects. */
static void carry_over(plb_phases_t *self, int64_t old_n, int64_t n)
{
    const int rows = plb_phases_all_rows(self) + 1 + self->n_subphases;
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
    self->window = self->estimate + plb_phases_all_rows(self) * n;
}

/* Copy a property of the tasks from `first` on; given NULL: the trace does not have it. */
static void take(void *own, const void *given, int64_t first, int64_t n, size_t size)
{
    if (given != NULL && n > 0) {
        memcpy(own, (const char *)given + (size_t)first * size, (size_t)n * size);
    }
}

void plb_phases_take_facts(plb_phases_t *self, int64_t first)
{
    const plb_trace_t *t = self->trace;
    take(self->bytes, t->task_bytes, first, self->n, sizeof *self->bytes);
    take(self->memory, t->task_memory, first, self->n, sizeof *self->memory);
    take(self->coords, t->task_coords, first, self->n, 3 * sizeof *self->coords);
    take(self->work, t->task_work, first, self->n, sizeof *self->work);
    /* indices of blocks, and the blocks' own arrays, change together */
    self->n_blocks = t->task_block == NULL ? 0 : t->n_blocks;
    self->has_homes = t->block_home != NULL;
    take(self->block, t->task_block, first, self->n, sizeof *self->block);
    take(self->block_bytes, t->block_bytes, 0, self->n_blocks, sizeof *self->block_bytes);
    take(self->block_home, t->block_home, 0, self->n_blocks, sizeof *self->block_home);
    take(self->movable, t->task_migratable, first, self->n, sizeof *self->movable);
    const bool stale = self->some_stay || !self->same_objects;
    for (int64_t k = 0; stale && t->task_migratable == NULL && k < self->n; k++) {
        self->movable[k] = t->entity_migratable[self->entity[k]];
    }
    self->some_stay = t->task_migratable != NULL;
}

static int list_objects(plb_phases_t *self, int64_t first, int64_t n, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t old_n = self->n;
    for (int64_t k = 0; k < n; k++) {
        self->from[k] = self->index_of[t->task_entity[first + k]];
    }
    for (int64_t k = 0; k < old_n; k++) {
        self->index_of[self->entity[k]] = -1;
    }
    carry_over(self, old_n, n);
    self->all_movable = true;
    for (int64_t k = 0; k < n; k++) {
        const int32_t e = t->task_entity[first + k];
        PLB_FAIL_IF(self->index_of[e] >= 0, err, PLB_ERR_VALUE,
                    "task_entity[%lld] is %d, which has another task in the phase: "
                    "expected one task for each entity",
                    (long long)(first + k), e);
        self->entity[k] = e;
        self->index_of[e] = (int32_t)k;
        /* for a new object, plb_phases_sums assumes that the last LB step did not move it */
        if (self->from[k] < 0) {
            self->rank_before[e] = -1;
        }
        self->key[k] = t->entity_key[e];
        self->all_movable = self->all_movable && t->entity_migratable[e];
    }
    self->n = n;
    plb_phases_take_facts(self, first);
    return PLB_OK;
}

/* Set the ranks of the present objects.  fresh: whether these objects differ from those of the
 * previous phase.  Returns whether they or their ranks differ. */
static bool set_ranks(plb_phases_t *self, int64_t first, bool fresh)
{
    const plb_trace_t *t = self->trace;
    bool moved = fresh;
    for (int64_t k = 0; k < self->n; k++) {
        const bool is_new = fresh && self->from[k] < 0;
        const int32_t r = rank_in_phase(self, first + k, is_new);
        moved = moved || r != self->rank[k];
        self->rank[k] = r;
        if (t->entity_migratable[self->entity[k]]) {
            self->rank_of[self->entity[k]] = r;
        }
    }
    return moved;
}

int plb_phases_enter(plb_phases_t *self, int64_t i, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], n = t->task_ptr[i + 1] - first;
    self->phase = i;
    self->same_objects = n == self->n && (n == 0 || memcmp(self->entity, t->task_entity + first,
                                                           (size_t)n * sizeof *self->entity) == 0);
    PLB_PASS(plb_trace_check_tasks(t, i, self->same_objects, err));
    if (self->opt.edges || self->opt.crossing || plb_network_costs(self->opt.network)) {
        const int64_t a = t->edge_ptr[i], b = t->edge_ptr[i + 1];
        PLB_PASS(plb_check_index("edge_src", t->edge_src, a, b, t->n_entities, err));
        PLB_PASS(plb_check_index("edge_dst", t->edge_dst, a, b, t->n_entities, err));
        PLB_PASS(plb_check_f64("edge_bytes", t->edge_bytes, a, b, 0.0, err));
        PLB_PASS(plb_check_f64("edge_messages", t->edge_messages, a, b, 0.0, err));
    }
    if (!self->same_objects) {
        PLB_PASS(list_objects(self, first, n, err));
    }
    const bool steady =
        self->same_objects &&
        (self->opt.as_recorded ? n == 0 || memcmp(self->rank, t->task_rank + first,
                                                  (size_t)n * sizeof *self->rank) == 0
                               : self->all_movable);
    if (!steady && set_ranks(self, first, !self->same_objects)) {
        self->ordered = false;
    }
    return PLB_OK;
}
