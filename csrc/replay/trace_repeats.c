#include "replay/replay.h"

#include <string.h>

#include "replay/internal.h"

/* Whether phases i and i - 1, which have equally many elements of x, have the same ones.  Phase i
 * has the elements from[i] ... from[i + 1] - 1, of `size` bytes each. */
static bool repeats(const void *x, size_t size, const int64_t *from, int64_t i)
{
    const char *bytes = x;
    const size_t n = (size_t)(from[i + 1] - from[i]) * size;
    return x == NULL ||
           memcmp(bytes + (size_t)from[i] * size, bytes + (size_t)from[i - 1] * size, n) == 0;
}

static bool as_many(const int64_t *from, int64_t i)
{
    return i > 0 && from[i + 1] - from[i] == from[i] - from[i - 1];
}

static bool same_tasks(const plb_trace_t *t, int64_t i)
{
    return as_many(t->task_ptr, i) &&
           repeats(t->task_entity, sizeof *t->task_entity, t->task_ptr, i);
}

static bool same_edges(const plb_trace_t *t, int64_t i)
{
    return as_many(t->edge_ptr, i) && repeats(t->edge_src, sizeof *t->edge_src, t->edge_ptr, i) &&
           repeats(t->edge_dst, sizeof *t->edge_dst, t->edge_ptr, i) &&
           repeats(t->edge_bytes, sizeof *t->edge_bytes, t->edge_ptr, i) &&
           repeats(t->edge_messages, sizeof *t->edge_messages, t->edge_ptr, i) &&
           repeats(t->edge_multicast, sizeof *t->edge_multicast, t->edge_ptr, i);
}

int plb_trace_repeats(const plb_trace_t *t, uint8_t *out, plb_err_t *err)
{
    const int ret = plb_trace_check(t, err);
    for (int64_t i = 0; ret == PLB_OK && i < t->n_phases; i++) {
        out[i] = !same_tasks(t, i)   ? 0
                 : !same_edges(t, i) ? PLB_REPEATS_TASKS
                                     : PLB_REPEATS_TASKS | PLB_REPEATS_EDGES;
    }
    return ret;
}

bool plb_trace_alike(const plb_trace_t *t, int64_t i)
{
    return t->repeats == NULL || i == 0 ? same_tasks(t, i) : t->repeats[i] & PLB_REPEATS_TASKS;
}

bool plb_trace_same_ranks(const plb_trace_t *t, int64_t i)
{
    return repeats(t->task_rank, sizeof *t->task_rank, t->task_ptr, i);
}
