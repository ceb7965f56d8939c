/* Refinement of a placement: few moves from overloaded ranks to less loaded ranks. */
#pragma once

#include "place/kit/problem.h"

/* Menon 2.3.1: "typically set as 1.003 times the average load". */
#define PLB_REFINE_OVERLOAD 1.003

/* What a refinement has reached, in seconds: its threshold, and the slowest rank's time before the
 * refinement and after it. */
typedef struct plb_refined {
    double limit, before, after;
    bool exchanged; /* whether pairs of ranks have exchanged sets of objects (pairs.h) */
    bool raised;    /* whether plb_bound_raise (bound.h) has raised the threshold */
} plb_refined_t;

/* A refinement of rank[n_objects].  The memory limits must hold before, and hold after it.  A rank
 * is overloaded if it takes more than `overload` times the average.  out may be NULL. */
typedef int (*plb_refine_fn)(const plb_problem_t *problem, double overload, int32_t *rank,
                             plb_refined_t *out, plb_err_t *err);

/** RefineLB: move objects away from overloaded ranks. */
int plb_refine(const plb_problem_t *problem, double overload, int32_t *rank, plb_refined_t *out,
               plb_err_t *err);

/** Like plb_refine, but a rank is overloaded if it takes more than `limit` seconds.  Gives up if
 * more than `most_moves` migrations are needed. */
int plb_refine_to(const plb_problem_t *problem, double limit, int64_t most_moves, int32_t *rank,
                  plb_refined_t *out, plb_err_t *err);

/** RefineSwapLB: like RefineLB, but if no object can be moved, swap two of unequal load. */
int plb_refine_swap(const plb_problem_t *problem, double overload, int32_t *rank,
                    plb_refined_t *out, plb_err_t *err);

/** CommAwareRefineLB: move objects to the ranks of their communication partners.  exchanges: if an
 * excess is left, go on by moves and exchanges (improve.h).
 * cost[2]: seconds per message and per byte, part of the sender's time (RefineCommLB); NULL:
 * messages take no time. */
int plb_refine_comm(const plb_problem_t *problem, double overload, bool exchanges,
                    const double *cost, int32_t *rank, plb_err_t *err);
