/* Refinement of a placement: few moves from overloaded ranks to ranks with room. */
#ifndef PLB_PLACE_KIT_REFINE_H
#define PLB_PLACE_KIT_REFINE_H

#include "place/kit/problem.h"

/* Menon 2.3.1: "typically set as 1.003 times the average load". */
#define PLB_REFINE_OVERLOAD 1.003

/* Change rank[n_objects], which must keep the memory limits and still does afterwards.  A rank
 * is overloaded above `overload` times the average. */
typedef int (*plb_refine_fn)(const plb_problem_t *problem, double overload, int32_t *rank,
                             plb_err_t *err);

/** RefineLB: move objects away from overloaded ranks. */
int plb_refine(const plb_problem_t *problem, double overload, int32_t *rank, plb_err_t *err);

/** RefineSwapLB: also swap two objects of unequal load where none can be moved. */
int plb_refine_swap(const plb_problem_t *problem, double overload, int32_t *rank, plb_err_t *err);

/** CommAwareRefineLB: move objects to the ranks of their communication partners.  `exchanges`:
 * if no object fits, exchange pairs, for up to a tenth of a second. cost[2]: seconds per
 * message and per byte that count as time of the sender (RefineCommLB), or NULL. */
int plb_refine_comm(const plb_problem_t *problem, double overload, bool exchanges,
                    const double *cost, int32_t *rank, plb_err_t *err);

#endif
