/* Objects in a row, e.g. along a space-filling curve: each rank gets consecutive ones.
 *
 * The ranks keep their present order along the row, and the cuts between them move no further than
 * balance asks for, so that few objects migrate. */
#ifndef PLB_PLACE_KIT_CHAIN_H
#define PLB_PLACE_KIT_CHAIN_H

#include "place/kit/problem.h"

/** Write the ranks of object[problem->n], the objects that may migrate in their order in the row,
 * into out[n_objects].  No rank takes longer than overload x average, or than the best cuts allow.
 * Memory limits are kept if any cuts keep them; otherwise the caller must repair the placement
 * (plb_problem_repair). */
int plb_chain_cut(const plb_problem_t *problem, const int32_t *object, double overload,
                  int32_t *out, plb_err_t *err);

#endif
