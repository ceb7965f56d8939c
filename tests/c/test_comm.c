/* Tests of csrc/comm: routes and tables under failing allocations, and an almost full table. */
#include "plb.h"
#include "test.h"

enum { N = 1000 };

TEST(routes_survive_failed_allocations)
{
    const int32_t to[] = {2, 0, 2, 4, 0};
    const int32_t order[] = {1, 4, 0, 2, 3};
    plb_route_t route;
    plb_err_t err;
    int ret = PLB_ERR_NOMEM;
    for (int64_t at = 0; ret != PLB_OK; at++) {
        plb_mem_fail_at(at);
        ret = plb_route_init(&route, to, 5, 5, &err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
    }
    assert_int_equal(route.n_peers, 3);
    assert_memory_equal(route.order, order, sizeof order);
    plb_route_free(&route);
    plb_route_free(&route);
}

static void enter(plb_table_t *table, int64_t first, int64_t n)
{
    int64_t id[N] = {0}, slot[N], local[N] = {0}, twice[2];
    int32_t owner[N] = {0};
    plb_err_t err;
    int ret = PLB_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        id[i] = (first + i) * 1048576;
        local[i] = first + i;
        owner[i] = (int32_t)(first + i);
    }
    const int64_t before = table->n;
    for (int64_t at = 0; ret != PLB_OK; at++) {
        plb_mem_fail_at(at);
        ret = plb_table_stage(table, id, n, slot, twice, &err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || (ret == PLB_ERR_NOMEM && table->n == before));
    }
    plb_table_commit(table, slot, n, owner, local, (const char *)local);
}

static void check(const plb_table_t *table, int64_t first, int64_t n, bool there)
{
    int64_t id[N] = {0}, local[N], missing;
    int32_t owner[N];
    for (int64_t i = 0; i < n; i++) {
        id[i] = (first + i) * 1048576;
    }
    const int64_t absent = plb_table_find(table, id, n, owner, local, NULL, &missing);
    assert_int_equal(absent, there ? 0 : n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(local[i], there ? first + i : -1);
    }
}

TEST(tables_survive_failed_allocations)
{
    plb_table_t table;
    plb_table_init(&table, sizeof(int64_t), true);
    check(&table, 0, 3, false);
    enter(&table, 0, N);
    enter(&table, N, 300);
    check(&table, 0, N, true);
    check(&table, 5 * N, 300, false);
    int64_t gone[N];
    for (int64_t i = 0; i < N; i++) {
        gone[i] = i * 1048576;
    }
    assert_int_equal(plb_table_remove(&table, gone, N), N);
    assert_int_equal(plb_table_remove(&table, gone, N), 0);
    check(&table, 0, N, false);
    check(&table, N, 300, true);
    const int32_t rows = table.n_rows;
    enter(&table, 7 * N, N); /* the new entries use rows of removed entries */
    assert_int_equal(table.n_rows, rows);
    check(&table, 7 * N, N, true);
    plb_table_free(&table);
    plb_table_free(&table);
}
