/* BestFitLB: what ranks have too much goes where it fits exactly; the balance of GreedyLB, and few
 * migrations.
 *
 * The limit is what no placement can go below: the average, the most loaded rank without what may
 * migrate, or the heaviest object at its best rank.  As in a transport problem, the rank with the
 * largest excess gives to the one with the largest gap, until one of the two is done; what it
 * gives are the fewest objects whose sum is right to within the tolerance: one, two, or one for
 * one in exchange, after as many of the heaviest as it takes to come near.  So only what donors
 * have is sorted, and each transfer but the last of a rank is of heavy objects.
 *
 * Donors end in [allowed, allowed + tolerance], so that what the others may take stays enough.
 * Where the limit leaves room to spare (one heavy object decides), each end may be missed by its
 * share of that room.
 *
 * Where few objects a rank make the limit out of reach, GreedyLB's own maximum is the second
 * limit tried, and GreedyLB's placement itself the last resort; objects that can stay where they
 * were without raising the maximum do so.
 *
 * Ties: the lowest rank, the lightest object, the lowest index.
 */
#include <math.h>
#include <string.h>

#include "base/heap.h"
#include "base/mem.h"
#include "place/kit/grain.h"
#include "place/kit/home.h"
#include "place/kit/offers.h"

enum {
    TICK = 1 << 12,
    PROBES = 64, /* entries looked at for a pair or an exchange */
    TRIES = 16,  /* receivers asked before a donor counts as stuck */
    SAMPLE = 1 << 16,
};

/* A maximum this near to the limit is as good as on it. */
static const double CLOSE = 1e-4;

/* Tolerance, in loads of the p-th lightest object. */
static const double OF_GREEDY = 0.03;

/* And in squares of ranks over objects. */
static const double OF_SQUARE = 0.05;

/* And in the largest load of which all loads are whole multiples, where there is one. */
static const double OF_GRAIN = 1e-3;

/* Sums that were added in another order. */
static const double ROUNDING = 1e-12;

/* What a rank may be pushed above the limit by, of the excess that this takes from another; and
 * what a round may leave of the excess, for another one to follow. */
static const double PART = 0.75;

typedef struct fitter {
    plb_ranks_t ranks;
    double tolerance;     /* x limit */
    double share;         /* of the limit: room to spare for each rank, relative */
    plb_heap_t donor;     /* key: -excess */
    plb_heap_t receiver;  /* key: -gap */
    plb_offers_t gives;   /* of the ranks that were donors at first */
    plb_offers_t returns; /* of the others, once an exchange is looked for */
    uint8_t *is_donor;    /* [p] at first */
    uint8_t *is_other;
    int64_t n_pushes; /* that are left */
} fitter_t;

/* A transfer: from, to, and the sum that it should have. */
typedef struct transfer {
    int32_t from, to;
    bool ends_donor; /* else it fills the receiver */
    double low, high;
} transfer_t;

static double tolerance_of(const fitter_t *self, int32_t r)
{
    return self->tolerance * self->ranks.limit * plb_speed(self->ranks.in, r);
}

static double spill_of(const fitter_t *self, int32_t r)
{
    return self->share * self->ranks.limit * plb_speed(self->ranks.in, r);
}

static void window(const fitter_t *self, transfer_t *t)
{
    const double excess = -plb_ranks_gap(&self->ranks, t->from);
    const double gap = plb_ranks_gap(&self->ranks, t->to);
    const double most = gap + tolerance_of(self, t->to);
    t->ends_donor = excess <= gap;
    if (t->ends_donor) {
        t->low = excess - tolerance_of(self, t->from);
        t->high = excess + spill_of(self, t->from);
        t->high = t->high < most ? t->high : most;
    } else {
        t->low = gap - spill_of(self, t->to);
        t->low = t->low > 0.5 * gap ? t->low : 0.5 * gap;
        t->high = most;
    }
}

static double key(const plb_offers_t *offers, int64_t k)
{
    return offers->item[k].key;
}

/* ---- what to give --------------------------------------------------------------------------- */

/* What is given in one step: an entry; with a second one; or in exchange for one. */
typedef struct parcel {
    int64_t give, also, back; /* entries, or -1 */
    double sum;               /* what the receiver has more then; 0: nothing found */
} parcel_t;

static const parcel_t NOTHING = {-1, -1, -1, 0.0};

static plb_offers_t *list_of(fitter_t *self, int32_t r)
{
    return self->is_donor[r] ? &self->gives : &self->returns;
}

/* Has the receiver memory for object a, and b? */
static bool has_room(const fitter_t *self, const transfer_t *t, int32_t a, int32_t b)
{
    const plb_ranks_t *ranks = &self->ranks;
    return ranks->room == NULL ||
           ranks->room[t->to] - (b < 0 ? 0 : ranks->in->memory[b]) >= ranks->in->memory[a];
}

/* The heaviest of at most `load`, or -1. */
static int64_t at_most(fitter_t *self, const transfer_t *t, double load)
{
    plb_offers_t *offers = list_of(self, t->from);
    int64_t k = plb_offers_last(offers, t->from, load);
    for (int probe = 0; probe < PROBES && k >= offers->start[t->from]; probe++) {
        if (has_room(self, t, offers->item[k].id, -1)) {
            return k;
        }
        k = plb_offers_down(offers, t->from, k - 1);
    }
    return -1;
}

/* The lightest in [low, high], or -1. */
static int64_t at_least(fitter_t *self, const transfer_t *t, double low, double high)
{
    plb_offers_t *offers = list_of(self, t->from);
    int64_t k = plb_offers_up(offers, t->from, plb_offers_from(offers, t->from, low));
    for (int probe = 0; probe < PROBES && k < offers->end[t->from]; probe++) {
        if (key(offers, k) > high) {
            return -1;
        }
        if (has_room(self, t, offers->item[k].id, -1)) {
            return k;
        }
        k = plb_offers_up(offers, t->from, k + 1);
    }
    return -1;
}

/* Two entries with the largest sum of at most t->high, or the first that is in the window: one
 * from half of it upwards, the other downwards. */
static parcel_t find_pair(fitter_t *self, const transfer_t *t)
{
    parcel_t best = NOTHING;
    plb_offers_t *offers = list_of(self, t->from);
    const int64_t begin = offers->start[t->from], end = offers->end[t->from];
    const int64_t half = plb_offers_from(offers, t->from, 0.5 * t->high);
    int64_t a = plb_offers_up(offers, t->from, half);
    for (int probe = 0; probe < PROBES && a < end && best.sum < t->low; probe++) {
        int64_t b = plb_offers_last(offers, t->from, t->high - key(offers, a));
        b = b < half ? b : plb_offers_down(offers, t->from, half - 1);
        if (b < begin) {
            break;
        }
        const double sum = key(offers, a) + key(offers, b);
        if (sum > best.sum && has_room(self, t, offers->item[a].id, offers->item[b].id)) {
            best = (parcel_t){a, b, -1, sum};
        }
        a = plb_offers_up(offers, t->from, a + 1);
    }
    return best;
}

/* ---- one transfer --------------------------------------------------------------------------- */

static void move(fitter_t *self, int32_t from, int64_t k, int32_t to)
{
    if (k >= 0) {
        plb_offers_t *offers = list_of(self, from);
        plb_offers_take(offers, k);
        plb_ranks_move_known(&self->ranks, offers->item[k].id, key(offers, k), from, to);
    }
}

static bool donor_is_done(const fitter_t *self, int32_t r)
{
    return -plb_ranks_gap(&self->ranks, r) <= tolerance_of(self, r);
}

static bool receiver_is_full(const fitter_t *self, int32_t r)
{
    return plb_ranks_gap(&self->ranks, r) <= tolerance_of(self, r);
}

/* The heaviest of the donor, or -1. */
static int64_t top_of(fitter_t *self, int32_t donor)
{
    plb_offers_t *offers = list_of(self, donor);
    plb_offers_sort(offers, donor);
    const int64_t k = plb_offers_down(offers, donor, offers->end[donor] - 1);
    return k < offers->start[donor] ? -1 : k;
}

/* That, or the next lighter one that the receiver has memory for, or -1. */
static int64_t heaviest_with_room(fitter_t *self, const transfer_t *t, int64_t top)
{
    return has_room(self, t, list_of(self, t->from)->item[top].id, -1) ? top
                                                                       : at_most(self, t, t->high);
}

static parcel_t one(fitter_t *self, const transfer_t *t, int64_t k)
{
    return k < 0 ? NOTHING : (parcel_t){k, -1, -1, key(list_of(self, t->from), k)};
}

/* Let the others' lists exist too. */
static int list_others(fitter_t *self, plb_err_t *err)
{
    return self->returns.start != NULL
               ? PLB_OK
               : plb_offers_init(&self->returns, &self->ranks, self->is_other, INFINITY, err);
}

/* What completes the transfer; if nothing does, what comes nearest. */
static int choose(fitter_t *self, const transfer_t *t, parcel_t *best, plb_err_t *err)
{
    int ret = PLB_OK;
    *best = one(self, t, t->ends_donor ? at_least(self, t, t->low, t->high) : -1);
    *best = best->give >= 0 ? *best : one(self, t, at_most(self, t, t->high));
    if (best->sum >= t->low) {
        return PLB_OK;
    }
    parcel_t other = find_pair(self, t);
    if (other.sum < t->low) {
        ret = list_others(self, err);
        if (ret != PLB_OK) {
            return ret;
        }
        const plb_exchange_t e =
            plb_offers_exchange(&self->ranks, list_of(self, t->from), t->from,
                                list_of(self, t->to), t->to, t->low, t->high, PROBES);
        other = e.sum > other.sum ? (parcel_t){e.give, -1, e.back, e.sum} : other;
    }
    if (other.sum > best->sum) {
        *best = other;
    }
    if (t->ends_donor) { /* too much may be nearer than too little */
        const double most = plb_ranks_gap(&self->ranks, t->to) + tolerance_of(self, t->to);
        const parcel_t more = one(self, t, at_least(self, t, t->high, most));
        const bool nearer = more.sum - t->high <= t->low - best->sum || best->give < 0;
        *best = best->sum < t->low && more.give >= 0 && nearer ? more : *best;
    }
    return PLB_OK;
}

/* Give until one of the two is done; *given: whether anything. */
static int transfer(fitter_t *self, int32_t from, int32_t to, bool *given, plb_err_t *err)
{
    transfer_t t = {.from = from, .to = to};
    *given = false;
    while (!donor_is_done(self, from) && !receiver_is_full(self, to)) {
        const int64_t top = top_of(self, from);
        if (top < 0) {
            break;
        }
        window(self, &t);
        parcel_t parcel = NOTHING;
        if (t.low > 2.0 * key(list_of(self, from), top)) {
            parcel = one(self, &t, heaviest_with_room(self, &t, top));
        }
        const int ret = parcel.give < 0 ? choose(self, &t, &parcel, err) : PLB_OK;
        if (ret != PLB_OK || parcel.give < 0) {
            return ret;
        }
        move(self, to, parcel.back, from);
        move(self, from, parcel.give, to);
        move(self, from, parcel.also, to);
        *given = true;
    }
    return PLB_OK;
}

static bool has_lighter(fitter_t *self, int32_t r, double load)
{
    plb_offers_t *offers = list_of(self, r);
    plb_offers_sort(offers, r);
    const int64_t k = plb_offers_up(offers, r, offers->start[r]);
    return k < offers->end[r] && key(offers, k) < load;
}

/* What the receiver should take though it is too heavy, to give lighter things away itself, or -1.
 * If the donor is then as far below as the receiver above, or further, these two can settle it;
 * else the excess becomes smaller, or falls to a rank that has lighter objects to spread. */
static int64_t too_heavy(fitter_t *self, const transfer_t *t)
{
    const double excess = -plb_ranks_gap(&self->ranks, t->from);
    const double gap = plb_ranks_gap(&self->ranks, t->to);
    if (excess <= gap) {
        return at_least(self, t, excess, INFINITY);
    }
    const int64_t k = at_most(self, t, gap + PART * excess);
    if (k >= 0) {
        return k;
    }
    const int64_t lightest = at_least(self, t, 0.0, INFINITY);
    return lightest >= 0 && has_lighter(self, t->to, 0.5 * key(list_of(self, t->from), lightest))
               ? lightest
               : -1;
}

/* Nothing fits: the receiver takes something that is too heavy.  *given: whether anything. */
static int push(fitter_t *self, int32_t from, int32_t to, bool *given, plb_err_t *err)
{
    const transfer_t t = {.from = from, .to = to};
    const int ret = list_others(self, err);
    const int64_t k = ret == PLB_OK && self->n_pushes > 0 ? too_heavy(self, &t) : -1;
    *given = k >= 0;
    move(self, from, k, to);
    self->n_pushes -= *given;
    return ret;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void find_ranks(fitter_t *self)
{
    const plb_ranks_t *ranks = &self->ranks;
    self->donor.n = self->receiver.n = 0;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double gap = plb_ranks_gap(ranks, r);
        self->is_donor[r] = !donor_is_done(self, r);
        self->is_other[r] = !self->is_donor[r];
        if (self->is_donor[r]) {
            self->donor.item[self->donor.n++] = (plb_item_t){gap, r};
        } else if (!receiver_is_full(self, r)) {
            self->receiver.item[self->receiver.n++] = (plb_item_t){-gap, r};
        }
    }
    plb_heap_build(&self->donor);
    plb_heap_build(&self->receiver);
}

/* Put a rank where it belongs now. */
static void sort_in(fitter_t *self, int32_t r)
{
    const double gap = plb_ranks_gap(&self->ranks, r);
    if (!donor_is_done(self, r)) {
        plb_heap_push(&self->donor, (plb_item_t){gap, r});
    } else if (!receiver_is_full(self, r)) {
        plb_heap_push(&self->receiver, (plb_item_t){-gap, r});
    }
}

/* The most loaded rank gives to the one with the largest gap, or the next ones if that fails. */
static int serve(fitter_t *self, plb_err_t *err)
{
    const int32_t from = plb_heap_pop(&self->donor).id;
    int ret = self->is_donor[from] ? PLB_OK : list_others(self, err); /* a sum was rounded up */
    int32_t tried[TRIES], n = 0;
    bool given = false;
    while (ret == PLB_OK && !given && n < TRIES && self->receiver.n > 0) {
        const int32_t to = tried[n++] = plb_heap_pop(&self->receiver).id;
        ret = transfer(self, from, to, &given, err);
        if (ret == PLB_OK && !given) {
            ret = push(self, from, to, &given, err);
        }
    }
    if (given) { /* else it is stuck */
        sort_in(self, from);
    }
    for (int32_t k = 0; k < n; k++) {
        sort_in(self, tried[k]);
    }
    return ret;
}

static int transfer_all(fitter_t *self, const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int64_t step = 1; ret == PLB_OK && self->donor.n > 0 && self->receiver.n > 0; step++) {
        ret = serve(self, err);
        if (ret == PLB_OK && step % TICK == 0) {
            ret = plb_tick(opts);
        }
    }
    return ret;
}

/* A round, in which no object is given twice. */
static int transfers(fitter_t *self, const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    find_ranks(self);
    if (self->donor.n > 0 && self->receiver.n > 0) {
        ret = plb_offers_init(&self->gives, &self->ranks, self->is_donor, INFINITY, err);
        PLB_THEN(transfer_all(self, opts, err));
        plb_offers_free(&self->gives);
        plb_offers_free(&self->returns);
    }
    return ret;
}

static double total_excess(const plb_ranks_t *ranks)
{
    double sum = 0.0;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double gap = plb_ranks_gap(ranks, r);
        sum -= gap < 0.0 ? gap : 0.0;
    }
    return sum;
}

/* The average, where loads are whole multiples of one on ranks that are alike rounded up to what
 * such loads can make. */
static double average_of(const plb_ranks_t *ranks, double grain)
{
    const double average = plb_ranks_average(ranks), background = plb_background(ranks->in, 0);
    const double step = grain / plb_speed(ranks->in, 0);
    return grain > 0.0 ? background + step * ceil((average - background) / step * (1.0 - ROUNDING))
                       : average;
}

/* What no placement can go below: see above. */
static double lower_bound(const plb_ranks_t *ranks, double grain)
{
    const double average = average_of(ranks, grain);
    double floor_most = 0.0, heaviest = INFINITY;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double speed = plb_speed(ranks->in, r);
        const double least = plb_background(ranks->in, r) + ranks->problem->fixed[r] / speed;
        floor_most = least > floor_most ? least : floor_most;
        heaviest = fmin(heaviest, least + ranks->heaviest / speed);
    }
    return fmax(average, fmax(floor_most, heaviest));
}

/* What a placement is to come to. */
typedef struct aim {
    double tolerance; /* x limit */
    double limit;     /* seconds; 0: the lower bound, or `above` of the average above it if more */
    double above;
    double grain; /* load of which all are whole multiples, or 0 */
} aim_t;

/* What GreedyLB leaves is 0.06 to 0.6 of the load of the p-th lightest object, or, where loads
 * begin near 0, half a square of p/n; multiples of a grain come out even, but for rounding. */
static int set_tolerance(const plb_problem_t *problem, aim_t *aim, plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t sample = problem->n < SAMPLE ? problem->n : SAMPLE;
    const double p = problem->in->n_ranks, ratio = p / (double)(problem->n + 1);
    double *scratch = NULL, sum = 0.0;
    PLB_NEW(scratch, sample);
    for (int64_t i = 0; i < problem->in->n_objects; i++) {
        sum += problem->in->load[i];
    }
    if (aim->grain > 0.0) {
        aim->tolerance = OF_GRAIN * aim->grain * p / sum;
    } else {
        const double light = sum > 0.0 ? plb_grain_light(problem, scratch, sample) * p / sum : 0.0;
        aim->tolerance = fmax(OF_GREEDY * light, OF_SQUARE * ratio * ratio);
    }
    aim->tolerance = fmin(aim->tolerance, CLOSE);
out:
    plb_free(scratch);
    return ret;
}

typedef struct result {
    double limit, before, max; /* seconds */
} result_t;

/* Transfers on rank[n_objects] down to the limit.  Where there is room to spare, the tolerance is
 * taken off it. */
static int fit(const plb_problem_t *problem, const aim_t *aim, int32_t *rank, result_t *out,
               const plb_opts_t *opts, plb_err_t *err)
{
    const int32_t p = problem->in->n_ranks;
    const double tolerance = aim->tolerance;
    fitter_t self = {.tolerance = tolerance, .n_pushes = 4 * (int64_t)p + 64};
    int ret = plb_ranks_init(&self.ranks, problem, rank, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW_EACH(p, self.donor.item, self.receiver.item, self.is_donor, self.is_other);
    const double average = plb_ranks_average(&self.ranks);
    const double bound = fmax(lower_bound(&self.ranks, aim->grain), average * (1.0 + aim->above));
    const double first = plb_ranks_max(&self.ranks),
                 target = aim->limit > 0.0 ? aim->limit : bound;
    *out = (result_t){target, first, first};
    const double limit =
        aim->grain > 0.0 ? target : fmax(average, target * (1.0 + ROUNDING) / (1.0 + tolerance));
    self.share = limit > 0.0 ? fmax(0.0, 1.0 - average / limit) : 0.0;
    plb_ranks_allow(&self.ranks, limit);
    double last = INFINITY, excess = total_excess(&self.ranks);
    while (ret == PLB_OK && excess < last && out->max > limit * (1.0 + tolerance)) {
        ret = transfers(&self, opts, err);
        out->max = plb_ranks_max(&self.ranks);
        last = PART * excess; /* rounds that win little are not worth their time */
        excess = total_excess(&self.ranks);
    }
out:
    plb_ranks_free(&self.ranks);
    PLB_FREE(self.donor.item, self.receiver.item, self.is_donor, self.is_other);
    return ret;
}

/* GreedyLB's placement into rank[n_objects], and its maximum; INFINITY if it finds none. */
static int ask_greedy(const plb_problem_t *problem, int32_t *rank, double *max,
                      const plb_opts_t *opts, plb_err_t *err)
{
    plb_ranks_t ranks = {0};
    int ret = plb_strategy_greedy.run(&plb_strategy_greedy, problem->in, opts, rank, err);
    *max = INFINITY;
    if (ret == PLB_ERR_INFEASIBLE) {
        return PLB_OK;
    }
    PLB_THEN(plb_home_relabel(problem, rank, err));
    PLB_THEN(plb_ranks_init(&ranks, problem, rank, err));
    *max = ret == PLB_OK ? plb_ranks_max(&ranks) : INFINITY;
    plb_ranks_free(&ranks);
    return ret;
}

/* Transfers have left rank[n_objects] with a maximum of *max, far from the limit.  That, or
 * GreedyLB's if it is less, becomes the limit, and the first that keeps to it is taken: transfers,
 * what is there, GreedyLB with objects at home where that is possible, its own placement. */
static int try_others(const plb_problem_t *problem, int32_t *rank, double *max,
                      const plb_opts_t *opts, plb_err_t *err)
{
    int ret = PLB_OK;
    const size_t size = (size_t)problem->in->n_objects * sizeof *rank;
    const double own = *max;
    int32_t *greedy = NULL, *other = NULL;
    result_t found;
    PLB_NEW_EACH(problem->in->n_objects, greedy, other);
    ret = ask_greedy(problem, greedy, max, opts, err);
    const double limit = fmin(*max, own);
    const aim_t aim = {.tolerance = ROUNDING, .limit = limit};
    *max = limit * (1.0 + ROUNDING);
    PLB_THEN(plb_problem_present(problem, other, opts, err));
    PLB_THEN(fit(problem, &aim, other, &found, opts, err));
    if (ret != PLB_OK || (own <= *max && found.max > *max)) {
        goto out;
    }
    if (problem->room == NULL && found.max > *max) {
        memcpy(other, problem->in->rank, size);
        ret = plb_home_greedy(problem, limit, other, &found.max, err);
    }
    memcpy(rank, ret == PLB_OK && found.max <= *max ? other : greedy, size);
out:
    PLB_FREE(greedy, other);
    return ret;
}

static int place(const plb_problem_t *problem, double above, int32_t *rank, const plb_opts_t *opts,
                 plb_err_t *err)
{
    int ret = PLB_OK;
    aim_t aim = {.above = above};
    result_t found;
    aim.grain = plb_problem_all_alike(problem) ? plb_grain_common(problem) : 0.0;
    PLB_TRY(set_tolerance(problem, &aim, err));
    PLB_TRY(plb_problem_present(problem, rank, opts, err));
    PLB_TRY(fit(problem, &aim, rank, &found, opts, err));
    const bool close = found.max <= found.limit * (1.0 + CLOSE);
    if (!close) {
        PLB_TRY(try_others(problem, rank, &found.max, opts, err));
    }
    if (found.max >= found.before) { /* no move without a gain */
        ret = plb_problem_present(problem, rank, opts, err);
    } else if (!close) {
        ret = plb_home_return(problem, found.max, rank, err);
    }
out:
    return ret;
}

static int run(const plb_strategy_t *self, const plb_snapshot_t *in, const plb_opts_t *opts,
               int32_t *out, plb_err_t *err)
{
    plb_problem_t problem;
    (void)self;
    int ret = plb_problem_init(&problem, in, err);
    if (ret == PLB_OK) {
        ret = place(&problem, opts->params[0], out, opts, err);
        plb_problem_free(&problem);
    }
    return ret;
}

static const plb_param_t params[] = {
    {"tolerance", "x average", "imbalance that may be left beside what GreedyLB would leave", 0.0,
     0.0, 1e6},
};

const plb_strategy_t plb_strategy_bestfit = {
    .name = "BestFitLB",
    .help = "what ranks have too much goes where it fits exactly: GreedyLB's balance, few moves",
    .source = "pylb; transport problem, best fit",
    .family = PLB_REFINEMENT,
    .looks_at = PLB_LOOKS_LOAD | PLB_LOOKS_SPEED | PLB_LOOKS_MEMORY,
    .params = params,
    .n_params = 1,
    .run = run,
};
