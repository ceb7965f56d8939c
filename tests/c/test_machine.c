/* Tests of csrc/model: performance models, and parts computed from them. tests/run/test_rows.py
 * compares them with bisection. */
#include "plb.h"
#include "test.h"

/* Rank 0: 100 rows in 1 s, 300 in 6 s, because memory runs short.  Rank 1: 50 rows per second. */
static const int64_t start[] = {0, 2, 3};
static const double rows[] = {100.0, 300.0, 10.0}, speed[] = {100.0, 50.0, 50.0};
static const plb_fpm_t two = {2, start, rows, speed};

TEST(the_line_meets_all_functions)
{
    int64_t part[2];
    double seconds, times[2];
    plb_err_t err;
    assert_int_equal(plb_fpm_check(&two, &err), PLB_OK);
    /* In 2 s rank 1 has 100 rows; 125 - d/4 = d/2 is rank 0's point: d = 166 2/3. */
    assert_int_equal(plb_fpm_split(&two, 267, part, &seconds, &err), PLB_OK);
    assert_int_equal(part[0] + part[1], 267);
    assert_int_equal(part[1], 100);
    assert_true(fabs(seconds - 2.0) < 0.01);
    plb_fpm_times(&two, (double[]){200.0, 200.0}, times);
    assert_true(fabs(times[0] - 200.0 / 75.0) < 1e-12);
    assert_true(fabs(times[1] - 4.0) < 1e-12);
    assert_int_equal(plb_fpm_split(&two, 0, part, &seconds, &err), PLB_OK);
    assert_int_equal(part[0] + part[1], 0);
    assert_int_equal(plb_fpm_split(&two, PLB_FPM_MOST_ROWS, part, &seconds, &err), PLB_OK);
    assert_int_equal(part[0] + part[1], PLB_FPM_MOST_ROWS);
    assert_int_equal(plb_fpm_split(&two, -1, part, &seconds, &err), PLB_ERR_VALUE);
}

TEST(ends_that_lie_far_apart)
{
    const int64_t begin[] = {0, 1, 3};
    const double d[] = {1.0, 1e-3, 1e9}, s[] = {1e-30, 1e30, 1e-20};
    const plb_fpm_t wild = {2, begin, d, s};
    int64_t part[2];
    double seconds;
    plb_err_t err;
    assert_int_equal(plb_fpm_check(&wild, &err), PLB_OK);
    for (int64_t n = 1; n <= 1000000000; n *= 10) {
        assert_int_equal(plb_fpm_split(&wild, n, part, &seconds, &err), PLB_OK);
        assert_int_equal(part[0] + part[1], n);
    }
}

TEST(numbers_that_would_overflow_are_refused)
{
    const int64_t begin[] = {0, 1, 2};
    const double d[] = {3.0, 3.0}, slow[] = {5e-324, 1.0}, fast[] = {1e308, 1.0};
    const double cpu[] = {0.0, 1.0, 1.0}, comm[] = {0.0, 1.5e308, 1.5e308};
    const plb_drum_t tree = {3, (int32_t[]){-1, 0, 0}, cpu, comm};
    double power[3];
    plb_err_t err;
    assert_int_equal(plb_fpm_check(&(plb_fpm_t){2, begin, d, slow}, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_fpm_check(&(plb_fpm_t){2, begin, d, fast}, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_drum_power(&tree, 0.5, power, &err), PLB_ERR_VALUE);
}

/* Two leaves below an inner place: their power is that of the place. */
TEST(subnormal_powers_are_divided)
{
    const double cpu[] = {0.0, 0.0, 5e-324, 5e-324, 1.0}, comm[] = {0.0, 1.0, 1.0, 1.0, 1.0};
    const plb_drum_t tree = {5, (int32_t[]){-1, 0, 1, 1, 0}, cpu, comm};
    double power[5];
    plb_err_t err;
    assert_int_equal(plb_drum_power(&tree, 0.5, power, &err), PLB_OK);
    assert_true(fabs(power[2] + power[3] - power[1]) < 1e-12);
}

TEST(a_time_without_end_gives_a_valid_model)
{
    const int64_t none[] = {0, 0};
    int64_t begin[2];
    double d[1], s[1];
    plb_err_t err;
    plb_fpm_update(&(plb_fpm_t){1, none, NULL, NULL}, (int64_t[]){1}, (double[]){1e308}, begin, d,
                   s);
    assert_int_equal(plb_fpm_check(&(plb_fpm_t){1, begin, d, s}, &err), PLB_OK);
}

TEST(each_failed_allocation_is_survived)
{
    int failed = 0;
    for (int64_t n = 0;; n++) {
        int64_t part[2];
        double seconds;
        plb_err_t err;
        plb_mem_fail_at(n);
        int ret = plb_fpm_split(&two, 1001, part, &seconds, &err);
        if (ret == PLB_OK) {
            ret = plb_apportion(speed, 2, 7, part, &err);
        }
        plb_mem_fail_at(-1);
        if (ret == PLB_OK) {
            break;
        }
        assert_int_equal(ret, PLB_ERR_NOMEM);
        failed++;
    }
    assert_true(failed >= 4);
}

TEST(a_measurement_replaces_points_that_contradict_it)
{
    int64_t begin[3];
    double d[5], s[5];
    plb_err_t err;
    plb_fpm_update(&two, (int64_t[]){200, 0}, (double[]){0.5, 0.0}, begin, d, s);
    assert_int_equal(begin[1], 2); /* the point (100 rows, 1 s) is gone, (300 rows, 6 s) stays */
    assert_int_equal(begin[2], 3);
    assert_true(d[0] == 200.0 && s[0] == 400.0 && d[1] == 300.0 && d[2] == 10.0);
    const plb_fpm_t now = {2, begin, d, s};
    assert_int_equal(plb_fpm_check(&now, &err), PLB_OK);
}

TEST(the_largest_remainder)
{
    int64_t part[4];
    plb_err_t err;
    assert_int_equal(plb_apportion((double[]){1.0, 0.0, 1.0, 1.0}, 4, 5, part, &err), PLB_OK);
    assert_memory_equal(part, ((int64_t[]){2, 0, 2, 1}), sizeof part);
    assert_int_equal(plb_apportion((double[]){0.0, 0.0}, 2, 5, part, &err), PLB_ERR_VALUE);
    assert_int_equal(plb_apportion((double[]){1.0, -1.0}, 2, 5, part, &err), PLB_ERR_VALUE);
}

TEST(rectangles_of_five)
{
    /* The share 4/7 gets a column alone, the other three share a column: half perimeters 10 + 40/7
     * and 10 + 3 * 30/7. */
    const double share[] = {1.0, 4.0, 0.0, 1.0, 1.0};
    int32_t column[5];
    int64_t box[20];
    double perimeter = 0.0, same = 0.0;
    plb_err_t err;
    assert_int_equal(plb_rectangles_columns(share, 5, 10.0, 10.0, column, &perimeter, &err),
                     PLB_OK);
    assert_memory_equal(column, ((int32_t[]){0, 1, 1, 0, 0}), sizeof column);
    assert_true(fabs(perimeter - 270.0 / 7.0) < 1e-9);
    assert_int_equal(plb_rectangles_perimeter(share, column, 5, 10.0, 10.0, &same, &err), PLB_OK);
    assert_true(fabs(perimeter - same) < 1e-9);
    assert_int_equal(plb_rectangles_place(share, column, 5, 10, 10, box, &err), PLB_OK);
    assert_memory_equal(
        box, ((int64_t[]){0, 4, 0, 4, 0, 10, 4, 10, 10, 10, 4, 10, 4, 7, 0, 4, 7, 10, 0, 4}),
        sizeof box);
    column[1] = 5;
    assert_int_equal(plb_rectangles_place(share, column, 5, 10, 10, box, &err), PLB_ERR_RANGE);
    assert_int_equal(
        plb_rectangles_columns((double[]){0.0}, 1, 1.0, 1.0, column, &perimeter, &err),
        PLB_ERR_VALUE);
    int failed = 0;
    for (int ret = PLB_ERR_NOMEM; ret != PLB_OK; failed += ret != PLB_OK) {
        plb_mem_fail_at(failed);
        ret = plb_rectangles_columns(share, 5, 10.0, 10.0, column, &perimeter, &err);
        ret = ret == PLB_OK ? plb_rectangles_place(share, column, 5, 10, 10, box, &err) : ret;
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
    }
    assert_true(failed >= 9);
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

TEST(the_learner_survives_failed_allocations)
{
    int failed = 0;
    for (int ret = PLB_ERR_NOMEM; ret != PLB_OK; failed += ret != PLB_OK) {
        plb_learner_t learner;
        plb_err_t err;
        plb_mem_fail_at(failed);
        ret = plb_learner_init(&learner, 3, &err);
        if (ret == PLB_OK) {
            ret = observe_some(&learner, 10, &err);
        }
        plb_mem_fail_at(-1);
        assert_true(ret == PLB_OK || ret == PLB_ERR_NOMEM);
        plb_learner_free(&learner);
    }
    assert_true(failed > 100);
}
