/* Tests of csrc/place/copies.c: what every placement keeps, with all optional parts, and under
 * failing allocations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "place/copies.h"
#include "plb.h"

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

/* Check one layer: slots, shares, limits, groups, and what is said about it. */
static void check_layer(const fixture_t *f, int layer)
{
    const int s = f->first[P];
    const int32_t *slot = f->slot + (ptrdiff_t)layer * s;
    const double *share = f->share + (ptrdiff_t)layer * s;
    double sum[N] = {0}, most = 0.0;
    int node_of[GROUPS];
    memset(node_of, -1, sizeof node_of);
    for (int r = 0; r < P; r++) {
        bool has[N] = {false};
        double time = 0.0;
        int64_t bytes = 0;
        for (int j = f->first[r]; j < f->first[r + 1]; j++) {
            const int o = slot[j];
            assert_in_range(o + 1, 0, N);
            if (o < 0) {
                assert_true(share[j] == 0.0);
                continue;
            }
            assert_false(has[o]);
            has[o] = true;
            sum[o] += share[j];
            time += share[j];
            bytes += f->memory[o];
            if (f->of.group != NULL) {
                int *at = &node_of[f->group[o]];
                assert_true(*at < 0 || *at == f->node[r]);
                *at = f->node[r];
            }
        }
        assert_true(f->of.memory == NULL || bytes <= f->limit[r]);
        most = time > most ? time : most;
    }
    for (int o = 0; o < N; o++) {
        assert_float_equal(sum[o], f->load[layer * N + o], 1e-9);
        bool is = false;
        for (int j = 0; j < s; j++) {
            is = is || slot[j] == o;
        }
        assert_true(is);
    }
    assert_float_equal(most, f->out[layer].max, 1e-9);
    assert_true(f->out[layer].bound <= most * (1.0 + 1e-9));
    assert_true(f->out[layer].mean <= f->out[layer].bound * (1.0 + 1e-9));
    assert_int_equal(f->out[layer].bytes, 3 * f->out[layer].migrations);
}

static void every_placement_keeps_the_rules(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 16; variant++) {
        for (uint64_t seed = 1; seed < 40; seed++) {
            fixture_t f;
            begin(&f, seed, variant);
            for (int again = 0; again < 2; again++) {
                assert_int_equal(run(&f, again == 1), PLB_OK);
                for (int layer = 0; layer < LAYERS; layer++) {
                    check_layer(&f, layer);
                }
            }
        }
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    fixture_t f;
    begin(&f, 1, 1);
    f.memory[5] = 91;
    assert_int_equal(run(&f, false), PLB_ERR_INFEASIBLE);
    assert_non_null(strstr(f.err.text, "object 5 with its 91 bytes"));
    begin(&f, 1, 0);
    for (int r = 0; r < P; r++) {
        f.first[r + 1] = 3 * (r + 1); /* 18 slots for 24 objects */
    }
    assert_int_equal(run(&f, false), PLB_ERR_INFEASIBLE);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_placement_keeps_the_rules),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
