/* Refinement of a placement, for RefineLB and for strategies that end with it. */
#ifndef PLB_PLACE_KIT_REFINE_H
#define PLB_PLACE_KIT_REFINE_H

#include "place/kit/problem.h"

/* Menon 2.3.1: "typically set as 1.003 times the average load". */
#define PLB_REFINE_OVERLOAD 1.003

/** Move objects from overloaded ranks, changing rank[n_objects], which keeps to the memory limits
 *  before and after. */
int plb_refine(const plb_problem_t *problem, double overload, int32_t *rank,
               const plb_opts_t *opts, plb_err_t *err);

/** The same, and where no object fits two of unequal load are swapped. */
int plb_refine_swap(const plb_problem_t *problem, double overload, int32_t *rank,
                    const plb_opts_t *opts, plb_err_t *err);

/** As CommAwareRefineLB: objects go to whom they talk to.  Exchanges follow where none fits: up to
 *  a tenth of a second. */
int plb_refine_comm_aware(const plb_problem_t *problem, double overload, bool exchanges,
                          int32_t *rank, const plb_opts_t *opts, plb_err_t *err);

#endif
