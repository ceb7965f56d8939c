/* Refinement of a placement: few objects of overloaded ranks go to less loaded ranks. */
#pragma once

#include "place/improve.h"
#include "place/kit/problem.h"

/* Menon 2.3.1: "typically set as 1.003 times the average load". */
#define PLB_REFINE_OVERLOAD 1.003

/* Objects are scarce if there are fewer per rank: they cannot be divided evenly without many
 * migrations.  If there are fewer than VERY_SCARCE, swaps only leave gaps that no object fits. */
enum { PLB_REFINE_SCARCE = 40, PLB_REFINE_VERY_SCARCE = 5 };

typedef struct plb_refinement {
    double overload;   /* a rank above this multiple of the average is overloaded */
    unsigned families; /* of steps (improve.h) */
    int kicks;         /* largest number of random changes, if objects are few */
    uint64_t seed;
    double limit, before, after; /* results in seconds: the slowest rank should take at most
                                    `limit`; it took `before` and now takes `after` */
} plb_refinement_t;

/** Refine from[n_objects] by load; write the result to rank[n_objects].  from[] keeps the memory
 * limits; it is the result if the slowest rank's time would not fall by a ten-thousandth. */
int plb_refine(const plb_problem_t *problem, plb_refinement_t *self, const int32_t *from,
               int32_t *rank, plb_err_t *err);

/** Refine rank[n_objects] in place, with all families of steps. */
int plb_refine_more(const plb_problem_t *problem, double overload, int32_t *rank, plb_err_t *err);

/** CommAwareRefineLB: move objects to the ranks of their communication partners.  exchanges: if an
 * excess is left, go on by moves and exchanges (improve.h).
 * cost[2]: seconds per message and per byte, part of the sender's time (RefineCommLB); NULL:
 * messages take no time. */
int plb_refine_comm(const plb_problem_t *problem, double overload, bool exchanges,
                    const double *cost, int32_t *rank, plb_err_t *err);
