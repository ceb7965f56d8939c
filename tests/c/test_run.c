/* Room run: the order of messages, and the communication graph, against plain loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rng.h"
#include "run/inbox.h"
#include "run/talk.h"

enum { MESSAGES = 400, OBJECTS = 30 };

static int64_t below(plb_rng_t *rng, int64_t n)
{
    return (int64_t)plb_rng_below(rng, (uint64_t)n);
}

/* Each object reads all of its messages, by source, and those of one source as they came. */
static void test_inboxes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        int32_t to[MESSAGES], order[MESSAGES];
        int64_t source[MESSAGES], start[OBJECTS + 1];
        const int64_t m = below(&rng, MESSAGES + 1), n = 1 + below(&rng, OBJECTS);
        const int64_t sources = 1 + below(&rng, 20);
        int64_t known = 0;
        for (int64_t i = 0; i < m; i++) {
            to[i] = (int32_t)below(&rng, n + 1) - 1;
            source[i] = below(&rng, sources) - 5;
            known += to[i] >= 0;
        }
        plb_err_t err;
        assert_int_equal(plb_inbox_order(to, source, m, n, start, order, &err), PLB_OK);
        assert_int_equal(start[0], 0);
        assert_int_equal(start[n], known);
        for (int64_t k = 0; k < n; k++) {
            for (int64_t i = start[k]; i < start[k + 1]; i++) {
                assert_int_equal(to[order[i]], k);
                if (i > start[k]) {
                    const int64_t a = source[order[i - 1]], b = source[order[i]];
                    assert_true(a < b || (a == b && order[i - 1] < order[i]));
                }
            }
        }
    }
}

/* Sums of each pair, whatever the order of the messages. */
static void test_talk(void **state)
{
    (void)state;
    plb_talk_t talk = {0};
    plb_err_t err;
    plb_rng_t rng;
    plb_rng_init(&rng, 7);
    int64_t bytes[OBJECTS][OBJECTS] = {0}, messages[OBJECTS][OBJECTS] = {0};
    for (int pass = 0; pass < 3; pass++) {
        for (int i = 0; i < 5 * MESSAGES; i++) {
            const int64_t from = below(&rng, OBJECTS), to = below(&rng, OBJECTS);
            bytes[from][to] += i;
            messages[from][to]++;
            assert_int_equal(plb_talk_add(&talk, from - 9, to - 9, i, &err), PLB_OK);
        }
    }
    const int64_t gone[] = {0, 5, 77};
    plb_keys_t keys;
    assert_int_equal(plb_keys_over(&keys, gone, 3, &err), PLB_OK);
    plb_talk_drop(&talk, &keys);
    plb_keys_free(&keys);
    for (int64_t k = 0; k < talk.n; k++) {
        const plb_edge_t t = talk.edge[k];
        assert_true(t.source != 0 && t.source != 5 && t.target != 0 && t.target != 5);
        assert_int_equal(t.bytes, bytes[t.source + 9][t.target + 9]);
        assert_int_equal(t.messages, messages[t.source + 9][t.target + 9]);
        messages[t.source + 9][t.target + 9] = 0;
    }
    for (int64_t from = 0; from < OBJECTS; from++) {
        for (int64_t to = 0; to < OBJECTS; to++) {
            const int stays = from != 9 && from != 14 && to != 9 && to != 14;
            assert_true(!stays || messages[from][to] == 0);
        }
    }
    plb_talk_clear(&talk);
    assert_int_equal(talk.n, 0);
    assert_int_equal(plb_talk_add(&talk, 1, 2, 3, &err), PLB_OK);
    assert_int_equal(talk.n, 1);
    plb_talk_free(&talk);
}

/* A failed allocation leaves the graph as it was. */
static void test_no_memory(void **state)
{
    (void)state;
    plb_talk_t talk = {0};
    plb_err_t err;
    for (int64_t i = 0; i < 100; i++) {
        plb_mem_fail_at(0);
        const int ret = plb_talk_add(&talk, i, i, 1, &err);
        plb_mem_fail_at(-1);
        if (ret != PLB_OK) {
            assert_int_equal(ret, PLB_ERR_NOMEM);
            assert_int_equal(talk.n, i);
            assert_int_equal(plb_talk_add(&talk, i, i, 1, &err), PLB_OK);
        }
    }
    assert_int_equal(talk.n, 100);
    plb_talk_free(&talk);
    const int32_t to[] = {0};
    const int64_t source[] = {0};
    int64_t start[2];
    int32_t order[1];
    plb_mem_fail_at(0);
    assert_int_equal(plb_inbox_order(to, source, 1, 1, start, order, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    int64_t key[] = {4, -4, INT64_MAX, INT64_MIN, 0};
    plb_keys_t keys;
    plb_mem_fail_at(0);
    assert_int_equal(plb_keys_over(&keys, key, 5, &err), PLB_ERR_NOMEM);
    plb_mem_fail_at(-1);
    assert_int_equal(plb_keys_over(&keys, key, 5, &err), PLB_OK);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(plb_keys_find(&keys, key[i]), i);
    }
    assert_int_equal(plb_keys_find(&keys, 1), -1);
    plb_keys_free(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inboxes),
        cmocka_unit_test(test_talk),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
