/* The functions that Zoltan calls back; zoltan_run.c registers them. */
#pragma once

#include "partition/libraries/zoltan.h"

/** Register callbacks for everything that `in` has.  `in` must exist as long as zz is called. */
void plb_zoltan_answer(struct Zoltan_Struct *zz, const plb_zoltan_t *in);
