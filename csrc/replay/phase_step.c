#include "replay/replay.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/exact.h"
#include "base/mem.h"
#include "replay/internal.h"

/* Get the indices of the ends of edge k among the present objects; false: an end is absent. */
static bool ends_of(const plb_phases_t *self, int64_t k, int32_t *src, int32_t *dst)
{
    *src = self->index_of[self->edge_src[k]];
    *dst = self->index_of[self->edge_dst[k]];
    return *src >= 0 && *dst >= 0;
}

static int32_t cast_of(const plb_phases_t *self, int64_t k)
{
    return self->edge_multicast == NULL ? 0 : self->edge_multicast[k];
}

/* Copy bytes and messages of edge k to entry i of the database's edges. */
static void put_amount(plb_phases_t *self, int64_t k, int64_t i)
{
    self->amount[i] = self->edge_bytes[k];
    self->amount[self->edge_room + i] = self->edge_messages == NULL ? 1.0 : self->edge_messages[k];
}

static void add_edges(plb_phases_t *self, plb_snapshot_t *s)
{
    int32_t src, dst;
    for (int64_t k = 0; k < self->n_edges; k++) {
        if (cast_of(self, k) == 0 && ends_of(self, k, &src, &dst)) {
            self->src[s->n_edges] = src;
            self->dst[s->n_edges] = dst;
            put_amount(self, k, s->n_edges++);
        }
    }
    s->edge_src = self->src;
    s->edge_dst = self->dst;
    s->edge_bytes = self->amount;
    s->edge_messages = self->amount + self->edge_room;
}

/* Append the multicasts to the arrays of the edges. */
static void add_multicasts(plb_phases_t *self, plb_snapshot_t *s)
{
    const int64_t e = s->n_edges;
    int64_t c = 0, pins = 0;
    int32_t src, dst, last = 0;
    for (int64_t k = 0; k < self->n_edges; k++) {
        const int32_t cast = cast_of(self, k);
        if (cast != 0 && ends_of(self, k, &src, &dst)) {
            if (cast != last) {
                self->src[e + c] = src;
                self->start[c] = pins;
                put_amount(self, k, e + c++);
            }
            last = cast;
            self->dst[e + pins++] = dst;
        }
    }
    if (c == 0) {
        return;
    }
    self->start[c] = pins;
    s->n_multicasts = c;
    s->n_pins = pins;
    s->multicast_src = self->src + e;
    s->multicast_start = self->start;
    s->multicast_dst = self->dst + e;
    s->multicast_bytes = self->amount + e;
    s->multicast_messages = self->amount + self->edge_room + e;
}

/* Convert loads or drifts from seconds on the present ranks to `work`, which is returned. */
static double *as_work(const plb_phases_t *self, const double *seconds, double *work)
{
    for (int64_t k = 0; k < self->n; k++) {
        work[k] = seconds[k] * self->trace_speed[self->rank[k]];
    }
    return work;
}

/* Check that no sum over present objects can overflow.  Their values may be of earlier phases. */
static int check_sum(const char *name, const int64_t *x, int64_t n, plb_err_t *err)
{
    int64_t sum = 0;
    for (int64_t k = 0; k < n; k++) {
        PLB_FAIL_IF(__builtin_add_overflow(sum, x[k], &sum), err, PLB_ERR_VALUE,
                    "%s: the sum of all objects is 2^63 or more: expected less", name);
    }
    return PLB_OK;
}

int plb_phases_database(plb_phases_t *self, plb_database_t *out, plb_err_t *err)
{
    if (self->trace != NULL) {
        PLB_PASS(plb_trace_check_sizes(self->trace, self->phase, err));
    }
    PLB_PASS(check_sum("task_bytes", self->bytes, self->has_bytes ? self->n : 0, err));
    PLB_PASS(check_sum("task_memory", self->memory, self->has_memory ? self->n : 0, err));
    *out = (plb_database_t){
        .snapshot =
            {
                .n_objects = self->n,
                .n_ranks = self->opt.n_ranks,
                .n_components = 1,
                .load = self->opt.own_loads ? self->phase_load : self->estimate,
                .rank = self->rank,
                .key = self->key,
                .bytes = self->has_bytes ? self->bytes : NULL,
                .memory = self->has_memory ? self->memory : NULL,
                .migratable = self->movable,
                .coords = self->has_coords ? self->coords : NULL,
                .memory_limit = self->memory_limit,
                .speed = self->trace_speed,
                .background = self->background,
            },
        .here = self->opt.learns ? self->estimate + PLB_ESTIMATE_HERE * self->n : NULL,
        .work = self->has_work ? self->work : NULL,
    };
    if (self->opt.estimates && !self->opt.own_loads) {
        plb_estimate_drift(self->estimate, self->n, self->drift);
        out->drift = self->in_seconds ? as_work(self, self->drift, self->drift) : self->drift;
    }
    if (self->in_seconds) {
        out->snapshot.load = as_work(self, out->snapshot.load, self->spare);
    }
    if (self->opt.edges) {
        add_edges(self, &out->snapshot);
        add_multicasts(self, &out->snapshot);
    }
    return PLB_OK;
}

/* Convert the load estimates of object k, which migrates, to seconds on its new rank, which is
 * `factor` times faster.  Forget those that use only iterations on the old rank. */
static void convert(plb_phases_t *self, int64_t k, double factor)
{
    const int64_t n = self->n;
    self->estimate[PLB_ESTIMATE_MEAN * n + k] /= factor;
    self->estimate[PLB_ESTIMATE_ERROR * n + k] /= factor;
    self->estimate[PLB_ESTIMATE_SPREAD * n + k] /= factor;
    for (int row = PLB_ESTIMATE_HERE; row < plb_phases_rows(self); row++) {
        self->estimate[row * n + k] = 0.0;
    }
}

void plb_phases_move(plb_phases_t *self, const int32_t *rank, const double *speed)
{
    const bool known = speed != NULL && speed[0] > 0.0;
    for (int64_t e = 0; e < self->n_entities; e++) {
        self->rank_before[e] = -1;
    }
    for (int64_t k = 0; k < self->n; k++) {
        self->rank_before[self->entity[k]] = self->rank[k];
        self->window[k] = 0.0;
        if (rank[k] == self->rank[k]) {
            continue;
        }
        if (self->opt.estimates) {
            convert(self, k, known ? speed[rank[k]] / speed[self->rank[k]] : 1.0);
        }
        self->rank[k] = rank[k];
        if (self->movable[k]) {
            self->rank_of[self->entity[k]] = rank[k];
        }
    }
    for (int32_t r = 0; r < self->opt.n_ranks; r++) {
        self->speed[r] = known ? speed[r] : 1.0;
    }
    memset(self->other, 0, (size_t)self->opt.n_ranks * sizeof *self->other);
    self->ordered = false;
    self->sums_end = -1;
}

static double longest_of(const plb_exact_t *sum, const double *other, int32_t p)
{
    double most = 0.0;
    for (int32_t r = 0; r < p; r++) {
        most = fmax(most, plb_exact_value(&sum[r]) + other[r]);
    }
    return most;
}

int plb_phases_gain(plb_phases_t *self, double *gain, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t p = self->opt.n_ranks;
    const double *given = plb_phases_pace(self);
    plb_exact_t *now = NULL, *then = NULL;
    PLB_NEW0(now, p);
    PLB_NEW0(then, p);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = self->rank[k], before = self->rank_before[self->entity[k]];
        const int32_t s = before < 0 ? r : before;
        const double here = given == NULL ? self->window[k] : self->window[k] / given[r];
        const double there = s == r          ? here
                             : given == NULL ? here * (self->speed[r] / self->speed[s])
                                             : self->window[k] / given[s];
        plb_exact_add(&now[r], here);
        plb_exact_add(&then[s], there);
    }
    *gain = longest_of(then, self->other, p) - longest_of(now, self->other, p);
out:
    PLB_FREE(now, then);
    return ret;
}
