/* The part of the decider that uses the objects' loads, to learn speeds and to place objects. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "decide/decider.h"
#include "model/model.h"
#include "place/strategy.h"

/* A strategy's placement of a snapshot. */
typedef struct answer {
    int32_t *rank;         /* owned: the new rank of each object */
    plb_placing_t figures; /* metrics of the old placement and of this one */
    int64_t migrations;
    double seconds; /* seconds that the strategy took */
} answer_t;

/* The snapshot that the strategy gets. */
typedef struct input {
    plb_snapshot_t snapshot;          /* has one load for each object, the sum of its phases */
    plb_snapshot_t phases;            /* has a load for each phase; without phases: `snapshot` */
    double *load, *sum, *speed;       /* owned, or NULL */
    double *phase_load, *phase_speed; /* of `phases`: speeds and loads, if speeds differ by phase;
                                         or NULL */
    int64_t *limit; /* owned: raised memory limits of ranks, then of nodes; or NULL */
} input_t;

static void free_input(input_t *self)
{
    PLB_FREE(self->load, self->sum, self->speed, self->limit, self->phase_load, self->phase_speed);
}

/* The size of the sample (plb_decider_sampled) as a fraction of all objects. */
static double sample_of(int64_t n_objects, int32_t n_ranks)
{
    const double most = fmin(PLB_LEARNER_SAMPLE / 8.0 * n_ranks, PLB_DECIDER_MOST_SAMPLED);
    return (double)n_objects <= most ? 1.0 : most / (double)n_objects;
}

int64_t plb_decider_sampled(const int64_t *key, int64_t n, int64_t n_objects, int32_t n_ranks,
                            int64_t *out)
{
    const double fraction = sample_of(n_objects, n_ranks);
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (plb_is_sampled(key[i], fraction)) {
            out[m++] = i;
        }
    }
    return m;
}

/* A learner takes O(p) memory, so only the rank that has the loads makes one. */
static int observe(plb_decider_t *self, int32_t which, int64_t n, const int64_t *key,
                   const int32_t *rank, const double *seconds, const double *work, double fraction,
                   plb_err_t *err)
{
    plb_learner_t *learner = &self->learner[which];
    if (learner->p == 0) {
        PLB_PASS(plb_learner_init(learner, self->opt.n_ranks, err));
    }
    return plb_learner_observe(learner, n, key, rank, seconds, work, fraction, err);
}

int plb_decider_learn(plb_decider_t *self, int64_t n, const int64_t *key, const int32_t *rank,
                      const double *here, const double *work, double *speed, plb_err_t *err)
{
    PLB_PASS(observe(self, 0, n, key, rank, here, work, 1.0, err));
    if (!plb_learner_speeds(self->learner, speed)) {
        memset(speed, 0, (size_t)self->opt.n_ranks * sizeof *speed);
    }
    return PLB_OK;
}

/* Convert seconds of objects on their ranks, with d loads each, to work; v: n_speeds speeds of
 * each rank. */
static void to_work(const plb_snapshot_t *s, const double *v, int32_t n_speeds, double *work)
{
    const int32_t d = s->n_components;
    for (int64_t i = 0; i < s->n_objects * d; i++) {
        const int64_t r = s->rank[i / d];
        work[i] = s->load[i] * v[r * n_speeds + (n_speeds > 1 ? i % d : 0)];
    }
}

/* Give the learners the seconds of whole objects (learner 0) and, if there are phases, of each
 * phase (learners 1, 2, ...). */
static int observe_all(plb_decider_t *self, const plb_database_t *db, double fraction,
                       plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *s = &db->snapshot;
    const int32_t d = s->n_components;
    double *seconds = NULL;
    PLB_NEW(seconds, s->n_objects);
    for (int32_t k = 0; k <= (d > 1 ? d : 0); k++) {
        for (int64_t i = 0; i < s->n_objects; i++) {
            seconds[i] = db->here[i * d + (k > 0 ? k - 1 : 0)];
            for (int32_t j = 1; k == 0 && j < d; j++) {
                seconds[i] += db->here[i * d + j];
            }
        }
        PLB_TRY(observe(self, k, s->n_objects, s->key, s->rank, seconds, k == 0 ? db->work : NULL,
                        fraction, err));
    }
out:
    plb_free(seconds);
    return ret;
}

/* If the ranks' speeds differ in a phase, set phase_speed and phase_load.  Otherwise, the speeds
 * that were learned from the sums of the phases are used for each phase. */
static int learn_phase_speeds(const plb_decider_t *self, const plb_snapshot_t *s, input_t *out,
                              plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t p = s->n_ranks, d = s->n_components;
    double *speed = NULL;
    bool differ = false;
    PLB_NEW(speed, p);
    PLB_NEW(out->phase_speed, p * d);
    for (int64_t k = 0; k < d; k++) {
        differ |= plb_learner_speeds(&self->learner[1 + k], speed);
        for (int64_t r = 0; r < p; r++) {
            out->phase_speed[r * d + k] = speed[r];
        }
    }
    if (!differ) {
        plb_free(out->phase_speed);
        out->phase_speed = NULL;
    } else {
        PLB_NEW(out->phase_load, s->n_objects * d);
        to_work(s, out->phase_speed, (int32_t)d, out->phase_load);
    }
out:
    plb_free(speed);
    return ret;
}

/* If the ranks' speeds are known to differ, the strategy's snapshot has these speeds, and its
 * loads are work (seconds times speed) instead of seconds. */
static int learn_speeds(plb_decider_t *self, const plb_database_t *db, unsigned looks_at,
                        bool samples, input_t *out, plb_err_t *err)
{
    const plb_snapshot_t *s = &db->snapshot;
    if (!self->opt.learns || db->here == NULL) {
        return PLB_OK;
    }
    /* for a distributed strategy, speeds are learned from a sample of the objects */
    const double fraction = samples ? sample_of(s->n_objects, s->n_ranks) : 1.0;
    PLB_PASS(observe_all(self, db, fraction, err));
    if (!(looks_at & PLB_LOOKS_SPEED)) {
        return PLB_OK;
    }
    if (s->n_components > 1) {
        PLB_PASS(learn_phase_speeds(self, s, out, err));
    }
    PLB_PASS_NEW(out->speed, s->n_ranks);
    if (!plb_learner_speeds(self->learner, out->speed)) {
        plb_free(out->speed);
        out->speed = NULL;
        return PLB_OK;
    }
    PLB_PASS_NEW(out->load, s->n_objects * s->n_components);
    to_work(s, out->speed, 1, out->load);
    out->snapshot.load = out->load;
    out->snapshot.speed = out->speed;
    return PLB_OK;
}

static int prepare(plb_decider_t *self, const plb_database_t *db, unsigned looks_at, bool samples,
                   input_t *out, plb_err_t *err)
{
    *out = (input_t){.snapshot = db->snapshot};
    PLB_PASS(learn_speeds(self, db, looks_at, samples, out, err));
    out->phases = out->snapshot;
    PLB_PASS(plb_snapshot_sum(&out->snapshot, &out->sum, err));
    if (out->phase_speed != NULL) {
        out->phases.load = out->phase_load;
        out->phases.speed = out->phase_speed;
        out->phases.n_speeds = out->phases.n_components;
    }
    return PLB_OK;
}

/* Compute the mean from an exact sum, like the ranks of a run with a distributed strategy. */
static void merge(const double *time, int32_t p, plb_metrics_t *out)
{
    plb_exact_t sum = {{0}};
    for (int32_t r = 0; r < p; r++) {
        plb_exact_add(&sum, time[r]);
    }
    out->mean = plb_exact_value(&sum) / p;
    out->max_over_mean = out->mean > 0.0 ? out->max / out->mean : 1.0;
    out->idle_mean = out->max - out->mean;
}

/* With a distributed strategy messages are left out: no rank knows those of all objects. */
static int measure(const plb_decider_t *self, const plb_snapshot_t *s, answer_t *a, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_change_t change = {0};
    plb_metrics_t before, after;
    plb_placing_t *out = &a->figures;
    const int32_t p = s->n_ranks;
    PLB_NEW_EACH(p, change.before, change.after);
    PLB_TRY(plb_snapshot_compare(s, a->rank, &change, err));
    plb_metrics_of(change.before, p, &before);
    plb_metrics_of(change.after, p, &after);
    const bool in_rounds = plb_decider_in_rounds(self, self->chosen);
    if (in_rounds) {
        merge(change.before, p, &before);
        merge(change.after, p, &after);
    }
    a->migrations = change.migrations;
    *out = plb_placing_unknown();
    out->before = out->before_with_messages = before.max_over_mean;
    out->predicted = out->predicted_with_messages = after.max_over_mean;
    out->idle_mean = before.idle_mean;
    out->idle_max = before.idle_max;
    out->predicted_idle_mean = after.idle_mean;
    out->predicted_idle_max = after.idle_max;
    out->ahead = 0.0;
    out->seconds_statistics = 0.0; /* the caller knows how long the gathering took */
    out->seconds_strategy = a->seconds;
    const plb_network_t net = self->opt.network;
    if (!in_rounds && plb_network_costs(net) && before.mean > 0.0 &&
        s->n_edges + s->n_multicasts > 0) {
        PLB_TRY(plb_add_messages(s, NULL, net, change.before, err));
        PLB_TRY(plb_add_messages(s, a->rank, net, change.after, err));
        const double mean = before.mean;
        plb_metrics_of(change.before, p, &before);
        plb_metrics_of(change.after, p, &after);
        out->before_with_messages = before.max / mean;
        out->predicted_with_messages = after.max / mean;
    }
out:
    PLB_FREE(change.before, change.after);
    return ret;
}

/* Let a strategy place `in`.  The metrics are those of `measured`, which has the same objects. */
static int run(const plb_decider_t *self, int32_t which, const double *params,
               const plb_snapshot_t *in, const plb_snapshot_t *measured, answer_t *a,
               plb_err_t *err)
{
    const plb_candidate_strategy_t *c = &self->candidates[which];
    const plb_opts_t own = {
        .params = params == NULL ? c->params : params, .seed = self->opt.seed, .lenient = true};
    PLB_PASS_NEW(a->rank, in->n_objects);
    const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
    PLB_PASS(plb_strategy_place(&c->strategy, in, &own, a->rank, err));
    a->seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
    return measure(self, measured, a, err);
}

/* Run a strategy on its input (see input_t), with the objects on from[]; NULL: where they are. */
static int run_on(const plb_decider_t *self, int32_t which, const input_t *input,
                  const int32_t *from, answer_t *a, plb_err_t *err)
{
    const bool by_phase = self->candidates[which].strategy.takes_phases;
    plb_snapshot_t in = by_phase ? input->phases : input->snapshot;
    in.rank = from == NULL ? in.rank : from;
    return run(self, which, NULL, &in, &input->snapshot, a, err);
}

/* ---- neighbours on different ranks ---------------------------------------------------------- */

/* Scatter decomposition (Nicol and Saltz, "An analysis of scatter decomposition", IEEE
 * Transactions on Computers 39, 1990): successive objects go to successive ranks, so that a heavy
 * region reaches all ranks alike, wherever it goes and however it grows.  Then BestFitLB moves the
 * few objects that the present loads ask for. */

/* Whether all objects may migrate, and the snapshot has neither speeds nor memory limits. */
static bool may_scatter(const plb_snapshot_t *in)
{
    for (int64_t i = 0; in->migratable != NULL && i < in->n_objects; i++) {
        if (!in->migratable[i]) {
            return false;
        }
    }
    return in->speed == NULL && in->memory_limit == NULL;
}

static int scatter(const plb_snapshot_t *in, int32_t *rank, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_snapshot_t dealt = *in;
    int32_t *to = NULL;
    PLB_NEW(to, in->n_objects);
    for (int64_t i = 0; i < in->n_objects; i++) {
        to[i] = (int32_t)(i % in->n_ranks);
    }
    dealt.rank = to;
    PLB_TRY(plb_strategy_place(&plb_strategy_bestfit, &dealt, NULL, rank, err));
out:
    plb_free(to);
    return ret;
}

/* ---- future loads --------------------------------------------------------------------------- */

/* Before the run, the loads are expected to jump once in PLB_LONG iterations.  This has the weight
 * of a few observed iterations, so that a program is soon judged by its own jumps. */
static const double PRIOR_JUMPS = (double)PLB_WINDOW / PLB_LONG;

/* Set `step` and `per_byte`.  The cost of an LB step is the average of the last ones; before the
 * first, the expected cost.  If data move while an iteration runs, moving costs the time by which
 * this iteration gets longer, see feel_moves in decider.c; at first, the expected cost. */
static int price_moves(const plb_decider_t *self, const plb_snapshot_t *s, plb_cycle_costs_t *out,
                       plb_err_t *err)
{
    double bytes, cost = self->last < 0 ? self->foreseen : self->trigger->cost;
    cost = isnan(cost) ? 0.0 : cost;
    out->per_byte = self->per_byte;
    PLB_PASS(plb_cycle_bytes(s, NULL, &bytes, err));
    if (self->opt.move_at_most > 0.0) {
        const double moving = isnan(self->moving) ? 0.0 : self->moving;
        out->per_byte = self->felt_bytes > 0.0 ? fmax(self->felt, 0.0) / self->felt_bytes
                                               : moving / fmax(bytes, 1.0);
        out->step = self->last < 0 ? cost - moving : self->receipts[self->last].seconds;
    } else if (isnan(out->per_byte)) { /* no bytes have moved yet */
        const double moving = self->last >= 0 || isnan(self->moving) ? cost : self->moving;
        out->per_byte = bytes > 0.0 ? moving / bytes : 0.0;
        out->step = cost - moving;
    } else if (self->last >= 0) {
        const double moving = self->receipts[self->last].seconds_migration;
        out->step = fmax(cost - (isnan(moving) ? 0.0 : moving), 0.0);
    }
    return PLB_OK;
}

static int costs_of(const plb_decider_t *self, const plb_snapshot_t *s, const double *drift,
                    plb_cycle_costs_t *out, plb_err_t *err)
{
    *out = (plb_cycle_costs_t){.now = s, .drift = drift, .stretch = plb_decider_stretch(self)};
    PLB_PASS(price_moves(self, s, out, err));
    out->left = fmax((double)(self->trigger->end - self->seen.iteration - 1), 1.0);
    out->network = self->opt.network;
    out->jumps = (PRIOR_JUMPS + self->jumps) / (PLB_WINDOW + self->observed);
    /* after a jump, the drift predicts nothing: `belief` stays 0 */
    return self->sudden ? PLB_OK : plb_cycle_believe(out, self->grown, err);
}

/* TRY: what one attempt with a tolerance is assumed to take.
 * tuned: seconds per object; rank 0 is busy for 0.2 s with 10^6 objects (benchmarks/scale.py) */
static const double TOLERANCES[] = {0.5 * PLB_NOTABLE, PLB_NOTABLE, 2.0 * PLB_NOTABLE}, TRY = 2e-7;
enum { N_TOLERANCES = sizeof TOLERANCES / sizeof *TOLERANCES };

/* The best of the placements that are tried for a cycle (decider.h). */
typedef struct outlook {
    const plb_cycle_costs_t *costs;
    int32_t which;      /* the strategy */
    double *params;     /* owned: its parameters */
    double *tolerance;  /* one of `params`, or NULL; max/mean may be left up to about 1 + this */
    int32_t *rank;      /* the best placement so far */
    plb_placing_t *out; /* metrics of that placement */
    double least;       /* average loss per iteration of that placement, in seconds */
    double seconds;     /* time that all attempts took */
} outlook_t;

/* Try a placement for the loads expected in `ahead` iterations, by the strategy or, if `scatters`,
 * with neighbours on different ranks; keep it if it is the best so far. */
static int attempt(const plb_decider_t *self, outlook_t *best, int ahead, bool scatters,
                   double *loss, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *now = best->costs->now;
    plb_snapshot_t then = *now;
    double *load = NULL;
    answer_t a = {0};
    if (scatters) {
        PLB_NEW(a.rank, now->n_objects);
        const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
        PLB_TRY(scatter(now, a.rank, err));
        a.seconds = 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
        PLB_TRY(measure(self, now, &a, err));
    } else {
        PLB_NEW(load, now->n_objects);
        plb_cycle_loads(best->costs, ahead, load);
        then.load = load;
        PLB_TRY(run(self, best->which, best->params, &then, now, &a, err));
    }
    PLB_TRY(plb_cycle_loss(best->costs, a.rank, loss, err));
    best->seconds += a.seconds;
    /* if the imbalance has grown, and no drift explains it yet, loads will change again */
    const bool changes = scatters && best->costs->belief == 0.0 && !self->sudden;
    if (*loss < best->least + (changes ? PLB_NOTABLE * fmax(self->grown, 0.0) : 0.0)) {
        best->least = *loss;
        memcpy(best->rank, a.rank, (size_t)now->n_objects * sizeof *best->rank);
        a.figures.passed_over = best->out->passed_over;
        a.figures.placed_by = best->out->placed_by;
        *best->out = a.figures;
        best->out->ahead = ahead;
    }
out:
    PLB_FREE(load, a.rank);
    return ret;
}

/* Let the strategy place for the loads expected 1, 2, 4 and 8 iterations ahead (decider.h), and
 * keep the placement with the smallest loss until the next LB step.  Stop at the first placement
 * that loses more than the previous one.  Also try to place neighbours on different ranks: then
 * the ranks stay balanced when the loads of a whole region change, or a heavy region jumps to
 * another place.  If the moves take longer than such an attempt, also try to move fewer objects,
 * by larger and larger tolerances; stop when a tolerance loses more than the best smaller one. */
static int look_ahead(const plb_decider_t *self, int32_t which, const plb_cycle_costs_t *costs,
                      int32_t *rank, plb_placing_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const double present = out->predicted_with_messages;
    double bytes, loss[PLB_CYCLE_AHEADS] = {NAN, NAN, NAN, NAN, NAN};
    double scattered = NAN, tolerance = 0.0, tolerant = NAN;
    outlook_t best = {.costs = costs,
                      .which = which,
                      .rank = rank,
                      .out = out,
                      .seconds = out->seconds_strategy};
    const plb_candidate_strategy_t *c = &self->candidates[which];
    PLB_NEW(best.params, c->strategy.n_params);
    for (int i = 0; i < c->strategy.n_params; i++) {
        best.params[i] = c->params[i];
        if (strcmp(c->strategy.params[i].name, "tolerance") == 0) {
            best.tolerance = &best.params[i];
        }
    }
    PLB_TRY(plb_cycle_loss(costs, rank, &loss[0], err));
    PLB_TRY(plb_cycle_bytes(costs->now, rank, &bytes, err));
    const double tries = N_TOLERANCES * TRY * (double)costs->now->n_objects;
    const bool fewer = best.tolerance != NULL && costs->per_byte * bytes > tries;
    best.least = loss[0];
    for (int k = 1; costs->belief > 0.0 && k < PLB_CYCLE_AHEADS; k++) {
        PLB_TRY(attempt(self, &best, plb_cycle_times[k], false, &loss[k], err));
        if (loss[k] > loss[k - 1]) {
            break;
        }
    }
    if (may_scatter(costs->now)) {
        PLB_TRY(attempt(self, &best, 0, true, &scattered, err));
    }
    const int ahead = (int)out->ahead;
    for (int k = 0; fewer && k < N_TOLERANCES; k++) {
        double now;
        const double before = best.least;
        *best.tolerance = TOLERANCES[k];
        PLB_TRY(attempt(self, &best, ahead, false, &now, err));
        tolerance = best.least < before ? TOLERANCES[k] : tolerance;
        if (now > tolerant) {
            break;
        }
        tolerant = now;
    }
    out->seconds_strategy = best.seconds;
    out->tolerance = isnan(tolerant) ? NAN : tolerance;
    out->loss_tolerant = tolerant;
    out->present = present;
    memcpy(&out->loss_0, loss, sizeof loss);
    out->loss_scattered = scattered;
out:
    plb_free(best.params);
    return ret;
}

/* Let another strategy place, with the objects on from[] (see run_on), and keep its answer if it
 * makes iterations shorter or, if `fewer`, moves fewer objects for nearly the same time. */
static int challenge(const plb_decider_t *self, int32_t which, const input_t *input,
                     const int32_t *from, bool fewer, answer_t *best, plb_err_t *err)
{
    answer_t a = {0};
    const int ret = run_on(self, which, input, from, &a, err);
    const double now = a.figures.predicted_with_messages;
    const double was = best->figures.predicted_with_messages;
    const double most = self->selector.params[PLB_SELECTION_tolerance] * was;
    if (ret == PLB_OK && (fewer ? now <= most && a.migrations < best->migrations : now < was)) {
        const answer_t worse = *best;
        a.figures.placed_by = from == NULL ? which : worse.figures.placed_by;
        *best = a;
        a = worse;
    }
    best->seconds += a.seconds;
    plb_free(a.rank);
    return ret == PLB_ERR_INFEASIBLE ? PLB_OK : ret; /* no placement within the memory limits */
}

/* Run the chosen strategy; if distances differ, those of rule 7 in decider.h; and self->instead,
 * which may move fewer objects: then more objects stay together with their neighbours. */
static int answer_of(const plb_decider_t *self, const input_t *input, int32_t *rank,
                     plb_placing_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *s = &input->snapshot;
    const plb_selector_t *among = &self->selector;
    const plb_kind_t kind = PLB_COMMUNICATION;
    const plb_family_t family = self->candidates[self->chosen].strategy.family;
    const int32_t refines = plb_selector_next(among, 0, kind, PLB_REFINEMENT);
    const bool compares =
        self->opt.selects && s->near != NULL && s->n_edges + s->n_multicasts > 0 &&
        plb_network_costs(self->opt.network) && !plb_decider_in_rounds(self, self->chosen);
    double n = 1.0;
    answer_t best = {0};
    PLB_TRY(run_on(self, self->chosen, input, NULL, &best, err));
    best.figures.placed_by = self->chosen;
    const double of_chosen = best.figures.predicted_with_messages;
    for (int32_t i = compares ? plb_selector_next(among, 0, kind, family) : -1; i >= 0;
         i = family == PLB_REFINEMENT ? -1 : plb_selector_next(among, i + 1, kind, family)) {
        if (i != self->chosen) {
            PLB_TRY(challenge(self, i, input, NULL, false, &best, err));
            n += 1.0;
        }
    }
    if (compares && family == PLB_COMPREHENSIVE && refines >= 0) {
        PLB_TRY(challenge(self, refines, input, best.rank, false, &best, err));
    }
    if (self->instead >= 0) {
        PLB_TRY(challenge(self, self->instead, input, NULL, true, &best, err));
    }
    memcpy(rank, best.rank, (size_t)s->n_objects * sizeof *rank);
    *out = best.figures;
    out->compared = compares ? n : NAN;
    out->passed_over = out->placed_by == self->chosen ? NAN : of_chosen;
    out->seconds_strategy = best.seconds;
out:
    plb_free(best.rank);
    return ret;
}

/* ---- memory --------------------------------------------------------------------------------- */

static bool is_limited(const plb_snapshot_t *s)
{
    return (s->memory != NULL || s->block != NULL) &&
           (s->memory_limit != NULL || s->node_memory_limit != NULL);
}

/* If a rank or a node holds more bytes than its memory limit, raise the limit to these bytes: it
 * may hold no more than now.  (This is no error, because a running program must go on.) */
static int raise_limits(input_t *input, plb_err_t *err)
{
    plb_snapshot_t *s = &input->snapshot;
    const int32_t p = s->n_ranks;
    const int64_t **strict[] = {&s->memory_limit, &s->node_memory_limit};
    PLB_PASS_NEW(input->limit, 2 * (int64_t)p);
    PLB_PASS(plb_snapshot_held(s, s->rank, input->limit, input->limit + p, NULL, err));
    for (int32_t k = 0; k < 2; k++) {
        int64_t *limit = input->limit + (int64_t)k * p;
        for (int32_t r = 0; *strict[k] != NULL && r < p; r++) {
            limit[r] = limit[r] > (*strict[k])[r] ? limit[r] : (*strict[k])[r];
        }
        *strict[k] = *strict[k] == NULL ? NULL : limit;
    }
    input->phases.memory_limit = s->memory_limit;
    input->phases.node_memory_limit = s->node_memory_limit;
    return PLB_OK;
}

/* Replace the metrics of the new placement; the messages cost the same as before. */
static void tell_after(const plb_metrics_t *after, plb_placing_t *out)
{
    out->predicted_with_messages += after->max_over_mean - out->predicted;
    out->predicted = after->max_over_mean;
    out->predicted_idle_mean = after->idle_mean;
    out->predicted_idle_max = after->idle_max;
}

/* ---- phases --------------------------------------------------------------------------------- */

/* The placement rank[] was made for the sum of an object's phases: measure it by phases.  If the
 * decider selects the strategy, and VectorLB makes the sum over the phases of the slowest rank
 * shorter, take its placement. */
static int place_phases(const plb_decider_t *self, const input_t *input, int32_t *rank,
                        plb_placing_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *s = &input->phases;
    plb_metrics_t before, after, other;
    int32_t *where = NULL;
    PLB_TRY(plb_snapshot_metrics(s, NULL, &before, err));
    PLB_TRY(plb_snapshot_metrics(s, rank, &after, err));
    if (self->opt.selects && !self->goes_on &&
        after.max_over_mean > self->selector.params[PLB_SELECTION_tolerance] * out->predicted) {
        const int64_t start = plb_clock_ns(PLB_CLOCK_WALL);
        PLB_NEW(where, s->n_objects);
        ret = plb_strategy_place(&plb_strategy_vector, s, NULL, where, err);
        if (ret == PLB_ERR_INFEASIBLE) { /* VectorLB found no placement within the limits */
            memcpy(where, rank, (size_t)s->n_objects * sizeof *rank);
            ret = PLB_OK;
        }
        PLB_TRY(ret);
        PLB_TRY(plb_snapshot_metrics(s, where, &other, err));
        out->seconds_strategy += 1e-9 * (double)(plb_clock_ns(PLB_CLOCK_WALL) - start);
        if (other.max < after.max) {
            memcpy(rank, where, (size_t)s->n_objects * sizeof *rank);
            out->by_sum = after.max_over_mean;
            out->ahead = 0.0;
            after = other;
        }
    }
    out->before_with_messages += before.max_over_mean - out->before;
    out->present += after.max_over_mean - out->predicted;
    out->before = before.max_over_mean;
    out->idle_mean = before.idle_mean;
    out->idle_max = before.idle_max;
    tell_after(&after, out);
out:
    plb_free(where);
    return ret;
}

/* Compute lower bounds of max/mean: the time of each of the two heaviest objects, alone on the
 * fastest rank, relative to the time in which all ranks together would do all work. */
static void measure_heaviest(const plb_snapshot_t *s, plb_placing_t *out)
{
    double work = 0.0, speed = 0.0, fastest = 0.0, first = 0.0, second = 0.0;
    int64_t which = 0;
    for (int32_t r = 0; r < s->n_ranks; r++) {
        const double v = s->speed == NULL ? 1.0 : s->speed[r];
        work += s->background == NULL ? 0.0 : v * s->background[r];
        speed += v;
        fastest = fmax(fastest, v);
    }
    for (int64_t i = 0; i < s->n_objects; i++) {
        const double load = s->load[i];
        work += load;
        second = fmax(second, fmin(load, first));
        which = load > first ? i : which;
        first = fmax(first, load);
    }
    if (first > 0.0) {
        const double alike = speed / fastest; /* `work` may be so small that 1 / work is inf */
        out->heaviest = first / work * alike;
        out->next_heaviest = second / work * alike;
        out->heaviest_key = (double)plb_key(s, which);
    }
}

/* ---- slices --------------------------------------------------------------------------------- */

/* A placement that may be carried out only in part. */
typedef struct slices {
    const input_t *input;
    const int32_t *rank;   /* [n_objects] the whole placement */
    double *until;         /* [n_objects] bytes that have left the rank when the object has left */
    int32_t *part;         /* [n_objects] the placement of the last part */
    plb_metrics_t metrics; /* metrics of that part */
} slices_t;

/* Order the moves, the most useful first: those to ranks that take less time, by load per byte;
 * then the others. */
static int order_moves(const slices_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *s = &self->input->snapshot;
    plb_loads_t order = {0};
    double *time = NULL, *left = NULL;
    PLB_NEW(time, s->n_ranks);
    PLB_NEW0(left, s->n_ranks);
    plb_snapshot_rank_times(s, NULL, time);
    for (int64_t i = 0; i < s->n_objects; i++) {
        const bool helps = time[self->rank[i]] < time[s->rank[i]];
        self->until[i] = helps ? s->load[i] / ((double)s->nbytes[i] + 1.0) : -1.0;
    }
    PLB_TRY(plb_loads_sorted(&order, self->until, s->n_objects, PLB_DESCENDING, err));
    for (int64_t k = 0; k < s->n_objects; k++) {
        const int32_t i = order.item[k].id, r = s->rank[i];
        left[r] += self->rank[i] == r ? 0.0 : (double)s->nbytes[i];
        self->until[i] = left[r];
    }
out:
    plb_loads_free(&order);
    PLB_FREE(time, left);
    return ret;
}

/* Whether the next iteration is not too long, and computes while `bytes` leave a rank. */
static bool is_short(const plb_decider_t *self, double max, double bytes, double per_byte)
{
    const double most = 1.0 + self->opt.move_at_most;
    return max + per_byte * bytes <= most * self->longest && self->per_byte * bytes <= most * max;
}

/* Make the largest part with which the next iteration is short.  Bisect between *low bytes (the
 * least to move, in any case) and `high` bytes, to within PLB_NOISE.  *good: whether the part
 * keeps the memory limits. */
static int largest_part(const plb_decider_t *decider, slices_t *self, double *low, double high,
                        double per_byte, bool *good, plb_err_t *err)
{
    enum { HALVINGS = 7 }; /* 2^-7 is about PLB_NOISE */
    const plb_snapshot_t *s = &self->input->snapshot;
    for (int k = 0; k <= HALVINGS + 1; k++) {
        const bool ends = k == 0 || k > HALVINGS;
        const double bytes = ends ? *low : 0.5 * (*low + high);
        double full, leave = 0.0;
        for (int64_t i = 0; i < s->n_objects; i++) {
            const bool moves = self->until[i] <= bytes;
            self->part[i] = moves ? self->rank[i] : s->rank[i];
            leave = moves ? fmax(leave, self->until[i]) : leave;
        }
        PLB_PASS(plb_snapshot_metrics(&self->input->phases, self->part, &self->metrics, err));
        PLB_PASS(plb_snapshot_full(s, self->part, &full, err));
        *good = !(full > 1.0);
        const bool fits = *good && is_short(decider, self->metrics.max, leave, per_byte);
        *low = fits ? bytes : *low;
        high = fits || ends ? high : bytes;
    }
    return PLB_OK;
}

/* Make the moves that are left of an LB step; none of them if objects came or went since then. */
static int resume(const plb_decider_t *self, const plb_snapshot_t *s, int32_t *rank,
                  plb_placing_t *out, plb_err_t *err)
{
    const int64_t n = s->n_objects;
    const bool same =
        n == self->n_target && memcmp(s->key, self->target_key, (size_t)n * sizeof *s->key) == 0;
    answer_t answer = {.rank = rank};
    for (int64_t i = 0; i < n; i++) {
        rank[i] = same && plb_may_migrate(s, i) ? self->target[i] : s->rank[i];
    }
    PLB_PASS(measure(self, s, &answer, err));
    *out = answer.figures;
    out->placed_by = self->chosen;
    return PLB_OK;
}

/* If the next iteration, in which the objects move, would be too long (opt.move_at_most): keep
 * only the most useful moves.  At least one object of each rank moves, and moving takes no less
 * time than an LB step in which nothing moves. */
static int slice(plb_decider_t *self, const input_t *input, int32_t *rank, plb_placing_t *out,
                 plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *s = &input->snapshot;
    plb_cycle_costs_t costs;
    plb_metrics_t before, after;
    slices_t slices = {.input = input, .rank = rank};
    double bytes, part = 0.0;
    bool good = false;
    out->moves_left = 0.0;
    PLB_TRY(price_moves(self, s, &costs, err));
    PLB_TRY(plb_cycle_bytes(s, rank, &bytes, err));
    PLB_TRY(plb_snapshot_metrics(&input->phases, NULL, &before, err));
    PLB_TRY(plb_snapshot_metrics(&input->phases, rank, &after, err));
    self->per_byte = self->felt_bytes > 0.0 ? self->per_byte : costs.per_byte;
    self->longest = self->goes_on ? self->longest : fmax(before.max, self->seen.max);
    for (int64_t i = 0; i < s->n_objects && bytes > 0.0; i++) {
        part = fmax(part, rank[i] == s->rank[i] ? 0.0 : (double)s->nbytes[i]);
    }
    part = fmax(part, costs.step / costs.per_byte);
    out->felt = costs.per_byte * bytes;
    /* if even one slice takes longer than an iteration, slices would only take longer in total */
    if (s->key == NULL || costs.per_byte * part > self->longest || part >= bytes ||
        is_short(self, after.max, bytes, costs.per_byte)) {
        return ret;
    }
    PLB_NEW_EACH(s->n_objects, slices.until, slices.part);
    PLB_TRY(order_moves(&slices, err));
    PLB_TRY(largest_part(self, &slices, &part, bytes, costs.per_byte, &good, err));
    if (good) {
        const size_t n = (size_t)s->n_objects;
        self->n_target = 0;
        PLB_RENEW(self->target, n);
        PLB_RENEW(self->target_key, n);
        memcpy(self->target, rank, n * sizeof *rank);
        memcpy(self->target_key, s->key, n * sizeof *s->key);
        self->n_target = s->n_objects;
        out->felt = costs.per_byte * part;
        out->present = isnan(out->present) ? out->predicted_with_messages : out->present;
        tell_after(&slices.metrics, out);
    }
    for (int64_t i = 0; good && i < s->n_objects; i++) {
        out->moves_left += rank[i] == slices.part[i] ? 0.0 : 1.0;
        rank[i] = slices.part[i];
    }
out:
    PLB_FREE(slices.until, slices.part);
    return ret;
}

static int check_ranks(const plb_decider_t *self, const plb_database_t *db, plb_err_t *err)
{
    PLB_FAIL_IF(db->snapshot.n_ranks != self->opt.n_ranks, err, PLB_ERR_VALUE,
                "the snapshot has %d ranks: expected %d", (int)db->snapshot.n_ranks,
                (int)self->opt.n_ranks);
    return PLB_OK;
}

/* Write the speeds to out[n]; zeros if `speed` is NULL.  given: the program gives the speeds, in
 * any unit; scale them to a geometric mean of 1, like learned speeds. */
static void tell_speeds(const double *speed, int32_t n, bool given, double *out)
{
    double sum = 0.0;
    for (int32_t r = 0; given && speed != NULL && r < n; r++) {
        sum += log(speed[r]);
    }
    const double scale = exp(-sum / (double)n);
    for (int32_t r = 0; r < n; r++) {
        out[r] = speed == NULL ? 0.0 : scale * speed[r];
    }
}

int plb_decider_place(plb_decider_t *self, const plb_database_t *db, int32_t *rank, double *speed,
                      plb_placing_t *out, plb_err_t *err)
{
    PLB_FAIL_IF(self->phase != PLB_DECIDER_PLACES, err, PLB_ERR_STATE,
                "a placement was asked for, but no LB step has begun");
    PLB_PASS(check_ranks(self, db, err));
    input_t input;
    const plb_strategy_t *chosen = &self->candidates[self->chosen].strategy;
    const bool in_rounds = plb_decider_in_rounds(self, self->chosen);
    int ret = PLB_OK;
    PLB_TRY(prepare(self, db, chosen->looks_at, in_rounds, &input, err));
    ret = self->goes_on ? resume(self, &input.snapshot, rank, out, err)
                        : answer_of(self, &input, rank, out, err);
    if (ret == PLB_ERR_INFEASIBLE && is_limited(&input.snapshot)) {
        PLB_TRY(raise_limits(&input, err));
        ret = answer_of(self, &input, rank, out, err);
    }
    PLB_TRY(ret);
    const int32_t which = (int32_t)out->placed_by;
    const plb_strategy_t *by = &self->candidates[which].strategy;
    if (!self->goes_on && self->opt.selects && !(by->looks_at & PLB_LOOKS_COMM) && !in_rounds &&
        input.speed == NULL && db->drift != NULL &&
        (db->snapshot.n_components == 1 || !by->takes_phases)) {
        plb_cycle_costs_t costs;
        PLB_TRY(costs_of(self, &input.snapshot, db->drift, &costs, err));
        PLB_TRY(look_ahead(self, which, &costs, rank, out, err));
    }
    if (db->snapshot.n_components > 1 && !in_rounds) {
        PLB_TRY(place_phases(self, &input, rank, out, err));
    }
    if (self->opt.move_at_most > 0.0 && !in_rounds) {
        PLB_TRY(slice(self, &input, rank, out, err));
    }
    PLB_TRY(plb_snapshot_full(&db->snapshot, rank, &out->memory_full, err));
    /* in a run with a distributed strategy, no rank would know these values */
    if (!in_rounds) {
        measure_heaviest(&input.snapshot, out);
        PLB_TRY(plb_cycle_bytes(&db->snapshot, rank, &self->most_bytes, err));
    }
    tell_speeds(input.speed != NULL || in_rounds ? input.speed : db->snapshot.speed,
                self->opt.n_ranks, input.speed == NULL, speed);
out:
    free_input(&input);
    return ret;
}

int plb_decider_begin(plb_decider_t *self, const plb_database_t *db, plb_err_t *err)
{
    int ret = PLB_OK;
    input_t input;
    const plb_candidate_strategy_t *c = self->candidates;
    const plb_opts_t opts = {c->params, self->opt.seed, true, .begins = true};
    PLB_FAIL_IF(!self->late, err, PLB_ERR_STATE,
                "plb_decider_begin was called, but not asked for");
    PLB_PASS(check_ranks(self, db, err));
    PLB_TRY(prepare(self, db, c->strategy.looks_at, false, &input, err));
    PLB_TRY(c->strategy.run(&c->strategy, &input.phases, &opts, NULL, err));
out:
    free_input(&input);
    return ret;
}

/* ---- a preview ------------------------------------------------------------------------------ */

/* BestFitLB makes the new placement, because it is fast and balances well; VectorLB if objects
 * have phases. */
static int would_save(const plb_snapshot_t *s, double stretch, double *gain, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *rank = NULL;
    plb_metrics_t before, after;
    PLB_NEW(rank, s->n_objects);
    PLB_TRY(plb_strategy_place(s->n_components == 1 ? &plb_strategy_bestfit : &plb_strategy_vector,
                               s, NULL, rank, err));
    PLB_TRY(plb_snapshot_metrics(s, NULL, &before, err));
    PLB_TRY(plb_snapshot_metrics(s, rank, &after, err));
    *gain = fmax(before.max, stretch * before.mean) - fmax(after.max, stretch * after.mean);
out:
    plb_free(rank);
    return ret;
}

int plb_decider_preview(plb_decider_t *self, const plb_database_t *db, double *gain,
                        plb_err_t *err)
{
    input_t input;
    int ret = PLB_OK;
    *gain = 0.0;
    PLB_FAIL_IF(self->phase != PLB_DECIDER_PREVIEWS, err, PLB_ERR_STATE,
                "plb_decider_preview was called, but not asked for");
    PLB_PASS(check_ranks(self, db, err));
    PLB_TRY(prepare(self, db, PLB_LOOKS_SPEED, false, &input, err));
    /* More than noise or drift.  tuned: ratio; with 2, six runs in which a rank becomes 2.8 times
     * slower (tests/measure) end at 1.160 of the bound, not below 1.15 */
    const bool is_void = self->promise.level > 1.5 * self->promise.predicted;
    if (input.speed != NULL || input.phase_speed != NULL || is_void) {
        ret = would_save(&input.phases, plb_decider_stretch(self), gain, err);
        if (ret == PLB_ERR_INFEASIBLE && is_limited(&input.snapshot)) {
            PLB_TRY(raise_limits(&input, err));
            ret = would_save(&input.phases, plb_decider_stretch(self), gain, err);
        }
    }
out:
    free_input(&input);
    return ret;
}
