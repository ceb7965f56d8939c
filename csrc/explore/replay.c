#include "explore/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
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
    for (int64_t i = i0; x != NULL && i < end; i++) {
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
int plb_runner_check_tasks(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    int ret;
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    if ((ret = check_index("task_entity", t->task_entity, a, b, t->n_entities, err)) ||
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
    void *owned[] = {self->held,          self->at,   self->answer,   self->key,
                     self->movable,       self->src,  self->dst,      self->edge_bytes,
                     self->edge_messages, self->time, self->messages, self->bytes};
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
    PLB_NEW(self->messages, t->n_ranks);
    PLB_NEW(self->bytes, t->n_ranks);
    memset(self->held, -1, (size_t)t->n_entities * sizeof *self->held);
    memset(self->at, -1, (size_t)t->n_entities * sizeof *self->at);
out:
    return ret;
}

/* Where the tasks of phase i are, into out->rank. */
static void settle(plb_runner_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    int32_t *rank = self->out->rank;
    const int64_t first = t->task_ptr[i], end = t->task_ptr[i + 1];
    if (!self->balanced) {
        memcpy(rank + first, t->task_rank + first, (size_t)(end - first) * sizeof *rank);
        return;
    }
    for (int64_t k = first; k < end; k++) {
        const int32_t e = t->task_entity[k];
        if (self->held[e] < 0 && t->entity_migratable[e]) { /* new: it starts here */
            self->held[e] = t->task_rank[k];
        }
        rank[k] = self->held[e] < 0 ? t->task_rank[k] : self->held[e];
    }
}

static bool counts_traffic(const plb_replay_opts_t *opts)
{
    return opts->alpha > 0.0 || opts->beta > 0.0;
}

/* time += alpha * messages + beta * bytes of what each rank sends to others. */
static void add_traffic(plb_runner_t *self, int64_t i, const int32_t *rank)
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

/* The metrics of phase i under `rank` of its tasks; the times that they rest on where they are
 * kept, but for messages. */
static plb_metrics_t measure(plb_runner_t *self, int64_t i, const int32_t *rank)
{
    plb_metrics_t out;
    const plb_snapshot_t s = snapshot_of(self, i, rank);
    plb_snapshot_rank_times(&s, NULL, self->time);
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

static void add_objects(plb_runner_t *self, int64_t i, plb_snapshot_t *s)
{
    const plb_trace_t *t = self->trace;
    for (int64_t k = 0; k < s->n_objects; k++) {
        const int32_t e = t->task_entity[t->task_ptr[i] + k];
        self->key[k] = t->entity_key[e];
        self->movable[k] = t->entity_migratable[e];
    }
    s->key = self->key;
    s->migratable = self->movable;
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
    for (int64_t k = 0; ret == PLB_OK && k < s.n_objects; k++) {
        if (self->answer[k] != rank[k]) {
            d->migrations++;
            d->bytes += s.bytes == NULL ? 0 : s.bytes[k];
        }
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
        settle(self, i);
        *present = measure(self, i, self->out->rank + self->trace->task_ptr[i]);
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
    int ret = plb_runner_check_tasks(t, i, err);
    if (ret == PLB_OK && counts_traffic(o)) {
        ret = check_edges(t, i, err);
    }
    if (ret != PLB_OK) {
        return ret;
    }
    settle(self, i);
    *m = measure(self, i, self->out->rank + t->task_ptr[i]);
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
    PLB_NEW(self->rank, trace->task_ptr[trace->n_phases]);
    PLB_NEW(self->decisions, trace->n_phases);
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
