/* Tests of csrc/place: the communication graph of a snapshot, from edges in any form. */
#include "base/mem.h"
#include "base/rng.h"
#include "place/internal.h"
#include "test.h"

enum { N = 90, M = 1500 };
enum form { BOTH_WAYS, ONE_WAY, ANY, FORMS };

typedef struct fixture {
    double load[N], bytes[M], dense[N][N]; /* dense: bytes between each pair, in both directions */
    int32_t rank[N], src[M], dst[M];
    int64_t m;
    plb_snapshot_t snapshot;
} fixture_t;

static void add(fixture_t *f, int32_t a, int32_t b, double bytes)
{
    f->src[f->m] = a;
    f->dst[f->m] = b;
    f->bytes[f->m++] = bytes;
    if (a != b) {
        f->dense[a][b] += bytes;
        f->dense[b][a] += bytes;
    }
}

static void fill(fixture_t *f, enum form form)
{
    plb_rng_t rng;
    plb_rng_init(&rng, 3);
    memset(f, 0, sizeof *f);
    for (int32_t a = 0; a < N; a++) {
        f->load[a] = 1.0;
        f->rank[a] = a % 3;
        for (int32_t b = 0; form != ANY && b < N; b++) {
            const bool near = (a + b) % 11 == 0 && a != b;
            if (near && (form != ONE_WAY || a < b)) {
                add(f, a, b, 1.0 + (double)plb_rng_below(&rng, 50));
            }
        }
    }
    for (int e = 0; form == ANY && e < M; e++) { /* loops and duplicates may occur */
        add(f, (int32_t)plb_rng_below(&rng, N), (int32_t)plb_rng_below(&rng, N), 8.0);
    }
    f->snapshot = (plb_snapshot_t){.n_objects = N,
                                   .n_ranks = 3,
                                   .n_components = 1,
                                   .load = f->load,
                                   .rank = f->rank,
                                   .n_edges = f->m,
                                   .edge_src = f->src,
                                   .edge_dst = f->dst,
                                   .edge_bytes = f->bytes};
}

static int graph_of(fixture_t *f, plb_parts_t *parts, plb_err_t *err)
{
    const int ret = plb_parts_init(parts, &f->snapshot, false, 1.03, 0, err);
    return ret == PLB_OK ? plb_parts_graph(parts, err) : ret;
}

TEST(test_rows_are_those_of_the_dense_matrix)
{
    static fixture_t f;
    for (int form = 0; form < FORMS; form++) {
        plb_parts_t parts;
        plb_err_t err = {0, ""};
        fill(&f, form);
        assert_int_equal(graph_of(&f, &parts, &err), PLB_OK);
        const plb_question_t *q = &parts.question;
        for (int32_t v = 0; v < N; v++) {
            int32_t at = q->start[v];
            for (int32_t w = 0; w < N; w++) {
                if (f.dense[v][w] > 0.0) {
                    assert_int_equal(q->to[at], w);
                    assert_int_equal(q->edge_weight[at++], (int32_t)f.dense[v][w]);
                }
            }
            assert_int_equal(at, q->start[v + 1]);
        }
        plb_parts_free(&parts);
    }
}

TEST(test_an_allocation_that_fails)
{
    static fixture_t f;
    for (int form = 0; form < FORMS; form++) {
        fill(&f, form);
        int ret = PLB_ERR_NOMEM;
        for (int64_t k = 0; ret == PLB_ERR_NOMEM; k++) {
            plb_parts_t parts = {0};
            plb_err_t err = {0, ""};
            plb_mem_fail_at(k);
            ret = graph_of(&f, &parts, &err);
            plb_mem_fail_at(-1);
            plb_parts_free(&parts);
        }
        assert_int_equal(ret, PLB_OK);
    }
}
