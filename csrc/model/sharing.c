#include "model/model.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

int plb_sharing_init(plb_sharing_t *self, const int32_t *group, const double *cores, int32_t p,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    *self = (plb_sharing_t){.n_ranks = p};
    PLB_NEW_EACH(p, self->group, self->sum, self->most);
    PLB_NEW0_EACH(p, self->cores, self->size);
    for (int32_t r = 0; r < p; r++) {
        if (group[r] < 0 || group[r] >= p || !(cores[r] > 0.0)) {
            ret = PLB_FAIL(err, PLB_ERR_VALUE,
                           "rank %d is in group %d with %g cores: expected a group 0 ... %d, and "
                           "more than 0 cores",
                           (int)r, (int)group[r], cores[r], (int)p - 1);
            goto out;
        }
        self->group[r] = group[r];
        self->cores[group[r]] = cores[r];
        self->size[group[r]]++;
    }
out:
    if (ret != PLB_OK) {
        plb_sharing_free(self);
    }
    return ret;
}

void plb_sharing_free(plb_sharing_t *self)
{
    PLB_FREE(self->group, self->cores, self->size, self->sum, self->most);
    *self = (plb_sharing_t){0};
}

static void sum_groups(const plb_sharing_t *self, const double *x)
{
    memset(self->sum, 0, (size_t)self->n_ranks * sizeof *self->sum);
    memset(self->most, 0, (size_t)self->n_ranks * sizeof *self->most);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const int32_t g = self->group[r];
        self->sum[g] += x[r];
        self->most[g] = fmax(self->most[g], x[r]);
    }
}

double plb_sharing_share(const plb_sharing_t *self)
{
    const int32_t p = self->n_ranks, g = p > 0 ? self->group[0] : 0;
    return p > 0 && self->size[g] == p ? fmin(self->cores[g] / p, 1.0) : 1.0;
}

double plb_sharing_time(const plb_sharing_t *self, const double *load)
{
    double time = 0.0;
    sum_groups(self, load);
    for (int32_t g = 0; g < self->n_ranks; g++) {
        time = fmax(time, self->most[g]);
        if (self->size[g] > self->cores[g]) { /* else rounding may lift the mean over `most` */
            time = fmax(time, self->sum[g] / self->cores[g]);
        }
    }
    return time;
}

void plb_sharing_loads(const plb_sharing_t *self, const double *end, double *load)
{
    sum_groups(self, end);
    for (int32_t r = 0; r < self->n_ranks; r++) {
        const int32_t g = self->group[r];
        const double most = self->cores[g] * self->most[g];
        load[r] = self->sum[g] > most ? end[r] * (most / self->sum[g]) : end[r];
    }
}
