#include "replay/internal.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"
#include "base/exact.h"

/* A vector register with a lane (a number) for each phase. */
typedef double lanes_t __attribute__((vector_size(PLB_SUM_PHASES * sizeof(double)), aligned(8)));

typedef struct pair { /* sum: the rounded sum; rest: the sum of its rounding errors */
    lanes_t sum, rest;
} pair_t;

static inline void two_sum(pair_t *self, const lanes_t *x)
{
    const lanes_t sum = self->sum + *x, of_x = sum - self->sum;
    self->rest += (self->sum - (sum - of_x)) + (*x - of_x);
    self->sum = sum;
}

/* Successive objects are often on the same rank, whose sums then stay in registers. */
PLB_MULTIVERSION
static void add(const double *load, int64_t n, int n_phases, const int32_t *rank, pair_t *of)
{
    /* with fewer phases than lanes, the other lanes repeat the first phase */
    const double *a = load, *b = load + (n_phases > 1 ? n : 0);
    const double *c = load + (n_phases > 2 ? 2 * n : 0), *d = load + (n_phases > 3 ? 3 * n : 0);
    pair_t own = of[0];
    int32_t r = 0;
    for (int64_t k = 0; k < n; k++) {
        if (rank[k] != r) {
            of[r] = own;
            r = rank[k];
            own = of[r];
        }
        const lanes_t x = {a[k], b[k], c[k], d[k]};
        two_sum(&own, &x);
    }
    of[r] = own;
}

/* Compute sum + rest.  Returns false if errors of `rest` might change the last bit. */
static bool rounds(double sum, double rest, int64_t n, double *out)
{
    const double all = sum + rest, off = (sum - all) + rest;
    /* `rest` is a sum of n rounding errors, each below half a unit of the last place of `sum` */
    const double doubt = 0x1p-104 * (double)n * (double)n * all;
    const double half = 0.5 * fmin(nextafter(all, INFINITY) - all, all - nextafter(all, 0.0));
    *out = all;
    return all == 0.0 || (all > 0x1p-60 && all < 1e300 && fabs(off) + doubt < half);
}

static double exactly(const double *load, int64_t n, const int32_t *rank, int32_t r)
{
    plb_exact_t sum = {{0}};
    for (int64_t k = 0; k < n; k++) {
        if (rank[k] == r) {
            plb_exact_add(&sum, load[k]);
        }
    }
    return plb_exact_value(&sum);
}

void plb_load_sums(const double *load, int64_t n, int n_phases, const int32_t *rank,
                   int32_t n_ranks, double *sum, double *room)
{
    pair_t *of = (pair_t *)room;
    memset(of, 0, (size_t)n_ranks * sizeof *of);
    add(load, n, n_phases, rank, of);
    for (int32_t r = 0; r < n_ranks; r++) {
        for (int j = 0; j < n_phases; j++) {
            double *out = &sum[(int64_t)r * PLB_SUM_PHASES + j];
            if (!rounds(of[r].sum[j], of[r].rest[j], n, out)) {
                *out = exactly(load + j * n, n, rank, r);
            }
        }
    }
}
