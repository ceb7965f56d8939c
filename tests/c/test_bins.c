/* Tests of csrc/place/bins.c: packings of few items, and failing allocations.
 * tests/place/test_packs.py tests what every packing keeps. */
#include "place/bins.h"
#include "plb.h"
#include "test.h"

enum { N = 60, M = 9 };

typedef struct fixture {
    double cost[N], length[N], sum[M], bound;
    int32_t bin[N], was[N];
    plb_bins_t of;
    plb_err_t err;
} fixture_t;

/* variant: a bit for each of equal numbers, a capacity, present bins, whole costs. */
static void begin(fixture_t *f, uint64_t seed, unsigned variant)
{
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    memset(f, 0, sizeof *f);
    f->of = (plb_bins_t){.n = 1 + (int64_t)plb_rng_below(&rng, N),
                         .m = 1 + (int32_t)plb_rng_below(&rng, M),
                         .cost = f->cost,
                         .capacity = INFINITY,
                         .equal = variant & 1};
    double total = 0.0, longest = 0.0;
    for (int64_t i = 0; i < f->of.n; i++) {
        const double x = plb_rng_uniform(&rng);
        f->cost[i] = variant & 8 ? floor(99.0 * x * x) : x * x;
        f->length[i] = 1.0 + (double)plb_rng_below(&rng, 9);
        f->was[i] = (int32_t)plb_rng_below(&rng, (uint64_t)f->of.m + 1) - 1;
        total += f->length[i];
        longest = fmax(longest, f->length[i]);
    }
    if (variant & 2) {
        f->of.length = f->length;
        f->of.capacity = ceil(1.1 * total / f->of.m) + longest;
    }
    f->of.was = variant & 4 ? f->was : NULL;
}

static int run(fixture_t *f)
{
    return plb_bins_pack(&f->of, f->bin, f->sum, &f->bound, &f->err);
}

/* Return the least largest cost of items i ... n - 1, by all packings. */
static double least(const fixture_t *f, int64_t i, double *sum, int64_t *count)
{
    double best = INFINITY;
    if (i == f->of.n) {
        best = 0.0;
        for (int32_t b = 0; b < f->of.m; b++) {
            const bool fair = !f->of.equal || count[b] >= f->of.n / f->of.m;
            best = fmax(best, fair ? sum[b] : INFINITY);
        }
        return best;
    }
    for (int32_t b = 0; b < f->of.m; b++) {
        if (!f->of.equal || count[b] < (f->of.n + f->of.m - 1) / f->of.m) {
            sum[b] += f->cost[i];
            count[b]++;
            best = fmin(best, least(f, i + 1, sum, count));
            sum[b] -= f->cost[i];
            count[b]--;
        }
    }
    return best;
}

TEST(few_items_are_packed_nearly_best)
{
    int n_best = 0, n_all = 0;
    for (unsigned variant = 0; variant < 2; variant++) {
        for (uint64_t seed = 1; seed < 60; seed++) {
            fixture_t f;
            begin(&f, seed, variant);
            f.of.n = 1 + f.of.n % 9;
            f.of.m = 1 + f.of.m % 3;
            assert_int_equal(run(&f), PLB_OK);
            double sum[M] = {0}, most = 0.0;
            int64_t count[M] = {0};
            for (int32_t b = 0; b < f.of.m; b++) {
                most = fmax(most, f.sum[b]);
            }
            const double best = least(&f, 0, sum, count);
            assert_true(most <= 1.05 * best);
            n_best += most <= best * (1.0 + 1e-9);
            n_all++;
        }
    }
    assert_true(n_best > 9 * n_all / 10);
}

TEST(every_allocation_may_fail)
{
    for (unsigned variant = 0; variant < 8; variant++) {
        int ret = PLB_ERR_NOMEM;
        for (int i = 0; ret != PLB_OK; i++) {
            fixture_t f;
            begin(&f, 5, variant & 2 ? variant & 6 : variant);
            plb_mem_fail_at(i);
            ret = run(&f);
            plb_mem_fail_at(-1);
            assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
        }
    }
}
