#include "measure/snapshot.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static int check_f64(const char *name, const double *x, int64_t n, double least, plb_err_t *err)
{
    for (int64_t i = 0; x != NULL && i < n; i++) {
        if (!(x[i] >= least && x[i] <= 1e30)) { /* also false for NaN */
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %g: expected a finite number, %s",
                            name, (long long)i, x[i],
                            least > 0 ? "above zero" : "zero or more, at most 1e30");
        }
    }
    return PLB_OK;
}

static int check_i64(const char *name, const int64_t *x, int64_t n, plb_err_t *err)
{
    for (int64_t i = 0; x != NULL && i < n; i++) {
        if (x[i] < 0) {
            return PLB_FAIL(err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected zero or more bytes",
                            name, (long long)i, (long long)x[i]);
        }
    }
    return PLB_OK;
}

static int check_index(const char *name, const int32_t *x, int64_t n, int64_t limit,
                       plb_err_t *err)
{
    const uint32_t above = limit < INT32_MAX ? (uint32_t)limit : INT32_MAX;
    uint32_t most =
        0; /* negative ones are large as unsigned; no exit, so that this is vector code */
    for (int64_t i = 0; x != NULL && i < n; i++) {
        most = (uint32_t)x[i] > most ? (uint32_t)x[i] : most;
    }
    for (int64_t i = 0; most >= above && x != NULL && i < n; i++) {
        if (x[i] < 0 || x[i] >= limit) {
            return PLB_FAIL(err, PLB_ERR_RANGE, "%s[%lld] is %d: expected 0 ... %lld", name,
                            (long long)i, x[i], (long long)limit - 1);
        }
    }
    return PLB_OK;
}

int plb_snapshot_check(const plb_snapshot_t *s, plb_err_t *err)
{
    int ret;
    if (s->n_ranks < 1) {
        return PLB_FAIL(err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more", s->n_ranks);
    }
    if ((ret = check_f64("load", s->load, s->n_objects * s->n_components, 0.0, err)) ||
        (ret = check_index("rank", s->rank, s->n_objects, s->n_ranks, err)) ||
        (ret = check_i64("bytes", s->bytes, s->n_objects, err)) ||
        (ret = check_i64("memory", s->memory, s->n_objects, err)) ||
        (ret = check_index("edge_src", s->edge_src, s->n_edges, s->n_objects, err)) ||
        (ret = check_index("edge_dst", s->edge_dst, s->n_edges, s->n_objects, err)) ||
        (ret = check_f64("edge_bytes", s->edge_bytes, s->n_edges, 0.0, err)) ||
        (ret = check_f64("edge_messages", s->edge_messages, s->n_edges, 0.0, err)) ||
        (ret = check_f64("speed", s->speed, s->n_ranks, 1e-30, err)) ||
        (ret = check_f64("background", s->background, s->n_ranks, 0.0, err)) ||
        (ret = check_i64("memory_limit", s->memory_limit, s->n_ranks, err))) {
        return ret;
    }
    return check_index("node", s->node, s->n_ranks, INT32_MAX, err);
}

int plb_snapshot_check_placement(const plb_snapshot_t *s, const int32_t *rank, plb_err_t *err)
{
    int ret = check_index("placement", rank, s->n_objects, s->n_ranks, err);
    if (ret != PLB_OK || s->migratable == NULL) {
        return ret;
    }
    for (int64_t i = 0; i < s->n_objects; i++) {
        if (!s->migratable[i] && rank[i] != s->rank[i]) {
            return PLB_FAIL(err, PLB_ERR_VALUE,
                            "placement[%lld] is %d: object %lld may not migrate from rank %d",
                            (long long)i, rank[i], (long long)(s->key == NULL ? i : s->key[i]),
                            s->rank[i]);
        }
    }
    return PLB_OK;
}

/* Sums of loads to times of ranks. */
static void to_seconds(const plb_snapshot_t *s, double *time)
{
    for (int32_t r = 0; r < s->n_ranks; r++) {
        time[r] = (s->background == NULL ? 0.0 : s->background[r]) + time[r] / plb_speed(s, r);
    }
}

void plb_snapshot_rank_times(const plb_snapshot_t *s, const int32_t *rank, double *time)
{
    if (rank == NULL) {
        rank = s->rank;
    }
    memset(time, 0, (size_t)s->n_ranks * sizeof *time);
    /* Neighbours often share a rank: its sum stays in a register until the rank changes. */
    int32_t r0 = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < s->n_objects; i++) {
        if (rank[i] != r0) {
            time[r0] = sum;
            r0 = rank[i];
            sum = time[r0];
        }
        sum += s->load[i * s->n_components];
    }
    time[r0] = sum;
    to_seconds(s, time);
}

int plb_snapshot_compare(const plb_snapshot_t *s, const int32_t *rank, plb_change_t *out,
                         plb_err_t *err)
{
    int ret = plb_snapshot_check_placement(s, rank, err);
    if (ret != PLB_OK) {
        return ret;
    }
    memset(out->before, 0, (size_t)s->n_ranks * sizeof *out->before);
    memset(out->after, 0, (size_t)s->n_ranks * sizeof *out->after);
    out->migrations = out->bytes = 0;
    int32_t r0 = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < s->n_objects; i++) {
        const double load = s->load[i * s->n_components];
        if (s->rank[i] != r0) { /* as in plb_snapshot_rank_times */
            out->before[r0] = sum;
            r0 = s->rank[i];
            sum = out->before[r0];
        }
        sum += load;
        out->after[rank[i]] += load;
        out->migrations += rank[i] != r0;
        out->bytes += s->bytes != NULL && rank[i] != r0 ? s->bytes[i] : 0;
    }
    out->before[r0] = sum;
    to_seconds(s, out->before);
    to_seconds(s, out->after);
    return PLB_OK;
}
