#include "decide/decider.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

const plb_param_t plb_selection_params[] = {PLB_SELECTION(PLB_PARAM_ROW)};

#define X(name, words) words,
static const char *const need_words[] = {PLB_NEEDS(X)};
static const char *const lead_words[] = {PLB_LEADS(X)};
#undef X
static const char *const kind_names[] = {
    [PLB_COMPUTATION] = "computation", [PLB_COMMUNICATION] = "communication"};

/* ---- candidates ----------------------------------------------------------------------------- */

/* Distributed strategies are not selected here: they are used if there are too many objects. */
static bool selectable(const plb_strategy_t *s)
{
    return s->agent == NULL && (s->looks_at & (PLB_LOOKS_LOAD | PLB_LOOKS_COMM)) != 0;
}

static plb_kind_t kind_of(const plb_strategy_t *s)
{
    return s->looks_at & PLB_LOOKS_COMM ? PLB_COMMUNICATION : PLB_COMPUTATION;
}

static bool belongs(const plb_selector_t *self, int32_t i, plb_kind_t kind, plb_family_t family)
{
    const plb_strategy_t *s = &self->candidates[i].strategy;
    return selectable(s) && kind_of(s) == kind && s->family == family;
}

int32_t plb_selector_next(const plb_selector_t *self, int32_t i, plb_kind_t kind,
                          plb_family_t family)
{
    for (; i < self->n; i++) {
        if (belongs(self, i, kind, family)) {
            return i;
        }
    }
    return -1;
}

/* The best candidate that has run, by rule 5 of decider.h; -1: there is none. */
static int32_t best(const plb_selector_t *self, plb_kind_t kind, plb_family_t family)
{
    int32_t found = -1;
    for (int32_t i = 0; i < self->n; i++) {
        const plb_record_t *a = &self->records[i], *b = &self->records[found < 0 ? i : found];
        if (belongs(self, i, kind, family) && a->n > 0 &&
            (found < 0 || a->after < b->after || (a->after == b->after && a->cost < b->cost))) {
            found = i;
        }
    }
    return found;
}

/* The candidate by rule 5. */
static int32_t pick(const plb_selector_t *self, plb_kind_t kind, plb_family_t family)
{
    const int32_t tried = best(self, kind, family);
    const bool good =
        tried >= 0 && self->records[tried].after <= self->params[PLB_SELECTION_imbalance];
    for (int32_t i = 0; i < self->n && !good; i++) {
        if (belongs(self, i, kind, family) && self->records[i].n == 0) {
            return i;
        }
    }
    return tried;
}

/* ---- the choice ----------------------------------------------------------------------------- */

/* Choose the family by rules 2 to 4 of decider.h, if there are candidates of both families. */
static plb_lead_t lead(const plb_selector_t *self, plb_kind_t kind)
{
    const int32_t from_scratch = best(self, kind, PLB_COMPREHENSIVE);
    const int32_t refine = best(self, kind, PLB_REFINEMENT);
    if (from_scratch < 0) {
        return PLB_LEAD_FIRST;
    }
    if (refine < 0) {
        return PLB_LEAD_NEXT;
    }
    const double *params = self->params;
    const plb_record_t *c = &self->records[from_scratch], *r = &self->records[refine];
    const bool tired = (double)self->in_row[kind] >= params[PLB_SELECTION_again];
    const bool poor = r->after > params[PLB_SELECTION_tolerance] * c->after;
    const bool dear = r->cost > params[PLB_SELECTION_dearer] * c->cost && r->after >= c->after;
    if (self->latest[kind] == PLB_COMPREHENSIVE && tired && (poor || dear)) {
        return PLB_LEAD_REFINE_AGAIN;
    }
    if (poor || dear) {
        return poor ? PLB_LEAD_POOR : PLB_LEAD_DEAR;
    }
    if (self->latest[kind] == PLB_REFINEMENT && tired &&
        r->after > params[PLB_SELECTION_imbalance]) {
        return PLB_LEAD_COMPREHENSIVE_AGAIN;
    }
    return PLB_LEAD_COMPARABLE;
}

static void choose(plb_selector_t *self)
{
    plb_choice_t *out = &self->choice;
    const plb_kind_t other = out->kind == PLB_COMMUNICATION ? PLB_COMPUTATION : PLB_COMMUNICATION;
    const bool any = plb_selector_next(self, 0, out->kind, PLB_COMPREHENSIVE) >= 0 ||
                     plb_selector_next(self, 0, out->kind, PLB_REFINEMENT) >= 0;
    out->used = any ? out->kind : other;
    const bool refines = plb_selector_next(self, 0, out->used, PLB_REFINEMENT) >= 0;
    if (refines && plb_selector_next(self, 0, out->used, PLB_COMPREHENSIVE) >= 0) {
        out->lead = lead(self, out->used);
        const bool refine = out->lead == PLB_LEAD_NEXT || out->lead == PLB_LEAD_COMPARABLE ||
                            out->lead == PLB_LEAD_REFINE_AGAIN;
        out->family = refine ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    } else {
        out->lead = PLB_LEAD_ONLY;
        out->family = refines ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    }
    out->candidate = pick(self, out->used, out->family);
}

/* ---- iterations and LB steps ---------------------------------------------------------------- */

int plb_selector_init(plb_selector_t *self, const plb_candidate_strategy_t *candidates, int32_t n,
                      plb_network_t network, const double *params, plb_err_t *err)
{
    *self = (plb_selector_t){.candidates = candidates, .n = n, .network = network};
    bool any = false;
    for (int32_t i = 0; i < n; i++) {
        any = any || selectable(&candidates[i].strategy);
    }
    PLB_FAIL_IF(!any, err, PLB_ERR_VALUE,
                "none of %d strategies looks at load or communication: expected one or more",
                (int)n);
    PLB_PASS(plb_params_check(plb_selection_params, PLB_N_SELECTION, params, err));
    memcpy(self->params, params, sizeof self->params);
    PLB_PASS_NEW0(self->records, n);
    choose(self);
    return PLB_OK;
}

void plb_selector_observe(plb_selector_t *self, const plb_iteration_t *it)
{
    const double *params = self->params;
    const double seconds =
        self->network.alpha * (double)it->messages + self->network.beta * (double)it->bytes;
    const bool intensive =
        seconds > 0.0 && seconds >= params[PLB_SELECTION_communication] * it->total;
    self->choice.kind = intensive ? PLB_COMMUNICATION : PLB_COMPUTATION;
    if (it->max > params[PLB_SELECTION_imbalance] * it->mean) {
        self->choice.need = intensive ? PLB_NEED_IMBALANCED_COMMUNICATION : PLB_NEED_IMBALANCED;
    } else if (it->utilization >= params[PLB_SELECTION_utilization]) {
        self->choice.need = PLB_NEED_BALANCED;
    } else {
        self->choice.need = intensive ? PLB_NEED_IDLE_COMMUNICATION : PLB_NEED_IDLE;
    }
    choose(self);
}

void plb_selector_balanced(plb_selector_t *self, int32_t candidate, double after, double cost)
{
    const plb_strategy_t *s = &self->candidates[candidate].strategy;
    plb_record_t *record = &self->records[candidate];
    const plb_kind_t kind = kind_of(s);
    self->in_row[kind] = self->latest[kind] == s->family ? self->in_row[kind] + 1 : 1;
    self->latest[kind] = s->family;
    record->after = after;
    record->cost = record->n > 0 ? 0.5 * (record->cost + cost) : cost;
    record->n++;
    choose(self);
}

/* ---- the decider's choice ------------------------------------------------------------------- */

/* With a larger load database, the work on rank 0 takes too large a part of an LB step, and a
 * distributed strategy is used.  Rank 0 holds OBJECT_BYTES for each object, and receives
 * MESSAGE_BYTES for each message between ranks (benchmarks/scale.py, memory of rank 0).
 * tuned: bytes, those of 10^6 objects; gathering, sorting and placing them takes rank 0 about
 * 0.2 s, rounds of GossipLB take 6 ms on 1,000 ranks; at the same time, GossipLB leaves up to 1 %
 * more imbalance, which loses as much in 100 iterations of 0.2 s (benchmarks/scale.py) */
static const double MOST_BYTES = 256e6;
enum { OBJECT_BYTES = 256, MESSAGE_BYTES = 40 };

void plb_decider_say(plb_decider_t *self, const char *fmt, ...)
{
    char *why = self->next.why;
    const size_t at = strlen(why);
    va_list args;
    va_start(args, fmt);
    vsnprintf(why + at, sizeof self->next.why - at, fmt, args);
    va_end(args);
}

/* Use a distributed strategy instead of a central one if the load database is too large. */
static void pass_over_root(plb_decider_t *self, plb_kind_t kind)
{
    const unsigned comm = kind == PLB_COMMUNICATION ? PLB_LOOKS_COMM : 0;
    const int64_t n = self->n_objects;
    int32_t other = 0; /* the first distributed strategy of this kind */
    while (other < self->opt.n &&
           !(plb_decider_in_rounds(self, other) &&
             (self->candidates[other].strategy.looks_at & PLB_LOOKS_COMM) == comm)) {
        other++;
    }
    const double bytes = (double)n * OBJECT_BYTES + (double)self->seen.messages * MESSAGE_BYTES;
    const double most = self->limit >= 0 ? fmin((double)self->limit, MOST_BYTES) : MOST_BYTES;
    if (other == self->opt.n || n == 0 || self->opt.n_ranks == 1 || bytes <= most) {
        return;
    }
    plb_decider_say(self,
                    "; %s instead of %s: the load database of %lld objects and %.3g MB is too "
                    "large for rank 0",
                    self->candidates[other].strategy.name,
                    self->candidates[self->chosen].strategy.name, (long long)n, 1e-6 * bytes);
    self->chosen = other;
    self->instead = -1;
}

void plb_decider_select(plb_decider_t *self)
{
    plb_selector_t *selector = &self->selector;
    const plb_choice_t *c = &selector->choice;
    if (self->started) {
        plb_selector_observe(selector, &self->seen);
    }
    self->chosen = c->candidate;
    self->instead = c->family == PLB_COMPREHENSIVE && selector->records[c->candidate].n == 0
                        ? plb_selector_next(selector, 0, c->used, PLB_REFINEMENT)
                        : -1;
    plb_decider_say(self, "%s; ", need_words[c->need]);
    if (c->used != c->kind) {
        plb_decider_say(self, "no %s strategy is registered, so a %s one is used; ",
                        kind_names[c->kind], kind_names[c->used]);
    }
    plb_decider_say(self, "%s", lead_words[c->lead]);
    pass_over_root(self, c->used);
}
