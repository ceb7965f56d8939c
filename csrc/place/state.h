/* The state of a placement while a search changes it: the work of each rank, its free memory, the
 * blocks on it, and its objects.
 *
 * Work.  The work of rank r in component k is
 *     t[k][r] = background[r] (k = 0) + (sum of load(i, k) over the objects on r) / speed[r],
 * and in component 0 also
 *     + alpha x messages to other ranks + beta x bytes to other ranks + gamma x bytes that stay
 *     + delta x bytes of the blocks on r whose home is another rank
 * (CCM: Lifflander, Pebay, Slattengren et al. 2024, arXiv 2404.16793).
 *
 * An edge from i to j has the cost x if the objects are on different ranks, paid by the rank of i,
 * and y if they are on one rank.  So all messages of a rank cost the sum of x over all edges from
 * its objects, minus the sum of x - y over the edges inside the rank.  Therefore it is enough to
 * know own[i], the sum of x for object i, and bond, the sum of x - y for each pair of objects; a
 * move changes the messages of no third rank. */
#pragma once

#include <stdbool.h>
#include <string.h>

#include "place/kit/problem.h"

/* What a search makes as small as possible. */
typedef struct plb_objective {
    double alpha, beta, gamma, delta; /* see above */
    bool messages; /* whether messages are part of the work; false: their cost only decides ties */
    bool kinds;    /* true: components are kinds of processors, and the value is the largest
                      t[k][r] / goal[k]; false: components are phases, and the value is the sum over
                      k of the largest t[k][r] */
} plb_objective_t;

/* The three slowest ranks of a component, the slowest first; rank -1: there is none. */
typedef struct plb_slowest {
    double time[3];
    int32_t rank[3];
} plb_slowest_t;

typedef struct plb_state {
    const plb_snapshot_t *in;
    plb_objective_t of;
    int32_t p, d;       /* number of ranks, number of components */
    int32_t *rank;      /* [n] array of the caller: the current rank of each object; -1: none */
    double *goal, *per; /* [d] goal: lower bound of the slowest rank's work; per: 1 / goal, or 0 */
    double *pace;       /* [p] 1 / speed */
    double *t;          /* [d * p] see above */
    plb_slowest_t *slowest; /* [d] as of the last call of plb_state_value */
    double *own;            /* [n] see above; NULL: there are no messages */
    int64_t *start;         /* [n + 1] partners of object i: other[start[i]] ... */
    int32_t *other;         /* the partners; several entries can name the same one */
    double *bond;           /* see above */
    int64_t *left;    /* [p] free bytes, negative above the limit; NULL: there are no limits */
    bool fits;        /* whether all ranks kept their limits at the last plb_state_value */
    int64_t *slot;    /* [n_blocks + 1] entries of each block; NULL: there are no blocks */
    int32_t *n_slots; /* [n_blocks] entries in use; -1: entry r is that of rank r */
    int32_t *holder, *uses; /* a rank that has the block, and how many of its objects use it */
    int32_t *head;          /* [p] first object of each rank that may migrate; -1: none.  NULL:
                               objects are not listed (yet) */
    int32_t *next, *prev;   /* [n] next and previous object on the same rank; -1: none */
} plb_state_t;

/** Compute goals, messages and blocks.  All objects are without a rank before plb_state_begin or
 * plb_state_set.  The caller owns `in` and rank[n].  Free `self` also after a failure. */
int plb_state_init(plb_state_t *self, const plb_snapshot_t *in, const plb_objective_t *of,
                   int32_t *rank, plb_err_t *err);
void plb_state_free(plb_state_t *self);

/** Whether the work of a rank is one load, without messages and blocks. */
static inline bool plb_state_is_plain(const plb_state_t *self)
{
    return self->d == 1 && self->own == NULL && self->slot == NULL;
}

/** List the objects of each rank, if the state is plain and this has not been done. */
int plb_state_list(plb_state_t *self, plb_err_t *err);

/** Begin (again) with only the background and the fixed objects. */
void plb_state_begin(plb_state_t *self);

/** Begin (again) with object i on rank to[i]. */
void plb_state_set(plb_state_t *self, const int32_t *to);

void plb_state_put(plb_state_t *self, int32_t i, int32_t r); /* object i has no rank */
void plb_state_take(plb_state_t *self, int32_t i);           /* object i has a rank */

static inline void plb_state_move(plb_state_t *self, int32_t i, int32_t to)
{
    plb_state_take(self, i);
    plb_state_put(self, i, to);
}

/** Find the slowest ranks of each component and whether limits are kept; return the value. */
double plb_state_value(plb_state_t *self);

/** Return the work of each rank in component 0 if all ranks ended together. */
double plb_state_mean(const plb_state_t *self);

/** Return a lower bound of the value of all placements. */
double plb_state_least(const plb_state_t *self);

/** Return the value if component k is added, whose slowest rank takes `seconds`. */
static inline double plb_state_add(const plb_state_t *self, double value, double seconds,
                                   int32_t k)
{
    if (!self->of.kinds) {
        return value + seconds;
    }
    const double x = seconds * self->per[k];
    return value > x ? value : x;
}

static inline double plb_state_load(const plb_state_t *self, int64_t i, int32_t k)
{
    return self->in->load[i * self->d + k];
}

/** Return the block of object i; -1: none. */
static inline int32_t plb_state_block(const plb_state_t *self, int64_t i)
{
    return self->slot == NULL ? -1 : self->in->block[i];
}

/** Return how many objects on rank r use the block. */
int32_t plb_state_uses(const plb_state_t *self, int32_t block, int32_t r);

/** Return the work that a block adds to rank r. */
static inline double plb_state_homing(const plb_state_t *self, int32_t block, int32_t r)
{
    const plb_snapshot_t *in = self->in;
    return in->home == NULL || in->home[block] == r
               ? 0.0
               : self->of.delta * (double)in->block_bytes[block];
}

/** Return the bytes that object i, which is not on rank r, would need there. */
int64_t plb_state_bytes(const plb_state_t *self, int64_t i, int32_t r);

static inline bool plb_state_has_room(const plb_state_t *self, int64_t i, int32_t r)
{
    return self->left == NULL || plb_state_bytes(self, i, r) <= self->left[r];
}

/** Return the bytes of object i, with any block that it shares. */
static inline double plb_state_size(const plb_snapshot_t *in, int64_t i)
{
    const bool shares = in->block != NULL && in->block[i] >= 0;
    return (in->memory == NULL ? 0.0 : (double)in->memory[i]) +
           (shares ? (double)in->block_bytes[in->block[i]] : 0.0);
}
