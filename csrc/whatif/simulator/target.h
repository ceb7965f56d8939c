/* The simulated machine, and the times of its links. */
#pragma once

#include "whatif/simulator/state.h"

/** Check and copy a target. */
int plb_target_set(plb_whatif_t *self, const plb_target_t *target, plb_err_t *err);

/** Return the seconds per message from one rank to another.  plb_link_beta: per byte. */
double plb_link_alpha(const plb_whatif_t *self, int32_t src, int32_t dst);
double plb_link_beta(const plb_whatif_t *self, int32_t src, int32_t dst);
