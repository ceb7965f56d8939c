#include "place/kit/grain.h"

#include <math.h>

#include "base/quantile.h"

/* A remainder below this fraction of a load is due to rounding. */
static const double ROUNDING = 1e-12;

/* A common divisor below this fraction of the largest load is meaningless. */
static const double LEAST = 1.0 / 65536.0;

/* Return the greatest common divisor of a and b, to within `rounding` (Euclid). */
static double common(double a, double b, double rounding)
{
    while (b > rounding) {
        const double rest = fabs(a - b * rint(a / b));
        a = b;
        b = rest;
    }
    return a;
}

double plb_grain_common(const plb_problem_t *problem)
{
    double grain = 0.0, most = 0.0;
    for (int64_t k = 0; k < problem->n; k++) {
        const double load = problem->in->load[plb_problem_object(problem, k)];
        const double times = grain > 0.0 ? load / grain : INFINITY;
        most = fmax(most, load);
        if (load > 0.0 && !(fabs(times - rint(times)) <= ROUNDING * times)) {
            grain = common(load, grain, ROUNDING * most);
            if (grain < LEAST * most) {
                return 0.0;
            }
        }
    }
    return grain;
}

double plb_grain_light(const plb_problem_t *problem, double *scratch, int64_t sample)
{
    int64_t m = 0;
    for (int64_t j = 0; j < sample; j++) {
        const int64_t k = (int64_t)((double)j * (double)problem->n / (double)sample);
        const double load = problem->in->load[plb_problem_object(problem, k)];
        scratch[m] = load;
        m += load > 0.0;
    }
    const double place = (double)sample * problem->in->n_ranks / (double)(problem->n + 1);
    if (m == 0) {
        return 0.0;
    }
    const int64_t k = place < (double)(m - 1) ? (int64_t)place : m - 1;
    return plb_nth(scratch, m, k) * fmin(place, 1.0);
}
