#include "lib/candidates.h"

#include <string.h>

#include "base/mem.h"
#include "decide/advisor.h"
#include "lib/registered.h"

/* List the strategies from which "auto" chooses: those of the table that Python's "auto" also
 * uses. */
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

static int list_all(plb_candidates_t *self, plb_err_t *err)
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

static int list_one(plb_candidates_t *self, const plb_strategy_t *strategy, const double *params,
                    plb_err_t *err)
{
    self->n = 1;
    PLB_PASS_NEW(self->list, 1);
    self->list[0] = (plb_candidate_strategy_t){*strategy, params};
    return PLB_OK;
}

int plb_candidates_init(plb_candidates_t *self, const plb_settings_t *settings, bool with_cells,
                        plb_err_t *err)
{
    *self = (plb_candidates_t){0};
    for (int i = 0; i < PLB_N_SELECTION; i++) {
        self->selection[i] = plb_selection_params[i].fallback;
    }
    if (!with_cells) {
        return list_one(self, &plb_own_strategy, NULL, err);
    }
    if (settings->strategy != NULL) {
        return list_one(self, settings->strategy, settings->strategy_params, err);
    }
    memcpy(self->selection, settings->strategy_params, sizeof self->selection);
    return list_all(self, err);
}

void plb_candidates_free(plb_candidates_t *self)
{
    PLB_FREE(self->list, self->params);
    *self = (plb_candidates_t){0};
}
