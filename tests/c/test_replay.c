/* Tests of csrc/replay: the rounding of sums. tests/fuzz/c/fuzz_replay.c
 * replays random and broken traces, with failing allocations. */
#include "plb.h"
#include "replay/phase_loads.c" /* for its static functions */
#include "test.h"

enum { KINDS = 9 };

/* Loads whose sums are hard to round: ties, neighbours of ties, different magnitudes. */
static double hard(int kind, int64_t k, plb_rng_t *rng)
{
    const double u = plb_rng_uniform(rng);
    switch (kind) {
    case 0: /* ties of the rounding to 1, and small loads that break them */
        return k == 0 ? 1.0 : ldexp(1.0, -53 - (int)plb_rng_below(rng, 3));
    case 1: /* a tie, which one tiny load breaks */
        return k == 0 ? 1.0 + 0x1p-52 : k == 1 ? 0x1p-53 : ldexp(u, -100 - (int)(k % 80));
    case 2:
        return pow(10.0, -300.0 + 330.0 * u);
    case 3: /* many equal loads */
        return 0.1;
    case 4:
        return k % 3 == 0 ? 1e30 : k % 3 == 1 ? 1e14 : 1e-300;
    case 5: /* just above and below a power of two */
        return k == 0 ? 2.0 - 0x1p-52 : k % 2 ? 0x1p-53 : 0x1p-54;
    case 6:
        return plb_rng_below(rng, 2) ? 0.0 : ldexp(u, (int)plb_rng_below(rng, 120) - 90);
    case 7: /* smaller than the lowest bit of an exact sum */
        return ldexp(u, -180 - (int)plb_rng_below(rng, 40));
    default:
        return u;
    }
}

static void check_sums(int kind, int64_t n, int32_t p, uint64_t seed)
{
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    double *load = plb_malloc((size_t)n, sizeof *load);
    int32_t *rank = plb_malloc((size_t)n, sizeof *rank);
    double *sum = plb_malloc((size_t)p, sizeof *sum);
    double *room = plb_malloc((size_t)(2 * p), sizeof *room);
    for (int64_t k = 0; k < n; k++) {
        rank[k] = (int32_t)plb_rng_below(&rng, (uint64_t)p);
    }
    for (int64_t k = 0; k < n; k++) {
        load[k] = hard(kind, k, &rng);
    }
    for (int64_t k = n - 1; k > 0 && seed % 2; k--) { /* in another order */
        const int64_t j = (int64_t)plb_rng_below(&rng, (uint64_t)k + 1);
        const double swap = load[k];
        load[k] = load[j];
        load[j] = swap;
    }
    load_sums(load, n, rank, p, sum, room);
    for (int32_t r = 0; r < p; r++) {
        plb_exact_t of = {{0}};
        for (int64_t k = 0; k < n; k++) {
            if (rank[k] == r) {
                plb_exact_add(&of, load[k]);
            }
        }
        assert_true(sum[r] == plb_exact_value(&of));
    }
    plb_free(load);
    plb_free(rank);
    plb_free(sum);
    plb_free(room);
}

TEST(test_sums_are_rounded_once)
{
    static const int64_t counts[] = {0, 1, 2, 3, 4, 7, 30, 1000};
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint64_t seed = 0; seed < 60; seed++) {
            const int64_t n = counts[seed % 8];
            const int32_t p = seed % 3 == 0 ? 1 : (int32_t)(1 + seed % 7);
            check_sums(kind, n, p, seed);
        }
    }
}
