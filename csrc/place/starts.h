/* Placements from which a search starts (improve.h). */
#pragma once

#include "place/state.h"

/** Begin (again) with every object on its present rank; state->fits: whether limits are kept. */
void plb_start_present(plb_state_t *state);

/** Place the objects by their work: an object stays where its rank then has at most `overload`
 * times the goal in each component; each other object, the heaviest first, goes to the rank whose
 * largest t[k][r] / goal[k] is then smallest.  PLB_ERR_INFEASIBLE: an object fits nowhere. */
int plb_start_fit(plb_state_t *state, double overload, plb_err_t *err);

/** Place all objects from scratch, with memory as the only aim: the objects of a block together,
 * on the rank that then has the most memory left.  stay: objects stay where they fit. */
int plb_start_packed(plb_state_t *state, bool stay, plb_err_t *err);
