/* Tests of csrc/partition: questions, hypergraphs, pylb's own partitioner. */
#include "partition/partition.h"
#include "plb.h"
#include "test.h"

/* A grid of SIDE x SIDE vertices; there is a net for each vertex with its neighbours. */
enum { SIDE = 12, N = SIDE * SIDE, K = 4 };

typedef struct fixture {
    int32_t net_start[N + 1], pin[5 * N], weight[N], net_weight[N], fixed[N], old[N], part[N];
    int32_t start[N + 1], to[4 * N];
    plb_question_t in;
    plb_err_t err;
} fixture_t;

static void fill(fixture_t *f)
{
    memset(f, 0, sizeof *f);
    int32_t at = 0, edge = 0;
    for (int32_t v = 0; v < N; v++) {
        const int32_t x = v % SIDE, y = v / SIDE;
        const int32_t beside[4] = {x > 0 ? v - 1 : -1, x < SIDE - 1 ? v + 1 : -1,
                                   y > 0 ? v - SIDE : -1, y < SIDE - 1 ? v + SIDE : -1};
        f->pin[at++] = v;
        for (int i = 0; i < 4; i++) {
            if (beside[i] >= 0) {
                f->pin[at++] = f->to[edge++] = beside[i];
            }
        }
        f->net_start[v + 1] = at;
        f->start[v + 1] = edge;
        f->weight[v] = 1 + v % 3;
        f->net_weight[v] = 1 + v % 2;
        f->fixed[v] = v == 0 ? 3 : v == N - 1 ? 0 : -1;
        f->old[v] = v * K / N;
    }
    f->in = (plb_question_t){.n_vertices = N,
                             .n_parts = K,
                             .n_weights = 1,
                             .weight = f->weight,
                             .n_nets = N,
                             .net_start = f->net_start,
                             .pin = f->pin,
                             .net_weight = f->net_weight,
                             .imbalance = 1.05};
}

/* Compute connectivity - 1 in the plain way. */
static int64_t connectivity(const fixture_t *f)
{
    int64_t sum = 0;
    for (int32_t e = 0; e < N; e++) {
        int parts = 0;
        for (int32_t p = 0; p < K; p++) {
            int found = 0;
            for (int32_t i = f->net_start[e]; i < f->net_start[e + 1]; i++) {
                found |= f->part[f->pin[i]] == p;
            }
            parts += found;
        }
        sum += (int64_t)f->net_weight[e] * (parts - 1);
    }
    return sum;
}

static void assert_balanced(const fixture_t *f, double most)
{
    int64_t load[K] = {0}, total = 0;
    for (int32_t v = 0; v < N; v++) {
        load[f->part[v]] += f->weight[v];
        total += f->weight[v];
    }
    for (int32_t p = 0; p < K; p++) {
        assert_true((double)load[p] * K <= most * (double)total);
        assert_true(load[p] > 0);
    }
}

TEST(improving_never_raises_connectivity)
{
    fixture_t f;
    fill(&f);
    for (int32_t v = 0; v < N; v++) {
        f.part[v] = v % K; /* balanced, but with the worst cut */
    }
    int64_t last = connectivity(&f);
    for (int i = 0; i < 6; i++) {
        f.in.seed = i;
        assert_int_equal(plb_partition_improve(&f.in, i > 0, f.part, &f.err), PLB_OK);
        const int64_t now = connectivity(&f);
        assert_true(now <= last);
        assert_balanced(&f, 1.05);
        last = now;
    }
    assert_true(last < 160);
}

TEST(overfull_parts_are_emptied)
{
    fixture_t f;
    fill(&f);
    memset(f.part, 0, sizeof f.part);
    assert_int_equal(plb_partition_improve(&f.in, 1, f.part, &f.err), PLB_OK);
    assert_balanced(&f, 1.05);
}

/* Duplicate pins count once; nets of one vertex or without weight are removed. */
TEST(the_connectivity_is_that_of_the_nets)
{
    fixture_t f;
    plb_hypergraph_t hg;
    int64_t limit[K];
    plb_quality_t quality;
    const plb_limits_t limits = {.n_parts = K, .limit = limit};
    fill(&f);
    f.pin[1] = f.pin[0];
    f.net_weight[3] = 0;
    assert_int_equal(plb_hypergraph_init(&hg, &f.in, &f.err), PLB_OK);
    assert_int_equal(hg.n_nets, N - 1);
    assert_int_equal(plb_partition_limits(&f.in, limit, &f.err), PLB_OK);
    for (int32_t v = 0; v < N; v++) {
        f.part[v] = v / 3 % K;
    }
    const int64_t before = connectivity(&f);
    assert_int_equal(plb_hypergraph_refine(&hg, &limits, NULL, f.part, &quality, &f.err), PLB_OK);
    assert_true(quality.keeps && quality.connectivity == before);
    plb_hypergraph_free(&hg);
}

/* The weights of nets, of edges and of old parts are below 2^31 each, but not together. */
TEST(sums_of_weights_do_not_overflow)
{
    const int32_t net_start[] = {0, 2}, pin[] = {0, 1}, net_weight[] = {INT32_MAX};
    const int32_t start[] = {0, 1, 2}, to[] = {1, 0},
                  edge_weight[] = {INT32_MAX / 2, INT32_MAX / 2};
    const int32_t old[] = {0, 1}, old_cost[] = {INT32_MAX - 1, 1};
    const int64_t limit[] = {2, 2};
    const plb_question_t in = {.n_vertices = 2,
                               .n_parts = 2,
                               .n_weights = 1,
                               .start = start,
                               .to = to,
                               .edge_weight = edge_weight,
                               .n_nets = 1,
                               .net_start = net_start,
                               .pin = pin,
                               .net_weight = net_weight,
                               .old = old,
                               .old_cost = old_cost,
                               .imbalance = 1.03};
    const plb_limits_t limits = {.n_parts = 2, .limit = limit};
    int32_t part[] = {0, 1, 1, 0}; /* vertices, then those that stand for the old parts */
    plb_hypergraph_t hg;
    plb_quality_t quality;
    plb_err_t err;
    assert_int_equal(plb_partition_check(&in, &err), PLB_OK);
    assert_int_equal(plb_hypergraph_init(&hg, &in, &err), PLB_OK);
    assert_int_equal(plb_hypergraph_refine(&hg, &limits, NULL, part, &quality, &err), PLB_OK);
    assert_int_equal(quality.connectivity, (int64_t)INT32_MAX + INT32_MAX / 2 + INT32_MAX - 1 + 1);
    plb_hypergraph_free(&hg);
}

/* ---- libraries that answer badly
 * ------------------------------------------------------------------- */

static int32_t answer; /* the part of every vertex */

static int answers(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    for (int32_t v = 0; v < in->n_vertices; v++) {
        part[v] = answer;
    }
    return PLB_OK;
}

TEST(bad_answers_are_errors_or_corrected)
{
    const plb_partitioner_t bad = {
        .name = "bad", .takes = PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED, .run = answers};
    fixture_t f;
    fill(&f);
    for (answer = -1; answer <= K; answer += K + 1) {
        assert_int_equal(plb_partition_run(&bad, &f.in, f.part, &f.err), PLB_ERR_LIBRARY);
        assert_non_null(strstr(f.err.text, "bad put vertex 0"));
    }
    answer = 1; /* parts 0, 2 and 3 are empty: the repair fills them up to the tolerance */
    assert_int_equal(plb_partition_run(&bad, &f.in, f.part, &f.err), PLB_OK);
    int32_t count[K] = {0};
    for (int32_t v = 0; v < N; v++) {
        count[f.part[v]]++;
    }
    for (int32_t k = 0; k < K; k++) {
        assert_in_range(count[k], N / K / 2, 2 * N / K);
    }
    f.in.fixed = f.fixed;
    assert_int_equal(plb_partition_run(&bad, &f.in, f.part, &f.err), PLB_ERR_LIBRARY);
    assert_non_null(strstr(f.err.text, "bad put vertex 0 into part 1, but it is fixed in part 3"));
    assert_ptr_equal(plb_partitioner_find("bad"), NULL);
    assert_int_equal(plb_partitioner_install(&bad, &f.err), PLB_OK);
    assert_ptr_equal(plb_partitioner_find("bad"), &bad);
    assert_ptr_equal(plb_partitioner_find("pylb"), &plb_builtin);
}

/* ---- names ------------------------------------------------------------------------------------
 */

TEST(bad_overlaps_are_refused)
{
    plb_err_t err;
    int32_t name[2];
    const int32_t part[] = {0, 1, 1}, old[] = {1, 0, 0}, far[] = {1, 0, 2};
    const double kept[] = {1.0, 1.0, 1.0};
    plb_new_names_t in = {.n_parts = 2, .n_ranks = 1, .part = part, .old = old, .kept = kept};
    in.n_kept = 2;
    assert_int_equal(plb_remap(&in, name, &err), PLB_OK);
    assert_true(name[0] == 1 && name[1] == 0);
    int ret = PLB_ERR_NOMEM;
    for (int64_t i = 0; ret == PLB_ERR_NOMEM; i++) {
        plb_mem_fail_at(i);
        ret = plb_remap(&in, name, &err);
    }
    plb_mem_fail_at(-1);
    assert_int_equal(ret, PLB_OK);
    in.n_kept = 3;
    in.old = far;
    assert_int_equal(plb_remap(&in, name, &err), PLB_ERR_RANGE);
}
