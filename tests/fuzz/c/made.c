#include "made.h"

#include <string.h>

static void draw_params(feed_t *feed, const plb_param_t *table, int n, double *out)
{
    for (int k = 0; k < n; k++) {
        out[k] = feed_param(feed, table[k].fallback, table[k].least, table[k].most);
    }
}

int made_init(made_t *self, feed_t *feed, int32_t n_ranks, plb_err_t *err)
{
    double params[MADE_PARAMS];
    int n_kinds = 0, n = 0;
    memset(self, 0, sizeof *self);
    while (plb_triggers[n_kinds] != NULL) {
        n_kinds++;
    }
    const plb_trigger_kind_t *kind = plb_triggers[feed_below(feed, (uint32_t)n_kinds)];
    MUST(kind->n_params <= MADE_PARAMS);
    draw_params(feed, kind->params, kind->n_params, params);
    draw_params(feed, plb_selection_params, PLB_N_SELECTION, self->selection);
    draw_params(feed, plb_ledger_params, PLB_N_LEDGER, self->ledger);
    const bool selects = feed_bool(feed);
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL && (selects || n == 0); s++) {
        if ((*s)->library == NULL) {
            MUST(n < MADE_CANDIDATES && (*s)->n_params <= MADE_PARAMS);
            draw_params(feed, (*s)->params, (*s)->n_params, self->params[n]);
            self->candidates[n] = (plb_candidate_strategy_t){**s, self->params[n]};
            n++;
        }
    }
    const uint8_t how = self->how = feed_byte(feed);
    const plb_decider_options_t opt = {
        .n_ranks = n_ranks,
        .candidates = self->candidates,
        .n = n,
        .selects = selects,
        .selection = self->selection,
        .ledger = self->ledger,
        .gives_up = how & 1,
        .learns = how & 2,
        .watches = how & 4,
        .network = {how & 8 ? 1e-5 : 0.0, how & 8 ? 1e-9 : 0.0},
        .keep = how & 64 ? 0 : 8,
    };
    PLB_PASS(plb_trigger_init(&self->trigger, kind, params, err));
    return plb_decider_init(&self->decider, &opt, &self->trigger, err);
}

void made_free(made_t *self)
{
    plb_decider_free(&self->decider);
    plb_trigger_free(&self->trigger);
}
