#include "measure/timings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* If ranks have more than twice this many objects on average, only a sample is remembered, with at
 * least about this many objects per rank. */
enum { ENOUGH = 250 };

static const float LEAST_WEIGHT = 1e-6F;

void plb_timings_free(plb_timings_t *self)
{
    PLB_FREE(self->key, self->rank, self->y, self->weight);
    *self = (plb_timings_t){0};
}

static int make_room(plb_timings_t *self, int64_t n, plb_err_t *err)
{
    int ret = PLB_OK;
    self->n = 0;
    if (n <= self->room && self->key != NULL) {
        return ret;
    }
    plb_timings_free(self);
    PLB_NEW_EACH(n, self->key, self->rank, self->y, self->weight);
    self->room = n;
out:
    if (ret != PLB_OK) {
        plb_timings_free(self);
    }
    return ret;
}

static void add(plb_timings_t *self, int64_t key, int32_t rank, double seconds)
{
    self->key[self->n] = key;
    self->rank[self->n] = rank;
    self->weight[self->n] = (float)sqrt(seconds);
    self->y[self->n++] = (float)log(seconds);
}

/* Set the weight of each object: the square root of (its time / the mean time). */
static void set_weights(plb_timings_t *self, double sum)
{
    const float root = (float)sqrt(sum / (double)(self->n > 0 ? self->n : 1));
    for (int64_t i = 0; i < self->n; i++) {
        self->weight[i] = fmaxf(self->weight[i] / root, LEAST_WEIGHT);
    }
}

bool plb_timings_same_keys(const plb_timings_t *a, const plb_timings_t *b)
{
    return a->n == b->n && memcmp(a->key, b->key, (size_t)a->n * sizeof *a->key) == 0;
}

bool plb_timings_same(const plb_timings_t *a, const plb_timings_t *b)
{
    return plb_timings_same_keys(a, b) &&
           memcmp(a->rank, b->rank, (size_t)a->n * sizeof *a->rank) == 0;
}

typedef struct name {
    int64_t key, at;
} name_t;

static int by_key(const void *a, const void *b)
{
    const int64_t x = ((const name_t *)a)->key, y = ((const name_t *)b)->key;
    return (x > y) - (x < y);
}

/* Find the order of the keys; *order stays NULL if they are sorted already, as usual. */
static int sort_keys(const int64_t *key, int64_t n, name_t **order, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t i = 1;
    while (i < n && key[i - 1] < key[i]) {
        i++;
    }
    if (i >= n) {
        return ret;
    }
    PLB_NEW(*order, n);
    for (i = 0; i < n; i++) {
        (*order)[i] = (name_t){key[i], i};
    }
    qsort(*order, (size_t)n, sizeof **order, by_key);
    for (i = 1; i < n; i++) {
        PLB_FAIL_IF((*order)[i].key == (*order)[i - 1].key, err, PLB_ERR_VALUE,
                    "key %lld is given twice: expected each object once",
                    (long long)(*order)[i].key);
    }
out:
    return ret;
}

static int check(const plb_times_t *in, plb_err_t *err)
{
    for (int64_t i = 0; i < in->n; i++) {
        PLB_FAIL_IF(in->rank[i] < 0 || in->rank[i] >= in->p, err, PLB_ERR_RANGE,
                    "rank[%lld] is %d: expected 0 ... %d, one of the ranks", (long long)i,
                    in->rank[i], in->p - 1);
        PLB_FAIL_IF(isinf(in->seconds[i]), err, PLB_ERR_VALUE,
                    "seconds[%lld] is %g: expected a finite time", (long long)i, in->seconds[i]);
        PLB_FAIL_IF(in->work != NULL && isinf(in->work[i]), err, PLB_ERR_VALUE,
                    "work[%lld] is %g: expected a finite estimate", (long long)i, in->work[i]);
    }
    return PLB_OK;
}

/* Whether the object is in the sample, which is 1 / `parts` of all objects.  Fibonacci hashing
 * gives the same sample each time. */
static bool is_sampled(int64_t key, uint64_t parts)
{
    const uint64_t mixed = (uint64_t)key * UINT64_C(0x9E3779B97F4A7C15);
    return (mixed >> 32) % parts == 0;
}

/* Return k: one object in k is remembered. */
static uint64_t parts_of(const plb_times_t *in)
{
    int64_t timed = 0;
    uint64_t parts = 1;
    for (int64_t i = 0; i < in->n; i++) {
        timed += in->seconds[i] > 0.0;
    }
    while (timed > 2LL * ENOUGH * in->p * (int64_t)parts) {
        parts *= 2;
    }
    return parts;
}

static void fill(const plb_times_t *in, const name_t *order, plb_timings_t *now,
                 plb_timings_t *user)
{
    const uint64_t parts = parts_of(in);
    double sum = 0.0, sum_of_work = 0.0;
    for (int64_t j = 0; j < in->n; j++) {
        const int64_t i = order != NULL ? order[j].at : j;
        if (!(in->seconds[i] > 0.0) || !is_sampled(in->key[i], parts)) {
            continue;
        }
        add(now, in->key[i], in->rank[i], in->seconds[i]);
        sum += in->seconds[i];
        if (in->work != NULL && in->work[i] > 0.0) {
            add(user, in->key[i], -1, in->work[i]);
            sum_of_work += in->work[i];
        }
    }
    set_weights(now, sum);
    set_weights(user, sum_of_work);
}

int plb_timings_take(const plb_times_t *in, plb_timings_t *now, plb_timings_t *user,
                     plb_err_t *err)
{
    name_t *order = NULL;
    int ret = check(in, err);
    PLB_THEN(sort_keys(in->key, in->n, &order, err));
    PLB_THEN(make_room(now, in->n, err));
    ret = ret == PLB_OK ? make_room(user, in->work != NULL ? in->n : 0, err) : ret;
    if (ret == PLB_OK) {
        fill(in, order, now, user);
    }
    plb_free(order);
    return ret;
}
