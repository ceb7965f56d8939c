/* The part of the decider that selects the strategy of an LB step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "decide/decider.h"

/* Iterations that are expected after a first LB step if the period is not known (ours). */
static const double FIRST_CYCLE = 100.0;

/* The first refinement of kind c->used; -1: none, or the choice is a refinement or ran before. */
static int32_t stand_in(const plb_decider_t *self, const plb_choice_t *c)
{
    if (c->family != PLB_COMPREHENSIVE || self->selector.records[c->candidate].n > 0) {
        return -1;
    }
    for (int32_t i = 0; i < self->opt.n; i++) {
        const plb_candidate_t *l = &self->traits[i];
        const bool talks = (l->looks_at & PLB_LOOKS_COMM) != 0;
        if (l->looks_at != 0 && l->family == PLB_REFINEMENT &&
            talks == (c->used == PLB_COMMUNICATION)) {
            return i;
        }
    }
    return -1;
}

static void say_why(plb_decider_t *self, const plb_choice_t *c)
{
    char other[96] = "";
    if (c->used != c->kind) {
        snprintf(other, sizeof other, "no %s strategy is registered, so a %s one is used; ",
                 plb_kind_name(c->kind), plb_kind_name(c->used));
    }
    snprintf(self->next.why, sizeof self->next.why, "%s; %s%s", plb_need_words(c->need), other,
             plb_lead_words(c->lead));
}

bool plb_decider_in_rounds(const plb_decider_t *self, int32_t i)
{
    return self->candidates[i].strategy.agent != NULL;
}

/* The first distributed candidate of this kind; -1: there is none. */
static int32_t in_rounds(const plb_decider_t *self, plb_kind_t kind)
{
    for (int32_t i = 0; i < self->opt.n; i++) {
        const bool talks = (self->candidates[i].strategy.looks_at & PLB_LOOKS_COMM) != 0;
        if (plb_decider_in_rounds(self, i) && talks == (kind == PLB_COMMUNICATION)) {
            return i;
        }
    }
    return -1;
}

/* The smallest of the central strategies' last predictions of max/mean; NAN: none has run. */
static double left_by_central(const plb_decider_t *self)
{
    double least = NAN;
    for (int32_t i = 0; i < self->opt.n; i++) {
        least = plb_decider_in_rounds(self, i) ? least : fmin(least, self->left[i]);
    }
    return least;
}

/* The expected iterations until the next LB step: the ideal period, or, if it is not known, the
 * iterations since the last LB step (at first: FIRST_CYCLE or more); at most those that remain. */
static double until_next(const plb_decider_t *self)
{
    const double tau = self->trigger->verdict.tau;
    const double since = self->last < 0 ? fmax(self->n_since, FIRST_CYCLE) : self->n_since;
    return fmin(isfinite(tau) ? tau : since, self->next.left);
}

static void pass_over_root(plb_decider_t *self, plb_kind_t kind)
{
    const int32_t other = in_rounds(self, kind), chosen = self->chosen;
    if (other < 0 || self->n_objects == 0 || self->opt.n_ranks == 1) {
        return;
    }
    const plb_central_answer_t answer =
        plb_central_compare(&self->central, &(plb_central_case_t){
                                                .n_ranks = self->opt.n_ranks,
                                                .n_objects = self->n_objects,
                                                .messages = self->seen.messages,
                                                .network = self->opt.network,
                                                .mean = self->seen.mean,
                                                .left = left_by_central(self),
                                                .left_in_rounds = self->left[other],
                                                .iterations = until_next(self),
                                            });
    const size_t at = strlen(self->next.why);
    plb_central_say(&answer, self->candidates[chosen].strategy.name,
                    self->candidates[other].strategy.name, self->next.why + at,
                    sizeof self->next.why - at);
    if (answer.in_rounds) {
        self->chosen = other;
        self->instead = -1;
    }
}

int plb_decider_select(plb_decider_t *self, plb_err_t *err)
{
    const plb_iteration_t *it = &self->seen;
    if (self->started) {
        const plb_workload_t w = {
            .max = fmax(it->max, it->mean), /* the mean may be rounded up */
            .mean = it->mean,
            .total = it->total,
            .utilization = it->utilization,
            .messages = it->messages,
            .bytes = it->bytes,
        };
        PLB_PASS(plb_selector_observe(&self->selector, &w, err));
    }
    const plb_choice_t *c = &self->selector.choice;
    self->chosen = c->candidate;
    self->instead = stand_in(self, c);
    say_why(self, c);
    pass_over_root(self, c->used);
    return PLB_OK;
}
