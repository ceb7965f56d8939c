/* Tests of csrc/io, LBDatafiles: every allocation that fails, every prefix, and mutated text, in
 * memory of exactly the text's size, so that a sanitizer finds every access beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plb.h"

static const char rank0[] =
    "{\"type\": \"LBDatafile\", \"metadata\": {\"type\": \"LBDatafile\", \"rank\": 0, \"k\": "
    "\"\\u00e9\"},\n"
    " \"phases\": [{\"id\": 0, \"tasks\": [\n"
    "  {\"entity\": {\"type\": \"object\", \"id\": 4325376060, \"home\": 0, \"migratable\": "
    "true,\n"
    "    \"collection_id\": 7, \"index\": [0, 1]}, \"node\": 0, \"resource\": \"cpu\",\n"
    "   \"time\": 0.0018230750000043372, \"subphases\": [{\"id\": 0, \"time\": 1e-3}],\n"
    "   \"user_defined\": {\"shared_id\": 3, \"task_footprint_bytes\": 800.5, \"x\": [null, "
    "false]}},\n"
    "  {\"entity\": {\"type\": \"object\", \"seq_id\": 2, \"home\": 1, \"migratable\": false},\n"
    "   \"node\": 0, \"resource\": \"cpu\", \"time\": 123456789012345678901234567890e-25}],\n"
    "  \"communications\": [{\"type\": \"SendRecv\", \"bytes\": 64.0, \"messages\": 1,\n"
    "   \"from\": {\"type\": \"object\", \"id\": 4325376060}, \"to\": {\"type\": \"node\", "
    "\"id\": 1}}]},\n"
    "  {\"id\": 3, \"lb_iterations\": []}]}";

static const char rank1[] =
    "{\"phases\":[{\"id\":0,\"tasks\":[{\"entity\":{\"type\":\"object\",\"id\":5,\"home\":1,"
    "\"migratable\":true},\"node\":1,\"time\":2.5}],\"communications\":[{\"type\":\"Broadcast\","
    "\"bytes\":1.0,\"messages\":2,\"from\":{\"type\":\"object\",\"id\":5},\"to\":{\"type\":"
    "\"object\",\"seq_id\":2}}]},{\"id\":3,\"tasks\":[]}]}";

/* Scan and merge the files, and write each one under a placement of all movable tasks on the last
 * rank. */
static int whole_path(const char *const *text, const size_t *size, int32_t n, plb_err_t *err)
{
    plb_vt_scan_t scan[2] = {0};
    const plb_vt_scan_t *files[2] = {&scan[0], &scan[1]};
    plb_vt_run_t run = {0};
    plb_vt_plan_t plan = {0};
    int32_t *rank = NULL;
    int64_t *source = NULL;
    int ret = PLB_OK;
    for (int32_t f = 0; ret == PLB_OK && f < n; f++) {
        ret = plb_vt_scan(&scan[f], text[f], size[f], f == 0 ? "rank0" : "rank1", err);
    }
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(source, scan[0].n_phases);
    for (int64_t i = 0; i < scan[0].n_phases; i++) {
        source[i] = i;
    }
    ret = plb_vt_merge(&run, files, n, source, scan[0].n_phases, err);
    if (ret != PLB_OK) {
        goto out;
    }
    PLB_NEW(rank, run.n_tasks);
    for (int64_t t = 0; t < run.n_tasks; t++) {
        rank[t] = run.entity_migratable[run.task_entity[t]] ? n - 1 : run.task_rank[t];
    }
    ret = plb_vt_plan_init(&plan, files, n, source, scan[0].n_phases, &run, rank, err);
    for (int32_t f = 0; ret == PLB_OK && f < n; f++) {
        char *out = NULL;
        size_t length = 0;
        ret = plb_vt_write(&plan, f, &out, &length, err);
        if (ret == PLB_OK) {
            plb_vt_scan_t again;
            ret = plb_vt_scan(&again, out, length, "again", err);
            assert_int_not_equal(ret, PLB_ERR_FORMAT); /* the output is an LBDatafile */
            plb_vt_scan_free(&again);
            plb_free(out);
        }
    }
out:
    plb_vt_plan_free(&plan);
    plb_vt_run_free(&run);
    for (int32_t f = 0; f < n; f++) {
        plb_vt_scan_free(&scan[f]);
    }
    plb_free(rank);
    plb_free(source);
    return ret;
}

static int both(plb_err_t *err)
{
    const char *text[] = {rank0, rank1};
    const size_t size[] = {sizeof rank0 - 1, sizeof rank1 - 1};
    return whole_path(text, size, 2, err);
}

static void test_scan(void **state)
{
    (void)state;
    plb_vt_scan_t s;
    plb_err_t err;
    assert_int_equal(plb_vt_scan(&s, rank0, sizeof rank0 - 1, "rank0", &err), PLB_OK);
    assert_int_equal(s.n_phases, 2);
    assert_int_equal(s.n_tasks, 2);
    assert_int_equal(s.tasks[0].entity.name.id, 4325376060);
    assert_true(s.tasks[0].time == 0.0018230750000043372);
    assert_true(s.tasks[1].time == 123456789012345678901234567890e-25);
    assert_int_equal(s.tasks[1].entity.name.kind, PLB_VT_SEQ_ID);
    assert_true(s.user[s.tasks[0].user][PLB_VT_task_footprint_bytes] == 800.5);
    assert_memory_equal(rank0 + s.tasks[0].entity.index.begin, "[0, 1]", 6);
    assert_memory_equal(rank0 + s.metadata.begin, "{\"type\": \"LBDatafile\"", 21);
    plb_vt_scan_free(&s);
    plb_vt_scan_free(&s);
}

static void test_every_allocation_fails(void **state)
{
    (void)state;
    plb_err_t err = {0, ""};
    assert_int_equal(both(&err), PLB_OK);
    int n = 0;
    for (int ret = PLB_ERR_NOMEM; ret != PLB_OK; n++) {
        plb_mem_fail_at(n);
        ret = both(&err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
    }
    assert_true(n > 40);
}

/* Copy the text into memory of exactly its size and process it; the result must be PLB_OK or
 * PLB_ERR_FORMAT. */
static int alone(const char *text, size_t size)
{
    plb_err_t err = {0, ""};
    char *copy = malloc(size == 0 ? 1 : size);
    memcpy(copy, text, size);
    const char *texts[] = {copy};
    const int ret = whole_path(texts, &size, 1, &err);
    assert_true(ret == PLB_OK || ret == PLB_ERR_FORMAT);
    free(copy);
    return ret;
}

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof rank0 - 1; size++) {
        assert_int_equal(alone(rank0, size), PLB_ERR_FORMAT);
    }
    assert_int_equal(alone(rank0, sizeof rank0 - 1), PLB_OK);
}

static size_t mutate(char *text, size_t size, plb_rng_t *rng)
{
    static const char spice[] = "\"\\{}[]:,0123456789eE+-.tfn\x80\xe2\xff\n ";
    const size_t at = plb_rng_below(rng, size), from = plb_rng_below(rng, size);
    const size_t n = 1 + plb_rng_below(rng, 24);
    switch (plb_rng_below(rng, 4)) {
    case 0:
        text[at] = spice[plb_rng_below(rng, sizeof spice)];
        return size;
    case 1:
        text[at] ^= (char)(1 << plb_rng_below(rng, 8));
        return size;
    case 2: /* remove */
        if (at + n >= size) {
            return at + 1;
        }
        memmove(text + at, text + at + n, size - at - n);
        return size - n;
    default: /* copy a piece of the text to another place */
        memmove(text + at, text + from,
                size - (at > from ? at : from) < n ? size - (at > from ? at : from) : n);
        return size;
    }
}

static void test_mutated_text(void **state)
{
    (void)state;
    plb_rng_t rng;
    plb_rng_init(&rng, 7);
    const char *rounds = getenv("PLB_FUZZ_ROUNDS");
    int good = 0;
    for (long i = 0; i < (rounds == NULL ? 20000 : atol(rounds)); i++) {
        char text[sizeof rank0];
        size_t size = sizeof rank0 - 1;
        memcpy(text, rank0, size);
        for (uint64_t k = 1 + plb_rng_below(&rng, 3); k > 0; k--) {
            size = mutate(text, size, &rng);
        }
        good += alone(text, size) == PLB_OK;
    }
    assert_true(good > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_mutated_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
