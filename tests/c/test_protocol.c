/* Tests of csrc/replay: the calendar queue, the simulation of the protocol. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plb.h"

static plb_err_t err;

/* Every event comes once, after all events of earlier buckets, however early it was pushed. */
static void a_calendar_gives_events_bucket_by_bucket(void **state)
{
    (void)state;
    enum { N = 20000 };
    static int seen[N];
    plb_calendar_t c;
    plb_rng_t rng;
    plb_event_t e[PLB_CHUNK_EVENTS];
    int n = 0, given = 0, taken = 0;
    memset(seen, 0, sizeof seen);
    plb_rng_init(&rng, 5);
    assert_int_equal(plb_calendar_init(&c, 0.3, 16, &err), PLB_OK);
    for (; given < 1000; given++) {
        const double t = plb_rng_uniform(&rng) * (given % 7 == 0 ? 100.0 : 3.0);
        assert_int_equal(plb_calendar_push(&c, t, given, &err), PLB_OK);
    }
    double bucket = 0.0;
    for (;;) {
        assert_int_equal(plb_calendar_take(&c, e, &n, &err), PLB_OK);
        if (n == 0) {
            break;
        }
        const double b = floor(e[0].time / 0.3);
        assert_true(b >= bucket);
        bucket = b;
        for (int i = 0; i < n; i++) {
            assert_true(floor(e[i].time / 0.3) == b);
            assert_int_equal(seen[e[i].owner]++, 0);
            taken++;
            /* one of the two new events may be in the present bucket */
            for (int k = 0; k < 2 && given < N; k++) {
                const double t = e[i].time + plb_rng_uniform(&rng) * (k == 0 ? 0.1 : 9.0);
                assert_int_equal(plb_calendar_push(&c, t, given++, &err), PLB_OK);
            }
        }
    }
    assert_int_equal(taken, N);
    assert_int_equal(c.n, 0);
    plb_calendar_free(&c);
    plb_calendar_free(&c);
}

static plb_protocol_t setting(int i)
{
    plb_protocol_t q;
    plb_protocol_defaults(&q);
    q.n_ranks = 97;
    q.lag = i % 3 == 0 ? 0 : i % 3 * 3 - 2;
    q.serves = i % 4;
    q.fanout = 1 + i % 5;
    q.every = 7;
    q.noise = 0.2;
    q.spread = i % 2 ? 0.1 : 0.0;
    q.seed = i;
    return q;
}

/* The results do not depend on the order of the events within a bucket. */
static void results_do_not_depend_on_the_buckets(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++) {
        plb_protocol_result_t a, b;
        plb_protocol_t q = setting(i);
        assert_int_equal(plb_protocol_run(&q, &a, &err), PLB_OK);
        q.bucket = 0.0371;
        assert_int_equal(plb_protocol_run(&q, &b, &err), PLB_OK);
        assert_true(a.seconds == b.seconds && a.pause == b.pause && a.lagged == b.lagged);
        assert_true(a.gathered == b.gathered && a.received == b.received);
        assert_int_equal(a.n_decisions, b.n_decisions);
        assert_true(a.n_decisions > 1);
        assert_memory_equal(a.decision, b.decision, (size_t)a.n_decisions * sizeof *a.decision);
        plb_protocol_result_free(&a);
        plb_protocol_result_free(&b);
        plb_protocol_result_free(&b);
    }
}

/* Times near 68 s are rounded to 1.4e-14 s, and a message takes 1e-9 s: it must not arrive in the
 * bucket in which it was sent. */
static void a_message_does_not_arrive_early_by_rounding(void **state)
{
    (void)state;
    double seconds = 0.0, pause = 0.0;
    for (double bucket = 1.0; bucket > 0.01; bucket /= 7.0) {
        plb_protocol_result_t out;
        plb_protocol_t q;
        plb_protocol_defaults(&q);
        q.n_ranks = 2;
        q.iterations = 32;
        q.every = q.serves = 1;
        q.lag = q.halo = 0;
        q.work = 2.000001;
        q.balancing = q.L = 1e-9;
        q.o = q.G = q.spread = q.noise = 0.0;
        q.g = 2.0;
        q.bucket = bucket;
        assert_int_equal(plb_protocol_run(&q, &out, &err), PLB_OK);
        assert_true(bucket == 1.0 || (out.seconds == seconds && out.pause == pause));
        seconds = out.seconds;
        pause = out.pause;
        plb_protocol_result_free(&out);
    }
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    plb_protocol_t q = setting(0);
    q.n_ranks = 5;
    q.halo = 0;
    q.work = 2e-6; /* ranks run far ahead, so the window grows */
    int ret = PLB_ERR_NOMEM;
    for (int64_t n = 0; ret != PLB_OK; n++) {
        plb_protocol_result_t out;
        plb_mem_fail_at(n);
        ret = plb_protocol_run(&q, &out, &err);
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
        assert_true(n < 1000);
        plb_protocol_result_free(&out);
    }
}

/* Without a sweep over all buckets between the events, which would take years. */
static void a_calendar_skips_empty_buckets(void **state)
{
    (void)state;
    plb_calendar_t c;
    plb_event_t e[PLB_CHUNK_EVENTS];
    plb_err_t err;
    int n;
    assert_int_equal(plb_calendar_init(&c, 1.0, 16, &err), PLB_OK);
    for (int64_t k = 0; k < 46; k++) {
        assert_int_equal(plb_calendar_push(&c, (double)(INT64_C(1) << k), k, &err), PLB_OK);
    }
    for (int64_t k = 0; k < 46; k++) {
        assert_int_equal(plb_calendar_take(&c, e, &n, &err), PLB_OK);
        assert_true(n == 1 && e[0].owner == k);
    }
    assert_int_equal(plb_calendar_take(&c, e, &n, &err), PLB_OK);
    assert_int_equal(n, 0);
    assert_int_equal(plb_calendar_push(&c, 0x1p60, 0, &err), PLB_ERR_VALUE);
    plb_calendar_free(&c);
}

/* Beside an overhead of 1e9 s, rounding leaves nothing of the time between two services. */
static void very_unequal_times_end(void **state)
{
    (void)state;
    plb_protocol_result_t out;
    plb_protocol_t q = setting(0);
    q.n_ranks = 12;
    q.iterations = 38;
    q.every = 2;
    q.serves = 2;
    q.blocked = 0;
    q.spread = q.noise = 1e-9;
    q.work = 2e-6;
    q.L = 1.01e-7;
    q.o = 1e9;
    q.g = 1e-5;
    q.G = 1e-9;
    q.fanout = 5;
    q.balancing = 1e-6;
    q.bytes = 132;
    q.halo_bytes = 36;
    const int ret = plb_protocol_run(&q, &out, &err);
    assert_true(ret == PLB_OK || ret == PLB_ERR_VALUE);
    plb_protocol_result_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calendar_gives_events_bucket_by_bucket),
        cmocka_unit_test(a_calendar_skips_empty_buckets),
        cmocka_unit_test(results_do_not_depend_on_the_buckets),
        cmocka_unit_test(a_message_does_not_arrive_early_by_rounding),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(very_unequal_times_end),
    };
    return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
