#include "model/model.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"

/* ---- check arrays --------------------------------------------------------------------------- */

/* The first loop of each check has no branches, so that compilers vectorize it; the second one
 * looks for the wrong element. */

int plb_check_index(const char *name, const int32_t *x, int64_t i0, int64_t end, int64_t limit,
                    plb_err_t *err)
{
    int32_t least = 0, most = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    for (int64_t i = i0; x != NULL && (least < 0 || most >= limit) && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0 || x[i] >= limit, err, PLB_ERR_RANGE,
                    "%s[%lld] is %d: expected 0 ... %lld", name, (long long)i, x[i],
                    (long long)limit - 1);
    }
    return PLB_OK;
}

int plb_check_f64(const char *name, const double *x, int64_t i0, int64_t end, double least,
                  plb_err_t *err)
{
    const double most = 1e30;
    int wrong = 0;
    for (int64_t i = i0; x != NULL && i < end; i++) {
        wrong |= !(x[i] >= least) | !(x[i] <= most); /* true also for NaN */
    }
    for (int64_t i = i0; wrong && i < end; i++) {
        PLB_FAIL_IF(!(x[i] >= least && x[i] <= most), err, PLB_ERR_VALUE,
                    "%s[%lld] is %g: expected %g ... 1e30", name, (long long)i, x[i], least);
    }
    return PLB_OK;
}

int plb_check_i64(const char *name, const int64_t *x, int64_t i0, int64_t end, plb_err_t *err)
{
    for (int64_t i = i0; x != NULL && i < end; i++) {
        PLB_FAIL_IF(x[i] < 0, err, PLB_ERR_VALUE, "%s[%lld] is %lld: expected zero or more bytes",
                    name, (long long)i, (long long)x[i]);
    }
    return PLB_OK;
}

/* ---- metrics -------------------------------------------------------------------------------- */

void plb_metrics_set_max(plb_metrics_t *self, double max)
{
    self->max = max;
    self->max_over_mean = self->mean > 0.0 ? max / self->mean : 1.0;
    self->percent = 100.0 * (self->max_over_mean - 1.0);
    self->efficiency = max > 0.0 ? self->mean / max : 1.0;
    self->idle_mean = max - self->mean;
    self->idle_max = max - self->min;
}

void plb_metrics_of(const double *time, int32_t n, plb_metrics_t *out)
{
    double sum = 0.0, max = time[0], min = time[0], squares = 0.0;
    for (int32_t r = 0; r < n; r++) {
        sum += time[r];
        max = time[r] > max ? time[r] : max;
        min = time[r] < min ? time[r] : min;
    }
    const double mean = sum / n;
    for (int32_t r = 0; r < n; r++) {
        squares += (time[r] - mean) * (time[r] - mean);
    }
    out->mean = mean;
    out->min = min;
    out->std = sqrt(squares / n);
    plb_metrics_set_max(out, max);
}

/* Check that multicast_start begins with 0, never falls, and ends with the number of receivers. */
static int check_start(const plb_snapshot_t *s, plb_err_t *err)
{
    const int64_t *start = s->multicast_start, n = s->n_multicasts;
    for (int64_t e = 0; start != NULL && e <= n; e++) {
        const int64_t least = e == 0 ? 0 : start[e - 1];
        const int64_t most = e == 0 ? 0 : s->n_pins;
        PLB_FAIL_IF(start[e] < least || start[e] > most, err, PLB_ERR_VALUE,
                    "multicast_start[%lld] is %lld: expected %lld ... %lld", (long long)e,
                    (long long)start[e], (long long)least, (long long)most);
    }
    PLB_FAIL_IF(start != NULL && start[n] != s->n_pins, err, PLB_ERR_VALUE,
                "multicast_start[%lld] is %lld: expected %lld, the length of multicast_dst",
                (long long)n, (long long)start[n], (long long)s->n_pins);
    return PLB_OK;
}

/* Check that the sum of x[i] + block_bytes[block[i]] over all objects is below 2^63, so that no
 * sum over the objects of a rank can overflow. */
static int check_sum(const char *name, const int64_t *x, const int32_t *block,
                     const int64_t *block_bytes, int64_t n, plb_err_t *err)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n && (x != NULL || block != NULL); i++) {
        const int64_t shared = block == NULL || block[i] < 0 ? 0 : block_bytes[block[i]];
        PLB_FAIL_IF(__builtin_add_overflow(sum, x == NULL ? 0 : x[i], &sum) ||
                        __builtin_add_overflow(sum, shared, &sum),
                    err, PLB_ERR_VALUE,
                    "%s: the sum of all objects%s is 2^63 or more: expected less", name,
                    block == NULL ? "" : ", each with its block,");
    }
    return PLB_OK;
}

int plb_check_nodes(const int32_t *node, const double *near, int32_t n_ranks, plb_err_t *err)
{
    PLB_FAIL_IF(near != NULL && node == NULL, err, PLB_ERR_VALUE,
                "near is given without node: expected also the node of each rank");
    for (int k = 0; near != NULL && k < 2; k++) {
        PLB_FAIL_IF(!(near[k] >= 0.0 && near[k] <= 1.0), err, PLB_ERR_VALUE,
                    "near[%d] is %g: expected a fraction, 0 ... 1", k, near[k]);
    }
    return plb_check_index("node", node, 0, n_ranks, INT32_MAX, err);
}

int plb_snapshot_check(const plb_snapshot_t *s, plb_err_t *err)
{
    PLB_FAIL_IF(s->n_ranks < 1, err, PLB_ERR_VALUE, "n_ranks is %d: expected 1 or more",
                s->n_ranks);
    PLB_FAIL_IF(s->n_objects < 0 || s->n_objects > INT32_MAX, err, PLB_ERR_VALUE,
                "the snapshot has %lld objects: expected 0 ... 2^31 - 1", (long long)s->n_objects);
    PLB_FAIL_IF(s->n_edges < 0, err, PLB_ERR_VALUE,
                "the snapshot has %lld edges: expected zero or more", (long long)s->n_edges);
    PLB_PASS(plb_check_f64("load", s->load, 0, s->n_objects * s->n_components, 0.0, err));
    PLB_PASS(plb_check_index("rank", s->rank, 0, s->n_objects, s->n_ranks, err));
    PLB_PASS(plb_check_i64("nbytes", s->nbytes, 0, s->n_objects, err));
    PLB_PASS(plb_check_i64("memory", s->memory, 0, s->n_objects, err));
    PLB_PASS(plb_check_index("edge_src", s->edge_src, 0, s->n_edges, s->n_objects, err));
    PLB_PASS(plb_check_index("edge_dst", s->edge_dst, 0, s->n_edges, s->n_objects, err));
    PLB_PASS(plb_check_f64("edge_bytes", s->edge_bytes, 0, s->n_edges, 0.0, err));
    PLB_PASS(plb_check_f64("edge_messages", s->edge_messages, 0, s->n_edges, 0.0, err));
    const int64_t m = s->n_multicasts;
    PLB_PASS(plb_check_index("multicast_src", s->multicast_src, 0, m, s->n_objects, err));
    PLB_PASS(check_start(s, err));
    PLB_PASS(plb_check_index("multicast_dst", s->multicast_dst, 0, s->n_pins, s->n_objects, err));
    PLB_PASS(plb_check_f64("multicast_bytes", s->multicast_bytes, 0, m, 0.0, err));
    PLB_PASS(plb_check_f64("multicast_messages", s->multicast_messages, 0, m, 0.0, err));
    for (int64_t i = 0; s->block != NULL && i < s->n_objects; i++) {
        PLB_FAIL_IF(s->block[i] < -1 || s->block[i] >= s->n_blocks, err, PLB_ERR_RANGE,
                    "block[%lld] is %d: expected -1 (no block) or the index of one of %d blocks",
                    (long long)i, s->block[i], s->n_blocks);
    }
    PLB_PASS(plb_check_index("home", s->home, 0, s->n_blocks, s->n_ranks, err));
    PLB_PASS(plb_check_i64("block_bytes", s->block_bytes, 0, s->n_blocks, err));
    PLB_PASS(plb_check_coords(s->coords, s->n_objects, 3, err));
    PLB_PASS(check_sum("nbytes", s->nbytes, NULL, NULL, s->n_objects, err));
    PLB_PASS(check_sum("memory", s->memory, s->block, s->block_bytes, s->n_objects, err));
    const int64_t n_speeds = s->n_speeds > 1 ? s->n_speeds : 1;
    PLB_FAIL_IF(n_speeds > 1 && n_speeds != s->n_components, err, PLB_ERR_VALUE,
                "a rank has %lld speeds: expected 1, or %d, one for each load of an object",
                (long long)n_speeds, s->n_components);
    PLB_PASS(plb_check_f64("speed", s->speed, 0, s->n_ranks * n_speeds, 1e-30, err));
    PLB_PASS(plb_check_f64("background", s->background, 0, s->n_ranks, 0.0, err));
    PLB_PASS(plb_check_i64("memory_limit", s->memory_limit, 0, s->n_ranks, err));
    PLB_PASS(plb_check_i64("node_memory_limit", s->node_memory_limit, 0, s->n_ranks, err));
    PLB_FAIL_IF(s->node_memory_limit != NULL && s->block != NULL, err, PLB_ERR_VALUE,
                "block and node_memory_limit are given: expected no shared blocks");
    return plb_check_nodes(s->node, s->near, s->n_ranks, err);
}

int plb_snapshot_check_placement(const plb_snapshot_t *s, const int32_t *rank, plb_err_t *err)
{
    int ret = plb_check_index("placement", rank, 0, s->n_objects, s->n_ranks, err);
    if (ret != PLB_OK || s->migratable == NULL) {
        return ret;
    }
    for (int64_t i = 0; i < s->n_objects; i++) {
        PLB_FAIL_IF(!s->migratable[i] && rank[i] != s->rank[i], err, PLB_ERR_VALUE,
                    "placement[%lld] is %d: object %lld may not migrate from rank %d",
                    (long long)i, rank[i], plb_key(s, i), s->rank[i]);
    }
    return PLB_OK;
}

int plb_snapshot_nodes(const plb_snapshot_t *self, int32_t *number, int32_t *n, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_keys_t nodes = {0};
    PLB_TRY(plb_keys_init(&nodes, self->n_ranks, err));
    for (int32_t r = 0; r < self->n_ranks; r++) {
        PLB_TRY(plb_keys_add(&nodes, self->node == NULL ? r : self->node[r], &number[r], err));
    }
    *n = (int32_t)nodes.n;
out:
    plb_keys_free(&nodes);
    return ret;
}

/* Add the bytes of each block once to each rank that has an object of the block. */
static int hold_blocks(const plb_snapshot_t *self, const int32_t *rank, int64_t *held,
                       plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *has = NULL;        /* [n_blocks] the last rank that has got each block, plus 1 */
    plb_groups_t objects = {0}; /* objects grouped by rank */
    PLB_NEW0(has, self->n_blocks);
    PLB_TRY(plb_groups_init(&objects, rank, self->n_objects, self->n_ranks, err));
    for (int64_t k = 0; k < self->n_objects; k++) {
        const int32_t i = objects.item[k], block = self->block[i], r = rank[i];
        if (block >= 0 && has[block] != r + 1) {
            held[r] += self->block_bytes[block];
            has[block] = r + 1;
        }
    }
out:
    plb_groups_free(&objects);
    PLB_FREE(has);
    return ret;
}

int plb_snapshot_held(const plb_snapshot_t *self, const int32_t *rank, int64_t *held,
                      int64_t *of_node, int64_t *ranks, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->n_ranks;
    int32_t *node = NULL, n;
    int64_t *sum = NULL; /* bytes of each node; number of ranks of each node */
    memset(held, 0, (size_t)p * sizeof *held);
    for (int64_t i = 0; i < self->n_objects; i++) {
        held[rank[i]] += self->memory == NULL ? 0 : self->memory[i];
    }
    PLB_NEW(node, p);
    PLB_NEW0(sum, 2 * (int64_t)p);
    PLB_TRY(self->block == NULL ? PLB_OK : hold_blocks(self, rank, held, err));
    PLB_TRY(plb_snapshot_nodes(self, node, &n, err));
    for (int32_t r = 0; r < p; r++) {
        sum[node[r]] += held[r];
        sum[p + node[r]]++;
    }
    for (int32_t r = 0; r < p; r++) {
        of_node[r] = sum[node[r]];
        if (ranks != NULL) {
            ranks[r] = sum[p + node[r]];
        }
    }
out:
    PLB_FREE(node, sum);
    return ret;
}

int plb_snapshot_full(const plb_snapshot_t *self, const int32_t *rank, double *full,
                      plb_err_t *err)
{
    int ret = PLB_OK;
    const int64_t *limit[] = {self->memory_limit, self->node_memory_limit};
    int64_t *held[2] = {NULL, NULL}; /* bytes on each rank; bytes on each rank's node */
    *full = NAN;
    if ((self->memory == NULL && self->block == NULL) || (limit[0] == NULL && limit[1] == NULL)) {
        return ret;
    }
    PLB_NEW_EACH(self->n_ranks, held[0], held[1]);
    PLB_TRY(plb_snapshot_held(self, rank, held[0], held[1], NULL, err));
    for (int32_t k = 0; k < 2; k++) {
        for (int32_t r = 0; limit[k] != NULL && r < self->n_ranks; r++) {
            const int64_t most = limit[k][r] > 0 ? limit[k][r] : 1;
            const double part = (double)held[k][r] / (double)most;
            /* above 1 even for one byte where none is allowed, or if huge numbers are rounded */
            *full = fmax(*full, held[k][r] > limit[k][r] ? fmax(part, 1.0 + DBL_EPSILON) : part);
        }
    }
out:
    PLB_FREE(held[0], held[1]);
    return ret;
}

int plb_snapshot_sum(plb_snapshot_t *self, double **sum, plb_err_t *err)
{
    const int64_t n = self->n_objects, d = self->n_components;
    *sum = NULL;
    PLB_FAIL_IF(self->n_speeds > 1, err, PLB_ERR_VALUE,
                "a rank has %d speeds: expected 1 for a strategy that places by the sum of an "
                "object's loads (VectorLB and CCMLB take several)",
                self->n_speeds);
    if (d == 1) {
        return PLB_OK;
    }
    PLB_PASS_NEW0(*sum, n);
    for (int64_t i = 0; i < n * d; i++) {
        (*sum)[i / d] += self->load[i];
    }
    self->load = *sum;
    self->n_components = 1;
    return PLB_OK;
}

void plb_snapshot_rank_times(const plb_snapshot_t *s, const int32_t *rank, double *time)
{
    if (rank == NULL) {
        rank = s->rank;
    }
    memset(time, 0, (size_t)s->n_ranks * sizeof *time);
    for (int64_t i = 0; i < s->n_objects;) { /* while the rank is the same, the sum stays in a
                                                register */
        const int32_t r = rank[i];
        double sum = time[r];
        for (; i < s->n_objects && rank[i] == r; i++) {
            sum += s->load[i * s->n_components];
        }
        time[r] = sum;
    }
    for (int32_t r = 0; r < s->n_ranks; r++) {
        time[r] = plb_background(s, r) + time[r] / plb_speed(s, r);
    }
}

int plb_snapshot_metrics(const plb_snapshot_t *s, const int32_t *rank, plb_metrics_t *out,
                         plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = s->n_ranks;
    double *time = NULL, *all = NULL, sum = 0.0;
    plb_snapshot_t phase = *s;
    PLB_NEW(time, p);
    PLB_NEW0(all, p);
    for (int32_t k = 0; k < s->n_components; k++) {
        double slowest = 0.0;
        phase.load = s->load + k; /* every n_components-th number is a load of phase k */
        phase.speed = s->n_speeds > 1 ? s->speed + k : s->speed;
        phase.background = k == 0 ? s->background : NULL;
        plb_snapshot_rank_times(&phase, rank, time);
        for (int32_t r = 0; r < p; r++) {
            all[r] += time[r];
            slowest = time[r] > slowest ? time[r] : slowest;
        }
        sum += slowest;
    }
    plb_metrics_of(all, p, out);
    plb_metrics_set_max(out, sum);
out:
    PLB_FREE(time, all);
    return ret;
}

double plb_level(const double *base, const double *pace, int32_t p, double work)
{
    for (double level = INFINITY;;) { /* leave out ranks whose `base` is longer than the result */
        double sum = work, speeds = 0.0;
        for (int32_t r = 0; r < p; r++) {
            sum += base[r] < level ? pace[r] * base[r] : 0.0;
            speeds += base[r] < level ? pace[r] : 0.0;
        }
        if (!(sum / speeds < level)) {
            return level;
        }
        level = sum / speeds;
    }
}

int plb_snapshot_compare(const plb_snapshot_t *s, const int32_t *rank, plb_change_t *out,
                         plb_err_t *err)
{
    PLB_PASS(plb_snapshot_check_placement(s, rank, err));
    plb_snapshot_rank_times(s, s->rank, out->before);
    plb_snapshot_rank_times(s, rank, out->after);
    out->migrations = out->bytes = 0;
    for (int64_t i = 0; i < s->n_objects; i++) {
        out->migrations += rank[i] != s->rank[i];
        out->bytes += s->nbytes != NULL && rank[i] != s->rank[i] ? s->nbytes[i] : 0;
    }
    return PLB_OK;
}
