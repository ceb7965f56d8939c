/* Tests of csrc/place/copies.c: failing allocations.
 * tests/place/test_copies.py tests what every placement keeps. */
#include "place/copies.h"
#include "plb.h"
#include "test.h"

enum { LAYERS = 3, N = 24, P = 6, S = 54, GROUPS = 4, NODES = 2 };

typedef struct fixture {
    double load[LAYERS * N], share[LAYERS * S];
    int32_t first[P + 1], group[N], node[P], was[LAYERS * S], slot[LAYERS * S];
    int64_t memory[N], limit[P], bytes[N];
    plb_copies_result_t out[LAYERS];
    plb_copies_t of;
    plb_err_t err;
} fixture_t;

/* variant: a bit for each of memory, groups, uneven shares, a price of migrations. */
static void begin(fixture_t *f, uint64_t seed, unsigned variant)
{
    plb_rng_t rng;
    plb_rng_init(&rng, seed);
    memset(f, 0, sizeof *f);
    for (int i = 0; i < LAYERS * N; i++) {
        const double x = plb_rng_uniform(&rng);
        f->load[i] = i % 7 == 0 ? 0.0 : x * x * x * 100.0;
    }
    for (int r = 0; r < P; r++) {
        f->first[r + 1] = f->first[r] + 5 + (int32_t)plb_rng_below(&rng, 5);
        f->node[r] = r % NODES;
        f->limit[r] = 90;
    }
    for (int o = 0; o < N; o++) {
        f->group[o] = o / (N / GROUPS);
        f->memory[o] = 5 + (int64_t)plb_rng_below(&rng, 9);
        f->bytes[o] = 3;
    }
    for (int j = 0; j < LAYERS * S; j++) {
        f->was[j] =
            (int32_t)plb_rng_below(&rng, N + 3) - 2; /* also twice on a rank, or no object */
    }
    f->of = (plb_copies_t){.n_objects = N,
                           .n_ranks = P,
                           .first = f->first,
                           .bytes = f->bytes,
                           .tolerance = 0.005,
                           .even = (variant & 4) == 0,
                           .move = variant & 8 ? 0.1 : 0.0};
    if (variant & 1) {
        f->of.memory = f->memory;
        f->of.limit = f->limit;
    }
    if (variant & 2) {
        f->of.group = f->group;
        f->of.node = f->node;
        f->of.n_groups = GROUPS;
        f->of.n_nodes = NODES;
    }
}

static int run(fixture_t *f, bool again)
{
    return plb_copies_place(&f->of, LAYERS, f->load, again ? f->was : NULL, f->slot, f->share,
                            f->out, &f->err);
}

TEST(every_allocation_may_fail)
{
    fixture_t f;
    for (unsigned variant = 0; variant < 4; variant++) {
        int ret = PLB_ERR_NOMEM;
        for (int i = 0; ret != PLB_OK; i++) {
            begin(&f, 3, variant);
            plb_mem_fail_at(i);
            ret = run(&f, true);
            plb_mem_fail_at(-1);
            assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
        }
    }
}
