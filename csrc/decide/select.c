#include "decide/decider.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

const plb_param_t plb_selection_params[] = {PLB_SELECTION(PLB_PARAM_ROW)};

const char *plb_need_words(plb_need_t need)
{
    static const char *const words[] = {
#define X(name, text) text,
        PLB_NEEDS(X)
#undef X
    };
    return words[need];
}

const char *plb_lead_words(plb_lead_t lead)
{
    static const char *const words[] = {
#define X(name, text) text,
        PLB_LEADS(X)
#undef X
    };
    return words[lead];
}

const char *plb_family_name(plb_family_t family)
{
    return family == PLB_REFINEMENT ? "refinement" : "comprehensive";
}

const char *plb_kind_name(plb_kind_t kind)
{
    return kind == PLB_COMMUNICATION ? "communication" : "computation";
}

/* ---- candidates ----------------------------------------------------------------------------- */

static bool selectable(const plb_candidate_t *c)
{
    return (c->looks_at & (PLB_LOOKS_LOAD | PLB_LOOKS_COMM)) != 0;
}

static plb_kind_t kind_of(const plb_candidate_t *c)
{
    return c->looks_at & PLB_LOOKS_COMM ? PLB_COMMUNICATION : PLB_COMPUTATION;
}

static bool belongs(const plb_selector_t *self, int32_t i, plb_kind_t kind, plb_family_t family)
{
    const plb_candidate_t *c = &self->candidates[i];
    return selectable(c) && kind_of(c) == kind && c->family == family;
}

/* The first candidate of this kind and family that has run (!tried: has never run); -1: none. */
static int32_t first(const plb_selector_t *self, plb_kind_t kind, plb_family_t family, bool tried)
{
    for (int32_t i = 0; i < self->n; i++) {
        if (belongs(self, i, kind, family) && (self->records[i].n > 0) == tried) {
            return i;
        }
    }
    return -1;
}

static bool has(const plb_selector_t *self, plb_kind_t kind, plb_family_t family)
{
    return first(self, kind, family, true) >= 0 || first(self, kind, family, false) >= 0;
}

/* The best candidate that has run, by rule 5 of decider.h; -1: there is none. */
static int32_t best(const plb_selector_t *self, plb_kind_t kind, plb_family_t family)
{
    int32_t found = first(self, kind, family, true);
    for (int32_t i = found + 1; found >= 0 && i < self->n; i++) {
        const plb_outcome_t *a = &self->records[i].last, *b = &self->records[found].last;
        if (belongs(self, i, kind, family) && self->records[i].n > 0 &&
            (a->after < b->after || (a->after == b->after && a->cost < b->cost))) {
            found = i;
        }
    }
    return found;
}

static int32_t pick(const plb_selector_t *self, plb_kind_t kind, plb_family_t family)
{
    const int32_t tried = best(self, kind, family);
    if (tried >= 0 && self->records[tried].last.after <= self->params[PLB_SELECTION_imbalance]) {
        return tried;
    }
    const int32_t untried = first(self, kind, family, false);
    return untried >= 0 ? untried : tried;
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
    const plb_outcome_t *c = &self->records[from_scratch].last, *r = &self->records[refine].last;
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

static plb_family_t family_of(plb_lead_t why)
{
    return why == PLB_LEAD_NEXT || why == PLB_LEAD_COMPARABLE || why == PLB_LEAD_REFINE_AGAIN
               ? PLB_REFINEMENT
               : PLB_COMPREHENSIVE;
}

static void choose(plb_selector_t *self)
{
    plb_choice_t *out = &self->choice;
    const plb_kind_t kind = out->kind;
    const plb_kind_t other = kind == PLB_COMMUNICATION ? PLB_COMPUTATION : PLB_COMMUNICATION;
    const bool any = has(self, kind, PLB_COMPREHENSIVE) || has(self, kind, PLB_REFINEMENT);
    out->used = any ? kind : other;
    if (!has(self, out->used, PLB_COMPREHENSIVE) || !has(self, out->used, PLB_REFINEMENT)) {
        out->lead = PLB_LEAD_ONLY;
        out->family = has(self, out->used, PLB_REFINEMENT) ? PLB_REFINEMENT : PLB_COMPREHENSIVE;
    } else {
        out->lead = lead(self, out->used);
        out->family = family_of(out->lead);
    }
    out->candidate = pick(self, out->used, out->family);
}

static plb_need_t need_of(const plb_selector_t *self, const plb_workload_t *w, bool intensive)
{
    if (w->max > self->params[PLB_SELECTION_imbalance] * w->mean) {
        return intensive ? PLB_NEED_IMBALANCED_COMMUNICATION : PLB_NEED_IMBALANCED;
    }
    if (w->utilization >= self->params[PLB_SELECTION_utilization]) {
        return PLB_NEED_BALANCED;
    }
    return intensive ? PLB_NEED_IDLE_COMMUNICATION : PLB_NEED_IDLE;
}

/* ---- iterations and LB steps ---------------------------------------------------------------- */

static int check_candidates(const plb_candidate_t *candidates, int32_t n, plb_err_t *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (selectable(&candidates[i])) {
            return PLB_OK;
        }
    }
    return PLB_FAIL(err, PLB_ERR_VALUE,
                    "none of %d strategies looks at load or communication: expected one or more",
                    (int)n);
}

int plb_selector_init(plb_selector_t *self, const plb_candidate_t *candidates, int32_t n,
                      double alpha, double beta, const double *params, plb_err_t *err)
{
    *self = (plb_selector_t){.n = n, .alpha = alpha, .beta = beta};
    int ret;
    if ((ret = plb_check(PLB_AMOUNT, PLB_FIGURES({"alpha", alpha}, {"beta", beta}), err)) ||
        (ret = plb_params_check(plb_selection_params, PLB_N_SELECTION, params, err)) ||
        (ret = check_candidates(candidates, n, err))) {
        goto out;
    }
    memcpy(self->params, params, sizeof self->params);
    PLB_NEW(self->candidates, n);
    memcpy(self->candidates, candidates, (size_t)n * sizeof *candidates);
    PLB_NEW0(self->records, n);
    self->choice.max_over_mean = self->choice.utilization = 1.0;
    choose(self);
out:
    if (ret != PLB_OK) {
        plb_selector_free(self);
    }
    return ret;
}

void plb_selector_free(plb_selector_t *self)
{
    PLB_FREE(self->candidates, self->records);
    self->candidates = NULL;
    self->records = NULL;
}

static int check_workload(const plb_workload_t *w, plb_err_t *err)
{
    PLB_PASS(plb_check(PLB_SECONDS,
                       PLB_FIGURES(PLB_FIGURE(w, max), PLB_FIGURE(w, mean), PLB_FIGURE(w, total)),
                       err));
    PLB_PASS(
        plb_check(PLB_AMOUNT, PLB_FIGURES(PLB_FIGURE(w, messages), PLB_FIGURE(w, bytes)), err));
    if (w->max <
        w->mean *
            (1.0 - 1e-9)) { /* a margin, because the mean over many ranks may be rounded up */
        return PLB_FAIL(err, PLB_ERR_VALUE, "max is %g: expected at least the mean, %g", w->max,
                        w->mean);
    }
    return plb_check(PLB_FRACTION, PLB_FIGURES(PLB_FIGURE(w, utilization)), err);
}

int plb_selector_observe(plb_selector_t *self, const plb_workload_t *w, plb_err_t *err)
{
    PLB_PASS(check_workload(w, err));
    plb_choice_t *out = &self->choice;
    const double seconds = self->alpha * (double)w->messages + self->beta * (double)w->bytes;
    const bool intensive =
        seconds > 0.0 && seconds >= self->params[PLB_SELECTION_communication] * w->total;
    out->max_over_mean = w->mean > 0.0 ? w->max / w->mean : 1.0;
    out->utilization = w->utilization;
    out->communication_s = seconds;
    out->communication = seconds > 0.0 ? seconds / w->total : 0.0;
    out->kind = intensive ? PLB_COMMUNICATION : PLB_COMPUTATION;
    out->need = need_of(self, w, intensive);
    out->needed = out->need >= PLB_NEED_IDLE_COMMUNICATION;
    choose(self);
    return PLB_OK;
}

static int check_outcome(const plb_outcome_t *o, plb_err_t *err)
{
    PLB_PASS(plb_check(PLB_RATIO, PLB_FIGURES(PLB_FIGURE(o, before), PLB_FIGURE(o, after)), err));
    PLB_PASS(plb_check(PLB_SECONDS, PLB_FIGURES(PLB_FIGURE(o, cost)), err));
    return plb_check(PLB_AMOUNT, PLB_FIGURES(PLB_FIGURE(o, migrations)), err);
}

static void remember(plb_record_t *self, const plb_outcome_t *o)
{
    const double cost = self->n > 0 ? 0.5 * (self->last.cost + o->cost) : o->cost;
    self->last = *o;
    self->last.cost = cost;
    self->n++;
}

int plb_selector_balanced(plb_selector_t *self, int32_t candidate, const plb_outcome_t *outcome,
                          plb_err_t *err)
{
    PLB_FAIL_IF(candidate < 0 || candidate >= self->n, err, PLB_ERR_RANGE,
                "candidate is %d: expected 0 ... %d", (int)candidate, (int)self->n - 1);
    const plb_candidate_t *c = &self->candidates[candidate];
    PLB_FAIL_IF(!selectable(c), err, PLB_ERR_VALUE,
                "candidate is %d: expected one that looks at load or communication",
                (int)candidate);
    PLB_PASS(check_outcome(outcome, err));
    const plb_kind_t kind = kind_of(c);
    self->in_row[kind] = self->latest[kind] == c->family ? self->in_row[kind] + 1 : 1;
    self->latest[kind] = c->family;
    remember(&self->records[candidate], outcome);
    choose(self);
    return PLB_OK;
}
