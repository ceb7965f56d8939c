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
    int64_t id[N] = {0};
    int32_t value[N] = {0};
    plb_err_t err;
    int ret = PLB_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        id[i] = (first + i) * 1048576;
        value[i] = (int32_t)(first + i);
    }
    const int64_t before = table->n;
    for (int64_t at = 0; ret != PLB_OK; at++) {
        plb_mem_fail_at(at);
        ret = plb_table_put(table, id, value, n, &err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || (ret == PLB_ERR_NOMEM && table->n == before));
    }
}

static void check(const plb_table_t *table, int64_t first, int64_t n, bool there)
{
    int64_t id[N] = {0};
    int32_t value[N];
    for (int64_t i = 0; i < n; i++) {
        id[i] = (first + i) * 1048576;
    }
    plb_table_find(table, id, n, value);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(value[i], there ? first + i : -1);
    }
}

TEST(tables_survive_failed_allocations)
{
    plb_table_t table = {0};
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
    enter(&table, 7 * N, N);
    check(&table, 7 * N, N, true);
    plb_table_free(&table);
    plb_table_free(&table);
}
