#include "model/sharing.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_sharing_t){0};
    PLB_NEW(self->member, p);
    PLB_NEW0(self->start, (int64_t)p + 1);
    PLB_NEW(self->cores, p);
    PLB_NEW(self->spare, p);
    for (int32_t r = 0; r < p; r++) {
        if (group[r] < 0 || group[r] >= p || !(cores[r] > 0.0)) {
            ret = PLB_FAIL(err, PLB_ERR_VALUE,
                           "rank %d is in group %d with %g cores: expected a group 0 ... %d, and "
                           "more than 0 cores",
                           (int)r, (int)group[r], cores[r], (int)p - 1);
            goto out;
        }
        self->start[group[r] + 1]++;
        self->cores[group[r]] = cores[r];
    }
    /* first where each group begins; `start` is then moved back by one group */
    for (int32_t g = 0; g < p; g++) {
        self->start[g + 1] += self->start[g];
    }
    for (int32_t r = 0; r < p; r++) {
        self->member[self->start[group[r]]++] = r;
    }
    for (int32_t g = p; g > 0; g--) {
        self->start[g] = self->start[g - 1];
    }
    self->start[0] = 0;
    self->n_groups = p; /* a group without ranks takes no time */
out:
    if (ret != PLB_OK) {
        plb_sharing_free(self);
    }
    return ret;
}

void plb_sharing_free(plb_sharing_t *self)
{
    PLB_FREE(self->member, self->start, self->cores, self->spare);
    *self = (plb_sharing_t){0};
}

static int by_key(const void *a, const void *b)
{
    return plb_item_before(*(const plb_item_t *)a, *(const plb_item_t *)b) ? -1 : 1;
}

/* Sort the ranks of group g by x, in `spare`; return their number. */
static int32_t sorted(const plb_sharing_t *self, int32_t g, const double *x)
{
    const int32_t *rank = self->member + self->start[g];
    const int32_t n = self->start[g + 1] - self->start[g];
    for (int32_t i = 0; i < n; i++) {
        self->spare[i] = (plb_item_t){x[rank[i]], rank[i]};
    }
    if (n > 1) {
        qsort(self->spare, (size_t)n, sizeof *self->spare, by_key);
    }
    return n;
}

/* How many times longer than on a core of its own each of m ranks computes on c cores. */
static double slowdown(int32_t m, double c)
{
    return fmax(m / c, 1.0);
}

double plb_sharing_time(const plb_sharing_t *self, const double *load)
{
    double most = 0.0;
    for (int32_t g = 0; g < self->n_groups; g++) {
        const double c = self->cores[g];
        const int32_t n = sorted(self, g, load);
        double last = 0.0, time = 0.0;
        for (int32_t i = 0; i < n; i++) {
            const double x = self->spare[i].key;
            /* with a core for each of the rest, no rounding: the last load itself */
            time = last == time && n - i <= c ? x : time + (x - last) * slowdown(n - i, c);
            last = x;
        }
        most = fmax(most, time);
    }
    return most;
}

void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load)
{
    for (int32_t g = 0; g < self->n_groups; g++) {
        const int32_t n = sorted(self, g, end);
        double last = 0.0, x = 0.0;
        for (int32_t i = 0; i < n; i++) {
            x += (self->spare[i].key - last) / slowdown(n - i, self->cores[g]);
            last = self->spare[i].key;
            load[self->spare[i].id] = x;
        }
    }
}
