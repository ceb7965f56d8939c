#include "replay/optimum.h"

#include <math.h>

#include "base/mem.h"

/* All schedules whose last LB step is just before s, one iteration longer each: best[i] is the
 * least time of iterations 0 ... i - 1 and an LB step just before i (none at n). */
static void extend(int64_t s, int64_t n, double cost, const double *t, double *best, int64_t *from)
{
    double sum = best[s];
    for (int64_t i = s; i < n; i++) {
        sum += t[i];
        const double with = i + 1 < n ? sum + cost : sum;
        if (with <= best[i + 1]) {
            best[i + 1] = with;
            from[i + 1] = s;
        }
    }
}

static int trace_back(plb_optimum_t *self, int64_t n, const int64_t *from, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int64_t s = from[n]; s > 0; s = from[s]) {
        self->n++;
    }
    PLB_NEW(self->when, self->n);
    int64_t k = self->n;
    for (int64_t s = from[n]; s > 0; s = from[s]) {
        self->when[--k] = s - 1;
    }
out:
    return ret;
}

int plb_optimum_find(plb_optimum_t *self, int64_t n, const plb_optimum_opts_t *opts,
                     plb_rows_fn rows, void *user, plb_err_t *err)
{
    *self = (plb_optimum_t){0};
    double *t = NULL, *best = NULL;
    int64_t *from = NULL;
    int ret = PLB_OK;
    PLB_NEW(t, PLB_OPTIMUM_BLOCK * n);
    PLB_NEW(best, n + 1);
    PLB_NEW0(from, n + 1);
    for (int64_t i = 0; i <= n; i++) {
        best[i] = i == 0 ? 0.0 : INFINITY;
    }
    for (int64_t first = 0; first < n; first += PLB_OPTIMUM_BLOCK) {
        const int64_t count = n - first < PLB_OPTIMUM_BLOCK ? n - first : PLB_OPTIMUM_BLOCK;
        if ((ret = rows(user, first, count, t, err)) != PLB_OK) {
            goto out;
        }
        for (int64_t k = 0; k < count; k++) {
            extend(first + k, n, opts->cost, t + k * n, best, from);
        }
        if (opts->tick != NULL && (ret = opts->tick(opts->tick_arg)) != PLB_OK) {
            goto out;
        }
    }
    self->time = self->bound = best[n];
    self->exact = true;
    ret = trace_back(self, n, from, err);
out:
    plb_free(t);
    plb_free(best);
    plb_free(from);
    return ret;
}

static int program_rows(void *user, int64_t first, int64_t count, double *t, plb_err_t *err)
{
    (void)err;
    const plb_program_t *p = user;
    for (int64_t k = 0; k < count; k++) {
        for (int64_t i = first + k; i < p->n; i++) {
            t[k * p->n + i] = plb_program_time(p, first + k, i);
        }
    }
    return PLB_OK;
}

int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err)
{
    plb_program_t copy = *program;
    return plb_optimum_find(self, program->n, opts, program_rows, &copy, err);
}

void plb_optimum_free(plb_optimum_t *self)
{
    plb_free(self->when);
    plb_free(self->which);
    *self = (plb_optimum_t){0};
}
