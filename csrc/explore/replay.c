#include "explore/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "explore/ahead.h"
#include "explore/runner.h"
#include "measure/clock.h"

/* Ctrl-C is looked for each time that about so many tasks and ranks were run through. */
enum { STEPS_PER_TICK = 1 << 20 };

/* ---- checks --------------------------------------------------------------------------------- */

static int check_ptr(const char *name, const int64_t *ptr, int64_t n, plb_err_t *err)
{
    if (ptr[0] != 0) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "%s[0] is %lld: expected 0", name, (long long)ptr[0]);
    }
    for (int64_t i = 0; i < n; i++) {
        if (ptr[i + 1] < ptr[i]) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected %lld or more", name,
                            (long long)i + 1, (long long)ptr[i + 1], (long long)ptr[i]);
        }
    }
    return PLB_OK;
}

/* Elements i0 ... end - 1.  One pass without branches, which any compiler vectorises: the sign bit
 * of `doubt` is set where an x or limit - 1 - x is negative.  The second pass decides. */
static int check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                       plb_err_t *err)
{
    uint32_t doubt = 0;
    for (int64_t i = i0; i < end; i++) {
        doubt |= (uint32_t)x[i] | ((uint32_t)(limit - 1) - (uint32_t)x[i]);
    }
    for (int64_t i = i0; doubt >> 31 && i < end; i++) {
        if (x[i] < 0 || x[i] >= limit) {
            return PLB_FAIL(err, PLB_ERR_RANGE, "%s[%lld] is %d: expected 0 ... %lld", name,
                            (long long)i, x[i], (long long)limit - 1);
        }
    }
    return PLB_OK;
}

static int check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                     plb_err_t *err)
{
    for (int64_t i = i0; x != NULL && i < end; i++) {
        if (!(x[i] >= least && x[i] <= 1e30)) { /* also false for NaN */
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %g: expected a finite number, %s",
                            name, (long long)i, x[i], least > 0 ? "above zero" : "zero or more");
        }
    }
    return PLB_OK;
}

/* The same for the long arrays: doubles that are not negative are ordered as their bits are. */
static int check_seconds(const char *name, const double *x, int64_t i0, int64_t end,
                         plb_err_t *err)
{
    const double most = 1e30;
    uint64_t limit, bits, doubt = 0;
    memcpy(&limit, &most, sizeof limit);
    for (int64_t i = i0; i < end; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        doubt |= bits | (limit - bits);
    }
    return doubt >> 63 ? check_f64(name, x, i0, end, 0.0, err) : PLB_OK;
}

static int check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err)
{
    int64_t doubt = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        doubt |= x[i];
    }
    for (int64_t i = i0; doubt < 0 && i < end; i++) {
        if (x[i] < 0) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected zero or more bytes",
                            name, (long long)i, (long long)x[i]);
        }
    }
    return PLB_OK;
}

/* What does not belong to one phase. */
int plb_runner_check(const plb_trace_t *t, plb_err_t *err)
{
    int ret;
    if (t->n_ranks < 1) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", t->n_ranks);
    }
    if ((ret = check_ptr("task_ptr", t->task_ptr, t->n_phases, err)) ||
        (ret = check_ptr("edge_ptr", t->edge_ptr, t->n_phases, err)) ||
        (ret = check_f64("speed", t->speed, 0, t->n_ranks, 1e-30, err))) {
        return ret;
    }
    return check_f64("background", t->background, 0, t->n_ranks, 0.0, err);
}

/* Just before the phase is run, so that its arrays are in the cache then. */
int plb_runner_check_tasks(const plb_trace_t *t, int64_t i, bool alike, plb_err_t *err)
{
    int ret;
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    if ((!alike && (ret = check_index("task_entity", t->task_entity, a, b, t->n_entities, err))) ||
        (ret = check_index("task_rank", t->task_rank, a, b, t->n_ranks, err))) {
        return ret;
    }
    return check_seconds("task_load", t->task_load, a, b, err);
}

/* What only a balancing reads. */
static int check_sizes(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    const int ret = check_i64("task_bytes", t->task_bytes, a, b, err);
    return ret != PLB_OK ? ret : check_i64("task_memory", t->task_memory, a, b, err);
}

/* Where traffic counts, or the strategy looks at it. */
static int check_edges(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    int ret;
    const int64_t a = t->edge_ptr[i], b = t->edge_ptr[i + 1];
    if ((ret = check_index("edge_src", t->edge_src, a, b, t->n_entities, err)) ||
        (ret = check_index("edge_dst", t->edge_dst, a, b, t->n_entities, err)) ||
        (ret = check_seconds("edge_bytes", t->edge_bytes, a, b, err))) {
        return ret;
    }
    return t->edge_messages == NULL ? PLB_OK
                                    : check_seconds("edge_messages", t->edge_messages, a, b, err);
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
    const int ret = plb_runner_check(t, err);
    for (int64_t i = 0; ret == PLB_OK && i < t->n_phases; i++) {
        out[i] = !same_tasks(t, i)   ? 0
                 : !same_edges(t, i) ? PLB_REPEATS_TASKS
                                     : PLB_REPEATS_TASKS | PLB_REPEATS_EDGES;
    }
    return ret;
}

bool plb_runner_alike(const plb_trace_t *t, int64_t i)
{
    return t->repeats == NULL ? same_tasks(t, i) : t->repeats[i] & PLB_REPEATS_TASKS;
}

static bool edges_alike(const plb_trace_t *t, int64_t i)
{
    return t->repeats == NULL ? same_edges(t, i) : t->repeats[i] & PLB_REPEATS_EDGES;
}

static bool counts_traffic(const plb_replay_opts_t *opts)
{
    return opts->alpha > 0.0 || opts->beta > 0.0;
}

static void compare(plb_runner_t *self, int64_t i)
{
    self->alike = i < self->alike_end || plb_runner_alike(self->trace, i);
    self->same_edges = self->alike && counts_traffic(self->opts) && edges_alike(self->trace, i);
    self->since = self->alike ? self->since : i;
}

/* ---- one phase ------------------------------------------------------------------------------ */

static int64_t largest(const int64_t *ptr, int64_t n)
{
    int64_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        most = ptr[i + 1] - ptr[i] > most ? ptr[i + 1] - ptr[i] : most;
    }
    return most;
}

void plb_runner_free(plb_runner_t *self)
{
    void *owned[] = {
        self->held,     self->at,    self->answer,     self->key,           self->movable,
        self->src,      self->dst,   self->edge_bytes, self->edge_messages, self->time,
        self->messages, self->bytes, self->sum};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        plb_free(owned[i]);
    }
}

int plb_runner_init(plb_runner_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    const int64_t n = largest(t->task_ptr, t->n_phases), m = largest(t->edge_ptr, t->n_phases);
    PLB_NEW(self->held, t->n_entities);
    PLB_NEW(self->at, t->n_entities);
    PLB_NEW(self->answer, n);
    PLB_NEW(self->key, n);
    PLB_NEW(self->movable, n);
    PLB_NEW(self->src, m);
    PLB_NEW(self->dst, m);
    PLB_NEW(self->edge_bytes, m);
    PLB_NEW(self->edge_messages, m);
    PLB_NEW(self->time, t->n_ranks);
    PLB_NEW(self->sum, PLB_AHEAD * (int64_t)t->n_ranks);
    PLB_NEW(self->messages, t->n_ranks);
    PLB_NEW(self->bytes, t->n_ranks);
    self->listed = -1;
    self->all_movable = memchr(t->entity_migratable, 0, (size_t)t->n_entities) == NULL;
    memset(self->held, -1, (size_t)t->n_entities * sizeof *self->held);
    memset(self->at, -1, (size_t)t->n_entities * sizeof *self->at);
out:
    return ret;
}

/* The rank of each task of phase i that a balancing has placed, or that is new since. */
static void gather(plb_runner_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    self->steady = true;
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const int32_t e = t->task_entity[k];
        if (self->held[e] < 0 && t->entity_migratable[e]) { /* new: it starts here */
            self->held[e] = t->task_rank[k];
        }
        self->out->rank[k] = self->held[e] < 0 ? t->task_rank[k] : self->held[e];
        self->steady = self->steady && self->held[e] >= 0;
    }
}

/* Where the tasks of phase i are; also in out->rank, if anything is ever placed. */
static const int32_t *settle(plb_runner_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], n = t->task_ptr[i + 1] - first;
    if (self->out->rank == NULL) {
        return t->task_rank + first;
    }
    int32_t *rank = self->out->rank + first;
    if (!self->balanced) {
        memcpy(rank, t->task_rank + first, (size_t)n * sizeof *rank);
    } else if (self->alike && self->steady) {
        memcpy(rank, rank - n, (size_t)n * sizeof *rank);
    } else {
        gather(self, i);
    }
    return rank;
}

/* What each rank sends to others. */
static void count_traffic(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], end = t->task_ptr[i + 1];
    memset(self->messages, 0, (size_t)t->n_ranks * sizeof *self->messages);
    memset(self->bytes, 0, (size_t)t->n_ranks * sizeof *self->bytes);
    for (int64_t k = first; k < end; k++) {
        self->at[t->task_entity[k]] = rank[k - first];
    }
    for (int64_t k = t->edge_ptr[i]; k < t->edge_ptr[i + 1]; k++) {
        const int32_t a = self->at[t->edge_src[k]], b = self->at[t->edge_dst[k]];
        if (a >= 0 && b >= 0 && a != b) {
            self->messages[a] += t->edge_messages == NULL ? 1.0 : t->edge_messages[k];
            self->bytes[a] += t->edge_bytes[k];
        }
    }
    for (int64_t k = first; k < end; k++) {
        self->at[t->task_entity[k]] = -1;
    }
}

/* time += alpha * messages + beta * bytes. */
static void add_traffic(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    const size_t size = (size_t)(t->task_ptr[i + 1] - t->task_ptr[i]) * sizeof *rank;
    const bool same = self->counted_in == i || self->same_edges;
    if (self->counted == NULL || !same || memcmp(rank, self->counted, size) != 0) {
        count_traffic(self, i, rank);
    }
    self->counted = rank;
    self->counted_in = i;
    for (int32_t r = 0; r < t->n_ranks; r++) {
        self->time[r] += self->opts->alpha * self->messages[r] + self->opts->beta * self->bytes[r];
    }
}

/* Phase i as a snapshot without edges, under `rank` of its tasks. */
static plb_snapshot_t snapshot_of(const plb_runner_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i];
    return (plb_snapshot_t){
        .n_objects = t->task_ptr[i + 1] - first,
        .n_ranks = t->n_ranks,
        .n_components = 1,
        .load = t->task_load + first,
        .rank = rank,
        .bytes = t->task_bytes == NULL ? NULL : t->task_bytes + first,
        .memory = t->task_memory == NULL ? NULL : t->task_memory + first,
        .speed = t->speed,
        .background = t->background,
    };
}

static void keep_times(plb_runner_t *self, int64_t i)
{
    const int64_t p = self->trace->n_ranks;
    if (self->out->times != NULL) {
        memcpy(self->out->times + i * p, self->time, (size_t)p * sizeof *self->time);
    }
}

/* Will phase j, if nothing is balanced before, have the tasks of the one before at the same
 * places?  Those have been placed by now, or are where they were recorded. */
static bool stays(plb_runner_t *self, int64_t j, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    if (j >= t->n_phases || !plb_runner_alike(t, j)) {
        return false;
    }
    self->alike_end = j + 1;
    if (rank == self->answer) {
        return self->all_movable;
    }
    return self->balanced ? self->steady
                          : repeats(t->task_rank, sizeof *t->task_rank, t->task_ptr, j);
}

static void look_ahead(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    const int64_t n = t->task_ptr[i + 1] - t->task_ptr[i];
    self->ahead = i;
    self->ahead_end = i + 1;
    while (self->ahead_end < i + PLB_AHEAD && stays(self, self->ahead_end, rank)) {
        self->ahead_end++;
    }
    plb_ahead_add(t->task_load + t->task_ptr[i], n, (int)(self->ahead_end - i), rank, t->n_ranks,
                  self->sum);
}

/* Seconds of the ranks in phase i under `rank` of its tasks, without messages. */
static void add_loads(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    if (rank == self->answer || i < self->ahead || i >= self->ahead_end) {
        look_ahead(self, i, rank);
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        const double load = self->sum[(int64_t)r * PLB_AHEAD + i - self->ahead];
        const double own = t->speed == NULL ? load : load / t->speed[r];
        self->time[r] = t->background == NULL ? own : t->background[r] + own;
    }
}

/* The metrics of phase i under `rank` of its tasks; the times that they rest on where they are
 * kept, but for messages. */
static plb_metrics_t measure(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    plb_metrics_t out;
    add_loads(self, i, rank);
    if (rank != self->answer) {
        keep_times(self, i);
    }
    if (counts_traffic(self->opts)) {
        add_traffic(self, i, rank);
    }
    plb_metrics_of(self->time, self->trace->n_ranks, &out);
    return out;
}

/* ---- one balancing -------------------------------------------------------------------------- */

/* A strategy of the user's is always told which objects may migrate, as by the trace's phases. */
static void add_objects(plb_runner_t *self, int64_t i, plb_snapshot_t *s)
{
    const plb_trace_t *t = self->trace;
    for (int64_t k = 0; self->listed != self->since && k < s->n_objects; k++) {
        const int32_t e = t->task_entity[t->task_ptr[i] + k];
        self->key[k] = t->entity_key[e];
        self->movable[k] = t->entity_migratable[e];
    }
    self->listed = self->since;
    s->key = self->key;
    if (!self->all_movable || self->opts->strategy->user != NULL) {
        s->migratable = self->movable;
    }
}

/* The edges of phase i between tasks of the phase, by index of task. */
static void add_edges(plb_runner_t *self, int64_t i, plb_snapshot_t *s)
{
    const plb_trace_t *t = self->trace;
    const int32_t *entity = t->task_entity + t->task_ptr[i];
    for (int64_t k = 0; k < s->n_objects; k++) {
        self->at[entity[k]] = (int32_t)k;
    }
    for (int64_t k = t->edge_ptr[i]; k < t->edge_ptr[i + 1]; k++) {
        const int32_t a = self->at[t->edge_src[k]], b = self->at[t->edge_dst[k]];
        if (a >= 0 && b >= 0) {
            self->src[s->n_edges] = a;
            self->dst[s->n_edges] = b;
            self->edge_bytes[s->n_edges] = t->edge_bytes[k];
            self->edge_messages[s->n_edges] = t->edge_messages == NULL ? 1.0 : t->edge_messages[k];
            s->n_edges++;
        }
    }
    for (int64_t k = 0; k < s->n_objects; k++) {
        self->at[entity[k]] = -1;
    }
    s->edge_src = self->src;
    s->edge_dst = self->dst;
    s->edge_bytes = self->edge_bytes;
    s->edge_messages = self->edge_messages;
}

static void count_moves(const plb_runner_t *self, const plb_snapshot_t *s, plb_decision_t *d)
{
    for (int64_t k = 0; k < s->n_objects; k++) {
        d->migrations += self->answer[k] != s->rank[k];
    }
    for (int64_t k = 0; s->bytes != NULL && k < s->n_objects; k++) {
        d->bytes += self->answer[k] != s->rank[k] ? s->bytes[k] : 0;
    }
}

int plb_runner_ask(plb_runner_t *self, int64_t i, const int32_t *rank, plb_decision_t *d,
                   plb_err_t *err)
{
    const plb_replay_opts_t *o = self->opts;
    plb_snapshot_t s = snapshot_of(self, i, rank);
    int ret = check_sizes(self->trace, i, err);
    if (ret == PLB_OK && o->strategy->looks_at & PLB_LOOKS_COMM) {
        ret = check_edges(self->trace, i, err);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    add_objects(self, i, &s);
    if (o->strategy->looks_at & PLB_LOOKS_COMM) {
        add_edges(self, i, &s);
    }
    const plb_opts_t opts = {o->params, o->seed, o->tick, o->tick_arg};
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    ret = o->strategy->run(o->strategy, &s, &opts, self->answer, err);
    d->seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    if (ret == PLB_OK) {
        ret = plb_snapshot_check_placement(&s, self->answer, err);
    }
    if (ret == PLB_OK) {
        count_moves(self, &s, d);
    }
    return ret;
}

static void apply(plb_runner_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], end = t->task_ptr[i + 1];
    for (int64_t k = first; k < end; k++) {
        const int32_t e = t->task_entity[k];
        if (t->entity_migratable[e]) {
            self->held[e] = self->answer[k - first];
        }
    }
    self->balanced = true;
    self->steady = false;
}

/* Phase i has run (or with foresight: would run) as self->out->metrics[i] says. */
static int balance(plb_runner_t *self, int64_t i, plb_err_t *err)
{
    const plb_replay_opts_t *o = self->opts;
    plb_metrics_t *present = &self->out->metrics[i];
    plb_decision_t *d = &self->out->decisions[self->out->n_decisions];
    *d = (plb_decision_t){
        .phase = i, .verdict = o->trigger->verdict, .before = present->max_over_mean};
    int ret = plb_runner_ask(self, i, self->out->rank + self->trace->task_ptr[i], d, err);
    if (ret != PLB_OK) {
        return ret;
    }
    const plb_metrics_t after = measure(self, i, self->answer);
    d->after = after.max_over_mean;
    self->out->n_decisions++;
    d->applied = o->foresight || i + 1 < self->trace->n_phases;
    if (!d->applied) {
        return PLB_OK;
    }
    d->cost = !isnan(o->cost) ? o->cost
                              : d->seconds + o->migration_alpha * (double)d->migrations +
                                    o->migration_beta * (double)d->bytes;
    apply(self, i);
    if (o->foresight) {
        *present = measure(self, i, settle(self, i));
    }
    return plb_trigger_balanced(o->trigger, i, d->cost, d->after, err);
}

static int tick(plb_runner_t *self, int64_t steps)
{
    self->since_tick += steps;
    if (self->opts->tick == NULL || self->since_tick < STEPS_PER_TICK) {
        return PLB_OK;
    }
    self->since_tick = 0;
    return self->opts->tick(self->opts->tick_arg);
}

static int phase(plb_runner_t *self, int64_t i, plb_err_t *err)
{
    const plb_replay_opts_t *o = self->opts;
    const plb_trace_t *t = self->trace;
    plb_metrics_t *m = &self->out->metrics[i];
    compare(self, i);
    int ret = plb_runner_check_tasks(t, i, self->alike, err);
    if (ret == PLB_OK && counts_traffic(o) && !self->same_edges) {
        ret = check_edges(t, i, err);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    *m = measure(self, i, settle(self, i));
    if (o->trigger != NULL) {
        const plb_observation_t seen = {.iteration = i, .max = m->max, .mean = m->mean};
        ret = plb_trigger_observe(o->trigger, &seen, err);
        if (ret == PLB_OK && o->trigger->verdict.balance) {
            ret = balance(self, i, err);
        }
    }
    return ret != PLB_OK ? ret : tick(self, t->task_ptr[i + 1] - t->task_ptr[i] + t->n_ranks);
}

/* Say which phase it was. */
static void name_phase(plb_err_t *err, int64_t i)
{
    plb_err_t copy = *err;
    snprintf(err->text, sizeof err->text, "phase %lld of the replay: %.440s", (long long)i,
             copy.text);
}

int plb_replay_run(plb_replay_t *self, const plb_trace_t *trace, const plb_replay_opts_t *opts,
                   plb_err_t *err)
{
    *self = (plb_replay_t){0};
    plb_runner_t runner = {.trace = trace, .opts = opts, .out = self};
    int ret = plb_runner_check(trace, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(self->metrics, trace->n_phases);
    if (opts->trigger != NULL) {
        PLB_NEW(self->rank, trace->task_ptr[trace->n_phases]);
        PLB_NEW(self->decisions, trace->n_phases);
    }
    if (opts->keep_times) {
        PLB_NEW(self->times, trace->n_phases * trace->n_ranks);
    }
    ret = plb_runner_init(&runner, err);
    if (ret == PLB_OK && opts->trigger != NULL) {
        ret = plb_trigger_expect(opts->trigger, trace->n_phases, opts->cost, err);
    }
    for (int64_t i = 0; ret == PLB_OK && i < trace->n_phases; i++) {
        ret = phase(&runner, i, err);
        if (ret != PLB_OK && ret != PLB_ERR_INTERRUPTED) {
            name_phase(err, i);
        }
    }
out:
    plb_runner_free(&runner);
    if (ret != PLB_OK) {
        plb_replay_free(self);
    }
    return ret;
}

void plb_replay_free(plb_replay_t *self)
{
    plb_free(self->metrics);
    plb_free(self->rank);
    plb_free(self->times);
    plb_free(self->decisions);
    *self = (plb_replay_t){0};
}
