#include "place/kit/bound.h"

#include <math.h>

/* Largest relative difference of two sums of the same numbers in different orders. */
static const double ROUNDING = 1e-12;

static double average_of(const plb_ranks_t *ranks, double grain)
{
    const double average = plb_ranks_average(ranks), background = plb_background(ranks->in, 0);
    const double step = grain / plb_speed(ranks->in, 0);
    return grain > 0.0 ? background + step * ceil((average - background) / step * (1.0 - ROUNDING))
                       : average;
}

double plb_bound(const plb_ranks_t *ranks, double grain)
{
    double floor_most = 0.0, heaviest = INFINITY;
    for (int32_t r = 0; r < ranks->in->n_ranks; r++) {
        const double least = plb_problem_fixed_seconds(ranks->problem, r);
        floor_most = fmax(floor_most, least);
        heaviest = fmin(heaviest, least + ranks->heaviest / plb_speed(ranks->in, r));
    }
    return fmax(average_of(ranks, grain), fmax(floor_most, heaviest));
}

int plb_bound_crowd(const plb_problem_t *problem, double *out, plb_err_t *err)
{
    const int64_t p = problem->in->n_ranks;
    plb_loads_t loads = {0};
    *out = 0.0;
    if (!plb_problem_all_alike(problem)) {
        return PLB_OK;
    }
    const int ret = plb_problem_by_load(problem, &loads, err);
    for (int64_t k = 1; ret == PLB_OK && k <= p && k * p < loads.n; k++) {
        double sum = 0.0;
        plb_loads_sort(&loads, k * p + 1);
        for (int64_t i = k * p - k; i <= k * p; i++) {
            sum -= loads.item[i].key; /* keys are negated loads */
        }
        const double background = plb_background(problem->in, 0),
                     speed = plb_speed(problem->in, 0);
        *out = fmax(*out, background + sum / speed);
    }
    plb_loads_free(&loads);
    return ret;
}
