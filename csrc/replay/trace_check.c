#include "replay/internal.h"

#include <math.h>

#include "base/err.h"
#include "model/snapshot.h"

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

int plb_trace_check(const plb_trace_t *t, plb_err_t *err)
{
    PLB_FAIL_IF(t->n_ranks < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more",
                t->n_ranks);
    PLB_PASS(check_ptr("task_ptr", t->task_ptr, t->n_phases, err));
    PLB_PASS(check_ptr("edge_ptr", t->edge_ptr, t->n_phases, err));
    PLB_FAIL_IF(t->task_seconds != NULL && t->speed == NULL, err, PLB_ERR_VALUE,
                "task_seconds is given, but no speed: expected both");
    PLB_PASS(plb_check_f64("speed", t->speed, 0, t->n_ranks, 1e-30, err));
    PLB_PASS(plb_check_f64("background", t->background, 0, t->n_ranks, 0.0, err));
    PLB_PASS(plb_check_i64("memory_limit", t->memory_limit, 0, t->n_ranks, err));
    PLB_PASS(plb_check_f64("measured", t->measured, 0, t->n_ranks, 1e-30, err));
    return PLB_OK;
}

/* Check that loads are seconds * speed: a user may have changed the loads, but not the seconds. */
static int check_work(const plb_trace_t *t, int64_t a, int64_t b, plb_err_t *err)
{
    for (int64_t k = a; k < b; k++) {
        const double work = t->task_seconds[k] * t->speed[t->task_rank[k]];
        PLB_FAIL_IF(
            fabs(work - t->task_load[k]) > 1e-9 * work, err, PLB_ERR_VALUE,
            "task_load[%lld] is %g: expected %g (task_seconds times speed), or no task_seconds",
            (long long)k, t->task_load[k], work);
    }
    return PLB_OK;
}

/* Called just before the phase is replayed, so that the replay finds the arrays in the cache. */
int plb_trace_check_tasks(const plb_trace_t *t, int64_t i, bool alike, plb_err_t *err)
{
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    if (!alike) {
        PLB_PASS(plb_check_index("task_entity", t->task_entity, a, b, t->n_entities, err));
    }
    PLB_PASS(plb_check_index("task_rank", t->task_rank, a, b, t->n_ranks, err));
    PLB_PASS(plb_check_index("task_home", t->task_home, a, b, t->n_ranks, err));
    PLB_PASS(plb_check_f64("task_load", t->task_load, a, b, 0.0, err));
    PLB_PASS(plb_check_f64("task_seconds", t->task_seconds, a, b, 0.0, err));
    return t->task_seconds == NULL ? PLB_OK : check_work(t, a, b, err);
}

int plb_trace_check_sizes(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    const int64_t a = t->task_ptr[i], b = t->task_ptr[i + 1];
    PLB_PASS(plb_check_i64("task_bytes", t->task_bytes, a, b, err));
    PLB_PASS(plb_check_i64("task_memory", t->task_memory, a, b, err));
    PLB_PASS(plb_check_f64("task_work", t->task_work, a, b, 0.0, err));
    return plb_check_coords(t->task_coords == NULL ? NULL : t->task_coords + 3 * a, b - a, 3, err);
}

int plb_trace_check_edges(const plb_trace_t *t, int64_t i, plb_err_t *err)
{
    const int64_t a = t->edge_ptr[i], b = t->edge_ptr[i + 1];
    PLB_PASS(plb_check_index("edge_src", t->edge_src, a, b, t->n_entities, err));
    PLB_PASS(plb_check_index("edge_dst", t->edge_dst, a, b, t->n_entities, err));
    PLB_PASS(plb_check_f64("edge_bytes", t->edge_bytes, a, b, 0.0, err));
    PLB_PASS(plb_check_f64("edge_messages", t->edge_messages, a, b, 0.0, err));
    return PLB_OK;
}
