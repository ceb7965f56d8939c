#include "replay/trace_check.h"

#include <string.h>

#include "base/check.h"

static int check_ptr(const char *name, const int64_t *ptr, int64_t n, plb_err_t *err)
{
    PLB_FAIL_IF(ptr[0] != 0, err, PLB_ERR_VALUE, "%s[0] is %lld: expected 0", name,
                (long long)ptr[0]);
    for (int64_t i = 0; i < n; i++) {
        PLB_FAIL_IF(ptr[i + 1] < ptr[i], err, PLB_ERR_VALUE,
                    "%s[%lld] is %lld: expected %lld or more", name, (long long)i + 1,
                    (long long)ptr[i + 1], (long long)ptr[i]);
    }
    return PLB_OK;
}

/* Check that x[i0] ... x[end - 1] are in 0 ... limit - 1.  The first loop has no branches, so that
 * compilers vectorize it: the sign bit of `doubt` is set if an x or limit - 1 - x is negative.
 * Only then a second loop finds the element. */
static int check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                       plb_err_t *err)
{
    uint32_t doubt = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        doubt |= (uint32_t)x[i] | ((uint32_t)(limit - 1) - (uint32_t)x[i]);
    }
    for (int64_t i = i0; doubt >> 31 && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0 || x[i] >= limit, err, PLB_ERR_RANGE,
                    "%s[%lld] is %d: expected 0 ... %lld", name, (long long)i, x[i],
                    (long long)limit - 1);
    }
    return PLB_OK;
}

/* Check doubles.  For numbers that are not negative, comparing their bits gives the same order. */
static int check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                     plb_err_t *err)
{
    const double most = 1e30;
    uint64_t limit, bits, doubt = least > 0.0 ? UINT64_MAX : 0;
    memcpy(&limit, &most, sizeof limit);
    for (int64_t i = i0; x != NULL && i < end; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        doubt |= bits | (limit - bits);
    }
    for (int64_t i = i0; doubt >> 63 && x != NULL && i < end; i++) {
        if (!(x[i] >= least && x[i] <= most)) { /* this form of the test is also false for NaN */
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %g: expected a finite number, %s",
                            name, (long long)i, x[i], least > 0 ? "above zero" : "zero or more");
        }
    }
    return PLB_OK;
}

static int check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err)
{
    int64_t doubt = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        doubt |= x[i];
    }
    for (int64_t i = i0; doubt < 0 && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0, err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected zero or more bytes",
                    name, (long long)i, (long long)x[i]);
    }
    return PLB_OK;
}

int plb_trace_check(const plb_trace_t *t, plb_err_t *err)
{
    int ret;
    PLB_FAIL_IF(t->n_ranks < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more",
                t->n_ranks);
    PLB_TRY(check_ptr("task_ptr", t->task_ptr, t->n_phases, err));
    PLB_TRY(check_ptr("edge_ptr", t->edge_ptr, t->n_phases, err));
    PLB_TRY(check_f64("speed", t->speed, 0, t->n_ranks, 1e-30, err));
    PLB_TRY(check_f64("background", t->background, 0, t->n_ranks, 0.0, err));
    PLB_TRY(check_i64("memory_limit", t->memory_limit, 0, t->n_ranks, err));
    PLB_TRY(check_f64("measured", t->measured, 0, t->n_ranks, 1e-30, err));
out:
    return ret;
}

/* Called just before the phase is replayed: so the arrays are in the cache then. */
int plb_trace_check_tasks(const plb_trace_t *t, int64_t i, bool alike, plb_err_t *err)
{
    int ret;
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    if (!alike) {
        PLB_TRY(check_index("task_entity", t->task_entity, a, b, t->n_entities, err));
    }
    PLB_TRY(check_index("task_rank", t->task_rank, a, b, t->n_ranks, err));
    PLB_TRY(check_index("task_home", t->task_home, a, b, t->n_ranks, err));
    PLB_TRY(check_f64("task_load", t->task_load, a, b, 0.0, err));
out:
    return ret;
}

int plb_trace_check_sizes(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    const int ret = check_i64("task_bytes", t->task_bytes, a, b, err);
    PLB_PASS(ret);
    PLB_PASS(check_i64("task_memory", t->task_memory, a, b, err));
    return plb_check_coords(t->task_coords == NULL ? NULL : t->task_coords + 3 * a, b - a, 3, err);
}

int plb_trace_check_edges(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    int ret;
    const int64_t a = t->edge_ptr[i], b = t->edge_ptr[i + 1];
    PLB_TRY(check_index("edge_src", t->edge_src, a, b, t->n_entities, err));
    PLB_TRY(check_index("edge_dst", t->edge_dst, a, b, t->n_entities, err));
    PLB_TRY(check_f64("edge_bytes", t->edge_bytes, a, b, 0.0, err));
    PLB_TRY(check_f64("edge_messages", t->edge_messages, a, b, 0.0, err));
out:
    return ret;
}
