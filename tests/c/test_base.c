/* Tests of csrc/base: sort, heap, compressed rows, random numbers, memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "plb.h"
#include "test.h"

static plb_err_t err;

/* ---- errors ----------------------------------------------------------------------------------
 */

/* Return what is printed on standard error if a call fails that got `to` for its error. */
static char *printed(const char *trace, plb_err_t *to)
{
    FILE *usual = stderr;
    char *text = NULL;
    size_t size = 0;
    setenv("PLB_TRACE", trace, 1);
    stderr = open_memstream(&text, &size);
    assert_int_equal(PLB_FAIL(to, PLB_ERR_VALUE, "n is %d", 7), PLB_ERR_VALUE);
    fclose(stderr);
    stderr = usual;
    unsetenv("PLB_TRACE");
    return text;
}

TEST(each_failure_is_traced_if_asked_for)
{
    plb_err_t *const readers[] = {&err, NULL};
    for (int i = 0; i < 2; i++) {
        char *on = printed("1", readers[i]), *off = printed("0", readers[i]);
        assert_non_null(strstr(on, "test_base.c:"));
        assert_non_null(strstr(on, ": n is 7\n"));
        assert_string_equal(off, "");
        free(on);
        free(off);
    }
    assert_string_equal(err.text, "n is 7");
}

/* ---- sort ------------------------------------------------------------------------------------
 */

/* Check a sort: each index occurs once, and the items are in order. */
static void assert_sorted(const double *x, const plb_item_t *item, int64_t n, double sign)
{
    uint8_t *seen = plb_calloc((size_t)n, 1);
    for (int64_t k = 0; k < n; k++) {
        assert_in_range(item[k].id, 0, n - 1);
        assert_false(seen[item[k].id]++);
        assert_true(item[k].key == sign * x[item[k].id]);
        assert_true(k == 0 || plb_item_before(item[k - 1], item[k]));
    }
    plb_free(seen);
}

static void check_both(const double *x, int64_t n)
{
    plb_loads_t loads;
    assert_int_equal(plb_loads_init(&loads, x, n, PLB_ASCENDING, &err), PLB_OK);
    plb_loads_sort(&loads, n);
    assert_sorted(x, loads.item, n, 1.0);
    plb_loads_free(&loads);
    assert_int_equal(plb_loads_init(&loads, x, n, PLB_DESCENDING, &err), PLB_OK);
    for (int64_t upto = 0; upto < n; upto += 1 + n / 5) { /* sort a part at a time */
        plb_loads_sort(&loads, upto);
        assert_true(loads.ready >= upto);
    }
    plb_loads_sort(&loads, n);
    assert_sorted(x, loads.item, n, -1.0);
    plb_loads_free(&loads);
}

static double draw(plb_rng_t *rng, int kind, int64_t i)
{
    const double u = plb_rng_uniform(rng);
    switch (kind) {
    case 0:
        return u;
    case 1:
        return -log(1.0 - u);
    case 2:
        return exp(40.0 * u); /* over 17 decades */
    case 3:
        return (double)(int64_t)(4.0 * u); /* many equal values */
    case 4:
        return 1.0; /* all values equal */
    case 5:
        return 1.0 + 0x1p-52 * (double)(int64_t)(1000.0 * u); /* neighbouring doubles */
    case 6:
        return i == 7 ? 1e30 : u * 1e-9; /* one value far from the others */
    case 7:
        return u < 0.5 ? -u : i % 3 ? u : -0.0; /* both signs, both zeros */
    case 8:
        return 0x1p-1074 * (double)(int64_t)(1e4 * u); /* subnormal numbers */
    case 9:
        return u < 0.1 ? INFINITY : u; /* some infinite values */
    case 10:
        return (u < 0.5 ? -1.7e308 : 1.7e308) * u; /* the range is more than a double holds */
    default:
        return ldexp(1.0, (int)(2000.0 * u) - 1000); /* all exponents */
    }
}

TEST(sort_orders_any_distribution)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 100, 1000, 4095, 4096, 20000};
    double *x = plb_malloc(20000, sizeof *x);
    plb_rng_t rng;
    plb_rng_init(&rng, 1);
    for (int kind = 0; kind < 12; kind++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            for (int64_t i = 0; i < sizes[s]; i++) {
                x[i] = draw(&rng, kind, i);
            }
            check_both(x, sizes[s]);
        }
    }
    plb_free(x);
}

TEST(sort_keeps_equal_values_by_index)
{
    const double x[] = {2, 1, 2, 0.0, -0.0, 1};
    const int32_t expected[] = {0, 2, 1, 5, 3, 4};
    plb_loads_t loads;
    assert_int_equal(plb_loads_init(&loads, x, 6, PLB_DESCENDING, &err), PLB_OK);
    plb_loads_sort(&loads, 6);
    for (int k = 0; k < 6; k++) {
        assert_int_equal(loads.item[k].id, expected[k]);
    }
    plb_loads_free(&loads);
}

/* ---- heap ------------------------------------------------------------------------------------
 */

TEST(heap_pops_in_order_with_ties_by_id)
{
    enum { N = 500 };
    plb_item_t item[N];
    plb_heap_t heap = {item, 0};
    plb_rng_t rng;
    plb_rng_init(&rng, 2);
    for (int32_t i = 0; i < N; i++) {
        plb_heap_push(&heap, (plb_item_t){(double)plb_rng_below(&rng, 20), i});
    }
    plb_item_t last = plb_heap_pop(&heap);
    while (heap.n > 0) {
        const plb_item_t next = plb_heap_pop(&heap);
        assert_true(plb_item_before(last, next));
        last = next;
    }
}

TEST(heap_is_built_and_rekeyed)
{
    plb_item_t item[] = {{5, 0}, {4, 1}, {3, 2}, {2, 3}, {1, 4}, {0, 5}, {0, 6}};
    plb_heap_t heap = {item, 7};
    plb_heap_build(&heap);
    assert_int_equal(heap.item[0].id, 5);
    plb_heap_rekey(&heap, 10.0);
    static const int32_t expected[] = {6, 4, 3, 2, 1, 0, 5};
    for (int k = 0; k < 7; k++) {
        assert_int_equal(plb_heap_pop(&heap).id, expected[k]);
    }
}

/* A queue against an array that is searched from end to end: any item changes or leaves. */
TEST(a_queue_gives_the_smallest_and_of_equal_ones_the_lowest_id)
{
    enum { MOST = 40 };
    for (int32_t n = 1; n < MOST; n++) {
        plb_item_t item[MOST];
        int32_t at[MOST];
        double key[MOST];
        plb_queue_t queue = {item, at, 0};
        plb_rng_t rng;
        plb_rng_init(&rng, (uint64_t)n);
        memset(at, -1, sizeof at);
        for (int32_t id = 0; id < n; id++) {
            key[id] = NAN; /* not in the queue */
        }
        for (int step = 0; step < 500; step++) {
            const int32_t id = (int32_t)plb_rng_below(&rng, (uint64_t)n);
            if (!isnan(key[id]) && plb_rng_below(&rng, 3) == 0) {
                plb_queue_drop(&queue, id);
                key[id] = NAN;
            } else {
                key[id] = (double)plb_rng_below(&rng, 6);
                plb_queue_set(&queue, id, key[id]);
            }
            int32_t first = -1, n_in = 0;
            for (int32_t i = 0; i < n; i++) {
                n_in += !isnan(key[i]);
                first = !isnan(key[i]) && (first < 0 || key[i] < key[first]) ? i : first;
                assert_true(isnan(key[i]) ? at[i] == -1 : item[at[i]].id == i);
            }
            assert_int_equal(queue.n, n_in);
            assert_true(n_in == 0 || (item[0].id == first && item[0].key == key[first]));
        }
        plb_queue_clear(&queue);
        for (int32_t id = 0; id < n; id++) {
            assert_int_equal(at[id], -1);
        }
    }
}

/* ---- groups -------------------------------------------------------------------------------- */

TEST(groups_keep_the_order_of_the_list)
{
    const int32_t group[] = {2, 0, 2, 0, 3, 0};
    static const int64_t start[] = {0, 3, 3, 5, 6, 6};
    static const int32_t item[] = {1, 3, 5, 0, 2, 4};
    plb_groups_t groups;
    assert_int_equal(plb_groups_init(&groups, group, 6, 5, &err), PLB_OK);
    assert_memory_equal(groups.start, start, sizeof start);
    assert_memory_equal(groups.item, item, sizeof item);
    plb_groups_free(&groups);
}

/* ---- random numbers and memory ---------------------------------------------------------------
 */

TEST(rng_repeats_and_keeps_its_range)
{
    plb_rng_t a, b, c;
    plb_rng_init(&a, 7);
    plb_rng_init(&b, 7);
    plb_rng_init(&c, 8);
    double sum = 0.0;
    int same = 0;
    for (int i = 0; i < 10000; i++) {
        const double u = plb_rng_uniform(&a);
        assert_true(u >= 0.0 && u < 1.0 && u == plb_rng_uniform(&b));
        same += u == plb_rng_uniform(&c);
        sum += u;
        assert_true(plb_rng_below(&a, 3) == plb_rng_below(&b, 3));
        assert_true(plb_rng_below(&c, 3) < 3);
    }
    assert_int_equal(same, 0);
    assert_true(fabs(sum / 10000 - 0.5) < 0.01); /* 3.5 standard deviations of the mean */
}

TEST(memory_refuses_an_overflow_and_when_told_to_fail)
{
    assert_null(plb_malloc(SIZE_MAX / 4, 8));
    assert_null(plb_calloc(SIZE_MAX / 4, 8));
    void *p = plb_malloc(0, 8);
    assert_non_null(p);
    plb_mem_fail_at(1);
    void *q = plb_malloc(1, 1);
    assert_non_null(q);
    assert_null(plb_malloc(1, 1));
    plb_free(p);
    p = plb_malloc((size_t)5 << 20, 1); /* a large block, for which huge pages are asked for */
    assert_non_null(p);
    memset(p, 1, (size_t)5 << 20);
    plb_free(p);
    plb_free(q);
}

TEST(failed_allocations_are_errors_without_leaks)
{
    static const double x[] = {3, 1, 2};
    static const int32_t ends[] = {0, 1, 2};
    for (int64_t at = 0;; at++) {
        plb_loads_t loads = {0};
        plb_groups_t groups = {0};
        plb_mem_fail_at(at);
        const int sorted = plb_loads_init(&loads, x, 3, PLB_ASCENDING, &err);
        const int rows = plb_groups_init(&groups, ends, 3, 3, &err);
        plb_mem_fail_at(-1);
        plb_loads_free(&loads);
        plb_groups_free(&groups);
        if (sorted == PLB_OK && rows == PLB_OK) {
            assert_true(at >= 6);
            break;
        }
        assert_true(sorted == PLB_ERR_NOMEM || rows == PLB_ERR_NOMEM);
    }
}

static void *read_clock(void *arg)
{
    *(int64_t *)arg = plb_clock_ns(PLB_CLOCK_AUTO);
    return NULL;
}

/* Each thread has a meter of its own, which is freed when the thread ends. */
TEST(the_clock_without_waits_runs_behind_the_wall_clock)
{
    int64_t last = 0, of_thread = 0;
    for (int i = 0; i < 100000; i++) {
        const int64_t now = plb_clock_ns(PLB_CLOCK_AUTO);
        assert_true(now >= last && now <= plb_clock_ns(PLB_CLOCK_WALL));
        last = now;
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_clock, &of_thread), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(of_thread > 0 && plb_run_delay_ns() >= 0);
}

/* Without a clock, the time is 0 also outside of a virtual rank. */
TEST(no_clock_shows_no_time)
{
    plb_clock_t none;
    assert_true(plb_clock_named("none", &none));
    assert_int_equal(plb_clock_ns(none), 0);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Reserve memory that takes up space only where it is written. */
static void *reserved(size_t bytes)
{
    void *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return out == MAP_FAILED ? NULL : out;
}

TEST(keys_are_numbered_in_order_and_survive_failed_allocations)
{
    enum { N = 3000 };
    plb_keys_t keys = {0};
    assert_int_equal(plb_keys_find(&keys, 7), -1);
    int64_t failures = 0;
    for (int32_t i = 0; i < N; i++) {
        const int64_t some = i % 3 ? (int64_t)i << 32 : -i; /* some have the same lower bits */
        const int64_t key = i == 7 ? INT64_MIN : some;
        int32_t number = -1;
        int ret = PLB_ERR_NOMEM;
        for (int64_t fail_at = 0; ret != PLB_OK; fail_at++) {
            plb_mem_fail_at(fail_at);
            ret = plb_keys_add(&keys, key, &number, &err);
            plb_mem_fail_at(-1);
            failures += ret != PLB_OK;
            assert_true(ret == PLB_OK || (ret == PLB_ERR_NOMEM && keys.n == i));
            assert_int_equal(plb_keys_find(&keys, key), ret == PLB_OK ? i : -1);
        }
        assert_int_equal(number, i);
        assert_int_equal(plb_keys_add(&keys, key, &number, &err), PLB_OK);
        assert_true(number == i && keys.n == i + 1);
    }
    assert_true(failures > 10);
    plb_keys_t over;
    assert_int_equal(plb_keys_over(&over, keys.key, keys.n, &err), PLB_OK);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(plb_keys_find(&keys, keys.key[i]), i);
        assert_int_equal(plb_keys_find(&over, keys.key[i]), i);
        assert_int_equal(plb_keys_find(&over, INT64_MAX - i), -1);
    }
    plb_keys_free(&over);
    plb_keys_free(&keys);
}

TEST(a_table_of_keys_never_exceeds_its_limit)
{
    const int64_t room = INT64_C(1) << 30;
    const size_t bytes[] = {(size_t)room * 8, (size_t)room * 8};
    int64_t *key = reserved(bytes[0]);
    int32_t *bucket = reserved(bytes[1]), number;
    if (key == NULL || bucket == NULL) {
        skip();
    }
    plb_keys_t keys = {.key = key, .n = room, .room = room, .index = {bucket, room}};
    const uint64_t at = ((plb_hash(7) & UINT32_MAX) * (uint64_t)room) >> 32;
    bucket[at] = -1; /* key 7 is new; all other buckets hold key 0, with the number 0 */
    assert_int_equal(plb_keys_add(&keys, 7, &number, &err), PLB_ERR_RANGE);
    assert_string_equal(err.text, "1073741825 keys: expected at most 1073741824");
    assert_true(keys.n == room && bucket[at] == -1);
    munmap(key, bytes[0]);
    munmap(bucket, bytes[1]);
}
