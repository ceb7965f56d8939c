#include "place/kit/swaps.h"

#include <math.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "place/kit/affinity.h"
#include "place/kit/journal.h"
#include "place/kit/members.h"

/* A step examines at most MOST_NEAR other ranks, among them the ROOMY ranks with the shortest
 * times.  BLOCK: number of objects whose exchanges are examined together. */
enum { ROOMY = 8, MOST_NEAR = 20, BLOCK = 128, NOBODY = -1 };

/* Largest number of object pairs plus `affinity` entries that are examined (in about 0.1 s). */
static const double WORK = 2e7;

/* A gain below this fraction of a time is due to rounding. */
static const double SLACK = 1e-9;

typedef struct swaps {
    plb_ranks_t *ranks;
    double *comm; /* [p] seconds that each rank spends on sending; NULL: messages do not count */
    double limit, work;
    plb_affinity_t affinity;
    plb_journal_t journal; /* migrations since the maximum was last reduced by much */
    plb_members_t on;      /* objects of each rank that may migrate */
    double *talk;   /* [n_objects] cost of messages between each object and j of set_talk() */
    int32_t *near;  /* [p] the other ranks that are examined in this step */
    int32_t *stamp; /* [p] the last step in which each rank was considered for `near` */
    int32_t n_near;
} swaps_t;

/* An object that may change its rank: its load, the cost of all messages that it sends (all), and
 * of its messages to and from objects on its present rank [0] and on the other rank [1]. */
typedef struct view {
    double load, all, sent[2], received[2];
} view_t;

/* A step: object i moves from rank `from` to rank `to`, and object j (or NOBODY) moves back. */
typedef struct step {
    int32_t i, j, from, to;
    double over, gain; /* remaining seconds above the limit; saved cost of messages */
} step_t;

static double seconds(const swaps_t *self, int32_t r)
{
    return plb_ranks_seconds(self->ranks, r) + (self->comm == NULL ? 0.0 : self->comm[r]);
}

static view_t view_of(swaps_t *self, int32_t i, int32_t own, int32_t other)
{
    const plb_affinity_t *a = &self->affinity;
    view_t out = {.load = self->ranks->in->load[i]};
    for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) {
        const int32_t r = self->ranks->rank[a->other[k]];
        out.all += a->sent[k];
        if (r == own || r == other) {
            out.sent[r == other] += a->sent[k];
            out.received[r == other] += a->received[k];
        }
    }
    self->work -= (double)(a->start[i + 1] - a->start[i]) + 1.0;
    return out;
}

/* Set talk[] for the partners of object j, or reset it to 0. */
static void set_talk(swaps_t *self, int32_t j, bool on)
{
    const plb_affinity_t *a = &self->affinity;
    for (int64_t k = a->start[j]; k < a->start[j + 1]; k++) {
        self->talk[a->other[k]] = on ? self->talk[a->other[k]] + a->sent[k] + a->received[k] : 0.0;
    }
}

typedef struct pair {
    double seconds_from, seconds_to;   /* present seconds of each rank */
    double per_load_from, per_load_to; /* seconds that a load of 1 takes on each rank */
} pair_t;

static pair_t pair_of(const swaps_t *self, int32_t from, int32_t to)
{
    const plb_snapshot_t *in = self->ranks->in;
    return (pair_t){seconds(self, from), seconds(self, to), 1.0 / plb_speed(in, from),
                    1.0 / plb_speed(in, to)};
}

/* Compute the additional seconds of the two ranks if objects x and y exchange their ranks.  The
 * messages between x and y, which cost `talk`, stay between the ranks. */
static inline void difference(const swaps_t *self, const pair_t *ranks, const view_t *x,
                              const view_t *y, double talk, double *from, double *to)
{
    *from = (y->load - x->load) * ranks->per_load_from;
    *to = (x->load - y->load) * ranks->per_load_to;
    if (self->comm != NULL) {
        *from +=
            x->received[0] - (x->all - x->sent[0]) + (y->all - y->sent[1]) - y->received[1] + talk;
        *to +=
            (x->all - x->sent[1]) - x->received[1] + y->received[0] - (y->all - y->sent[0]) + talk;
    }
}

static double saved(const view_t *x)
{
    return x->sent[1] + x->received[1] - x->sent[0] - x->received[0];
}

static bool better(const step_t *x, const step_t *y)
{
    if (x->over != y->over) {
        return x->over < y->over;
    }
    if (x->gain != y->gain) {
        return x->gain > y->gain;
    }
    return x->i != y->i ? x->i < y->i : x->to != y->to ? x->to < y->to : x->j < y->j;
}

static inline void consider(const swaps_t *self, const pair_t *ranks, step_t s, const view_t *x,
                            const view_t *y, step_t *best)
{
    double from, to;
    const double talk = s.j == NOBODY ? 0.0 : self->talk[s.i];
    difference(self, ranks, x, y, talk, &from, &to);
    from += ranks->seconds_from;
    to += ranks->seconds_to;
    const double after = from > to ? from : to;
    s.over = after > self->limit ? after - self->limit : 0.0;
    if (after >= ranks->seconds_from * (1.0 - SLACK) ||
        (best->i != NOBODY && s.over > best->over)) {
        return; /* the usual case: the step does not help */
    }
    s.gain = saved(x) + saved(y) - 2.0 * talk;
    if ((best->i == NOBODY || better(&s, best)) &&
        (s.j == NOBODY ? plb_ranks_has_room(self->ranks, s.to, s.i)
                       : plb_ranks_has_room_exchanged(self->ranks, s.i, s.j))) {
        *best = s;
    }
}

/* Examine steps of a block of objects, from object i on; return the next block's first object. */
static int32_t examine_block(swaps_t *self, int32_t i, int32_t from, int32_t to, step_t *best)
{
    view_t x[BLOCK];
    int32_t id[BLOCK], n = 0;
    const view_t nothing = {0};
    const pair_t ranks = pair_of(self, from, to);
    for (; i != NOBODY && n < BLOCK; i = self->on.next[i]) {
        id[n] = i;
        x[n] = view_of(self, i, from, to);
        consider(self, &ranks, (step_t){i, NOBODY, from, to, 0.0, 0.0}, &x[n++], &nothing, best);
    }
    for (int32_t j = self->on.head[to]; j != NOBODY && self->work > 0.0; j = self->on.next[j]) {
        const view_t y = view_of(self, j, to, from);
        set_talk(self, j, true);
        for (int32_t k = 0; k < n; k++) {
            consider(self, &ranks, (step_t){id[k], j, from, to, 0.0, 0.0}, &x[k], &y, best);
        }
        set_talk(self, j, false);
        self->work -= n;
    }
    return i;
}

static void look_at_pair_of_ranks(swaps_t *self, int32_t from, int32_t to, step_t *best)
{
    for (int32_t i = self->on.head[from]; i != NOBODY && self->work > 0.0;) {
        i = examine_block(self, i, from, to, best);
    }
}

/* ---- which ranks to examine ----------------------------------------------------------------- */

static void add_near(swaps_t *self, int32_t r, int32_t stamp)
{
    if (self->stamp[r] != stamp) {
        self->stamp[r] = stamp;
        if (seconds(self, r) < self->limit && self->n_near < MOST_NEAR) {
            self->near[self->n_near++] = r;
        }
    }
}

/* Find the ranks that a step of rank r examines (swaps.h); only ranks below the limit count. */
static void find_near(swaps_t *self, int32_t r, int32_t stamp)
{
    const plb_affinity_t *a = &self->affinity;
    int32_t roomy[ROOMY], n = 0;
    self->n_near = 0;
    self->stamp[r] = stamp;
    for (int32_t o = 0; o < self->ranks->in->n_ranks; o++) {
        const double t = seconds(self, o);
        int32_t at = n < ROOMY ? n++ : ROOMY;
        for (; at > 0 && t < seconds(self, roomy[at - 1]); at--) {
            if (at < ROOMY) {
                roomy[at] = roomy[at - 1];
            }
        }
        if (at < ROOMY) {
            roomy[at] = o;
        }
    }
    for (int32_t k = 0; k < n; k++) {
        add_near(self, roomy[k], stamp);
    }
    for (int32_t i = self->on.head[r]; i != NOBODY; i = self->on.next[i]) {
        for (int64_t k = a->start[i]; k < a->start[i + 1]; k++) {
            add_near(self, self->ranks->rank[a->other[k]], stamp);
        }
    }
    self->work -= self->ranks->in->n_ranks;
}

static int32_t longest(const swaps_t *self)
{
    int32_t best = 0;
    for (int32_t r = 1; r < self->ranks->in->n_ranks; r++) {
        best = seconds(self, r) > seconds(self, best) ? r : best;
    }
    return best;
}

/* ---- a step --------------------------------------------------------------------------------- */

static void make(swaps_t *self, const step_t *s)
{
    view_t x = view_of(self, s->i, s->from, s->to), y = {0};
    double talk = 0.0, from, to;
    if (s->j != NOBODY) {
        y = view_of(self, s->j, s->to, s->from);
        set_talk(self, s->j, true);
        talk = self->talk[s->i];
        set_talk(self, s->j, false);
    }
    if (self->comm != NULL) {
        const pair_t ranks = pair_of(self, s->from, s->to);
        x.load = y.load = 0.0;
        difference(self, &ranks, &x, &y, talk, &from, &to);
        self->comm[s->from] += from;
        self->comm[s->to] += to;
    }
    plb_members_leave(&self->on, s->i, s->from);
    plb_ranks_move(self->ranks, s->i, s->to);
    plb_members_enter(&self->on, s->i, s->to);
    if (s->j != NOBODY) {
        plb_members_leave(&self->on, s->j, s->to);
        plb_ranks_move(self->ranks, s->j, s->from);
        plb_members_enter(&self->on, s->j, s->from);
    }
}

static int write_down(swaps_t *self, const step_t *s, plb_err_t *err)
{
    PLB_PASS(plb_journal_add(&self->journal, s->i, s->from, err));
    return s->j == NOBODY ? PLB_OK : plb_journal_add(&self->journal, s->j, s->to, err);
}

static void undo(swaps_t *self)
{
    while (self->journal.n > 0) {
        const plb_migration_t last = plb_journal_pop(&self->journal);
        make(self, &(step_t){.i = last.object,
                             .j = NOBODY,
                             .from = self->ranks->rank[last.object],
                             .to = last.from});
    }
}

static int look_at_near(swaps_t *self, int32_t r, step_t *best)
{
    for (int32_t k = 0; k < self->n_near; k++) {
        const double left = self->work;
        look_at_pair_of_ranks(self, r, self->near[k], best);
        PLB_PASS(plb_interrupted(1 + (int64_t)(left - self->work)));
    }
    return PLB_OK;
}

/* Make steps.  If they miss the limit, undo the last ones, which hardly reduced the maximum. */
static int all_steps(swaps_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    self->journal.before = INFINITY;
    for (int32_t step = 1; ret == PLB_OK && self->work > 0.0 && step < INT32_MAX; step++) {
        const int32_t r = longest(self);
        step_t best = {NOBODY, NOBODY, r, NOBODY, 0.0, 0.0};
        plb_journal_keep(&self->journal, seconds(self, r), 1.0 - PLB_JOURNAL_NEAR);
        if (seconds(self, r) <= self->limit * (1.0 + SLACK)) {
            return ret;
        }
        find_near(self, r, step);
        PLB_PASS(look_at_near(self, r, &best));
        if (best.i == NOBODY) {
            break;
        }
        ret = write_down(self, &best, err);
        make(self, &best);
    }
    undo(self);
    return ret;
}

int plb_swaps(plb_ranks_t *ranks, double *comm, double alpha, double beta, double limit,
              plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = ranks->in;
    const int64_t n = in->n_objects, p = in->n_ranks;
    uint8_t *all = NULL;
    swaps_t self = {.ranks = ranks, .comm = comm, .limit = limit, .work = WORK};
    if (seconds(&self, longest(&self)) <= limit * (1.0 + SLACK)) {
        return PLB_OK;
    }
    PLB_NEW(all, p);
    memset(all, 1, (size_t)p);
    PLB_TRY(plb_affinity_init(&self.affinity, in, ranks->rank, all, alpha, beta, err));
    PLB_TRY(plb_members_init(&self.on, in->n_ranks, n, err));
    PLB_NEW0(self.talk, n);
    PLB_NEW(self.near, p);
    PLB_NEW0(self.stamp, p);
    for (int64_t i = n - 1; i >= 0; i--) {
        if (plb_may_migrate(in, i)) {
            plb_members_enter(&self.on, (int32_t)i, ranks->rank[i]);
        }
    }
    ret = all_steps(&self, err);
out:
    plb_free(all);
    plb_affinity_free(&self.affinity);
    plb_members_free(&self.on);
    PLB_FREE(self.journal.entry, self.talk, self.near, self.stamp);
    return ret;
}
