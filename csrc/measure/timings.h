/* The times of a program's objects under one placement, as a learner remembers them. */
#ifndef PLB_MEASURE_TIMINGS_H
#define PLB_MEASURE_TIMINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The objects under one placement, by ascending key: a rank as it was then, below p as it is now.
 */
typedef struct plb_timings {
    int64_t n, room; /* objects, and how many there is room for */
    int64_t *key;
    int32_t *rank;
    float *y;      /* log seconds */
    float *weight; /* short objects are noisier, by the clock and where a quota stops them */
    double usual;  /* by how much the program as a whole has changed since the one before */
} plb_timings_t;

/* n objects: their key, rank (of p), seconds, and the user's own estimate (NULL: none). */
typedef struct plb_times {
    int64_t n;
    const int64_t *key;
    const int32_t *rank;
    const double *seconds, *work;
    int32_t p;
} plb_times_t;

/** The times of `in` into *now, and the user's estimates, as if they were of one rank more, into
 *  *user; both begin as {0}, or keep their memory from a call before.  An object without a time is
 *  left out, and of very many objects a part is taken.  Errors as plb_learner_observe.  Free both
 *  also on failure. */
int plb_timings_take(const plb_times_t *in, plb_timings_t *now, plb_timings_t *user,
                     plb_err_t *err);
void plb_timings_free(plb_timings_t *self);

/** The same objects? */
bool plb_timings_same_keys(const plb_timings_t *a, const plb_timings_t *b);

/** The same objects on the same ranks? */
bool plb_timings_same(const plb_timings_t *a, const plb_timings_t *b);

/** The first object from number i on whose key is not below `key`; n: none. */
static inline int64_t plb_timings_find(const plb_timings_t *self, int64_t i, int64_t key)
{
    while (i < self->n && self->key[i] < key) {
        i++;
    }
    return i;
}

#endif
