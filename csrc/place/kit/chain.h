/* Divides a row of objects, e.g. along a space-filling curve: each rank gets consecutive objects.
 * The ranks keep their present order along the row.  The cuts between them move only as far as the
 * balance requires, so that few objects migrate. */
#pragma once

#include "place/kit/problem.h"

/** Place the objects that may migrate, object[problem->n], in the order of the row, and write
 * their ranks to out[n_objects].  No rank takes longer than the longer of two times: `overload` x
 * the average (the time if all ranks ended together); the slowest rank's time with the best cuts.
 * keep_memory: the cuts keep the memory limits; PLB_ERR_INFEASIBLE if none do. */
int plb_chain_cut(const plb_problem_t *problem, const int32_t *object, double overload,
                  bool keep_memory, int32_t *out, plb_err_t *err);
