/* The beginning of an advisor: makes its settings final, and makes its decider. */
#include <math.h>

#include "base/mem.h"
#include "lib/advisor.h"
#include "lib/candidates.h"
#include "lib/registered.h"
#include "lib/sharing.h"

/* Largest number of receipts that a run without a record keeps: the earliest and the most recent
 * ones. */
enum { MOST_RECEIPTS = 4096 };

plb_lib_advisor_t *plb_lib_advisor_of(const pylb_advisor *lb, plb_err_t *err)
{
    return plb_handle_content((const plb_handle_t *)lb, PLB_HANDLE_ADVISOR, err);
}

/* Make the decider of these settings.  If the program passes no cells, the decider's only strategy
 * is the program's own redistribution. */
static int make_decider(plb_lib_advisor_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    double ledger[PLB_N_LEDGER];
    const plb_settings_t *s = &self->settings;
    plb_candidates_t among;
    for (int i = 0; i < PLB_N_LEDGER; i++) {
        ledger[i] = plb_ledger_params[i].fallback;
    }
    PLB_TRY(plb_candidates_init(&among, s, self->with_cells, err));
    const plb_decider_options_t opt = {
        .n_ranks = self->ranks->size,
        .candidates = among.list,
        .n = among.n,
        .selects = self->with_cells && s->strategy == NULL,
        .selection = among.selection,
        .ledger = ledger,
        .gives_up = plb_settings_gives_up(s),
        .learns = self->with_cells && plb_settings_learns(s),
        .watches = self->with_cells && plb_settings_watches(s),
        .network = s->network,
        .keep = s->record == NULL ? MOST_RECEIPTS : 0,
        .seed = (uint64_t)s->seed,
    };
    self->asks = plb_registered_is_own(s->trigger);
    PLB_TRY(plb_trigger_init(&self->trigger, s->trigger, s->trigger_params, err));
    PLB_TRY(plb_decider_init(&self->decider, &opt, &self->trigger, err));
    plb_advisor_init(&self->core, &self->decider, self->with_cells);
    ret = s->steps < 0 ? PLB_OK : plb_decider_expect(&self->decider, s->steps, NAN, NAN, err);
out:
    plb_candidates_free(&among);
    return ret;
}

int plb_lib_advisor_ready(plb_lib_advisor_t *self, plb_err_t *err)
{
    if (self->ready) {
        return PLB_OK;
    }
    self->ready = true;
    PLB_PASS(plb_settings_environment(&self->settings, err));
    self->clock = self->settings.clock;
    return PLB_OK;
}

/* The collective part runs even after an error, so that no other rank waits for this one. */
int plb_lib_advisor_begin(plb_lib_advisor_t *self, bool with_cells, plb_err_t *err)
{
    self->begun = true;
    self->with_cells = with_cells;
    int ret = plb_lib_advisor_ready(self, err);
    PLB_THEN(plb_settings_close(&self->settings, err));
    PLB_THEN(make_decider(self, err));
    if (ret == PLB_OK) {
        self->fingerprint = plb_settings_fingerprint(&self->settings) ^ (with_cells ? 1 : 0);
    }
    int64_t lag = self->settings.lag;
    bool capped = false;
    PLB_PASS(plb_lib_share_cores(self->ranks, &self->crowd, &capped, &lag, err));
    if (capped && self->clock == PLB_CLOCK_AUTO) {
        self->clock = PLB_CLOCK_WALL;
    }
    PLB_PASS(self->ranks->reserve(self->ranks, (int)lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, (int32_t)lag, err));
    return ret;
}
