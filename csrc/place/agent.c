#include "place/strategy.h"

#include <math.h>

#include "base/exact.h"
#include "base/ints.h"
#include "base/mem.h"
#include "base/sort.h"

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

static int add_entry(plb_agent_t *self, plb_entry_t entry, plb_err_t *err)
{
    PLB_PASS_GROW(self->entry, self->room, self->n + 1);
    self->entry[self->n++] = entry;
    self->n_away += entry.home != self->share->rank;
    self->load += entry.load;
    self->memory += entry.memory;
    return PLB_OK;
}

int plb_agent_give(plb_agent_t *self, int64_t k, int32_t to, int32_t kind, plb_err_t *err)
{
    const plb_entry_t e = self->entry[k];
    PLB_PASS(PLB_POST(self, err, .peer = to, .kind = kind, .rank = e.home, .id = e.id,
                      .load = e.load, .memory = e.memory));
    self->n_away -= e.home != self->share->rank;
    self->load -= e.load;
    self->memory -= e.memory;
    self->entry[k] = self->entry[--self->n];
    return PLB_OK;
}

int plb_agent_take(plb_agent_t *self, const plb_note_t *note, plb_err_t *err)
{
    return add_entry(
        self,
        (plb_entry_t){
            .id = note->id, .load = note->load, .memory = note->memory, .home = note->rank},
        err);
}

/* Sort the entries by key(entry), ascending; ties keep their order. */
static int sort_by(plb_agent_t *self, double (*key)(const plb_entry_t *), plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t n = self->n;
    double low = INFINITY, high = -INFINITY;
    plb_item_t *item = NULL, *spare = NULL;
    uint32_t *bin = NULL;
    plb_entry_t *ordered = NULL;
    PLB_NEW_EACH(n, item, spare);
    PLB_NEW(bin, PLB_SORT_BINS(n));
    PLB_NEW(ordered, n > 0 ? n : 1);
    for (int64_t k = 0; k < n; k++) {
        item[k] = (plb_item_t){key(&self->entry[k]), (int32_t)k};
        low = item[k].key < low ? item[k].key : low;
        high = item[k].key > high ? item[k].key : high;
    }
    if (n > 1) {
        plb_sort_items(item, n, low, high, spare, bin);
    }
    for (int64_t k = 0; k < n; k++) {
        ordered[k] = self->entry[item[k].id];
    }
    plb_free(self->entry);
    self->entry = ordered;
    self->room = n > 0 ? n : 1;
    ordered = NULL;
out:
    PLB_FREE(item, spare, bin, ordered);
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

bool plb_agent_crowded(const plb_agent_t *self)
{
    for (int64_t k = 0; plb_agent_room(self) < 0 && k < self->n; k++) {
        if (!self->entry[k].pinned && self->entry[k].memory > 0) {
            return true;
        }
    }
    return false;
}

int plb_agent_sort(plb_agent_t *self, int64_t *n_movable, plb_err_t *err)
{
    const int ret = sort_by(self, by_load, err);
    for (*n_movable = self->n; *n_movable > 0 && self->entry[*n_movable - 1].pinned;) {
        --*n_movable;
    }
    return ret;
}

/* ---- before and after the strategy's rounds ------------------------------------------------- */

static int check(const plb_share_t *share, double load, plb_err_t *err)
{
    const double work = load + share->background * share->speed;
    PLB_FAIL_IF(!(work <= MOST_LOAD), err, PLB_ERR_VALUE,
                "rank %d has a load of %g: expected at most %g for a distributed strategy",
                share->rank, work, MOST_LOAD);
    return PLB_OK;
}

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

void plb_agent_exchange(plb_agent_t *self, plb_holding_t *other)
{
    const plb_holding_t here = {self->entry,  self->n,    self->room,
                                self->n_away, self->load, self->memory};
    self->entry = other->entry;
    self->n = other->n;
    self->room = other->room;
    self->n_away = other->n_away;
    self->load = other->load;
    self->memory = other->memory;
    *other = here;
}

static int fill(plb_agent_t *self, plb_err_t *err)
{
    plb_holding_t home;
    PLB_PASS_NEW(self->answer, self->share->n > 0 ? self->share->n : 1);
    PLB_PASS(plb_agent_home(self, &home, err));
    plb_agent_exchange(self, &home);
    return check(self->share, self->load, err);
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
    PLB_FREE(self->entry, self->note, self->answer, self);
}

static void tell_work(plb_agent_t *self)
{
    const plb_share_t *share = self->share;
    self->own_before = plb_agent_time(self, self->load);
    self->mine.sum[SUM_WORK] = self->load + share->background * share->speed;
    self->mine.sum[SUM_SPEED] = share->speed;
    self->mine.max[MAX_TIME] = self->own_before;
    self->mine.max[MAX_SPEED] = share->speed;
    self->mine.count[COUNT_OVERFULL] = plb_agent_room(self) < 0;
}

/* Tell a lower bound of the slowest rank's time: the time of this rank's heaviest movable object
 * on the fastest rank or, if longer, the time of its fixed objects with its background. */
static void tell_bound(plb_agent_t *self, const plb_tally_t *all)
{
    double longest = 0.0, fixed = 0.0;
    self->crowded = all->count[COUNT_OVERFULL] > 0;
    self->average = all->sum[SUM_WORK] / all->sum[SUM_SPEED];
    self->mean_speed = all->sum[SUM_SPEED] / self->share->n_ranks;
    self->before = all->max[MAX_TIME];
    for (int64_t k = 0; k < self->n; k++) {
        const plb_entry_t *e = &self->entry[k];
        fixed += e->pinned ? e->load : 0.0;
        longest = !e->pinned && e->load > longest ? e->load : longest;
    }
    self->mine.max[MAX_BOUND] = fmax(longest / all->max[MAX_SPEED], plb_agent_time(self, fixed));
}

/* When the strategy has ended, tell each object's home rank where the object is now, and all ranks
 * the time of this rank.  Loads are added in the same order as in plb_snapshot_rank_times. */
static int tell_time(plb_agent_t *self, plb_err_t *err)
{
    double load = 0.0;
    PLB_PASS(sort_by(self, by_id, err));
    for (int64_t k = 0; k < self->n; k++) {
        const plb_entry_t *e = &self->entry[k];
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
        self->memory = 0;
        for (int64_t i = 0; self->share->memory != NULL && i < self->share->n; i++) {
            self->memory += self->share->memory[i];
        }
    }
    self->done = true;
    return PLB_OK;
}

static int work(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                plb_err_t *err)
{
    bool settled = false;
    PLB_PASS(self->type->round(self, in, n_in, all, &settled, err));
    if (settled) {
        self->stage = DECIDE;
        return tell_time(self, err);
    }
    return PLB_OK;
}

int plb_agent_round(plb_agent_t *self, const plb_note_t *in, int64_t n_in, const plb_tally_t *all,
                    plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t held = self->n + n_in + self->type->known(self);
    self->held = held > self->held ? held : self->held;
    self->n_notes = 0;
    self->mine = (plb_tally_t){0};
    switch (self->stage) {
    case TELL_WORK:
        tell_work(self);
        self->stage = TELL_BOUND;
        break;
    case TELL_BOUND:
        tell_bound(self, all);
        self->stage = FIRST;
        break;
    case FIRST:
        self->least = fmax(self->average, all->max[MAX_BOUND]);
        self->stage = WORK;
        ret = work(self, in, n_in, all, err);
        break;
    case WORK:
        ret = work(self, in, n_in, all, err);
        break;
    default:
        ret = decide(self, in, n_in, all, err);
    }
    /* plb_exact_add takes numbers up to PLB_EXACT_MOST (base/exact.h) */
    for (int k = 0; k < PLB_TALLY_SUMS; k++) {
        self->mine.sum[k] = fmin(self->mine.sum[k], PLB_EXACT_MOST);
    }
    return ret;
}
