/* The times of the ranks in each component while objects with several loads move.
 *
 *   t[k][r]  seconds of rank r in component k: load / speed; t[0][r] includes the background
 *   goal[k]  lower bound of the slowest rank's t[k][r]: the average over the ranks or, if it is
 *            larger, the time of the heaviest object on the fastest rank
 *   cost     if the components are phases, the sum over k of the slowest rank's t[k][r]; if they
 *            are kinds of processors, the largest t[k][r] / goal[k] */
#pragma once

#include <math.h>

#include "place/kit/members.h"
#include "place/kit/memory.h"
#include "place/kit/problem.h"

/* The largest number of steps of plb_vectors_improve. */
enum { PLB_VECTOR_ROUNDS = 1 << 16 };

/* The three slowest ranks of a component, the slowest first; rank -1: there is none. */
typedef struct plb_slowest {
    double time[3];
    int32_t rank[3];
} plb_slowest_t;

typedef struct plb_vectors {
    const plb_snapshot_t *in;
    int32_t p, d;           /* number of ranks, number of components */
    bool phases;            /* true: components are phases; false: kinds of processors */
    double *goal, *per;     /* [d] goal: in seconds; 0: no load; per: 1 / goal, or 0 */
    double *pace;           /* [p] 1 / speed */
    double *t;              /* [d * p] t[k][r], see above */
    plb_slowest_t *slowest; /* [d] as of the last call of plb_vectors_cost */
    int32_t *rank;          /* [n] array of the caller: the current rank of each object */
    plb_members_t on;       /* objects of each rank that may migrate */
    plb_memory_t memory;
} plb_vectors_t;

/** Compute the goals.  No object has a rank before plb_vectors_begin or plb_vectors_go_home.  Free
 * `self` also after a failure. */
int plb_vectors_init(plb_vectors_t *self, const plb_snapshot_t *in, bool phases, int32_t *rank,
                     plb_err_t *err);
void plb_vectors_free(plb_vectors_t *self);

/** Begin (again) with only the background and the fixed objects. */
int plb_vectors_begin(plb_vectors_t *self, plb_err_t *err);

/** Begin (again) with every object on its present rank; *kept: whether memory limits are kept. */
int plb_vectors_go_home(plb_vectors_t *self, bool *kept, plb_err_t *err);

/** Whether all ranks keep their memory limits. */
bool plb_vectors_within_limits(const plb_vectors_t *self);

/** Place all objects from scratch, with memory as the only aim (vector_pack.c): the objects of a
 * block together, on the rank that then has the most memory left.  stay: objects stay where they
 * fit.  *kept: whether memory limits are kept. */
int plb_vectors_pack(plb_vectors_t *self, bool stay, bool *kept, plb_err_t *err);

void plb_vectors_put(plb_vectors_t *self, int32_t i, int32_t r);
void plb_vectors_take(plb_vectors_t *self, int32_t i);

/** Find the slowest ranks of each component, and return the cost. */
double plb_vectors_cost(plb_vectors_t *self);

static inline double plb_vectors_load(const plb_vectors_t *self, int64_t i, int32_t k)
{
    return self->in->load[i * self->d + k];
}

/** Return a lower bound of the cost of all placements. */
double plb_vectors_least(const plb_vectors_t *self);

/** Return the bytes of object i, with any block that it shares. */
static inline double plb_vectors_bytes(const plb_snapshot_t *in, int64_t i)
{
    const bool shares = in->block != NULL && in->block[i] >= 0;
    return (in->memory == NULL ? 0.0 : (double)in->memory[i]) +
           (shares ? (double)in->block_bytes[in->block[i]] : 0.0);
}

/** Return the cost if component k is added, whose slowest rank takes `seconds`. */
static inline double plb_vectors_add(const plb_vectors_t *self, double cost, double seconds,
                                     int32_t k)
{
    return self->phases ? cost + seconds : fmax(cost, seconds * self->per[k]);
}

/** Lower the cost by moves and exchanges of single objects (vector_steps.c), until it is at most
 * `aim`.  In each round, an object of the slowest rank of some component moves to another rank; if
 * no move helps, it is exchanged for an object with less load in this component.  Ends early if no
 * step helps, if the cost hardly falls, or after a fixed amount of work (a few tenths of a
 * second). */
int plb_vectors_improve(plb_vectors_t *self, double aim, plb_err_t *err);
