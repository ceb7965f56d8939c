/* The part of the decider that selects the strategy of an LB step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "decide/decider.h"

/* Beyond these sizes, the work on rank 0 takes too large a part of an LB step, and a distributed
 * strategy is used. */
/* objects.  Gathering, sorting and placing them takes rank 0 about 0.2 s, rounds of GossipLB take
 * 6 ms on 1,000 ranks; at the same time, GossipLB leaves up to 1 % more imbalance, which loses as
 * much in 100 iterations of 0.2 s (benchmarks/scale.py, BestFitLB and GossipLB). */
static const int64_t MOST_OBJECTS = 1000000;
/* bytes of the load database.  Rank 0 holds 256 bytes for each object, and receives 40 for each
 * message between ranks: 1 GB takes 0.1 s at 10 GB/s (benchmarks/scale.py, memory of rank 0). */
static const double MOST_BYTES = 1e9;
enum { OBJECT_BYTES = 256, MESSAGE_BYTES = 40 };

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

/* Use a distributed strategy instead of a central one if the load database is too large. */
static void pass_over_root(plb_decider_t *self, plb_kind_t kind)
{
    const int32_t other = in_rounds(self, kind), chosen = self->chosen;
    const int64_t n = self->n_objects;
    const double bytes = (double)n * OBJECT_BYTES + (double)self->seen.messages * MESSAGE_BYTES;
    const double most = self->limit >= 0 ? fmin((double)self->limit, MOST_BYTES) : MOST_BYTES;
    if (other < 0 || n == 0 || self->opt.n_ranks == 1 || (n <= MOST_OBJECTS && bytes <= most)) {
        return;
    }
    const size_t at = strlen(self->next.why);
    snprintf(self->next.why + at, sizeof self->next.why - at,
             "; %s instead of %s: the load database of %lld objects and %.3g MB is too large for "
             "rank 0",
             self->candidates[other].strategy.name, self->candidates[chosen].strategy.name,
             (long long)n, 1e-6 * bytes);
    self->chosen = other;
    self->instead = -1;
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
