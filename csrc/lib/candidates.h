/* The strategies among which the decider of an advisor chooses, with their parameters. */
#pragma once

#include "decide/decider.h"
#include "lib/settings.h"

typedef struct plb_candidates {
    plb_candidate_strategy_t *list; /* [n] owned */
    int32_t n;
    double *params; /* owned: the parameters of all strategies in the list, one after the other */
    double selection[PLB_N_SELECTION]; /* parameters of the selection (decide/select.h) */
} plb_candidates_t;

/** List the strategies of the settings.  Call it after plb_settings_close.  with_cells: false: the
 *  only entry is the program's own redistribution; true: strategies of the table.  Free `self`
 * with plb_candidates_free, also after an error. */
int plb_candidates_init(plb_candidates_t *self, const plb_settings_t *settings, bool with_cells,
                        plb_err_t *err);
void plb_candidates_free(plb_candidates_t *self);
