/* pylb's own partitioner, and repairs of a partition after any library: parts without a share
 * become empty, parts with a share get a vertex, and the parts keep the tolerance, if they can. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "partition/partition.h"

typedef struct repair {
    const plb_question_t *in;
    int32_t k, d;
    int32_t *part;
    double *share;   /* [k] the sum is 1 */
    double *total;   /* [d] weight of all vertices */
    int64_t *limit;  /* [k * d] */
    int64_t *load;   /* [k * d] */
    int32_t *weight; /* [(n_vertices + k) * d]; the vertices that stand for old parts have none */
    plb_loads_t order; /* the vertices, the heaviest first */
    plb_heap_t heap;   /* [k] scratch memory */
    int32_t *before;   /* [n_vertices] parts before they are packed */
} repair_t;

static bool is_fixed(const plb_question_t *in, int32_t v)
{
    return in->fixed != NULL && in->fixed[v] >= 0;
}

static void repair_free(repair_t *self)
{
    plb_loads_free(&self->order);
    PLB_FREE(self->share, self->total, self->limit, self->load, self->weight, self->heap.item,
             self->before);
}

static void sum_loads(repair_t *self)
{
    const int32_t d = self->d;
    memset(self->load, 0, (size_t)self->k * (size_t)d * sizeof *self->load);
    for (int64_t i = 0; i < (int64_t)self->in->n_vertices * d; i++) {
        self->load[self->part[i / d] * d + i % d] += self->weight[i];
    }
}

static void set_limits(repair_t *self, double imbalance)
{
    for (int32_t i = 0; i < self->k * self->d; i++) {
        const double even = self->share[i / self->d] * self->total[i % self->d];
        self->limit[i] = (int64_t)(fmin(imbalance * even, 1e15) * (1.0 + 1e-9));
    }
}

static int repair_init(repair_t *self, plb_err_t *err)
{
    const plb_question_t *in = self->in;
    const int32_t k = self->k, d = self->d;
    const size_t own = (size_t)in->n_vertices * (size_t)d;
    double sum = 0.0;
    PLB_PASS_NEW(self->share, k);
    PLB_PASS_NEW0(self->total, d);
    PLB_PASS_NEW_EACH((int64_t)k * d, self->limit, self->load);
    PLB_PASS_NEW0(self->weight, ((int64_t)in->n_vertices + k) * d);
    for (size_t i = 0; i < own; i++) {
        self->weight[i] = in->weight == NULL ? 1 : in->weight[i];
    }
    sum_loads(self);
    for (int32_t i = 0; i < k * d; i++) {
        self->total[i % d] += (double)self->load[i];
    }
    for (int32_t p = 0; p < k; p++) {
        sum += self->share[p] = in->share == NULL ? 1.0 : in->share[p];
    }
    for (int32_t p = 0; p < k; p++) {
        self->share[p] /= sum;
    }
    set_limits(self, in->imbalance);
    return PLB_OK;
}

/* ---- parts that have no vertex, or must have none ------------------------------------------- */

/* Each empty part with a share gets a vertex from the part with the most vertices that may move:
 * of these, the one with the smallest first weight. */
static int fill_empty(const repair_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *movable = NULL;
    int32_t *count = NULL;
    PLB_NEW0_EACH(self->k, movable, count);
    for (int32_t v = 0; v < self->in->n_vertices; v++) {
        count[self->part[v]]++;
        movable[self->part[v]] += !is_fixed(self->in, v);
    }
    for (int32_t p = 0; p < self->k; p++) {
        int32_t from = -1;
        for (int32_t q = 0; count[p] == 0 && self->share[p] > 0.0 && q < self->k; q++) {
            const bool can = movable[q] > 0 && count[q] > 1;
            from = can && (from < 0 || movable[q] > movable[from]) ? q : from;
        }
        if (from >= 0) {
            int32_t best = -1; /* ties: the lowest number */
            for (int32_t v = 0; v < self->in->n_vertices; v++) {
                if (self->part[v] == from && !is_fixed(self->in, v) &&
                    (best < 0 || self->weight[v * self->d] < self->weight[best * self->d])) {
                    best = v;
                }
            }
            self->part[best] = p;
            count[from]--;
            movable[from]--;
            count[p] = 1; /* then part p does not lose its only vertex */
        }
    }
out:
    PLB_FREE(movable, count);
    return ret;
}

/* ---- the tolerance -------------------------------------------------------------------------- */

static bool fits(const repair_t *self, int32_t p, int32_t v)
{
    bool out = true;
    for (int32_t c = 0; c < self->d; c++) {
        const int32_t more = v < 0 ? 0 : self->weight[v * self->d + c];
        out = out && self->load[p * self->d + c] + more <= self->limit[p * self->d + c];
    }
    return out;
}

static bool keeps_limits(const repair_t *self)
{
    bool out = true;
    for (int32_t p = 0; p < self->k; p++) {
        out = out && fits(self, p, -1);
    }
    return out;
}

/* Return how full part p is: its largest load, relative to its share. */
static double fullness(const repair_t *self, int32_t p)
{
    double most = 0.0;
    for (int32_t c = 0; c < self->d; c++) {
        const double even = self->share[p] * fmax(self->total[c], 1.0);
        most = fmax(most, (double)self->load[p * self->d + c] / even);
    }
    return self->share[p] > 0.0 ? most : INFINITY;
}

static void put(repair_t *self, int32_t v, int32_t p)
{
    self->part[v] = p;
    for (int32_t c = 0; c < self->d; c++) {
        self->load[p * self->d + c] += self->weight[v * self->d + c];
    }
}

/* Place all movable vertices again, the heaviest first.  The first `n_free` go to the least full
 * part; each of the others to its part in before[], if it fits there, or else to the least full
 * part.  Return whether all parts keep their limits. */
static bool pack(repair_t *self, int32_t n_free)
{
    const int32_t n = self->in->n_vertices;
    plb_heap_t *heap = &self->heap;
    memset(self->load, 0, (size_t)self->k * (size_t)self->d * sizeof *self->load);
    for (int32_t v = 0; v < n; v++) {
        if (is_fixed(self->in, v)) {
            put(self, v, self->in->fixed[v]);
        }
    }
    heap->n = self->k;
    for (int32_t p = 0; p < self->k; p++) {
        heap->item[p] = (plb_item_t){fullness(self, p), p};
    }
    plb_heap_build(heap);
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = self->order.item[i].id;
        if (is_fixed(self->in, v)) {
            continue;
        }
        while (fullness(self, heap->item[0].id) > heap->item[0].key) { /* the key is out of date */
            plb_heap_rekey(heap, fullness(self, heap->item[0].id));
        }
        const bool stays = i >= n_free && fits(self, self->before[v], v);
        put(self, v, stays ? self->before[v] : heap->item[0].id);
    }
    return keeps_limits(self);
}

/* Sort the vertices.  If even packing all of them from scratch exceeds the tolerance, raise the
 * limits to what this reaches. */
static int find_limits(repair_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = self->in->n_vertices;
    double *size = NULL, most = 0.0;
    PLB_NEW0(size, n);
    PLB_NEW(self->before, n);
    PLB_NEW(self->heap.item, self->k);
    memcpy(self->before, self->part, (size_t)n * sizeof *self->part);
    for (int64_t i = 0; i < (int64_t)n * self->d; i++) {
        const double of = self->weight[i] / fmax(self->total[i % self->d], 1.0);
        size[i / self->d] = fmax(size[i / self->d], of);
    }
    PLB_TRY(plb_loads_sorted(&self->order, size, n, PLB_DESCENDING, err));
    if (!pack(self, n)) {
        for (int32_t p = 0; p < self->k; p++) {
            most = self->share[p] > 0.0 ? fmax(most, fullness(self, p)) : most;
        }
        set_limits(self, most);
    }
    memcpy(self->part, self->before, (size_t)n * sizeof *self->part);
    sum_loads(self);
out:
    plb_free(size);
    return ret;
}

/* Move single vertices until the limits are kept, if possible; refine: then lower the objective.
 */
static int move_single(repair_t *self, const plb_hypergraph_t *hg, bool refine, plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = self->in->n_vertices;
    const plb_limits_t limits = {
        .n_parts = self->k, .limit = self->limit, .n_weights = self->d, .weight = self->weight};
    int32_t *all = NULL;
    plb_quality_t after;
    plb_rng_t rng;
    plb_rng_init(&rng, (uint64_t)self->in->seed);
    PLB_NEW(all, hg->n_vertices);
    memcpy(all, self->part, (size_t)n * sizeof *all);
    for (int32_t v = n; v < hg->n_vertices; v++) {
        all[v] = v - n;
    }
    PLB_TRY(plb_hypergraph_refine(hg, &limits, refine ? &rng : NULL, all, &after, err));
    memcpy(self->part, all, (size_t)n * sizeof *all);
    sum_loads(self);
out:
    plb_free(all);
    return ret;
}

static int keep_tolerance(repair_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    plb_hypergraph_t hg = {0};
    PLB_TRY(find_limits(self, err));
    if (keeps_limits(self)) {
        goto out;
    }
    PLB_TRY(plb_hypergraph_init(&hg, self->in, err));
    PLB_TRY(move_single(self, &hg, false, err));
    if (!keeps_limits(self)) {
        int32_t n_free = 0; /* number of heaviest vertices to pack from scratch: as few as
                               suffice */
        const int32_t n = self->in->n_vertices;
        memcpy(self->before, self->part, (size_t)n * sizeof *self->part);
        while (!pack(self, n_free) && n_free < n) {
            n_free = n_free == 0 ? self->k : n_free < n / 4 ? 4 * n_free : n;
        }
        ret = move_single(self, &hg, true, err);
    }
out:
    plb_hypergraph_free(&hg);
    return ret;
}

/* The largest limit: no part can be heavier, and the sum over all parts does not overflow. */
static const int64_t UNLIMITED = (int64_t)1 << 32;

int plb_partition_limits(const plb_question_t *in, int64_t *limit, plb_err_t *err)
{
    repair_t self = {.in = in, .k = in->n_parts, .d = 1};
    int ret = PLB_OK;
    PLB_NEW0(self.part, in->n_vertices);
    PLB_TRY(repair_init(&self, err));
    PLB_TRY(find_limits(&self, err));
    for (int32_t p = 0; p < self.k; p++) {
        limit[p] = self.limit[p] < UNLIMITED ? self.limit[p] : UNLIMITED;
    }
out:
    plb_free(self.part);
    repair_free(&self);
    return ret;
}

int plb_partition_repair(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    repair_t self = {
        .in = in, .k = in->n_parts, .d = in->weight == NULL ? 1 : in->n_weights, .part = part};
    int ret = PLB_OK;
    int32_t largest = 0;
    PLB_TRY(repair_init(&self, err));
    for (int32_t p = 1; p < self.k; p++) {
        largest = self.share[p] > self.share[largest] ? p : largest;
    }
    for (int32_t v = 0; v < in->n_vertices; v++) { /* leave parts without a share */
        const bool stays = is_fixed(in, v) || self.share[part[v]] > 0.0;
        part[v] = stays ? part[v] : largest;
    }
    sum_loads(&self);
    PLB_TRY(keeps_limits(&self) ? PLB_OK : keep_tolerance(&self, err));
    ret = fill_empty(&self, err);
out:
    repair_free(&self);
    return ret;
}

/* ---- pylb's own partitioner ----------------------------------------------------------------- */

/* Unlike METIS and Scotch, it takes hypergraphs and refines partitions. */

static int cycles_on(const plb_question_t *in, bool fresh, int32_t cycles, int32_t *part,
                     plb_err_t *err)
{
    int ret = PLB_OK;
    const int32_t n = in->n_vertices;
    plb_hypergraph_t hg = {0};
    int64_t *limit = NULL;
    int32_t *all = NULL; /* [hg.n_vertices] parts, also of the vertices added for old parts */
    plb_rng_t rng;
    plb_rng_init(&rng, (uint64_t)in->seed);
    PLB_NEW(limit, in->n_parts);
    PLB_TRY(plb_hypergraph_init(&hg, in, err));
    PLB_NEW(all, hg.n_vertices);
    memcpy(all, part, (size_t)n * sizeof *part);
    for (int32_t v = n; v < hg.n_vertices; v++) {
        all[v] = v - n;
    }
    const plb_limits_t limits = {.n_parts = in->n_parts, .limit = limit};
    PLB_TRY(plb_partition_limits(in, limit, err));
    PLB_TRY(plb_hypergraph_partition(&hg, &limits, &rng, fresh, cycles, all, err));
    memcpy(part, all, (size_t)n * sizeof *part);
out:
    plb_hypergraph_free(&hg);
    PLB_FREE(limit, all);
    return ret;
}

int plb_partition_improve(const plb_question_t *in, int32_t cycles, int32_t *part, plb_err_t *err)
{
    return in->n_parts == 1 || in->n_vertices == 0 ? PLB_OK
                                                   : cycles_on(in, false, cycles, part, err);
}

static int builtin_run(const plb_question_t *in, int32_t *part, plb_err_t *err)
{
    PLB_FAIL_IF(in->n_options > 0, err, PLB_ERR_VALUE,
                "pylb's own partitioner has no option %s: expected no options", in->option[0]);
    for (int32_t v = 0; v < in->n_vertices; v++) {
        part[v] = is_fixed(in, v)                      ? in->fixed[v]
                  : in->old != NULL && in->old[v] >= 0 ? in->old[v]
                                                       : v % in->n_parts;
    }
    return cycles_on(in, in->old == NULL, 0, part, err);
}

const plb_partitioner_t plb_builtin = {
    .name = "pylb",
    .takes = PLB_TAKES_GRAPH | PLB_TAKES_HYPERGRAPH | PLB_TAKES_FIXED | PLB_TAKES_OLD,
    .run = builtin_run,
};
