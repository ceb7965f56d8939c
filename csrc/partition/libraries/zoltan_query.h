/* The functions that Zoltan calls to read the arrays of a plb_zoltan_t. */
#pragma once

#include "partition/libraries/zoltan.h"

/** Register callbacks for what `in` has; `in` must stay valid while zz is used. */
void plb_zoltan_answer(struct Zoltan_Struct *zz, const plb_zoltan_t *in);
