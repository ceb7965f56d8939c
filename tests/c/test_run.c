/* Tests of csrc/run: the communication graph, with multicasts and without, compared with plain
 * loops. */
#include "base/base.h"
#include "run/run.h"
#include "test.h"

enum { MESSAGES = 400, OBJECTS = 30 };

static int64_t below(plb_rng_t *rng, int64_t n)
{
    return (int64_t)plb_rng_below(rng, (uint64_t)n);
}

/* The sums of each pair do not depend on the order of the messages. */
TEST(test_talk)
{
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
            assert_int_equal(plb_talk_add(&talk, from - 9, (int64_t[]){to - 9}, 1, i, &err),
                             PLB_OK);
        }
    }
    const int64_t gone[] = {0, 5, 77};
    plb_keys_t keys;
    assert_int_equal(plb_keys_over(&keys, gone, 3, &err), PLB_OK);
    assert_int_equal(plb_talk_drop(&talk, &keys, &err), PLB_OK);
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
    assert_int_equal(plb_talk_add(&talk, 1, (int64_t[]){2}, 1, 3, &err), PLB_OK);
    assert_int_equal(talk.n, 1);
    plb_talk_free(&talk);
}

typedef struct cast {
    int64_t source, target[4], n, bytes, messages;
} cast_t;

/* Add a message to the group with this sender and these receivers; make the group if it does not
 * exist. */
static void add_to(cast_t *group, int64_t *n_groups, cast_t more)
{
    int64_t k = 0;
    while (k < *n_groups &&
           (group[k].source != more.source || group[k].n != more.n ||
            memcmp(group[k].target, more.target, (size_t)more.n * sizeof *more.target) != 0)) {
        k++;
    }
    if (k == *n_groups) {
        group[(*n_groups)++] = more;
    } else {
        group[k].bytes += more.bytes;
        group[k].messages += more.messages;
    }
}

/* Check that the groups of edges are those of a plain list, in order of their first messages. */
static void check_groups(const plb_talk_t *talk, const cast_t *group, int64_t n_groups)
{
    int64_t k = 0;
    for (int64_t g = 0; g < n_groups; g++) {
        for (int64_t j = 0; j < group[g].n; j++, k++) {
            const plb_edge_t edge = talk->edge[k];
            assert_int_equal(edge.source, group[g].source);
            assert_int_equal(edge.target, group[g].target[j]);
            assert_int_equal(edge.bytes, group[g].bytes);
            assert_int_equal(edge.messages, group[g].messages);
            assert_true((edge.cast != 0) == (group[g].n > 1));
            const bool same = k > 0 && edge.cast != 0 && edge.cast == talk->edge[k - 1].cast;
            assert_true(same == (j > 0));
        }
    }
    assert_int_equal(talk->n, k);
}

/* Multicasts, some of which become equal when receivers are removed. */
TEST(test_multicasts)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        plb_talk_t talk = {0};
        plb_err_t err;
        plb_rng_t rng;
        plb_rng_init(&rng, seed);
        cast_t group[MESSAGES], left[MESSAGES];
        int64_t n_groups = 0, n_left = 0;
        for (int i = 0; i < MESSAGES; i++) {
            cast_t one = {below(&rng, 2), {0}, 1 + below(&rng, 4), i, 1};
            for (int64_t j = 0; j < one.n; j++) {
                one.target[j] = below(&rng, 3);
            }
            add_to(group, &n_groups, one);
            assert_int_equal(plb_talk_add(&talk, one.source, one.target, one.n, i, &err), PLB_OK);
        }
        check_groups(&talk, group, n_groups);
        const int64_t gone[] = {1 + (int64_t)(seed % 2)};
        plb_keys_t keys;
        assert_int_equal(plb_keys_over(&keys, gone, 1, &err), PLB_OK);
        assert_int_equal(plb_talk_drop(&talk, &keys, &err), PLB_OK);
        plb_keys_free(&keys);
        for (int64_t g = 0; g < n_groups; g++) {
            cast_t one = group[g];
            one.n = 0;
            for (int64_t j = 0; j < group[g].n; j++) {
                one.target[one.n] = group[g].target[j];
                one.n += one.target[one.n] != gone[0];
            }
            if (one.n > 0 && one.source != gone[0]) {
                add_to(left, &n_left, one);
            }
        }
        check_groups(&talk, left, n_left);
        plb_talk_free(&talk);
    }
}

/* A failed allocation leaves the graph as it was; tests/base/test_no_memory.py has all others. */
TEST(test_no_memory)
{
    plb_talk_t talk = {0};
    plb_err_t err;
    for (int64_t i = 0; i < 100; i++) {
        plb_mem_fail_at(0);
        const int ret = plb_talk_add(&talk, i, &i, 1, 1, &err);
        plb_mem_fail_at(-1);
        if (ret != PLB_OK) {
            assert_int_equal(ret, PLB_ERR_NOMEM);
            assert_int_equal(talk.n, i);
            assert_int_equal(plb_talk_add(&talk, i, &i, 1, 1, &err), PLB_OK);
        }
    }
    assert_int_equal(talk.n, 100);
    plb_talk_free(&talk);
}
