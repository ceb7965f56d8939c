#include "replay/optimum_layout.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "replay/trace_check.h"
#include "replay/trace_repeats.h"

enum {
    FEWEST = 4,           /* with fewer phases than this, a section has no blocks */
    MOST_LOADS = 1 << 25, /* largest number of loads in all blocks: 256 MiB */
};

void plb_layout_free(layout_t *self)
{
    PLB_FREE(self->section, self->section_of, self->slot, self->change, self->lanes, self->pace,
             self->least);
    *self = (layout_t){0};
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
    const plb_trace_t *t = self->trace;
    const bool some_fixed = any_fixed(t);
    int64_t slots = 0;
    PLB_PASS_NEW(self->section_of, t->n_phases);
    for (int64_t i = 0; i < t->n_phases; i++) {
        const bool alike = i > 0 && plb_trace_alike(t, i);
        PLB_PASS(plb_trace_check_tasks(t, i, alike, err));
        self->n_sections += !alike || (some_fixed && fixed_differ(t, i));
        self->section_of[i] = (int32_t)(self->n_sections - 1);
    }
    PLB_PASS_NEW(self->section, self->n_sections);
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
    PLB_PASS_NEW(self->slot, slots);
    /* at most two changes for each object of a section: when the section begins, and ends */
    PLB_PASS_NEW(self->change, 2 * slots);
    return PLB_OK;
}

/* of: slot of each entity, -1: none; seen: the last section so far that has the entity; last: the
 * last such section of the whole run; spare: the free slots. */
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
    PLB_FREE(slots.of, slots.seen, slots.last, slots.spare, is_new);
    return ret;
}

double plb_task_work(const plb_trace_t *t, int64_t task)
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
    PLB_PASS_NEW0(self->lanes, size);
    for (int64_t i = 0; i < t->n_phases; i++) {
        const section_t *c = &self->section[self->section_of[i]];
        const int64_t j = i - c->first, first = t->task_ptr[i];
        double *lane = self->lanes + c->lanes + j / LANES * c->n * LANES + j % LANES;
        for (int64_t k = 0; c->lanes >= 0 && k < c->n; k++) {
            lane[k * LANES] = plb_task_work(t, first + k);
        }
    }
    return PLB_OK;
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

double plb_phase_seconds(const plb_trace_t *t, int64_t i, double most)
{
    const double *f = t->figures == NULL ? NULL : t->figures + PLB_N_TRACE_FIGURES * i;
    return f == NULL ? most : fmax(f[PLB_FIGURE_TIME] + (most - f[PLB_FIGURE_MAX]), most);
}

/* ---- lower bounds --------------------------------------------------------------------------- */

/* Return the seconds after which all ranks that get a part of `work` end, if it is divided in the
 * best proportion.  base[p]: seconds that each rank needs in addition. */
static double fill(const double *base, const double *pace, int32_t p, double work)
{
    for (double level = INFINITY;;) { /* leave out ranks whose `base` is longer than the result */
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

/* A lower bound of the seconds of phase i under any placement: the larger one of two times.  For
 * the first, all load that may migrate is divided in the best proportion.  For the second, only
 * the largest object of this load is counted, on the rank where it ends first. */
static double least_of(const layout_t *self, int64_t i, double *base)
{
    const plb_trace_t *t = self->trace;
    const int32_t p = t->n_ranks;
    double work = 0.0, largest = 0.0, most = 0.0, first = INFINITY;
    memset(base, 0, (size_t)p * sizeof *base);
    for (int64_t k = t->task_ptr[i]; k < t->task_ptr[i + 1]; k++) {
        const double own = plb_task_work(t, k);
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
    const double out = plb_phase_seconds(t, i, most);
    /* under the recorded placement, the phase takes the measured time, even below the bound */
    return t->figures == NULL ? out
                              : fmin(out, t->figures[PLB_N_TRACE_FIGURES * i + PLB_FIGURE_TIME]);
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

int plb_layout_init(layout_t *self, const plb_trace_t *trace, plb_err_t *err)
{
    *self = (layout_t){.trace = trace};
    int ret;
    PLB_TRY(plb_trace_check(trace, err));
    PLB_TRY(find_sections(self, err));
    PLB_TRY(hand_out_slots(self, err));
    PLB_TRY(lay_out_loads(self, err));
    PLB_TRY(find_pace(self, err));
    PLB_TRY(find_least(self, err));
out:
    if (ret != PLB_OK) {
        plb_layout_free(self);
    }
    return ret;
}

void plb_layout_enter(const layout_t *self, int64_t section, int32_t *rank)
{
    const section_t *c = &self->section[section];
    for (int64_t k = c->changes; k < c->end_of_changes; k++) {
        if (self->change[k].rank != STAYS) {
            rank[self->change[k].slot] = self->change[k].rank;
        }
    }
}
