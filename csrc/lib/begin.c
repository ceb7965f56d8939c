/* The beginning of an advisor: makes the settings final, and makes the decider. */
#include <math.h>

#include "base/mem.h"
#include "decide/advisor.h"
#include "lib/internal.h"

/* ---- sharing ----------------------------------------------------------------------------------- */

typedef struct share {
    plb_cores_t cores;
    int64_t lag;
} share_t;

typedef struct answer {
    plb_crowd_t crowd;
    int64_t lag;
} answer_t;

static int compare(const share_t *all, int32_t p, answer_t *out, bool *capped, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_cores_t *cores = NULL;
    PLB_NEW(cores, p);
    for (int32_t r = 0; r < p; r++) {
        cores[r] = all[r].cores;
        out->lag = all[r].lag > out->lag ? all[r].lag : out->lag;
    }
    for (int32_t r = 0; r < p; r++) {
        capped[r] = plb_cores_capped(cores, p, r);
    }
    ret = plb_cores_crowd(cores, p, &out->crowd, err);
out:
    plb_free(cores);
    return ret;
}

int plb_lib_share_cores(plb_transport_t *ranks, plb_crowd_t *crowd, bool *capped, int64_t *lag,
                        plb_err_t *err)
{
    char *all = NULL;
    share_t mine = {.lag = *lag};
    answer_t answer = {.lag = 0};
    plb_cores_here(&mine.cores);
    bool *of_rank = plb_calloc((size_t)ranks->size, sizeof *of_rank);
    int ret = of_rank == NULL ? PLB_NO_MEMORY(of_rank, ranks->size) : PLB_OK;
    PLB_TRY(ranks->gather(ranks, &mine, ret == PLB_OK ? (int64_t)sizeof mine : ret, &all, err));
    if (ranks->rank == 0) {
        ret = compare((const share_t *)(const void *)all, ranks->size, &answer, of_rank, err);
    }
    PLB_TRY(ranks->agree(ranks, ret, err));
    PLB_TRY(ranks->bcast(ranks, &answer, sizeof answer, err));
    PLB_TRY(ranks->bcast(ranks, of_rank, ranks->size * (int64_t)sizeof *of_rank, err));
    *crowd = answer.crowd;
    *lag = answer.lag;
    *capped = of_rank[ranks->rank];
out:
    PLB_FREE(of_rank, all);
    return ret;
}

/* ---- decider ----------------------------------------------------------------------------------- */

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

plb_lib_advisor_t *plb_lib_advisor_of(const pylb_advisor *lb, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)lb, PLB_HANDLE_ADVISOR, err);
}

static int make_decider(plb_lib_advisor_t *self, plb_err_t *err)
{
    PLB_PASS(plb_lib_decider_init(&self->decider, &self->trigger, &self->settings,
                                  self->with_cells, self->ranks->size, err));
    self->asks = plb_registered_is_own(self->settings.trigger);
    plb_advisor_init(&self->core, &self->decider, self->with_cells);
    return PLB_OK;
}

int plb_lib_advisor_ready(plb_lib_advisor_t *self, plb_err_t *err)
{
    if (self->ready) {
        return PLB_OK;
    }
    PLB_PASS(plb_settings_environment(&self->settings, err));
    self->clock = self->settings.clock;
    self->ready = true;
    return PLB_OK;
}

/* What needs no other rank. */
static int prepare(plb_lib_advisor_t *self, plb_err_t *err)
{
    PLB_PASS(plb_lib_advisor_ready(self, err));
    PLB_PASS(plb_settings_close(&self->settings, err));
    PLB_PASS(make_decider(self, err));
    self->fingerprint = plb_settings_fingerprint(&self->settings) ^ (self->with_cells ? 1 : 0);
    return PLB_OK;
}

/* The collective part runs even after an error, so that no other rank waits for this one. */
int plb_lib_advisor_begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    self->begun = true;
    self->with_cells = with_cells;
    const int ret = prepare(self, err);
    int64_t lag = self->settings.lag;
    bool capped = false;
    PLB_PASS(plb_lib_share_cores(self->ranks, &self->crowd, &capped, &lag, err));
    if (capped && self->clock == PLB_CLOCK_AUTO) {
        self->clock = PLB_CLOCK_WALL;
    }
    if (plb_lib_loads_wait(self) && self->crowd.n_ranks == self->ranks->size) {
        self->core.share = fmin(self->crowd.n_cores / self->crowd.n_ranks, 1.0);
    }
    PLB_PASS(self->ranks->reserve(self->ranks, (int)lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, (int32_t)lag, err));
    return ret;
}
