#include "lib/internal.h"

#include <math.h>

#include "base/mem.h"
#include "decide/advisor.h"

enum { MOST_RECEIPTS = 4096 }; /* a run without a record keeps at most this many */

/* The strategies from which a decider chooses. */
typedef struct candidates {
    plb_candidate_strategy_t *list; /* [n] owned */
    int32_t n;
    double *params; /* owned: the parameters of all strategies in the list, one after the other */
} candidates_t;

/* Count the strategies from which "auto" chooses, and list them in `out`, unless it is NULL.
 * *n_params: the number of their parameters.  (Python's "auto" also chooses from distributed
 * strategies, and from those of installed libraries.) */
static int32_t count(const plb_strategy_t **out, int64_t *n_params)
{
    int32_t n = 0;
    *n_params = 0;
    for (const plb_strategy_t *const *s = plb_strategies; *s != NULL; s++) {
        if (plb_registered_is_selectable(*s)) {
            *n_params += (*s)->n_params;
            if (out != NULL) {
                out[n] = *s;
            }
            n++;
        }
    }
    return n;
}

static int list_all(candidates_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_strategy_t **all = NULL;
    int64_t n_params;
    self->n = count(NULL, &n_params);
    PLB_NEW(all, self->n);
    PLB_NEW(self->list, self->n);
    PLB_NEW(self->params, n_params);
    (void)count(all, &n_params);
    double *at = self->params;
    for (int32_t i = 0; i < self->n; i++) {
        self->list[i] = (plb_candidate_strategy_t){*all[i], at};
        for (int k = 0; k < all[i]->n_params; k++) {
            *at++ = all[i]->params[k].fallback;
        }
    }
out:
    PLB_FREE(all);
    return ret;
}

static int list_one(candidates_t *self, const plb_strategy_t *strategy, const double *params,
                    plb_err_t *err)
{
    self->n = 1;
    PLB_PASS_NEW(self->list, 1);
    self->list[0] = (plb_candidate_strategy_t){*strategy, params};
    return PLB_OK;
}

/* List the strategies of the settings; without cells, only the program's own redistribution. */
static int list(candidates_t *self, const plb_settings_t *s, bool with_cells, plb_err_t *err)
{
    return !with_cells           ? list_one(self, &plb_own_strategy, NULL, err)
           : s->strategy != NULL ? list_one(self, s->strategy, s->strategy_params, err)
                                 : list_all(self, err);
}

int plb_lib_decider_init(plb_decider_t *self, plb_trigger_t *trigger, const plb_settings_t *s,
                         bool with_cells, int32_t n_ranks, plb_err_t *err)
{
    int ret = PLB_OK;
    double ledger[PLB_N_LEDGER], selection[PLB_N_SELECTION];
    candidates_t among = {0};
    const bool selects = with_cells && s->strategy == NULL;
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        ledger[i] = plb_ledger_params[i].fallback;
    }
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        selection[i] = selects ? s->strategy_params[i] : plb_selection_params[i].fallback;
    }
    PLB_TRY(list(&among, s, with_cells, err));
    const plb_decider_options_t opt = {
        .n_ranks = n_ranks,
        .candidates = among.list,
        .n = among.n,
        .selects = selects,
        .selection = selection,
        .ledger = ledger,
        .gives_up = plb_settings_gives_up(s),
        .learns = with_cells && plb_settings_learns(s),
        .watches = with_cells && plb_settings_watches(s),
        .network = s->network,
        .keep = s->record == NULL ? MOST_RECEIPTS : 0,
        .seed = (uint64_t)s->seed,
    };
    PLB_TRY(plb_trigger_init(trigger, s->trigger, s->trigger_params, err));
    PLB_TRY(plb_decider_init(self, &opt, trigger, err));
    ret = s->steps < 0 ? PLB_OK : plb_decider_expect(self, s->steps, NAN, NAN, err);
out:
    PLB_FREE(among.list, among.params);
    return ret;
}
