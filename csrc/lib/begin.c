/* The beginning of an advisor: makes the settings final, and makes the decider. */
#include <math.h>

#include "lib/advisor.h"
#include "lib/decider.h"
#include "lib/registered.h"
#include "lib/sharing.h"

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
    if (plb_lib_loads_wait(self) && self->crowd.n_ranks == self->ranks->size) {
        self->core.share = fmin(self->crowd.n_cores / self->crowd.n_ranks, 1.0);
    }
    PLB_PASS(self->ranks->reserve(self->ranks, (int)lag + 2, err));
    PLB_PASS(plb_steps_init(&self->steps, self->ranks->reduction, (int32_t)lag, err));
    return ret;
}
