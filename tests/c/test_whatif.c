/* Tests of csrc/whatif: cases computed by hand, failing allocations. */
#include "plb.h"
#include "test.h"

enum { MS = 1000000 };

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
    static const int64_t start[] = {0, 2, 3}, n[] = {6, 6};
    static const int32_t member[] = {0, 1, 1};
    const plb_op_t *const op[] = {sender, receiver};
    const plb_streams_t streams = {2, op, n, {2, start, member}};
    return plb_whatif(&streams, target, NULL, out, err);
}

TEST(test_a_case_by_hand)
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
