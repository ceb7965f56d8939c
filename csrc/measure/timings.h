/* The times of a program's objects under one placement, as a learner remembers them. */
#ifndef PLB_MEASURE_TIMINGS_H
#define PLB_MEASURE_TIMINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The objects under one placement, by ascending key.  Ranks below p are the present ones; a
 * rank that has changed since then has a number from p on.
 */
typedef struct plb_timings {
    int64_t n, room; /* number of objects, and room for objects */
    int64_t *key;
    int32_t *rank;
    float *y;      /* log seconds */
    float *weight; /* short objects get less weight, because their times are noisier */
    double usual; /* by how much the program as a whole has changed since the previous placement */
} plb_timings_t;

/* n objects: their key, rank (of p), seconds, and the user's own estimate (NULL: none). */
typedef struct plb_times {
    int64_t n;
    const int64_t *key;
    const int32_t *rank;
    const double *seconds, *work;
    int32_t p;
} plb_times_t;

/** Put the times of `in` into *now, and the user's estimates, as if measured on one more rank,
 * into *user.  Both begin as {0}, or reuse their memory from an earlier call.  Objects without
 * a time are left out; of very many objects only a part is taken.  Errors as in
 * plb_learner_observe.  Free both also on failure. */
int plb_timings_take(const plb_times_t *in, plb_timings_t *now, plb_timings_t *user,
                     plb_err_t *err);
void plb_timings_free(plb_timings_t *self);

/** Whether a and b have the same objects. */
bool plb_timings_same_keys(const plb_timings_t *a, const plb_timings_t *b);

/** Whether a and b have the same objects on the same ranks. */
bool plb_timings_same(const plb_timings_t *a, const plb_timings_t *b);

/** The number of the first object from i on whose key is not below `key`; n: none. */
static inline int64_t plb_timings_find(const plb_timings_t *self, int64_t i, int64_t key)
{
    while (i < self->n && self->key[i] < key) {
        i++;
    }
    return i;
}

#endif
