#include "explore/ahead.h"

#include <string.h>

#include "base/cpu.h"

/* A lane for each phase; compilers make of it what the processor has. */
typedef double lanes_t __attribute__((vector_size(PLB_AHEAD * sizeof(double)), aligned(8)));

/* Neighbours often share a rank: its sums stay in registers until the rank changes. */
PLB_MULTIVERSION
void plb_ahead_add(const double *load, int64_t n, int n_phases, const int32_t *rank,
                   int32_t n_ranks, double *sum)
{
    /* phases that are too many repeat the first */
    const double *a = load, *b = load + (n_phases > 1 ? n : 0);
    const double *c = load + (n_phases > 2 ? 2 * n : 0), *d = load + (n_phases > 3 ? 3 * n : 0);
    lanes_t *of = (lanes_t *)sum, own = {0.0};
    int32_t r = 0;
    memset(sum, 0, (size_t)n_ranks * sizeof *of);
    for (int64_t k = 0; k < n; k++) {
        if (rank[k] != r) {
            of[r] = own;
            r = rank[k];
            own = of[r];
        }
        own += (lanes_t){a[k], b[k], c[k], d[k]};
    }
    of[r] = own;
}
