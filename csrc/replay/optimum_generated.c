#include "replay/optimum_generated.h"
#include "base/interrupt.h"

#include <math.h>

/* For each i > s, try LB steps just before iterations s and i, with none in between, and update
 * best[i] (optimum_generated.h).  best[n] has no LB step at the end. */
static void extend(const plb_program_t *program, int64_t s, double cost, double *best,
                   int64_t *from)
{
    double sum = best[s];
    for (int64_t i = s; i < program->n; i++) {
        sum += plb_program_time(program, s, i);
        const double with = i + 1 < program->n ? sum + cost : sum;
        if (with <= best[i + 1]) {
            best[i + 1] = with;
            from[i + 1] = s;
        }
    }
}

static int trace_back(plb_optimum_t *self, int64_t n, const int64_t *from, plb_err_t *err)
{
    for (int64_t s = from[n]; s > 0; s = from[s]) {
        self->n++;
    }
    PLB_PASS_NEW(self->when, self->n);
    int64_t k = self->n;
    for (int64_t s = from[n]; s > 0; s = from[s]) {
        self->when[--k] = s - 1;
    }
    return PLB_OK;
}

int plb_optimum_of_program(plb_optimum_t *self, const plb_program_t *program,
                           const plb_optimum_opts_t *opts, plb_err_t *err)
{
    const int64_t n = program->n;
    double *best = NULL;
    int64_t *from = NULL;
    int ret = PLB_OK;
    *self = (plb_optimum_t){0};
    PLB_NEW(best, n + 1);
    PLB_NEW0(from, n + 1);
    for (int64_t i = 0; i <= n; i++) {
        best[i] = i == 0 ? 0.0 : INFINITY;
    }
    for (int64_t s = 0; s < n; s++) {
        extend(program, s, opts->cost, best, from);
        PLB_TRY(plb_interrupted(n - s));
    }
    self->time = self->bound = best[n];
    self->exact = true;
    ret = trace_back(self, n, from, err);
out:
    PLB_FREE(best, from);
    return ret;
}
