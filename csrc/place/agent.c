#include "place/strategy.h"

#include <math.h>

#include "base/base.h"

/* Largest load of a rank: up to this, the tally adds up the loads exactly. */
static const double MOST_LOAD = 1e30;

/* Stages of an agent.  The strategy's own rounds are FIRST and WORK. */
enum { TELL_WORK, TELL_BOUND, FIRST, WORK, DECIDE };

/* Indices into the tally.  Each comment begins with the stage that writes the number. */
enum {
    SUM_WORK = 0,       /* TELL_WORK: total load, including the background */
    SUM_SPEED = 1,      /* TELL_WORK: sum of the ranks' speeds */
    MAX_TIME = 0,       /* TELL_WORK and end of WORK: seconds of the slowest rank */
    MAX_SPEED = 1,      /* TELL_WORK: speed of the fastest rank */
    MAX_BOUND = 0,      /* TELL_BOUND: lower bound of the slowest rank's seconds */
    COUNT_OVERFULL = 0, /* TELL_WORK and end of WORK: number of ranks above their memory limit */
};

/* ---- notes and entries ---------------------------------------------------------------------- */

int plb_agent_post(plb_agent_t *self, plb_note_t note, plb_err_t *err)
{
    PLB_PASS_GROW(self->note, self->notes_room, self->n_notes + 1);
    self->note[self->n_notes++] = note;
    return PLB_OK;
}

int plb_agent_give(plb_agent_t *self, int64_t k, int32_t to, int32_t kind, plb_err_t *err)
{
    const plb_entry_t e = self->now.entry[k];
    PLB_PASS(PLB_POST(self, err, .peer = to, .kind = kind, .rank = e.home, .id = e.id,
                      .load = e.load, .memory = e.memory));
    self->now.n_away -= e.home != self->share->rank;
    self->now.load -= e.load;
    self->now.memory -= e.memory;
    self->now.entry[k] = self->now.entry[--self->now.n];
    return PLB_OK;
}

int plb_agent_take(plb_agent_t *self, const plb_note_t *note, plb_err_t *err)
{
    plb_holding_t *now = &self->now;
    PLB_PASS_GROW(now->entry, now->room, now->n + 1);
    now->entry[now->n++] = (plb_entry_t){
        .id = note->id, .load = note->load, .memory = note->memory, .home = note->rank};
    now->n_away += note->rank != self->share->rank;
    now->load += note->load;
    now->memory += note->memory;
    return PLB_OK;
}

/* Sort the entries by key(entry), ascending; ties keep their order. */
static int sort_by(plb_agent_t *self, double (*key)(const plb_entry_t *), plb_err_t *err)
{
    int ret = PLB_OK;
    plb_holding_t *now = &self->now;
    plb_loads_t order = {0};
    double *keys = NULL;
    plb_entry_t *ordered = NULL;
    PLB_NEW(keys, now->n);
    PLB_NEW(ordered, now->room);
    for (int64_t k = 0; k < now->n; k++) {
        keys[k] = key(&now->entry[k]);
    }
    PLB_TRY(plb_loads_sorted(&order, keys, now->n, PLB_ASCENDING, err));
    for (int64_t k = 0; k < now->n; k++) {
        ordered[k] = now->entry[order.item[k].id];
    }
    plb_free(now->entry);
    now->entry = ordered;
    ordered = NULL;
out:
    plb_loads_free(&order);
    PLB_FREE(keys, ordered);
    return ret;
}

static double by_load(const plb_entry_t *e)
{
    return e->pinned ? 2.0 * MOST_LOAD : e->load;
}

static double by_id(const plb_entry_t *e)
{
    return (double)e->id;
}

int plb_agent_sort(plb_agent_t *self, int64_t *n_movable, plb_err_t *err)
{
    const int ret = sort_by(self, by_load, err);
    for (*n_movable = self->now.n; *n_movable > 0 && self->now.entry[*n_movable - 1].pinned;) {
        --*n_movable;
    }
    return ret;
}

/* ---- before and after the strategy's rounds ------------------------------------------------- */

int plb_agent_home(const plb_agent_t *self, plb_holding_t *out, plb_err_t *err)
{
    const plb_share_t *share = self->share;
    *out = (plb_holding_t){.n = share->n, .room = share->n > 0 ? share->n : 1};
    PLB_PASS_NEW(out->entry, out->room);
    for (int64_t i = 0; i < share->n; i++) {
        out->entry[i] =
            (plb_entry_t){.id = share->id[i],
                          .load = share->load[i],
                          .memory = share->memory == NULL ? 0 : share->memory[i],
                          .home = share->rank,
                          .pinned = share->migratable != NULL && !share->migratable[i]};
        out->load += out->entry[i].load;
        out->memory += out->entry[i].memory;
    }
    return PLB_OK;
}

static int fill(plb_agent_t *self, plb_err_t *err)
{
    PLB_PASS_NEW(self->answer, self->share->n);
    PLB_PASS(plb_agent_home(self, &self->now, err));
    const double work = self->now.load + self->share->background * self->share->speed;
    PLB_FAIL_IF(!(work <= MOST_LOAD), err, PLB_ERR_VALUE,
                "rank %d has a load of %g: expected at most %g for a distributed strategy",
                self->share->rank, work, MOST_LOAD);
    return PLB_OK;
}

plb_agent_t *plb_agent_new(const plb_agent_type_t *type, const plb_share_t *share,
                           const plb_opts_t *opts, plb_err_t *err)
{
    plb_agent_t *self = plb_calloc(1, type->size);
    if (self == NULL) {
        (void)PLB_FAIL(err, PLB_ERR_NOMEM, "out of memory: %zu bytes for an agent", type->size);
        return NULL;
    }
    self->type = type;
    self->share = share;
    if (fill(self, err) != PLB_OK || type->start(self, opts, err) != PLB_OK) {
        plb_agent_destroy(self);
        return NULL;
    }
    return self;
}

void plb_agent_destroy(plb_agent_t *self)
{
    if (self == NULL) {
        return;
    }
    self->type->stop(self);
    PLB_FREE(self->now.entry, self->note, self->answer, self);
}

/* Contribute to the tally a lower bound of the slowest rank's time: that of this rank's heaviest
 * movable object on the fastest rank or, if longer, of its fixed objects with its background. */
static void tell_bound(plb_agent_t *self, const plb_tally_t *all)
{
    double longest = 0.0, fixed = 0.0;
    self->crowded = all->count[COUNT_OVERFULL] > 0;
    self->average = all->sum[SUM_WORK] / all->sum[SUM_SPEED];
    self->mean_speed = all->sum[SUM_SPEED] / self->share->n_ranks;
    self->before = all->max[MAX_TIME];
    for (int64_t k = 0; k < self->now.n; k++) {
        const plb_entry_t *e = &self->now.entry[k];
        fixed += e->pinned ? e->load : 0.0;
        longest = !e->pinned && e->load > longest ? e->load : longest;
    }
    self->mine.max[MAX_BOUND] = fmax(longest / all->max[MAX_SPEED], plb_agent_time(self, fixed));
}

/* When the strategy has ended, send each object's home rank the object's new rank, and all ranks
 * the time of this rank.  Loads are added in the same order as in plb_snapshot_rank_times. */
static int tell_time(plb_agent_t *self, plb_err_t *err)
{
    double load = 0.0;
    PLB_PASS(sort_by(self, by_id, err));
    for (int64_t k = 0; k < self->now.n; k++) {
        const plb_entry_t *e = &self->now.entry[k];
        load += e->load;
        if (e->home != self->share->rank) {
            PLB_PASS(PLB_POST(self, err, .peer = e->home, .kind = PLB_NOTE_HOME, .id = e->id));
        }
    }
    self->own_after = plb_agent_time(self, load);
    self->mine.max[MAX_TIME] = self->own_after;
    self->mine.count[COUNT_OVERFULL] = plb_agent_room(self) < 0;
    return PLB_OK;
}

/* Set answer[].  If an iteration would take longer than in the present placement, and the present
 * placement keeps all memory limits, all objects stay on their present ranks. */
static int decide(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                  plb_err_t *err)
{
    const bool longer = all->max[MAX_TIME] > self->before && !self->crowded;
    PLB_FAIL_IF(
        all->count[COUNT_OVERFULL] > 0 && !self->share->lenient, err, PLB_ERR_INFEASIBLE,
        "%lld rank%s still exceed%s memory_limit: no rank with enough free memory was found "
        "for their objects (RefineLB, which sees all ranks, may find one)",
        (long long)all->count[COUNT_OVERFULL], all->count[COUNT_OVERFULL] == 1 ? "" : "s",
        all->count[COUNT_OVERFULL] == 1 ? "s" : "");
    for (int64_t i = 0; i < self->share->n; i++) {
        self->answer[i] = self->share->rank;
    }
    for (int64_t k = 0; !longer && k < n_in; k++) {
        self->answer[plb_lower_bound(self->share->id, self->share->n, in[k].id)] = in[k].peer;
    }
    if (longer) {
        self->own_after = self->own_before;
        self->now.memory = 0;
        for (int64_t i = 0; self->share->memory != NULL && i < self->share->n; i++) {
            self->now.memory += self->share->memory[i];
        }
    }
    self->done = true;
    return PLB_OK;
}

int plb_agent_round(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    plb_err_t *err)
{
    bool settled = false;
    const plb_share_t *share = self->share;
    const int64_t held = self->now.n + n_in + self->type->known(self);
    self->held = held > self->held ? held : self->held;
    self->n_notes = 0;
    self->mine = (plb_tally_t){0};
    switch (self->stage) {
    case TELL_WORK:
        self->own_before = plb_agent_time(self, self->now.load);
        self->mine.sum[SUM_WORK] = self->now.load + share->background * share->speed;
        self->mine.sum[SUM_SPEED] = share->speed;
        self->mine.max[MAX_TIME] = self->own_before;
        self->mine.max[MAX_SPEED] = share->speed;
        self->mine.count[COUNT_OVERFULL] = plb_agent_room(self) < 0;
        self->stage = TELL_BOUND;
        break;
    case TELL_BOUND:
        tell_bound(self, all);
        self->stage = FIRST;
        break;
    case DECIDE:
        return decide(self, in, n_in, all, err);
    default:
        if (self->stage == FIRST) {
            self->least = fmax(self->average, all->max[MAX_BOUND]);
            self->stage = WORK;
        }
        PLB_PASS(self->type->round(self, in, n_in, all, &settled, err));
    }
    if (settled) {
        self->stage = DECIDE;
        PLB_PASS(tell_time(self, err));
    }
    /* plb_exact_add takes numbers up to PLB_EXACT_MOST (base/base.h) */
    for (int k = 0; k < PLB_TALLY_SUMS; k++) {
        self->mine.sum[k] = fmin(self->mine.sum[k], PLB_EXACT_MOST);
    }
    return PLB_OK;
}
