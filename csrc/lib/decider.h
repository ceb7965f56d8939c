/* The decider of an advisor, with its trigger and the strategies from which it chooses. */
#pragma once

#include "decide/decider.h"
#include "lib/settings.h"

/** Make the decider and the trigger of these settings.  Call this after plb_settings_close.  If
 * `with_cells` is false, the only strategy is the program's own redistribution.  *self and
 * *trigger must be zero before the call; the caller frees both, also after an error. */
int plb_lib_decider_init(plb_decider_t *self, plb_trigger_t *trigger, const plb_settings_t *s,
                         bool with_cells, int32_t n_ranks, plb_err_t *err);
