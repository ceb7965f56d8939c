/* Loads and memory of the ranks while a refinement moves objects. */
#pragma once

#include <stdbool.h>

#include "place/kit/problem.h"

typedef struct plb_ranks {
    const plb_problem_t *problem;
    const plb_snapshot_t *in;
    int32_t *rank;   /* [n_objects] array of the caller: the current rank of each object */
    double limit;    /* seconds that a rank may take */
    double *load;    /* [p] load of each rank */
    double *allowed; /* [p] load with which each rank takes `limit` seconds */
    int32_t *on;     /* [p] number of objects on each rank */
    int64_t *room;   /* [p] bytes of memory left; NULL: no limits */
    double heaviest; /* largest load of one object that may migrate */
} plb_ranks_t;

/** Sum the loads of the ranks, if object i is on rank[i]; the caller owns rank[].  `limit` and
 * allowed[] are not set (plb_ranks_allow).  Free `self` also after a failure. */
int plb_ranks_init(plb_ranks_t *self, const plb_problem_t *problem, int32_t *rank, plb_err_t *err);
void plb_ranks_free(plb_ranks_t *self);

/** Return the seconds of an iteration if all ranks ended at the same time; with equal speeds, this
 * is the mean of the ranks' times. */
double plb_ranks_average(const plb_ranks_t *self);

/** Set `limit`, and compute `allowed` from it. */
void plb_ranks_allow(plb_ranks_t *self, double limit);

/** Return the seconds of the slowest rank. */
double plb_ranks_max(const plb_ranks_t *self);

/** Move object i, and update loads and memory. */
void plb_ranks_move(plb_ranks_t *self, int32_t i, int32_t to);

/** Like plb_ranks_move, for a caller that knows the object's load and rank. */
void plb_ranks_move_known(plb_ranks_t *self, int32_t i, double load, int32_t from, int32_t to);

static inline double plb_ranks_seconds(const plb_ranks_t *self, int32_t r)
{
    return plb_background(self->in, r) + self->load[r] / plb_speed(self->in, r);
}

static inline double plb_ranks_gap(const plb_ranks_t *self, int32_t r)
{
    return self->allowed[r] - self->load[r];
}

static inline bool plb_ranks_fits(const plb_ranks_t *self, int32_t r, double load)
{
    return self->load[r] + load <= self->allowed[r];
}

/** Whether rank r has the memory for object i. */
static inline bool plb_ranks_has_room(const plb_ranks_t *self, int32_t r, int32_t i)
{
    return self->room == NULL || self->room[r] >= self->in->memory[i];
}

/** Whether the ranks of objects a and b have the memory to exchange these two. */
static inline bool plb_ranks_has_room_exchanged(const plb_ranks_t *self, int32_t a, int32_t b)
{
    if (self->room == NULL) {
        return true;
    }
    const int64_t more = self->in->memory[a] - self->in->memory[b];
    return self->room[self->rank[b]] >= more && self->room[self->rank[a]] >= -more;
}
