/* Tests of the speeds of ranks, and of numbers divided in given proportions. */
#include "plb.h"
#include "test.h"

TEST(the_largest_remainder)
{
    int64_t part[4];
    plb_err_t err;
    assert_int_equal(plb_apportion((double[]){1.0, 0.0, 1.0, 1.0}, 4, 5, part, &err), PLB_OK);
    assert_memory_equal(part, ((int64_t[]){2, 0, 2, 1}), sizeof part);
    assert_int_equal(plb_apportion((double[]){0.0, 0.0}, 2, 5, part, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_apportion((double[]){1.0, -1.0}, 2, 5, part, &err), PLB_ERR_VALUE);
}

/* Observe placements of 40 objects, 12 of which move each time.  Rank 2 has half of the speed of
 * the other ranks; from the fifth placement on, it has a third. */
static int observe_some(plb_learner_t *learner, int placements, plb_err_t *err)
{
    int ret = PLB_OK;
    for (int j = 0; j < placements && ret == PLB_OK; j++) {
        int64_t key[40];
        int32_t rank[40];
        double seconds[40], work[40];
        for (int o = 0; o < 40; o++) {
            const int stays = o >= 12;
            key[o] = 1000 - 3 * o;
            rank[o] = (stays ? o : o + j) % 3;
            work[o] = 1.0 + o % 7;
            seconds[o] = work[o] * (rank[o] != 2 ? 1.0 : j < 4 ? 2.0 : 3.0);
        }
        ret = plb_learner_observe(learner, 40, key, rank, seconds, j % 2 ? work : NULL, 1.0, err);
    }
    return ret;
}

TEST(the_learner_follows)
{
    plb_learner_t learner;
    plb_err_t err;
    assert_int_equal(plb_learner_init(&learner, 0, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_learner_init(&learner, 3, &err), PLB_OK);
    assert_int_equal(observe_some(&learner, 4, &err), PLB_OK);
    assert_true(learner.unlike);
    assert_true(fabs(exp(learner.log_speed[0] - learner.log_speed[2]) - 2.0) < 0.01);
    plb_learner_free(&learner);
    assert_int_equal(plb_learner_init(&learner, 3, &err), PLB_OK);
    assert_int_equal(observe_some(&learner, 20, &err), PLB_OK);
    assert_true(fabs(exp(learner.log_speed[0] - learner.log_speed[2]) - 3.0) < 0.01);
    assert_int_equal(learner.n_intervals, PLB_LEARNER_INTERVALS);
    assert_int_equal(learner.moved.n, 12 * PLB_LEARNER_INTERVALS);
    const double inf = INFINITY, one = 1.0;
    const int64_t twice[] = {5, 5};
    assert_int_equal(
        plb_learner_observe(&learner, 1, twice, (int32_t[]){3}, &one, NULL, 1.0, &err),
        PLB_ERR_RANGE);
    assert_int_equal(
        plb_learner_observe(&learner, 1, twice, (int32_t[]){0}, &inf, NULL, 1.0, &err),
        PLB_ERR_VALUE);
    assert_int_equal(
        plb_learner_observe(&learner, 1, twice, (int32_t[]){0}, &one, &inf, 1.0, &err),
        PLB_ERR_VALUE);
    assert_int_equal(plb_learner_observe(&learner, 2, twice, (int32_t[]){0, 1},
                                         (double[]){1.0, 1.0}, NULL, 1.0, &err),
                     PLB_ERR_VALUE);
    plb_learner_free(&learner);
}
