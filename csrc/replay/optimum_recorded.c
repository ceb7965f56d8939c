#include "replay/optimum_recorded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "replay/optimum_states.h"
#include "replay/phase_loads.h"
#include "replay/phase_step.h"

enum {
    AHEAD = 8,               /* times are computed for this many phases ahead, in whole blocks */
    NARROW = 8,              /* number of states in the first search, see search_twice */
    MOST_RANKS = 1 << 26,    /* most entries in the placements of all states: 256 MiB */
    MOST_ANSWERS = 1 << 26,  /* most entries in stored placements: 256 MiB */
    WORTH_THREADS = 1 << 20, /* for more additions than this, threads are used */
    CHEAP = 4, /* CHEAP * width LB steps are tried if one call of the strategy serves them all */
};

/* An LB step of a schedule; before: index of the schedule's previous LB step. */
typedef struct step {
    int64_t before;
    int32_t phase, strategy;
} step_t;

typedef struct search {
    layout_t lay;
    const plb_candidate_strategy_t *strategy;
    int32_t n_strategies;
    const plb_optimum_opts_t *opts;
    double *rest; /* [n_phases + 1] seconds: lower bound for the run from each phase on */
    states_t all;
    int64_t limit; /* the search keeps at most this many states */
    step_t *step;
    int64_t n_steps, step_room;
    bool alone;   /* whether all strategies use loads alone */
    double upper; /* seconds of the fastest complete run so far */
    /* For LB steps. */
    plb_phases_t phases; /* phases of the run without LB steps; they give the load database */
    bool has_phases, has_database;
    plb_database_t database;
    /* Scratch memory: [lay.most]; table: [ROWS * lay.most]. */
    int32_t *present, *answer;
    double *load, *table;
    int32_t *answers; /* [tasks] the only strategy's placements in all phases; NULL: not stored */
    bool answered;    /* whether the previous search has filled `answers` */
    /* Scratch memory for each of n_parts threads. */
    int n_parts;
    double *sum;      /* [n_parts, GROUP, n_ranks, LANES] */
    int32_t *scratch; /* [n_parts, GROUP, n_slots] */
    /* The same for all threads: the present phase, and the two limits that look_ahead sets. */
    int64_t phase, soon, until;
} search_t;

/* Whether an LB step leads from all states to the same state. */
static bool is_one_state(const search_t *self)
{
    return self->alone && !self->lay.section[self->lay.section_of[self->phase]].some_absent;
}

/* ---- LB steps ------------------------------------------------------------------------------- */

/* Whether the strategy is known to use loads alone, so that its answer is the same for all states:
 * GreedyLB, if loads do not depend on the rank. */
static bool looks_at_loads_alone(const search_t *self, int32_t which)
{
    return self->lay.trace->measured == NULL &&
           self->strategy[which].strategy.run == plb_strategy_greedy.run;
}

/* Let a strategy place the objects of state s; s < 0: all states give the same answer. */
static int ask(search_t *self, int32_t which, int64_t s, int32_t *answer, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int32_t *slot = lay->slot + c->slots;
    const plb_opts_t opts = {self->strategy[which].params, self->opts->seed, true};
    int ret = PLB_OK;
    if (!self->has_database) {
        ret = plb_phases_database(&self->phases, &self->database, err);
        self->has_database = ret == PLB_OK;
    }
    plb_snapshot_t snapshot = self->database.snapshot;
    for (int64_t k = 0; s >= 0 && k < c->n; k++) {
        self->present[k] = ranks_of(&self->all, s)[slot[k]];
        snapshot.rank = self->present;
    }
    for (int64_t k = 0; self->all.estimates != NULL && k < c->n; k++) {
        self->load[k] = estimates_of(&self->all, s)[slot[k]];
        snapshot.load = self->load;
    }
    const plb_strategy_t *strategy = &self->strategy[which].strategy;
    return ret == PLB_OK ? strategy->run(strategy, &snapshot, &opts, answer, err) : ret;
}

static int note_step(search_t *self, int64_t before, int32_t which, plb_err_t *err)
{
    PLB_PASS_GROW(self->step, self->step_room, self->n_steps + 1);
    self->step[self->n_steps++] = (step_t){before, (int32_t)self->phase - 1, which};
    return PLB_OK;
}

/* Let state `parent` take an LB step.  Of states with the same placement, keep the fastest. */
static int take_step(search_t *self, int32_t which, int64_t parent, const int32_t *answer,
                     plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int64_t s = self->all.n;
    int ret;
    PLB_TRY(plb_states_reserve(&self->all, s + 1, err));
    plb_states_copy(&self->all, s, parent);
    int32_t *rank = ranks_of(&self->all, s);
    for (int64_t k = 0; k < c->n; k++) {
        rank[lay->slot[c->slots + k]] = answer[k];
    }
    state_t *new = &self->all.state[s];
    new->time += self->opts->cost;
    new->known = self->phase;
    new->gone = false;
    new->hash = plb_hash_of_ranks(rank, lay->n_slots);
    const int64_t b = plb_states_look_up(&self->all, rank, new->hash);
    const int32_t other = self->all.bucket[b];
    if (other >= 0) {
        plb_states_compare(&self->all, other, s);
        if (self->all.state[other].time <= new->time) {
            return ret;
        }
        /* the last LB step of `other` stays in memory, because later LB steps may refer to it */
        self->all.state[other].gone = true;
    }
    PLB_TRY(note_step(self, new->step, which, err));
    new->step = self->n_steps - 1;
    self->all.bucket[b] = (int32_t)self->all.n++;
out:
    return ret;
}

/* Whether a state with this time can be part of the best schedule if it takes an LB step now. */
static bool may_step(const search_t *self, double time)
{
    return time + self->opts->cost + self->rest[self->phase] < self->upper;
}

static int by_value(const void *a, const void *b)
{
    const ranked_t *x = a, *y = b;
    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->state > y->state) - (x->state < y->state);
}

/* List the states that may take an LB step, the fastest first.  If LB steps lead from all states
 * to the same state, only the fastest state is used: the list is not sorted then. */
static int64_t list_parents(const search_t *self)
{
    int64_t n = 0, first = 0;
    for (int64_t s = 0; s < self->all.n; s++) {
        if (may_step(self, self->all.state[s].time)) {
            self->all.order[n] = (ranked_t){self->all.state[s].time, s};
            first = self->all.order[n].value < self->all.order[first].value ? n : first;
            n++;
        }
    }
    if (n > 0 && is_one_state(self)) {
        self->all.order[0] = self->all.order[first];
    } else {
        qsort(self->all.order, (size_t)n, sizeof *self->all.order, by_value);
    }
    return n;
}

static int step_with(search_t *self, int32_t which, int64_t n, plb_err_t *err)
{
    const int64_t share = self->opts->width / self->n_strategies, room = share > 1 ? share : 1;
    const int64_t most = n < room ? n : room;
    int ret = PLB_OK;
    self->all.left_out = self->all.left_out || most < n;
    for (int64_t j = 0; ret == PLB_OK && j < most; j++) {
        const int64_t parent = self->all.order[j].state;
        ret = ask(self, which, parent, self->answer, err);
        ret = ret == PLB_OK ? take_step(self, which, parent, self->answer, err) : ret;
    }
    return ret;
}

/* Apply one placement to all states, which become one state if no object is absent. */
static int step_alone(search_t *self, int32_t which, int64_t n, plb_err_t *err)
{
    const plb_trace_t *t = self->lay.trace;
    const bool absent = self->lay.section[self->lay.section_of[self->phase]].some_absent;
    int32_t *answer =
        self->answers == NULL ? self->answer : self->answers + t->task_ptr[self->phase];
    int ret = PLB_OK;
    if (!self->answered && (n > 0 || self->answers != NULL)) {
        ret = ask(self, which, -1, answer, err);
    }
    const int64_t room = absent ? CHEAP * self->opts->width : 1, most = n < room ? n : room;
    self->all.left_out = self->all.left_out || (absent && most < n);
    for (int64_t j = 0; ret == PLB_OK && j < most; j++) {
        ret = take_step(self, which, self->all.order[j].state, answer, err);
    }
    return ret;
}

/* Return the largest number of states that LB steps may add. */
static int64_t expected(const search_t *self)
{
    const int64_t steps = is_one_state(self) ? 1 : CHEAP * self->opts->width;
    return (steps < self->all.n ? steps : self->all.n) * self->n_strategies;
}

/* Try LB steps at the end of the previous phase. */
static int balance(search_t *self, bool change, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    int64_t n = 0;
    self->has_database = false;
    int ret = change ? plb_states_list(&self->all, expected(self), true, err) : PLB_OK;
    if (ret == PLB_OK && lay->section[lay->section_of[self->phase]].n > 0 &&
        (n = list_parents(self)) > 0) {
        ret = plb_states_list(&self->all, expected(self), false, err);
    }
    for (int32_t k = 0; ret == PLB_OK && k < self->n_strategies; k++) {
        ret = looks_at_loads_alone(self, k) ? step_alone(self, k, n, err)
                                            : step_with(self, k, n, err);
    }
    return ret;
}

/* ---- computing the times of states, and dropping states ------------------------------------- */

static void run_group(search_t *self, group_t *group, const int64_t *of)
{
    const int64_t known = self->all.state[of[0]].known;
    const int64_t end = plb_layout_run(&self->lay, self->phase, known, self->until, group);
    for (int g = 0; g < group->n; g++) {
        self->all.state[of[g]].known = end;
        self->all.state[of[g]].least = -1.0;
    }
    group->n = 0;
}

/* Compute the times of every n_parts-th group of states, beginning with group `part`. */
static void run_part(void *arg, int part, int n_parts)
{
    search_t *self = arg;
    const layout_t *lay = &self->lay;
    int64_t of[GROUP], seen = 0;
    group_t group = {.sum = self->sum + (int64_t)part * GROUP * lay->trace->n_ranks * LANES,
                     .scratch = self->scratch + (int64_t)part * GROUP * lay->n_slots};
    for (int64_t s = 0; s < self->all.n; s++) {
        const state_t *state = &self->all.state[s];
        if (state->gone || state->known >= self->soon || seen++ / GROUP % n_parts != part) {
            continue;
        }
        if (group.n > 0 && state->known != self->all.state[of[0]].known) {
            run_group(self, &group, of);
        }
        of[group.n] = s;
        group.rank[group.n] = ranks_of(&self->all, s);
        group.ring[group.n++] = ring_of(&self->all, s);
        if (group.n == GROUP) {
            run_group(self, &group, of);
        }
    }
    if (group.n > 0) {
        run_group(self, &group, of);
    }
}

/* The lower bound of a state, explained in optimum_recorded.h. */
static double least_from(const search_t *self, int64_t s)
{
    const state_t *state = &self->all.state[s];
    const double *ring = ring_of(&self->all, s);
    double time = state->time, least = INFINITY;
    for (int64_t i = self->phase; i < state->known; i++) {
        time += ring[i % RING];
        const double with = time + self->opts->cost + self->rest[i + 1];
        least = with < least ? with : least;
    }
    return fmin(least, time + self->rest[state->known]);
}

/* Keep the `limit` states with the lowest bounds. */
static void cut(search_t *self)
{
    if (self->all.n <= self->limit) {
        return;
    }
    for (int64_t s = 0; s < self->all.n; s++) {
        self->all.order[s] = (ranked_t){self->all.state[s].least, s};
    }
    qsort(self->all.order, (size_t)self->all.n, sizeof *self->all.order, by_value);
    for (int64_t k = self->limit; k < self->all.n; k++) {
        self->all.state[self->all.order[k].state].least = INFINITY;
    }
    self->all.left_out = true;
}

static void prune(search_t *self)
{
    for (int64_t s = 0; s < self->all.n; s++) {
        state_t *state = &self->all.state[s];
        if (state->gone) {
            state->least = INFINITY;
        } else if (state->least < 0.0) {
            state->least = least_from(self, s);
        }
    }
    cut(self);
    for (int64_t s = 0; s < self->all.n;) {
        if (self->all.state[s].least < self->upper) {
            s++;
        } else {
            plb_states_copy(&self->all, s, --self->all.n);
        }
    }
}

/* Compute the times of AHEAD phases for states that know those of fewer than AHEAD / 2 phases. */
static void look_ahead(search_t *self)
{
    const int64_t n = self->lay.trace->n_phases;
    const int64_t until = self->phase + AHEAD, soon = self->phase + AHEAD / 2;
    int64_t behind = 0;
    self->until = until < n ? until : n;
    self->soon = soon < n ? soon : n;
    for (int64_t s = 0; s < self->all.n; s++) {
        behind += self->all.state[s].known < self->soon;
    }
    plb_parallel(behind * AHEAD * self->lay.most > WORTH_THREADS ? self->n_parts : 1, run_part,
                 self);
}

/* Update the load estimates of each state with the loads of the phase. */
static void learn(search_t *self)
{
    const layout_t *lay = &self->lay;
    const plb_trace_t *t = lay->trace;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int32_t *slot = lay->slot + c->slots;
    const int64_t first = t->task_ptr[self->phase];
    for (int64_t s = 0; self->all.estimates != NULL && s < self->all.n; s++) {
        double *own = estimates_of(&self->all, s);
        for (int64_t k = 0; k < c->n; k++) {
            const double *speed = t->measured;
            self->load[k] = t->task_load[first + k] * (speed[t->task_rank[first + k]] /
                                                       speed[ranks_of(&self->all, s)[slot[k]]]);
            for (int row = 0; row < ROWS; row++) {
                self->table[row * c->n + k] = own[row * lay->n_slots + slot[k]];
            }
        }
        plb_estimate_mean(self->load, c->n, self->table);
        for (int64_t k = 0; k < c->n; k++) {
            for (int row = 0; row < ROWS; row++) {
                own[row * lay->n_slots + slot[k]] = self->table[row * c->n + k];
            }
        }
    }
}

/* ---- the search ----------------------------------------------------------------------------- */

static int begin(search_t *self, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const int ret = plb_states_reserve(&self->all, 1, err);
    if (ret != PLB_OK) {
        return ret;
    }
    self->all.n = 1;
    self->n_steps = 0;
    self->all.left_out = false;
    self->all.state[0] = (state_t){.step = -1, .least = -1.0};
    memset(self->all.rank, -1, (size_t)lay->n_slots * sizeof *self->all.rank);
    if (self->all.estimates != NULL) {
        memset(self->all.estimates, 0,
               (size_t)(ROWS * lay->n_slots) * sizeof *self->all.estimates);
    }
    return ret;
}

static int run_phase(search_t *self, int64_t i, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const bool change = i == 0 || lay->section_of[i] != lay->section_of[i - 1];
    int ret = PLB_OK;
    self->phase = i;
    if (change) {
        plb_states_change_objects(&self->all, lay->section_of[i]);
    }
    if (self->has_phases && (ret = plb_phases_enter(&self->phases, i, err)) != PLB_OK) {
        return ret;
    }
    if (i > 0 && (ret = balance(self, change, err)) != PLB_OK) {
        return ret;
    }
    look_ahead(self);
    prune(self);
    for (int64_t s = 0; s < self->all.n; s++) {
        self->all.state[s].time += ring_of(&self->all, s)[i % RING];
    }
    learn(self);
    if (self->has_phases) {
        plb_phases_run(&self->phases);
        plb_phases_leave(&self->phases);
    }
    return plb_interrupted(PLB_INTERRUPT_NOW);
}

/* Write the schedule of the best state to *out if it is faster than `upper`. */
static int take_result(search_t *self, plb_optimum_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t best = -1, n = 0;
    for (int64_t s = 0; s < self->all.n; s++) {
        best = best < 0 || self->all.state[s].time < self->all.state[best].time ? s : best;
    }
    if (best < 0 || !(self->all.state[best].time < self->upper)) {
        return ret;
    }
    PLB_FREE(out->when, out->which);
    out->when = NULL;
    out->which = NULL;
    for (int64_t k = self->all.state[best].step; k >= 0; k = self->step[k].before) {
        n++;
    }
    PLB_NEW(out->when, n);
    PLB_NEW(out->which, n);
    out->n = n;
    for (int64_t k = self->all.state[best].step; k >= 0; k = self->step[k].before) {
        out->when[--n] = self->step[k].phase;
        out->which[n] = self->step[k].strategy;
    }
    out->time = self->upper = self->all.state[best].time;
out:
    return ret;
}

static plb_phases_options_t options_of(const search_t *self)
{
    unsigned looks_at = 0;
    for (int32_t k = 0; k < self->n_strategies; k++) {
        looks_at |= self->strategy[k].strategy.looks_at;
    }
    return (plb_phases_options_t){.n_ranks = self->lay.trace->n_ranks,
                                  .estimates = true,
                                  .edges = (looks_at & PLB_LOOKS_COMM) != 0};
}

static int search(search_t *self, int64_t limit, plb_optimum_t *out, plb_err_t *err)
{
    const plb_trace_t *t = self->lay.trace;
    int ret = begin(self, err);
    self->limit = limit;
    self->has_phases = false;
    if (ret == PLB_OK && !self->answered) {
        const plb_phases_options_t options = options_of(self);
        ret = plb_phases_init(&self->phases, &options, err);
        self->has_phases = ret == PLB_OK;
        ret = ret == PLB_OK ? plb_phases_begin(&self->phases, t, err) : ret;
    }
    for (int64_t i = 0; ret == PLB_OK && i < t->n_phases; i++) {
        ret = run_phase(self, i, err);
    }
    if (self->has_phases) {
        plb_phases_free(&self->phases);
    }
    return ret == PLB_OK ? take_result(self, out, err) : ret;
}

/* Compute the time of the run without LB steps, and a lower bound for all runs. */
static void run_unbalanced(search_t *self, plb_optimum_t *out)
{
    const layout_t *lay = &self->lay;
    const int64_t n = lay->trace->n_phases;
    int32_t *rank = self->scratch;
    int64_t known = 0;
    double ring[RING], time = 0.0, bound = INFINITY;
    group_t group = {.n = 1, .rank = {rank}, .ring = {ring}, .sum = self->sum, .scratch = rank};
    memset(rank, -1, (size_t)lay->n_slots * sizeof *rank);
    plb_layout_enter(lay, 0, rank);
    for (int64_t i = 0; i < n; i = known) {
        known = plb_layout_run(lay, i, i, i + 1, &group);
        for (int64_t j = i; j < known; j++) {
            time += ring[j % RING];
            const bool is_last = j + 1 == n;
            bound = fmin(bound, is_last ? time : time + self->opts->cost + self->rest[j + 1]);
        }
        if (known < n && lay->section_of[known] != lay->section_of[i]) {
            plb_layout_enter(lay, lay->section_of[known], rank);
        }
    }
    out->bound = bound;
    out->time = INFINITY;
    if (time < self->upper) {
        out->time = self->upper = time;
    }
}

static int init_search(search_t *self, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const plb_trace_t *t = lay->trace;
    self->all.lay = lay;
    self->upper = self->opts->upper;
    self->alone = true;
    for (int32_t k = 0; k < self->n_strategies; k++) {
        self->alone = self->alone && looks_at_loads_alone(self, k);
    }
    self->n_parts = plb_cores() < 64 ? plb_cores() : 64;
    PLB_PASS_NEW(self->rest, t->n_phases + 1);
    PLB_PASS_NEW(self->present, lay->most);
    PLB_PASS_NEW(self->answer, lay->most);
    PLB_PASS_NEW(self->load, lay->most);
    PLB_PASS_NEW(self->table, ROWS * lay->most);
    PLB_PASS_NEW(self->sum, (int64_t)self->n_parts * GROUP * t->n_ranks * LANES);
    PLB_PASS_NEW(self->scratch, (int64_t)self->n_parts * GROUP * lay->n_slots);
    self->rest[t->n_phases] = 0.0;
    for (int64_t i = t->n_phases - 1; i >= 0; i--) {
        self->rest[i] = self->rest[i + 1] + lay->least[i];
    }
    return PLB_OK;
}

static void free_search(search_t *self)
{
    PLB_FREE(self->rest, self->step, self->present, self->answer, self->load, self->table,
             self->answers, self->sum, self->scratch);
    plb_states_free(&self->all);
    plb_layout_free(&self->lay);
}

/* If the only strategy gives all states the same placement, first search with few states.  The
 * result is an upper bound, by which the second search drops most states. */
static int search_twice(search_t *self, plb_optimum_t *out, plb_err_t *err)
{
    const plb_trace_t *t = self->lay.trace;
    const int64_t of_a_state = self->lay.n_slots + 2 * RING, most = MOST_RANKS / of_a_state;
    const int64_t tasks = t->task_ptr[t->n_phases];
    int ret = PLB_OK;
    if (self->n_strategies == 1 && self->alone && tasks <= MOST_ANSWERS) {
        PLB_NEW(self->answers, tasks);
        ret = search(self, NARROW, out, err);
        self->answered = true;
    }
    if (ret == PLB_OK && (!self->answered || self->all.left_out)) {
        ret = search(self, most > self->opts->width ? most : self->opts->width, out, err);
    }
    out->exact = !self->all.left_out;
out:
    return ret;
}

int plb_optimum_of_trace(plb_optimum_t *self, const plb_trace_t *trace,
                         const plb_candidate_strategy_t *strategy, int32_t n,
                         const plb_optimum_opts_t *opts, plb_err_t *err)
{
    *self = (plb_optimum_t){.exact = true};
    search_t search = {.strategy = strategy, .n_strategies = n, .opts = opts};
    int ret = PLB_OK;
    PLB_FAIL_IF(n < 1 || opts->width < 1, err, PLB_ERR_VALUE,
                "width is %lld, with %d strategies: expected a width of 1 or more, and at least "
                "one strategy",
                (long long)opts->width, (int)n);
    if (trace->n_phases == 0) {
        return ret;
    }
    PLB_TRY(plb_layout_init(&search.lay, trace, err));
    PLB_TRY(init_search(&search, err));
    run_unbalanced(&search, self);
    ret = search_twice(&search, self, err);
    self->bound = fmin(self->bound, search.upper);
out:
    free_search(&search);
    return ret;
}
