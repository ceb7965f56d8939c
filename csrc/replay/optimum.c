#include "replay/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum {
    /* The beam keeps this many states per call of a strategy in a phase.
     * tuned: states; 36 searches of two runs: with 1 or 2, schedules take 0.5 % longer; with 16,
     * 0.4 % less */
    STATES_PER_CALL = 4,
    NARROW = 2 * STATES_PER_CALL, /* of a first search, whose result bounds the second one */
    MOST_NUMBERS = 1 << 26,       /* most ranks in the placements of all states: 256 MiB */
    ROWS = PLB_ESTIMATE_HERE,     /* number of rows of a state's load estimates */
    ARRIVES = 1, /* bit of a task: the object takes the rank that the run gives it */
    FRESH = 2,   /* bit of a task: the object has no load estimate yet */
};

/* A state of the beam. */
typedef struct state {
    double time;   /* seconds of the phases and LB steps that lead to this state */
    int64_t step;  /* last LB step: index in search_t.step; -1: none */
    int64_t since; /* phase before which that LB step took place */
    uint64_t hash; /* hash of the placement */
    bool gone;     /* whether a faster state has the same placement */
} state_t;

/* A state with its sort keys. */
typedef struct ranked {
    int64_t group;
    double time;
    int64_t state;
} ranked_t;

/* An LB step of a schedule; before: index of the schedule's previous LB step. */
typedef struct step {
    int64_t before;
    int32_t phase, strategy;
} step_t;

typedef struct search {
    const plb_trace_t *trace;
    const plb_candidate_strategy_t *strategy;
    int32_t n_strategies;
    const plb_optimum_opts_t *opts;
    int64_t most;     /* largest number of tasks in a phase */
    uint8_t *comes;   /* [tasks] bits ARRIVES, FRESH */
    bool some_return; /* whether an object comes back to its last rank */
    double *rest;     /* [n_phases + 1] seconds: lower bound for the run from each phase on */
    double *pace;     /* [n_ranks] work per second of each rank */
    double *sum;      /* [n_ranks] scratch memory */
    double upper;     /* seconds of the fastest complete run so far */
    /* For LB steps. */
    plb_phases_t phases; /* phases of the run without LB steps; they give the load database */
    bool has_phases, has_database;
    plb_database_t database;
    int32_t *rank, *present, *answer; /* [n_entities], [most], [most] scratch memory */
    double *load, *table;             /* [most], [ROWS * most] scratch memory */
    /* The beam. */
    state_t *state;
    int32_t *ranks;    /* [room, n_entities] */
    double *estimates; /* [room, ROWS, n_entities]; NULL: all states have the same */
    ranked_t *order;   /* [room] scratch memory */
    int64_t n, room, limit;
    step_t *step;
    int64_t n_steps, step_room;
    bool left_out; /* whether a state was dropped that might have led to the best schedule */
} search_t;

/* Work of a task; with subphases: in subphase j. */
static double work_of(const plb_trace_t *t, int64_t task, int32_t j)
{
    double load = t->task_load[task];
    if (t->n_subphases > 0) {
        load = t->task_subphases[task * t->n_subphases + j];
        load *= t->task_seconds == NULL ? 1.0 : t->speed[t->task_rank[task]];
    }
    return t->measured == NULL ? load : load * t->measured[t->task_rank[task]];
}

/* Number of parts of a phase, at whose ends all ranks wait. */
static int32_t parts_of(const plb_trace_t *t)
{
    return t->n_subphases > 0 ? t->n_subphases : 1;
}

/* Other work of a rank is part of the first subphase. */
static double other_of(const plb_trace_t *t, int32_t r, int32_t j)
{
    return t->background == NULL || j > 0 ? 0.0 : t->background[r];
}

/* The seconds of a phase whose slowest rank takes `most`. */
static double phase_time(const plb_trace_t *t, int64_t i, bool as_recorded, double most)
{
    const double *f = t->figures == NULL ? NULL : t->figures + PLB_N_TRACE_FIGURES * i;
    return plb_phase_seconds(f, as_recorded, most, f == NULL ? most : f[PLB_FIGURE_MAX]);
}

/* Check the trace, and find the objects that arrive in each phase. */
static int find_arrivals(search_t *self, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    int32_t *seen = NULL, *at = NULL; /* last phase so far with the entity, -2: none; its rank */
    int ret;
    PLB_TRY(plb_trace_check(t, err));
    PLB_NEW_EACH(t->n_entities, seen, at);
    PLB_NEW0(self->comes, t->task_ptr[t->n_phases]);
    for (int64_t e = 0; e < t->n_entities; e++) {
        seen[e] = -2;
    }
    for (int64_t i = 0; i < t->n_phases; i++) {
        const int64_t n = t->task_ptr[i + 1] - t->task_ptr[i];
        PLB_TRY(plb_trace_check_tasks(t, i, false, err));
        self->most = n > self->most ? n : self->most;
        for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
            const int32_t e = t->task_entity[k];
            const bool fixed = !t->entity_migratable[e], fresh = seen[e] != i - 1;
            const bool arrives = seen[e] < 0 || (fresh && t->task_home != NULL) ||
                                 (fixed && at[e] != t->task_rank[k]);
            self->comes[k] = (uint8_t)((arrives ? ARRIVES : 0) | (fresh ? FRESH : 0));
            self->some_return = self->some_return || (fresh && !arrives && !fixed);
            seen[e] = (int32_t)i;
            at[e] = t->task_rank[k];
        }
    }
out:
    PLB_FREE(seen, at);
    return ret;
}

/* Let objects arrive at the beginning of phase i. */
static void arrive(const search_t *self, int64_t i, int32_t *rank, double *estimates)
{
    const plb_trace_t *t = self->trace;
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const int32_t e = t->task_entity[k];
        if (self->comes[k] & ARRIVES) {
            const bool at_home = t->task_home != NULL && t->entity_migratable[e];
            rank[e] = at_home ? t->task_home[k] : t->task_rank[k];
        }
        for (int row = 0; row < ROWS && estimates != NULL && (self->comes[k] & FRESH); row++) {
            estimates[row * t->n_entities + e] = 0.0;
        }
    }
}

/* Return the seconds of phase i under a placement. */
static double seconds_of(const search_t *self, int64_t i, const int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    double sum = 0.0;
    bool as_recorded = t->figures != NULL;
    for (int32_t j = 0; j < parts_of(t); j++) {
        double most = 0.0;
        memset(self->sum, 0, (size_t)t->n_ranks * sizeof *self->sum);
        for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
            const int32_t r = rank[t->task_entity[k]];
            self->sum[r] += work_of(t, k, j);
            as_recorded = as_recorded && r == t->task_rank[k];
        }
        for (int32_t r = 0; r < t->n_ranks; r++) {
            most = fmax(most, other_of(t, r, j) + self->sum[r] / self->pace[r]);
        }
        sum += most;
    }
    return phase_time(t, i, as_recorded, sum);
}

/* ---- lower bounds --------------------------------------------------------------------------- */

/* A lower bound of the seconds of phase i, or of its subphase j, under any placement: the larger
 * one of two times.  For the first, all load that may migrate is divided in the best proportion.
 * For the second, only the largest object of this load is counted, on the rank where it ends
 * first. */
static double least_of_part(const search_t *self, int64_t i, int32_t j)
{
    const plb_trace_t *t = self->trace;
    double *base = self->sum, work = 0.0, largest = 0.0, most = 0.0, first = INFINITY;
    memset(base, 0, (size_t)t->n_ranks * sizeof *base);
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const double own = work_of(t, k, j);
        if (t->entity_migratable[t->task_entity[k]]) {
            work += own;
            largest = fmax(largest, own);
        } else {
            base[t->task_rank[k]] += own;
        }
    }
    for (int32_t r = 0; r < t->n_ranks; r++) {
        base[r] = base[r] / self->pace[r] + other_of(t, r, j);
        most = fmax(most, base[r]);
        first = fmin(first, base[r] + largest / self->pace[r]);
    }
    most = fmax(most, first);
    return work > 0.0 ? fmax(most, plb_level(base, self->pace, t->n_ranks, work)) : most;
}

/* Compute `rest`, the time of the run without LB steps, and a lower bound for all runs. */
static void run_unbalanced(search_t *self, plb_optimum_t *out)
{
    const int64_t n = self->trace->n_phases;
    double time = 0.0, bound = INFINITY;
    self->rest[n] = 0.0;
    for (int64_t i = n - 1; i >= 0; i--) {
        double most = 0.0;
        for (int32_t j = 0; j < parts_of(self->trace); j++) {
            most += least_of_part(self, i, j);
        }
        /* under the recorded placement, the phase takes the measured time, even below the bound */
        self->rest[i] = self->rest[i + 1] + fmin(phase_time(self->trace, i, false, most),
                                                 phase_time(self->trace, i, true, most));
    }
    for (int64_t i = 0; i < n; i++) {
        arrive(self, i, self->rank, NULL);
        time += seconds_of(self, i, self->rank);
        bound = fmin(bound, i + 1 == n ? time : time + self->opts->cost + self->rest[i + 1]);
    }
    out->bound = bound;
    out->time = INFINITY;
    if (time < self->upper) {
        out->time = self->upper = time;
    }
}

static int32_t *ranks_of(const search_t *self, int64_t s)
{
    return self->ranks + s * self->trace->n_entities;
}

static double *estimates_of(const search_t *self, int64_t s)
{
    return self->estimates == NULL ? NULL : self->estimates + s * ROWS * self->trace->n_entities;
}

/* ---- LB steps ------------------------------------------------------------------------------- */

/* Whether the strategy is known to use loads alone: GreedyLB, if loads do not depend on the rank.
 * Then all states get the same placement, or keep their own if that is faster. */
static bool looks_at_loads_alone(const search_t *self, int32_t which)
{
    return self->trace->measured == NULL &&
           self->strategy[which].strategy.run == plb_strategy_greedy.run;
}

/* Let a strategy place the objects of phase i in state s. */
static int ask(search_t *self, int64_t i, int32_t which, int64_t s, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    const int32_t *entity = t->task_entity + t->task_ptr[i];
    const int64_t n = t->task_ptr[i + 1] - t->task_ptr[i];
    const plb_strategy_t *strategy = &self->strategy[which].strategy;
    const plb_opts_t opts = {
        .params = self->strategy[which].params, .seed = self->opts->seed, .lenient = true};
    if (!self->has_database) {
        PLB_PASS(plb_phases_database(&self->phases, &self->database, err));
        self->has_database = true;
    }
    plb_snapshot_t snapshot = self->database.snapshot;
    for (int64_t k = 0; k < n; k++) {
        self->present[k] = ranks_of(self, s)[entity[k]];
        snapshot.rank = self->present;
    }
    for (int64_t k = 0; self->estimates != NULL && k < n; k++) {
        self->load[k] = estimates_of(self, s)[entity[k]];
        snapshot.load = self->load;
        snapshot.n_components = 1;
    }
    const int32_t d = snapshot.n_components;
    if (d > 1 && strategy->run != plb_strategy_vector.run) { /* it places by the sum */
        memset(self->load, 0, (size_t)n * sizeof *self->load);
        for (int64_t k = 0; k < n * d; k++) {
            self->load[k / d] += snapshot.load[k];
        }
        snapshot.load = self->load;
        snapshot.n_components = 1;
    }
    return plb_strategy_place(strategy, &snapshot, &opts, self->answer, err);
}

static void place(const search_t *self, int64_t i, int32_t *rank)
{
    const plb_trace_t *t = self->trace;
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        rank[t->task_entity[k]] = self->answer[k - t->task_ptr[i]];
    }
}

/* ---- the beam ------------------------------------------------------------------------------- */

static int reserve(search_t *self, int64_t n, plb_err_t *err)
{
    const int64_t m = self->trace->n_entities;
    if (n <= self->room) {
        return PLB_OK;
    }
    const int64_t more = n > 2 * self->room ? n : 2 * self->room;
    PLB_PASS_RENEW_EACH(more, self->state, self->order);
    PLB_PASS_RENEW(self->ranks, more * m);
    if (self->trace->measured != NULL) {
        PLB_PASS_RENEW(self->estimates, more * m * ROWS);
    }
    self->room = more;
    return PLB_OK;
}

static void copy(search_t *self, int64_t to, int64_t from)
{
    const size_t m = (size_t)self->trace->n_entities;
    if (to == from) {
        return;
    }
    self->state[to] = self->state[from];
    memcpy(ranks_of(self, to), ranks_of(self, from), m * sizeof *self->ranks);
    if (self->estimates != NULL) {
        memcpy(estimates_of(self, to), estimates_of(self, from),
               ROWS * m * sizeof *self->estimates);
    }
}

static uint64_t hash_of(const int32_t *rank, int64_t n)
{
    uint64_t hash = 0;
    for (int64_t k = 0; k < n; k++) {
        hash = (hash ^ (uint32_t)rank[k]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Let state `parent` take an LB step with the placement `answer` just before phase i. */
static int take_step(search_t *self, int64_t i, int32_t which, int64_t parent, plb_err_t *err)
{
    const int64_t s = self->n, m = self->trace->n_entities;
    PLB_PASS(reserve(self, s + 1, err));
    copy(self, s, parent);
    place(self, i, ranks_of(self, s));
    state_t *child = &self->state[s];
    child->time += self->opts->cost;
    child->since = i;
    child->gone = false;
    child->hash = hash_of(ranks_of(self, s), m);
    int64_t o = 0; /* the state with the same placement, if there is one */
    while (o < s &&
           (self->state[o].gone || self->state[o].hash != child->hash ||
            memcmp(ranks_of(self, o), ranks_of(self, s), (size_t)m * sizeof *self->ranks) != 0)) {
        o++;
    }
    if (o < s) {
        self->left_out =
            self->left_out ||
            (self->estimates != NULL && memcmp(estimates_of(self, o), estimates_of(self, s),
                                               (size_t)(ROWS * m) * sizeof *self->estimates) != 0);
        if (self->state[o].time <= child->time) {
            return PLB_OK;
        }
        self->state[o].gone = true; /* its last LB step stays, because later ones may refer to
                                       it */
    }
    PLB_PASS_GROW(self->step, self->step_room, self->n_steps + 1);
    self->step[self->n_steps] = (step_t){child->step, (int32_t)i - 1, which};
    child->step = self->n_steps++;
    self->n++;
    return PLB_OK;
}

/* Order by group, then by time; ties: the state with the smaller index. */
static int by_group(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;
    if (x->group != y->group) {
        return x->group < y->group ? -1 : 1;
    }
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time)
                              : (x->state > y->state) - (x->state < y->state);
}

/* Let the fastest states take LB steps just before phase i. */
static int balance(search_t *self, int64_t i, plb_err_t *err)
{
    int64_t n = 0;
    for (int64_t s = 0; s < self->n; s++) {
        if (self->state[s].time + self->opts->cost + self->rest[i] < self->upper) {
            self->order[n++] = (ranked_t){0, self->state[s].time, s};
        }
    }
    qsort(self->order, (size_t)n, sizeof *self->order, by_group);
    const int64_t share = self->opts->width / self->n_strategies, room = share > 1 ? share : 1;
    const size_t bytes =
        (size_t)(self->trace->task_ptr[i + 1] - self->trace->task_ptr[i]) * sizeof *self->answer;
    for (int32_t which = 0; which < self->n_strategies; which++) {
        const bool one = looks_at_loads_alone(self, which) && !self->some_return;
        const int64_t most = n < room || one ? n : room;
        self->left_out = self->left_out || most < n;
        for (int64_t j = 0; j < most; j++) {
            const int64_t parent = self->order[j].state;
            PLB_PASS(ask(self, i, which, parent, err));
            PLB_PASS(take_step(self, i, which, parent, err));
            if (one && memcmp(self->answer, self->present, bytes) != 0) {
                break; /* slower states would come to the same placement */
            }
        }
    }
    return PLB_OK;
}

/* Drop the states that cannot be faster than `upper`; if too many remain, see replay.h. */
static void prune(search_t *self, double rest)
{
    int64_t n = 0, place = 0;
    for (int64_t s = 0; s < self->n; s++) {
        if (!self->state[s].gone && self->state[s].time + rest < self->upper) {
            copy(self, n++, s);
        }
    }
    self->n = n;
    if (n <= self->limit) {
        return;
    }
    self->left_out = true;
    for (int64_t s = 0; s < n; s++) {
        self->order[s] = (ranked_t){self->state[s].since, self->state[s].time, s};
    }
    qsort(self->order, (size_t)n, sizeof *self->order, by_group);
    for (int64_t j = 0, since = -1; j < n; j++) {
        place = self->order[j].group == since ? place + 1 : 0;
        since = self->order[j].group;
        self->order[j].group = place;
    }
    qsort(self->order, (size_t)n, sizeof *self->order, by_group);
    for (int64_t j = self->limit; j < n; j++) {
        self->state[self->order[j].state].gone = true;
    }
    self->n = 0;
    for (int64_t s = 0; s < n; s++) {
        if (!self->state[s].gone) {
            copy(self, self->n++, s);
        }
    }
}

/* Update the load estimates of each state with the loads of phase i. */
static void learn(search_t *self, int64_t i)
{
    const plb_trace_t *t = self->trace;
    const int64_t first = t->task_ptr[i], n = t->task_ptr[i + 1] - first;
    for (int64_t s = 0; self->estimates != NULL && s < self->n; s++) {
        double *own = estimates_of(self, s);
        for (int64_t k = 0; k < n; k++) {
            const int32_t e = t->task_entity[first + k];
            self->load[k] = t->task_load[first + k] * (t->measured[t->task_rank[first + k]] /
                                                       t->measured[ranks_of(self, s)[e]]);
            for (int row = 0; row < ROWS; row++) {
                self->table[row * n + k] = own[row * t->n_entities + e];
            }
        }
        plb_estimate_mean(self->load, n, self->table);
        for (int64_t k = 0; k < n; k++) {
            for (int row = 0; row < ROWS; row++) {
                own[row * t->n_entities + t->task_entity[first + k]] = self->table[row * n + k];
            }
        }
    }
}

/* Write the schedule of the best state to *out if it is faster than `upper`. */
static int list_best(search_t *self, plb_optimum_t *out, plb_err_t *err)
{
    int64_t best = -1, n = 0;
    for (int64_t s = 0; s < self->n; s++) {
        best = best < 0 || self->state[s].time < self->state[best].time ? s : best;
    }
    if (best < 0 || !(self->state[best].time < self->upper)) {
        return PLB_OK;
    }
    for (int64_t k = self->state[best].step; k >= 0; k = self->step[k].before) {
        n++;
    }
    PLB_FREE(out->when, out->which);
    out->when = NULL;
    out->which = NULL;
    out->n = n;
    PLB_PASS_NEW_EACH(n, out->when, out->which);
    for (int64_t k = self->state[best].step; k >= 0; k = self->step[k].before) {
        out->when[--n] = self->step[k].phase;
        out->which[n] = self->step[k].strategy;
    }
    out->time = self->upper = self->state[best].time;
    return PLB_OK;
}

/* Search with at most `limit` states. */
static int search(search_t *self, int64_t limit, plb_optimum_t *out, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    unsigned looks_at = 0;
    for (int32_t k = 0; k < self->n_strategies; k++) {
        looks_at |= self->strategy[k].strategy.looks_at;
    }
    const plb_phases_options_t options = {
        .n_ranks = t->n_ranks, .estimates = true, .edges = (looks_at & PLB_LOOKS_COMM) != 0};
    PLB_PASS(plb_phases_init(&self->phases, &options, err));
    self->has_phases = true;
    PLB_PASS(plb_phases_begin(&self->phases, t, err));
    PLB_PASS(reserve(self, 1, err));
    self->limit = limit;
    self->left_out = false;
    self->n = 1;
    self->n_steps = 0;
    self->state[0] = (state_t){.step = -1};
    if (t->n_entities > 0) {
        memset(self->ranks, -1, (size_t)t->n_entities * sizeof *self->ranks);
    }
    for (int64_t i = 0; i < t->n_phases; i++) {
        PLB_PASS(plb_phases_enter(&self->phases, i, err));
        bool any = false;
        for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
            any = any || self->comes[k] != 0;
        }
        const int64_t changed = any ? self->n : 0;
        for (int64_t s = 0; s < changed; s++) {
            arrive(self, i, ranks_of(self, s), estimates_of(self, s));
            self->state[s].hash = hash_of(ranks_of(self, s), t->n_entities);
        }
        if (i > 0 && t->task_ptr[i + 1] > t->task_ptr[i]) {
            PLB_PASS(balance(self, i, err));
            prune(self, self->rest[i]);
        }
        for (int64_t s = 0; s < self->n; s++) {
            self->state[s].time += seconds_of(self, i, ranks_of(self, s));
        }
        prune(self, self->rest[i + 1]);
        learn(self, i);
        plb_phases_run(&self->phases);
        PLB_PASS(plb_phases_leave(&self->phases, err));
        self->has_database = false;
        PLB_PASS(plb_interrupted(PLB_INTERRUPT_NOW));
    }
    plb_phases_free(&self->phases);
    self->has_phases = false;
    out->exact = !self->left_out;
    return list_best(self, out, err);
}

/* Search once, with a beam.  But if the only strategy uses loads alone, all states can be kept: a
 * first search with few states gives an upper bound, by which the second drops most states. */
static int search_twice(search_t *self, plb_optimum_t *out, plb_err_t *err)
{
    const int64_t m = self->trace->n_entities * (self->trace->measured == NULL ? 1 : 1 + 2 * ROWS);
    const int64_t most = MOST_NUMBERS / (m + 1) + 1, beam = STATES_PER_CALL * self->opts->width;
    if (self->n_strategies > 1 || !looks_at_loads_alone(self, 0) || self->some_return) {
        return search(self, beam < most ? beam : most, out, err);
    }
    PLB_PASS(search(self, NARROW, out, err));
    return self->left_out ? search(self, most, out, err) : PLB_OK;
}

static int init_search(search_t *self, plb_err_t *err)
{
    const plb_trace_t *t = self->trace;
    PLB_PASS(find_arrivals(self, err));
    PLB_PASS_NEW_EACH(t->n_ranks, self->pace, self->sum);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        self->pace[r] =
            (t->speed == NULL ? 1.0 : t->speed[r]) * (t->measured == NULL ? 1.0 : t->measured[r]);
    }
    PLB_PASS_NEW(self->rest, t->n_phases + 1);
    PLB_PASS_NEW(self->rank, t->n_entities);
    PLB_PASS_NEW_EACH(self->most, self->present, self->answer, self->load);
    PLB_PASS_NEW(self->table, ROWS * self->most);
    return PLB_OK;
}

int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err)
{
    *self = (plb_optimum_t){.exact = true};
    search_t search = {.trace = trace,
                       .strategy = strategy,
                       .n_strategies = n,
                       .opts = opts,
                       .upper = opts->upper};
    int ret = PLB_OK;
    PLB_FAIL_IF(n < 1 || opts->width < 1, err, PLB_ERR_VALUE,
                "width is %lld, with %d strategies: expected a width of 1 or more, and at least "
                "one strategy",
                (long long)opts->width, (int)n);
    if (trace->n_phases == 0) {
        return ret;
    }
    PLB_TRY(init_search(&search, err));
    run_unbalanced(&search, self);
    PLB_TRY(search_twice(&search, self, err));
    self->bound = fmin(self->bound, search.upper);
out:
    if (search.has_phases) {
        plb_phases_free(&search.phases);
    }
    PLB_FREE(search.comes, search.rest, search.pace, search.sum, search.rank, search.present,
             search.answer, search.load, search.table, search.state, search.ranks,
             search.estimates, search.order, search.step);
    return ret;
}
