/* Tests of csrc/whatif: cases computed by hand, failing allocations. */
#include "plb.h"
#include "test.h"

enum { MS = 1000000 };

static const int64_t world_start[] = {0, 2};
static const int32_t world[] = {0, 1};
static const plb_comms_t comms = {1, world_start, world};

static plb_target_t on(const int32_t *place)
{
    static const double speed[] = {1.0, 0.5}, alpha = 1e-3, beta = 1e-6;
    static const int32_t node[] = {0, 0};
    return (plb_target_t){.n_processors = 2,
                          .n_nodes = 1,
                          .place = place,
                          .speed = speed,
                          .node = node,
                          .alpha = &alpha,
                          .beta = &beta,
                          .eager = 100};
}

/* Rank 0 sends, rank 1 receives; a nonblocking barrier follows. */
static const plb_op_t sender[] = {
    {.kind = PLB_OP_SEND, .peer = 1, .bytes = 100, .compute = 4 * MS},
    {.kind = PLB_OP_ISEND, .peer = 1, .bytes = 1000, .request = 0},
    {.kind = PLB_OP_WAIT, .request = 0},
    {.kind = PLB_OP_ICOLL, .what = PLB_BARRIER, .request = 0},
    {.kind = PLB_OP_WAIT, .request = 0},
    {.kind = PLB_OP_END},
};
static const plb_op_t receiver[] = {
    {.kind = PLB_OP_RECV, .peer = 0, .flags = PLB_OP_ANY_SOURCE},
    {.kind = PLB_OP_RECV, .peer = 0, .flags = PLB_OP_ANY_SOURCE},
    {.kind = PLB_OP_ICOLL, .what = PLB_BARRIER, .request = 70, .tag = 1},
    {.kind = PLB_OP_WAIT, .request = 70},
    {.kind = PLB_OP_COLL, .what = PLB_BARRIER, .comm = 1},
    {.kind = PLB_OP_END},
};

static int simulate(const plb_target_t *target, plb_process_times_t *out, plb_err_t *err)
{
    static const int64_t start[] = {0, 2, 3};
    static const int32_t member[] = {0, 1, 1};
    int32_t missing;
    plb_whatif_t *sim = plb_whatif_new(2, &comms, target, err);
    if (sim == NULL) {
        return err->code;
    }
    int ret = plb_whatif_feed(sim, 0, sender, 1, false, NULL, err);
    ret = ret ? ret : plb_whatif_feed(sim, 1, receiver, 4, false, NULL, err);
    ret = ret ? ret : plb_whatif_run(sim, &missing, err);
    if (ret == PLB_OK) {
        assert_int_equal(missing, 0);
        const plb_comms_t more = {2, start, (int32_t *)member};
        ret = plb_whatif_comms(sim, &more, err);
        ret = ret ? ret : plb_whatif_feed(sim, 1, receiver, 6, true, NULL, err);
        ret = ret ? ret : plb_whatif_feed(sim, 0, sender, 6, true, NULL, err);
        ret = ret ? ret : plb_whatif_run(sim, &missing, err);
    }
    if (ret == PLB_OK) {
        assert_int_equal(missing, -1);
        plb_whatif_times(sim, out);
    }
    plb_whatif_destroy(sim);
    return ret;
}

TEST(test_records_that_become_known_in_parts)
{
    static const int32_t place[] = {1, 0};
    const plb_target_t target = on(place);
    plb_process_times_t times[2];
    plb_err_t err = {0, ""};
    assert_int_equal(simulate(&target, times, &err), PLB_OK);
    /* work: 4 ms at half speed; message: 1.1 ms, and 3 ms more for the rendezvous; barrier: 1 ms
     */
    assert_true(fabs(times[0].finish - (0.008 + 0.0011 + 0.003 + 0.001)) < 1e-12);
    assert_true(fabs(times[1].finish - 0.0131) < 1e-12);
    assert_int_equal(times[0].end, PLB_END_THROUGH);
    assert_int_equal(times[1].done, 6);
}

TEST(test_out_of_memory)
{
    static const int32_t place[] = {0, 0};
    const plb_target_t target = on(place);
    plb_process_times_t times[2];
    int n = 0;
    for (int ret = PLB_ERR_NOMEM; ret != PLB_OK; n++) {
        plb_err_t err = {0, ""};
        plb_mem_fail_at(n);
        ret = simulate(&target, times, &err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
    }
    assert_true(n > 10);
}
