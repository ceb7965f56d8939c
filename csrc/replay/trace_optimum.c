/* The best schedule of LB steps for a recorded run: a search forward over its phases.
 *
 * A state is a placement of all objects and the least time in which a schedule arrives at it.  At
 * the end of each phase states take an LB step, one call of the strategy each, from where their
 * objects are; of states with the same placement the one with the least time stays.  All schedules
 * that end in a state go on alike, so that nothing is lost (label-setting search, as in Dijkstra,
 * Numerische Mathematik 1, 1959).  A strategy that looks at loads alone gives one new state per
 * phase, whichever state asks: the search is then the dynamic programme of optimum.h.
 *
 * What it leaves out, lest the states double with each phase:
 *   - a state that cannot become shorter than the best complete run known (branch and bound).  It
 *     goes on as it is for some phases and then pays for an LB step, and no phase is shorter than
 *     its bound: perfect balance, the largest object, the objects that may not migrate;
 *   - of more states than `width` the slower ones do not take an LB step: after it they would be
 *     about where the faster ones are.  Then the result is not exact.
 *
 * Loads of the ranks are added up for LANES phases at once, laid out side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "replay/check.h"
#include "replay/optimum.h"
#include "replay/phases.h"
#include "measure/estimate.h"

enum {
    LANES = 16,              /* phases of a block */
    FEWEST = 4,              /* phases that are worth being laid out as blocks */
    LOOK = 8,                /* phases that states are run ahead of the search, and a block more */
    RING = 32,               /* as many are kept */
    GROUP = 4,               /* states that are run ahead together */
    NARROW = 8,              /* states of a first search, whose result bounds the second */
    MOST_LOADS = 1 << 25,    /* laid out: 256 MiB */
    MOST_RANKS = 1 << 26,    /* of all states: 256 MiB */
    MOST_ANSWERS = 1 << 26,  /* likewise */
    WORTH_THREADS = 1 << 20, /* additions */
    ROWS = PLB_ESTIMATE_HERE,
    CHEAP = 4, /* times as many LB steps, where they need no call of the strategy */
    STAYS = -2 /* in a change: the object is where it was when it was last there */
};

/* ---- the run, laid out -----------------------------------------------------------------------
 */

/* An object comes, goes (rank -1), or was recorded elsewhere and may not migrate. */
typedef struct change {
    int32_t slot, rank;
    bool fresh; /* nothing is known of its load */
} change_t;

/* Phases with the same tasks, and those that may not migrate on the same ranks. */
typedef struct section {
    int64_t first, end; /* phases */
    int64_t n;          /* tasks of each */
    bool some_absent;   /* objects that come back to where they are now */
    int64_t slots;      /* where its slots begin */
    int64_t changes, end_of_changes;
    int64_t lanes; /* where its blocks begin, or -1: not laid out */
} section_t;

/* A slot holds an object for as long as its place counts; then another one may have it. */
typedef struct layout {
    const plb_trace_t *trace;
    section_t *section;
    int64_t n_sections, n_slots, most; /* most: tasks of a phase */
    int32_t *section_of;               /* [n_phases] */
    int32_t *slot;                     /* of each task of a section */
    change_t *change;
    double *lanes; /* [block][task][LANES]: work */
    double *pace;  /* [n_ranks] work a second, or NULL: 1 */
    double *least; /* [n_phases] seconds: no placement is faster */
} layout_t;

static void free_layout(layout_t *self)
{
    plb_free(self->section);
    plb_free(self->section_of);
    plb_free(self->slot);
    plb_free(self->change);
    plb_free(self->lanes);
    plb_free(self->pace);
    plb_free(self->least);
}

static bool fixed_differ(const plb_trace_t *t, int64_t i)
{
    const int64_t a = t->task_ptr[i - 1], b = t->task_ptr[i], n = t->task_ptr[i + 1] - b;
    for (int64_t k = 0; k < n; k++) {
        if (!t->entity_migratable[t->task_entity[b + k]] &&
            t->task_rank[a + k] != t->task_rank[b + k]) {
            return true;
        }
    }
    return false;
}

static bool any_fixed(const plb_trace_t *t)
{
    return memchr(t->entity_migratable, 0, (size_t)t->n_entities) != NULL;
}

static int find_sections(layout_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    const bool some_fixed = any_fixed(t);
    int64_t slots = 0;
    PLB_NEW(self->section_of, t->n_phases);
    for (int64_t i = 0; i < t->n_phases; i++) {
        const bool alike = i > 0 && plb_phases_alike(t, i);
        if ((ret = plb_check_tasks(t, i, alike, err)) != PLB_OK) {
            goto out;
        }
        self->n_sections += !alike || (some_fixed && fixed_differ(t, i));
        self->section_of[i] = (int32_t)(self->n_sections - 1);
    }
    PLB_NEW(self->section, self->n_sections);
    for (int64_t i = 0; i < t->n_phases; i++) {
        section_t *c = &self->section[self->section_of[i]];
        if (i == 0 || self->section_of[i] != self->section_of[i - 1]) {
            *c = (section_t){
                .first = i, .n = t->task_ptr[i + 1] - t->task_ptr[i], .slots = slots, .lanes = -1};
            slots += c->n;
            self->most = c->n > self->most ? c->n : self->most;
        }
        c->end = i + 1;
    }
    PLB_NEW(self->slot, slots);
    PLB_NEW(self->change, 3 * slots); /* each task of a section comes, stays and goes */
out:
    return ret;
}

/* What hands out the slots: of each entity its slot, the section where it was seen last, and the
 * last one where it is; and the slots that are free. */
typedef struct slots {
    int32_t *of, *seen, *last, *spare;
    int64_t n_spare, n_changes;
} slots_t;

static void leave(layout_t *self, slots_t *slots, int64_t s)
{
    const plb_trace_t *t = self->trace;
    const section_t *c = &self->section[s - 1];
    for (int64_t k = 0; k < c->n; k++) {
        const int32_t e = t->task_entity[t->task_ptr[c->first] + k];
        const bool is_gone = slots->seen[e] != s;
        if (is_gone && (slots->last[e] < s || t->task_home != NULL || !t->entity_migratable[e])) {
            self->change[slots->n_changes++] = (change_t){slots->of[e], -1, false};
            slots->spare[slots->n_spare++] = slots->of[e];
            slots->of[e] = -1;
        }
    }
}

static void come(layout_t *self, slots_t *slots, int64_t s, const uint8_t *is_new)
{
    const plb_trace_t *t = self->trace;
    const section_t *c = &self->section[s];
    for (int64_t k = 0; k < c->n; k++) {
        const int64_t task = t->task_ptr[c->first] + k;
        const int32_t e = t->task_entity[task];
        const bool movable = t->entity_migratable[e], held = slots->of[e] >= 0;
        if (!held) {
            slots->of[e] =
                slots->n_spare > 0 ? slots->spare[--slots->n_spare] : (int32_t)self->n_slots++;
        }
        self->slot[c->slots + k] = slots->of[e];
        if (!held || !movable || is_new[k]) {
            const int32_t rank =
                movable && t->task_home != NULL ? t->task_home[task] : t->task_rank[task];
            self->change[slots->n_changes++] =
                (change_t){slots->of[e], movable && held ? STAYS : rank, is_new[k]};
        }
    }
}

static int hand_out_slots(layout_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    slots_t slots = {0};
    uint8_t *is_new = NULL;
    PLB_NEW(slots.of, t->n_entities);
    PLB_NEW(slots.seen, t->n_entities);
    PLB_NEW(slots.last, t->n_entities);
    PLB_NEW(slots.spare, t->n_entities);
    PLB_NEW(is_new, self->most);
    memset(slots.of, -1, (size_t)t->n_entities * sizeof *slots.of);
    memset(slots.seen, -1, (size_t)t->n_entities * sizeof *slots.seen);
    for (int64_t s = 0; s < self->n_sections; s++) {
        const section_t *c = &self->section[s];
        for (int64_t k = 0; k < c->n; k++) {
            slots.last[t->task_entity[t->task_ptr[c->first] + k]] = (int32_t)s;
        }
    }
    for (int64_t s = 0; s < self->n_sections; s++) {
        section_t *c = &self->section[s];
        for (int64_t k = 0; k < c->n; k++) {
            const int32_t e = t->task_entity[t->task_ptr[c->first] + k];
            is_new[k] = s == 0 || slots.seen[e] != s - 1;
            slots.seen[e] = (int32_t)s;
        }
        c->changes = slots.n_changes;
        if (s > 0) {
            leave(self, &slots, s);
        }
        come(self, &slots, s, is_new);
        c->some_absent = self->n_slots - slots.n_spare > c->n;
        c->end_of_changes = slots.n_changes;
    }
out:
    plb_free(slots.of);
    plb_free(slots.seen);
    plb_free(slots.last);
    plb_free(slots.spare);
    plb_free(is_new);
    return ret;
}

/* Load times the speed at which it was measured. */
static double work_of(const plb_trace_t *t, int64_t task)
{
    const double load = t->task_load[task];
    return t->measured == NULL ? load : load * t->measured[t->task_rank[task]];
}

static int64_t n_blocks(const section_t *c)
{
    return (c->end - c->first + LANES - 1) / LANES;
}

static int lay_out_loads(layout_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    int64_t size = 0;
    for (int64_t s = 0; s < self->n_sections; s++) {
        section_t *c = &self->section[s];
        const int64_t own = n_blocks(c) * c->n * LANES;
        if (c->end - c->first >= FEWEST && size + own <= MOST_LOADS) {
            c->lanes = size;
            size += own;
        }
    }
    PLB_NEW0(self->lanes, size);
    for (int64_t i = 0; i < t->n_phases; i++) {
        const section_t *c = &self->section[self->section_of[i]];
        const int64_t j = i - c->first, first = t->task_ptr[i];
        double *lane = self->lanes + c->lanes + j / LANES * c->n * LANES + j % LANES;
        for (int64_t k = 0; c->lanes >= 0 && k < c->n; k++) {
            lane[k * LANES] = work_of(t, first + k);
        }
    }
out:
    return ret;
}

static int find_pace(layout_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    if (t->speed == NULL && t->measured == NULL) {
        return ret;
    }
    PLB_NEW(self->pace, t->n_ranks);
    for (int32_t r = 0; r < t->n_ranks; r++) {
        self->pace[r] =
            (t->speed == NULL ? 1.0 : t->speed[r]) * (t->measured == NULL ? 1.0 : t->measured[r]);
    }
out:
    return ret;
}

/* Seconds of a phase whose slowest rank takes `most` (plb_phases_time). */
static double seconds_of(const plb_trace_t *t, int64_t i, double most)
{
    const double *f = t->figures == NULL ? NULL : t->figures + PLB_FIGURES * i;
    return f == NULL ? most : fmax(f[PLB_FIGURE_TIME] + (most - f[PLB_FIGURE_MAX]), most);
}

/* ---- what no placement is faster than --------------------------------------------------------
 */

/* Ranks with the times base[p] share `work` that can be divided at will: when do they end? */
static double fill(const double *base, const double *pace, int32_t p, double work)
{
    for (double level = INFINITY;;) { /* without ranks that are busy longer, until none is left */
        double sum = work, speeds = 0.0;
        for (int32_t r = 0; r < p; r++) {
            const double own = pace == NULL ? 1.0 : pace[r];
            sum += base[r] < level ? own * base[r] : 0.0;
            speeds += base[r] < level ? own : 0.0;
        }
        if (!(sum / speeds < level)) {
            return level;
        }
        level = sum / speeds;
    }
}

/* Seconds below which no placement of phase i gets: what may migrate is divided at will among the
 * ranks, and its largest object goes where it ends first. */
static double least_of(const layout_t *self, int64_t i, double *base)
{
    const plb_trace_t *t = self->trace;
    const int32_t p = t->n_ranks;
    double work = 0.0, largest = 0.0, most = 0.0, first = INFINITY;
    memset(base, 0, (size_t)p * sizeof *base);
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const double own = work_of(t, k);
        if (t->entity_migratable[t->task_entity[k]]) {
            work += own;
            largest = own > largest ? own : largest;
        } else {
            base[t->task_rank[k]] += own;
        }
    }
    for (int32_t r = 0; r < p; r++) {
        const double pace = self->pace == NULL ? 1.0 : self->pace[r];
        base[r] = base[r] / pace + (t->background == NULL ? 0.0 : t->background[r]);
        most = fmax(most, base[r]);
        first = fmin(first, base[r] + largest / pace);
    }
    most = fmax(most, first);
    most = work > 0.0 ? fmax(most, fill(base, self->pace, p, work)) : most;
    const double out = seconds_of(t, i, most);
    /* as recorded a phase takes what was measured, whatever the figures of its ranks say */
    return t->figures == NULL ? out : fmin(out, t->figures[PLB_FIGURES * i + PLB_FIGURE_TIME]);
}

static int find_least(layout_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_trace_t *t = self->trace;
    double *base = NULL;
    PLB_NEW(self->least, t->n_phases);
    PLB_NEW(base, t->n_ranks);
    for (int64_t i = 0; i < t->n_phases; i++) {
        self->least[i] = least_of(self, i, base);
    }
out:
    plb_free(base);
    return ret;
}

static int init_layout(layout_t *self, const plb_trace_t *trace, plb_err_t *err)
{
    *self = (layout_t){.trace = trace};
    int ret;
    if ((ret = plb_phases_check(trace, err)) || (ret = find_sections(self, err)) ||
        (ret = hand_out_slots(self, err)) || (ret = lay_out_loads(self, err)) ||
        (ret = find_pace(self, err)) || (ret = find_least(self, err))) {
        free_layout(self);
        *self = (layout_t){0};
    }
    return ret;
}

/* Compilers make of it what the processor has. */
typedef double lanes_t __attribute__((vector_size(4 * sizeof(double)), aligned(8)));

/* ---- seconds of phases under a placement -----------------------------------------------------
 */

static void enter_section(const layout_t *self, int64_t s, int32_t *rank)
{
    const section_t *c = &self->section[s];
    for (int64_t k = c->changes; k < c->end_of_changes; k++) {
        if (self->change[k].rank != STAYS) {
            rank[self->change[k].slot] = self->change[k].rank;
        }
    }
}

static bool as_recorded(const layout_t *self, const section_t *c, int64_t i, const int32_t *rank)
{
    const int32_t *recorded = self->trace->task_rank + self->trace->task_ptr[i];
    const int32_t *slot = self->slot + c->slots;
    for (int64_t k = 0; k < c->n; k++) {
        if (rank[slot[k]] != recorded[k]) {
            return false;
        }
    }
    return true;
}

/* The same for GROUP placements, whose sums lie one after the other. */
PLB_MULTIVERSION
static void add_blocks(const double *restrict lanes, const int32_t *slot, int64_t n,
                       const int32_t *const *rank, int64_t stride, double *restrict sum)
{
    const int32_t *a = rank[0], *b = rank[1], *c = rank[2], *d = rank[3];
    double *of_b = sum + stride, *of_c = of_b + stride, *of_d = of_c + stride;
    for (int64_t k = 0; k < n; k++) {
        const int32_t j = slot[k];
        double *w = sum + (int64_t)a[j] * LANES, *x = of_b + (int64_t)b[j] * LANES;
        double *y = of_c + (int64_t)c[j] * LANES, *z = of_d + (int64_t)d[j] * LANES;
        const lanes_t *load = (const lanes_t *)(lanes + k * LANES);
        for (int l = 0; l < LANES / 4; l++) {
            ((lanes_t *)w)[l] += load[l];
            ((lanes_t *)x)[l] += load[l];
            ((lanes_t *)y)[l] += load[l];
            ((lanes_t *)z)[l] += load[l];
        }
    }
}

PLB_MULTIVERSION
static void add_block(const double *restrict lanes, const int32_t *slot, int64_t n,
                      const int32_t *rank, double *restrict sum)
{
    for (int64_t k = 0; k < n; k++) {
        double *of = sum + (int64_t)rank[slot[k]] * LANES;
        for (int l = 0; l < LANES; l++) {
            of[l] += lanes[k * LANES + l];
        }
    }
}

/* most[LANES]: seconds of the slowest rank. */
PLB_MULTIVERSION
static void slowest(const double *sum, const double *pace, const double *background, int32_t p,
                    double *most)
{
    for (int l = 0; l < LANES; l++) {
        most[l] = 0.0;
    }
    for (int32_t r = 0; r < p; r++) {
        const double own = pace == NULL ? 1.0 : pace[r];
        const double other = background == NULL ? 0.0 : background[r];
        for (int l = 0; l < LANES; l++) {
            const double all = other + sum[(int64_t)r * LANES + l] / own;
            most[l] = all > most[l] ? all : most[l];
        }
    }
}

/* States that are run ahead together: a pass over the loads serves all of them. */
typedef struct group {
    int n;
    const int32_t *rank[GROUP];
    double *ring[GROUP]; /* ring[g][phase % RING]: seconds of a phase */
    double *sum;         /* scratch, [GROUP, n_ranks, LANES] */
    int32_t *scratch;    /* [GROUP, n_slots] */
} group_t;

static void add_phase(const layout_t *self, const section_t *c, int64_t i, const int32_t *rank,
                      double *sum)
{
    for (int64_t k = 0; k < c->n; k++) {
        sum[(int64_t)rank[self->slot[c->slots + k]] * LANES] +=
            work_of(self->trace, self->trace->task_ptr[i] + k);
    }
}

/* The times of phases i ... end - 1, of one block; or of phase i, where there are no blocks. */
static void run_block(const layout_t *self, const section_t *c, int64_t i, int64_t end,
                      const group_t *group)
{
    const plb_trace_t *t = self->trace;
    const int32_t *slot = self->slot + c->slots;
    const int64_t block = (i - c->first) / LANES, stride = (int64_t)t->n_ranks * LANES;
    const int64_t at = c->lanes < 0 ? i : c->first + block * LANES;
    const double *lanes = self->lanes + c->lanes + block * c->n * LANES;
    double most[LANES];
    memset(group->sum, 0, (size_t)(group->n * stride) * sizeof *group->sum);
    if (c->lanes >= 0 && group->n == GROUP) {
        add_blocks(lanes, slot, c->n, group->rank, stride, group->sum);
    }
    for (int g = 0; g < group->n; g++) {
        const int32_t *rank = group->rank[g];
        double *sum = group->sum + g * stride;
        if (c->lanes < 0) {
            add_phase(self, c, i, rank, sum);
        } else if (group->n < GROUP) {
            add_block(lanes, slot, c->n, rank, sum);
        }
        slowest(sum, self->pace, t->background, t->n_ranks, most);
        for (int64_t j = i; j < end; j++) {
            group->ring[g][j % RING] = t->figures != NULL && as_recorded(self, c, j, rank)
                                           ? t->figures[PLB_FIGURES * j + PLB_FIGURE_TIME]
                                           : seconds_of(t, j, most[j - at]);
        }
    }
}

/* Go on from phase `known` to at least `until` without an LB step, and return the phase that is
 * not known yet; the ranks are of phase i. */
static int64_t run_ahead(const layout_t *self, int64_t i, int64_t known, int64_t until,
                         group_t *group)
{
    int64_t at = self->section_of[i];
    while (known < until) {
        const section_t *c = &self->section[self->section_of[known]];
        while (at < self->section_of[known]) {
            at++;
            for (int g = 0; g < group->n; g++) {
                int32_t *own = group->scratch + g * self->n_slots;
                if (group->rank[g] != own) {
                    memcpy(own, group->rank[g], (size_t)self->n_slots * sizeof *own);
                    group->rank[g] = own;
                }
                enter_section(self, at, own);
            }
        }
        const int64_t block = c->first + ((known - c->first) / LANES + 1) * LANES;
        const int64_t end = c->lanes < 0 ? known + 1 : block < c->end ? block : c->end;
        run_block(self, c, known, end, group);
        known = end;
    }
    return known;
}

/* ---- states ----------------------------------------------------------------------------------
 */

typedef struct state {
    double time;   /* seconds up to here, LB steps included */
    double least;  /* seconds: no run that goes on from here is shorter */
    int64_t step;  /* its last LB step, or -1 */
    int64_t known; /* phases up to here are in its ring */
    uint64_t hash; /* of its ranks */
    bool gone;     /* another one has the same ranks and less time */
} state_t;

/* What to order states by: ties the one that came first. */
typedef struct ranked {
    double value;
    int64_t state;
} ranked_t;

/* An LB step, and the one before it. */
typedef struct step {
    int64_t before;
    int32_t phase, strategy;
} step_t;

typedef struct search {
    layout_t lay;
    const plb_candidate_strategy_t *strategy;
    int32_t n_strategies;
    const plb_optimum_opts_t *opts;
    double *rest; /* [n_phases + 1] seconds: no schedule is faster from here on */
    /* the states */
    state_t *state;
    int32_t *rank;     /* [room, n_slots] */
    double *ring;      /* [room, RING] */
    double *estimates; /* [room, ROWS, n_slots], or NULL: the same for all */
    int64_t n, room, limit;
    int32_t *bucket; /* [n_buckets], a power of two: index of a state, or -1 */
    int64_t n_buckets, buckets_room;
    ranked_t *order; /* [room] */
    step_t *step;
    int64_t n_steps, step_room;
    bool alone;    /* no strategy looks at the present placement */
    double upper;  /* seconds of the best complete run known */
    bool left_out; /* a state that might have been better */
    /* for LB steps */
    plb_phases_t phases; /* of a run that is never balanced: what is known of loads */
    bool has_phases, has_database;
    plb_database_t database;
    int32_t *present, *answer; /* [most] */
    double *load, *table;      /* [most], [ROWS * most] */
    int32_t *answers;          /* [tasks] of all phases, or NULL */
    bool answered;             /* by the search before */
    /* for each thread */
    int n_parts;
    double *sum;      /* [n_parts, GROUP, n_ranks, LANES] */
    int32_t *scratch; /* [n_parts, GROUP, n_slots] */
    int64_t phase, soon, until;
} search_t;

static int32_t *ranks_of(const search_t *self, int64_t s)
{
    return self->rank + s * self->lay.n_slots;
}

static double *ring_of(const search_t *self, int64_t s)
{
    return self->ring + s * RING;
}

static double *estimates_of(const search_t *self, int64_t s)
{
    return self->estimates + s * ROWS * self->lay.n_slots;
}

static uint64_t hash_of(const int32_t *rank, int64_t n)
{
    uint64_t h = 0;
    for (int64_t k = 0; k < n; k++) {
        h = (h ^ (uint32_t)rank[k]) * 0x9E3779B97F4A7C15u;
        h ^= h >> 29;
    }
    return h;
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

static int make_room(search_t *self, int64_t n, plb_err_t *err)
{
    if (n > self->room) {
        const int64_t room = n > 2 * self->room ? n : 2 * self->room;
        GROW(self->state, room);
        GROW(self->rank, room * self->lay.n_slots);
        GROW(self->ring, room * RING);
        GROW(self->order, room);
        if (self->lay.trace->measured != NULL) {
            GROW(self->estimates, room * ROWS * self->lay.n_slots);
        }
        self->room = room;
    }
    return PLB_OK;
}

static void copy_state(search_t *self, int64_t to, int64_t from)
{
    const size_t slots = (size_t)self->lay.n_slots;
    if (to == from) {
        return;
    }
    self->state[to] = self->state[from];
    memcpy(ranks_of(self, to), ranks_of(self, from), slots * sizeof *self->rank);
    memcpy(ring_of(self, to), ring_of(self, from), RING * sizeof *self->ring);
    if (self->estimates != NULL) {
        memcpy(estimates_of(self, to), estimates_of(self, from),
               ROWS * slots * sizeof *self->estimates);
    }
}

/* ---- states with the same placement ----------------------------------------------------------
 */

/* The bucket of a state with these ranks, or the free one where it belongs. */
static int64_t look_up(const search_t *self, const int32_t *rank, uint64_t hash)
{
    const size_t size = (size_t)self->lay.n_slots * sizeof *rank;
    int64_t b = (int64_t)(hash & (uint64_t)(self->n_buckets - 1));
    while (self->bucket[b] >= 0) {
        const int32_t s = self->bucket[b];
        if (self->state[s].hash == hash && memcmp(ranks_of(self, s), rank, size) == 0) {
            break;
        }
        b = (b + 1) & (self->n_buckets - 1);
    }
    return b;
}

/* States with the same placement may know different things of the loads: then it matters which one
 * stays. */
static void compare_estimates(search_t *self, int64_t a, int64_t b)
{
    const size_t size = (size_t)(ROWS * self->lay.n_slots) * sizeof *self->estimates;
    if (self->estimates != NULL && memcmp(estimates_of(self, a), estimates_of(self, b), size)) {
        self->left_out = true;
    }
}

/* Do all LB steps lead to the same state, whoever takes them? */
static bool is_one_state(const search_t *self)
{
    return self->alone && !self->lay.section[self->lay.section_of[self->phase]].some_absent;
}

/* Find the states again by their ranks; `change`: they may have become the same. */
static int list_states(search_t *self, bool change, plb_err_t *err)
{
    const int64_t steps = is_one_state(self) ? 1 : CHEAP * self->opts->width;
    const int64_t each = steps < self->n ? steps : self->n;
    int64_t size = 16;
    while (size < 2 * (self->n + each * self->n_strategies)) { /* with those that will come */
        size *= 2;
    }
    if (size > self->buckets_room) {
        GROW(self->bucket, size);
        self->buckets_room = size;
    }
    self->n_buckets = size;
    memset(self->bucket, -1, (size_t)size * sizeof *self->bucket);
    int64_t n = 0;
    for (int64_t s = 0; s < self->n; s++) {
        const int64_t b = look_up(self, ranks_of(self, s), self->state[s].hash);
        if (change && self->bucket[b] >= 0) {
            compare_estimates(self, self->bucket[b], s);
            if (self->state[s].time < self->state[self->bucket[b]].time) {
                copy_state(self, self->bucket[b], s);
            }
            continue;
        }
        copy_state(self, n, s);
        self->bucket[b] = (int32_t)n++;
    }
    self->n = n;
    return PLB_OK;
}

/* The objects of a new section. */
static void change_objects(search_t *self, int64_t section)
{
    const layout_t *lay = &self->lay;
    const section_t *c = &lay->section[section];
    for (int64_t s = 0; s < self->n; s++) {
        enter_section(lay, section, ranks_of(self, s));
        self->state[s].hash = hash_of(ranks_of(self, s), lay->n_slots);
        for (int64_t k = c->changes; self->estimates != NULL && k < c->end_of_changes; k++) {
            for (int row = 0; lay->change[k].fresh && row < ROWS; row++) {
                estimates_of(self, s)[row * lay->n_slots + lay->change[k].slot] = 0.0;
            }
        }
    }
}

/* ---- LB steps --------------------------------------------------------------------------------
 */

/* GreedyLB places by loads alone: its answer is the same for all states. */
static bool looks_at_loads_alone(const search_t *self, int32_t which)
{
    return self->lay.trace->measured == NULL &&
           self->strategy[which].strategy.run == plb_strategy_greedy.run;
}

/* Where state s would have its objects; below 0: any state. */
static int ask(search_t *self, int32_t which, int64_t s, int32_t *answer, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int32_t *slot = lay->slot + c->slots;
    const plb_opts_t opts = {self->strategy[which].params, self->opts->seed, self->opts->tick,
                             self->opts->tick_arg};
    int ret = PLB_OK;
    if (!self->has_database) {
        ret = plb_phases_database(&self->phases, &self->database, err);
        self->has_database = ret == PLB_OK;
    }
    plb_snapshot_t snapshot = self->database.snapshot;
    for (int64_t k = 0; s >= 0 && k < c->n; k++) {
        self->present[k] = ranks_of(self, s)[slot[k]];
        snapshot.rank = self->present;
    }
    for (int64_t k = 0; self->estimates != NULL && k < c->n; k++) {
        self->load[k] = estimates_of(self, s)[slot[k]];
        snapshot.load = self->load;
    }
    const plb_strategy_t *strategy = &self->strategy[which].strategy;
    return ret == PLB_OK ? strategy->run(strategy, &snapshot, &opts, answer, err) : ret;
}

static int note_step(search_t *self, int64_t before, int32_t which, plb_err_t *err)
{
    if (self->n_steps == self->step_room) {
        const int64_t room = self->step_room == 0 ? 1024 : 2 * self->step_room;
        GROW(self->step, room);
        self->step_room = room;
    }
    self->step[self->n_steps++] = (step_t){before, (int32_t)self->phase - 1, which};
    return PLB_OK;
}

/* State `parent` takes an LB step: a new state, or a better way to one that is there. */
static int take_step(search_t *self, int32_t which, int64_t parent, const int32_t *answer,
                     plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int64_t s = self->n;
    int ret = make_room(self, s + 1, err);
    if (ret != PLB_OK) {
        return ret;
    }
    copy_state(self, s, parent);
    int32_t *rank = ranks_of(self, s);
    for (int64_t k = 0; k < c->n; k++) {
        rank[lay->slot[c->slots + k]] = answer[k];
    }
    state_t *new = &self->state[s];
    new->time += self->opts->cost;
    new->known = self->phase;
    new->gone = false;
    new->hash = hash_of(rank, lay->n_slots);
    const int64_t b = look_up(self, rank, new->hash);
    const int32_t other = self->bucket[b];
    if (other >= 0) {
        compare_estimates(self, other, s);
        if (self->state[other].time <= new->time) {
            return ret;
        }
        self->state[other].gone = true; /* it may still take its own LB step */
    }
    if ((ret = note_step(self, new->step, which, err)) != PLB_OK) {
        return ret;
    }
    new->step = self->n_steps - 1;
    self->bucket[b] = (int32_t)self->n++;
    return ret;
}

/* May a state with this time take an LB step now and still become the best? */
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

/* The states that may take an LB step, least time first; where all steps lead to the same state
 * only the first is in its place. */
static int64_t who_may_step(const search_t *self)
{
    int64_t n = 0, first = 0;
    for (int64_t s = 0; s < self->n; s++) {
        if (may_step(self, self->state[s].time)) {
            self->order[n] = (ranked_t){self->state[s].time, s};
            first = self->order[n].value < self->order[first].value ? n : first;
            n++;
        }
    }
    if (n > 0 && is_one_state(self)) {
        self->order[0] = self->order[first];
    } else {
        qsort(self->order, (size_t)n, sizeof *self->order, by_value);
    }
    return n;
}

static int step_with(search_t *self, int32_t which, int64_t n, plb_err_t *err)
{
    const int64_t share = self->opts->width / self->n_strategies, room = share > 1 ? share : 1;
    const int64_t most = n < room ? n : room;
    int ret = PLB_OK;
    self->left_out = self->left_out || most < n;
    for (int64_t j = 0; ret == PLB_OK && j < most; j++) {
        const int64_t parent = self->order[j].state;
        ret = ask(self, which, parent, self->answer, err);
        ret = ret == PLB_OK ? take_step(self, which, parent, self->answer, err) : ret;
    }
    return ret;
}

/* One answer for all states.  They lead to one, unless absent objects are at different places. */
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
    self->left_out = self->left_out || (absent && most < n);
    for (int64_t j = 0; ret == PLB_OK && j < most; j++) {
        ret = take_step(self, which, self->order[j].state, answer, err);
    }
    return ret;
}

/* LB steps at the end of the phase before. */
static int balance(search_t *self, bool change, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    int64_t n = 0;
    self->has_database = false;
    int ret = change ? list_states(self, true, err) : PLB_OK;
    if (ret == PLB_OK && lay->section[lay->section_of[self->phase]].n > 0 &&
        (n = who_may_step(self)) > 0) {
        ret = list_states(self, false, err);
    }
    for (int32_t k = 0; ret == PLB_OK && k < self->n_strategies; k++) {
        ret = looks_at_loads_alone(self, k) ? step_alone(self, k, n, err)
                                            : step_with(self, k, n, err);
    }
    return ret;
}

/* ---- states that remain ----------------------------------------------------------------------
 */

static void run_group(search_t *self, group_t *group, const int64_t *of)
{
    const int64_t known = self->state[of[0]].known;
    const int64_t end = run_ahead(&self->lay, self->phase, known, self->until, group);
    for (int g = 0; g < group->n; g++) {
        self->state[of[g]].known = end;
        self->state[of[g]].least = -1.0;
    }
    group->n = 0;
}

/* Every n_parts-th of the states that are to be run ahead. */
static void run_part(void *arg, int part, int n_parts)
{
    search_t *self = arg;
    const layout_t *lay = &self->lay;
    int64_t of[GROUP], seen = 0;
    group_t group = {.sum = self->sum + (int64_t)part * GROUP * lay->trace->n_ranks * LANES,
                     .scratch = self->scratch + (int64_t)part * GROUP * lay->n_slots};
    for (int64_t s = 0; s < self->n; s++) {
        const state_t *state = &self->state[s];
        if (state->gone || state->known >= self->soon || seen++ / GROUP % n_parts != part) {
            continue;
        }
        if (group.n > 0 && state->known != self->state[of[0]].known) {
            run_group(self, &group, of);
        }
        of[group.n] = s;
        group.rank[group.n] = ranks_of(self, s);
        group.ring[group.n++] = ring_of(self, s);
        if (group.n == GROUP) {
            run_group(self, &group, of);
        }
    }
    if (group.n > 0) {
        run_group(self, &group, of);
    }
}

/* No run that goes on from state s is shorter: it goes on as it is, takes an LB step some time,
 * and is as fast as can be from there on. */
static double least_from(const search_t *self, int64_t s)
{
    const state_t *state = &self->state[s];
    const double *ring = ring_of(self, s);
    double time = state->time, least = INFINITY;
    for (int64_t i = self->phase; i < state->known; i++) {
        time += ring[i % RING];
        const double with = time + self->opts->cost + self->rest[i + 1];
        least = with < least ? with : least;
    }
    return fmin(least, time + self->rest[state->known]);
}

/* Of more states than there is room for those stay that may become the best. */
static void cut(search_t *self)
{
    if (self->n <= self->limit) {
        return;
    }
    for (int64_t s = 0; s < self->n; s++) {
        self->order[s] = (ranked_t){self->state[s].least, s};
    }
    qsort(self->order, (size_t)self->n, sizeof *self->order, by_value);
    for (int64_t k = self->limit; k < self->n; k++) {
        self->state[self->order[k].state].least = INFINITY;
    }
    self->left_out = true;
}

static void prune(search_t *self)
{
    for (int64_t s = 0; s < self->n; s++) {
        state_t *state = &self->state[s];
        if (state->gone) {
            state->least = INFINITY;
        } else if (state->least < 0.0) {
            state->least = least_from(self, s);
        }
    }
    cut(self);
    for (int64_t s = 0; s < self->n;) {
        if (self->state[s].least < self->upper) {
            s++;
        } else {
            copy_state(self, s, --self->n);
        }
    }
}

/* Have the times of the phases to come. */
static void look_ahead(search_t *self)
{
    const int64_t n = self->lay.trace->n_phases;
    const int64_t until = self->phase + LOOK, soon = self->phase + LOOK / 2;
    int64_t behind = 0;
    self->until = until < n ? until : n;
    self->soon = soon < n ? soon : n;
    for (int64_t s = 0; s < self->n; s++) {
        behind += self->state[s].known < self->soon;
    }
    plb_parallel(behind * LOOK * self->lay.most > WORTH_THREADS ? self->n_parts : 1, run_part,
                 self);
}

/* The loads of the phase enter what each state knows. */
static void learn(search_t *self)
{
    const layout_t *lay = &self->lay;
    const plb_trace_t *t = lay->trace;
    const section_t *c = &lay->section[lay->section_of[self->phase]];
    const int32_t *slot = lay->slot + c->slots;
    const int64_t first = t->task_ptr[self->phase];
    for (int64_t s = 0; self->estimates != NULL && s < self->n; s++) {
        double *own = estimates_of(self, s);
        for (int64_t k = 0; k < c->n; k++) {
            const double *speed = t->measured;
            self->load[k] = t->task_load[first + k] *
                            (speed[t->task_rank[first + k]] / speed[ranks_of(self, s)[slot[k]]]);
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

/* ---- the search ------------------------------------------------------------------------------
 */

static int begin(search_t *self, plb_err_t *err)
{
    const layout_t *lay = &self->lay;
    const int ret = make_room(self, 1, err);
    if (ret != PLB_OK) {
        return ret;
    }
    self->n = 1;
    self->n_steps = 0;
    self->left_out = false;
    self->state[0] = (state_t){.step = -1, .least = -1.0};
    memset(self->rank, -1, (size_t)lay->n_slots * sizeof *self->rank);
    if (self->estimates != NULL) {
        memset(self->estimates, 0, (size_t)(ROWS * lay->n_slots) * sizeof *self->estimates);
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
        change_objects(self, lay->section_of[i]);
    }
    if (self->has_phases && (ret = plb_phases_enter(&self->phases, i, err)) != PLB_OK) {
        return ret;
    }
    if (i > 0 && (ret = balance(self, change, err)) != PLB_OK) {
        return ret;
    }
    look_ahead(self);
    prune(self);
    for (int64_t s = 0; s < self->n; s++) {
        self->state[s].time += ring_of(self, s)[i % RING];
    }
    learn(self);
    if (self->has_phases && ((ret = plb_phases_run(&self->phases, err)) ||
                             (ret = plb_phases_leave(&self->phases, err)))) {
        return ret;
    }
    return self->opts->tick == NULL ? PLB_OK : self->opts->tick(self->opts->tick_arg);
}

/* The schedule of the best state. */
static int take_result(search_t *self, plb_optimum_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t best = -1, n = 0;
    for (int64_t s = 0; s < self->n; s++) {
        best = best < 0 || self->state[s].time < self->state[best].time ? s : best;
    }
    if (best < 0 || !(self->state[best].time < self->upper)) {
        return ret;
    }
    plb_free(out->when);
    plb_free(out->which);
    out->when = NULL;
    out->which = NULL;
    for (int64_t k = self->state[best].step; k >= 0; k = self->step[k].before) {
        n++;
    }
    PLB_NEW(out->when, n);
    PLB_NEW(out->which, n);
    out->n = n;
    for (int64_t k = self->state[best].step; k >= 0; k = self->step[k].before) {
        out->when[--n] = self->step[k].phase;
        out->which[n] = self->step[k].strategy;
    }
    out->time = self->upper = self->state[best].time;
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

/* One search, over at most `limit` states. */
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

/* A run without LB steps, and the bound of all runs: LB steps begin some time, and all is as fast
 * as can be from there on. */
static void run_unbalanced(search_t *self, plb_optimum_t *out)
{
    const layout_t *lay = &self->lay;
    const int64_t n = lay->trace->n_phases;
    int32_t *rank = self->scratch;
    int64_t known = 0;
    double ring[RING], time = 0.0, bound = INFINITY;
    group_t group = {.n = 1, .rank = {rank}, .ring = {ring}, .sum = self->sum, .scratch = rank};
    memset(rank, -1, (size_t)lay->n_slots * sizeof *rank);
    enter_section(lay, 0, rank);
    for (int64_t i = 0; i < n; i = known) {
        known = run_ahead(lay, i, i, i + 1, &group);
        for (int64_t j = i; j < known; j++) {
            time += ring[j % RING];
            const bool is_last = j + 1 == n;
            bound = fmin(bound, is_last ? time : time + self->opts->cost + self->rest[j + 1]);
        }
        if (known < n && lay->section_of[known] != lay->section_of[i]) {
            enter_section(lay, lay->section_of[known], rank);
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
    int ret = PLB_OK;
    const layout_t *lay = &self->lay;
    const plb_trace_t *t = lay->trace;
    self->upper = self->opts->upper;
    self->alone = true;
    for (int32_t k = 0; k < self->n_strategies; k++) {
        self->alone = self->alone && looks_at_loads_alone(self, k);
    }
    self->n_parts = plb_cores() < 64 ? plb_cores() : 64;
    PLB_NEW(self->rest, t->n_phases + 1);
    PLB_NEW(self->present, lay->most);
    PLB_NEW(self->answer, lay->most);
    PLB_NEW(self->load, lay->most);
    PLB_NEW(self->table, ROWS * lay->most);
    PLB_NEW(self->sum, (int64_t)self->n_parts * GROUP * t->n_ranks * LANES);
    PLB_NEW(self->scratch, (int64_t)self->n_parts * GROUP * lay->n_slots);
    self->rest[t->n_phases] = 0.0;
    for (int64_t i = t->n_phases - 1; i >= 0; i--) {
        self->rest[i] = self->rest[i + 1] + lay->least[i];
    }
out:
    return ret;
}

static void free_search(search_t *self)
{
    void *owned[] = {self->rest,   self->state, self->rank,    self->ring,    self->estimates,
                     self->bucket, self->order, self->step,    self->present, self->answer,
                     self->load,   self->table, self->answers, self->sum,     self->scratch};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        plb_free(owned[i]);
    }
    free_layout(&self->lay);
}

/* With one answer for all states a search among few of them costs little, and what it finds lets
 * the second one, among all, leave out most. */
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
    if (ret == PLB_OK && (!self->answered || self->left_out)) {
        ret = search(self, most > self->opts->width ? most : self->opts->width, out, err);
    }
    out->exact = !self->left_out;
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
    if (n < 1 || opts->width < 1) {
        return PLB_FAIL(err, PLB_ERR_VALUE,
                        "width is %lld, with %d strategies: expected one or more of both",
                        (long long)opts->width, (int)n);
    }
    if (trace->n_phases == 0) {
        return ret;
    }
    if ((ret = init_layout(&search.lay, trace, err)) || (ret = init_search(&search, err))) {
        goto out;
    }
    run_unbalanced(&search, self);
    ret = search_twice(&search, self, err);
    self->bound = fmin(self->bound, search.upper);
out:
    free_search(&search);
    return ret;
}
