/* The times of a program's objects under one placement, for the learner (learner.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The objects under one placement, by ascending key.  If a rank has changed since, its
 * observations here have a rank number of p or more; all other rank numbers are below p. */
typedef struct plb_timings {
    int64_t n, room; /* number of objects; capacity of the arrays */
    int64_t *key;
    int32_t *rank;
    float *y;      /* log seconds */
    float *weight; /* short times are noisier, so they have less weight */
    double usual;  /* log of the factor by which times have grown since the previous placement:
                      median over the ranks (find_changed in learner.c) */
} plb_timings_t;

/* The times of n objects on p ranks; work: the user's own estimates (NULL: none). */
typedef struct plb_times {
    int64_t n;
    const int64_t *key;
    const int32_t *rank;
    const double *seconds, *work;
    int32_t p;
} plb_times_t;

/** Put the times of `in` into *now, and the user's estimates into *user, as if they had been
 * measured on one more rank.  Both are {0} before the first call, and reuse their memory later.
 * Objects without a time are left out; of very many objects only a part is taken.  Errors are
 * those of plb_learner_observe.  Free both also after a failure. */
int plb_timings_take(const plb_times_t *in, plb_timings_t *now, plb_timings_t *user,
                     plb_err_t *err);
void plb_timings_free(plb_timings_t *self);

/** Whether a and b have the same objects. */
bool plb_timings_same_keys(const plb_timings_t *a, const plb_timings_t *b);

/** Whether a and b have the same objects on the same ranks. */
bool plb_timings_same(const plb_timings_t *a, const plb_timings_t *b);

/** Index of the first object from i on whose key is `key` or more; n: there is none. */
static inline int64_t plb_timings_find(const plb_timings_t *self, int64_t i, int64_t key)
{
    while (i < self->n && self->key[i] < key) {
        i++;
    }
    return i;
}
