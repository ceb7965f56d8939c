#include "place/kit/chain.h"

#include <math.h>

#include "base/mem.h"

static const double CLOSE = 1e-6;  /* the best time is found to within this fraction */
static const double SLACK = 1e-12; /* largest relative rounding error of sums */
/* largest number of steps of the search, enough even if the loads are tiny */
enum { DOUBLINGS = 64, HALVINGS = 64 };

typedef struct chain {
    const plb_problem_t *problem;
    const int32_t *object; /* [n] the objects in the order of the row */
    int64_t n;
    double *sum;       /* [n + 1] sum of the loads before each object */
    int64_t *bytes;    /* [n + 1] sum of the memory before each object; NULL: no limits */
    plb_loads_t order; /* item[k].id is the k-th rank along the row */
    int64_t *present;  /* [p + 1] index of the k-th rank's first object, if every rank kept its
                          present number of objects */
    int64_t *least;    /* [p + 1] smallest index at which the k-th rank can begin: all objects from
                          there on fit on this rank and the ranks after it */
} chain_t;

static void chain_free(chain_t *self)
{
    plb_loads_free(&self->order);
    PLB_FREE(self->sum, self->bytes, self->present, self->least);
}

static int32_t rank_at(const chain_t *self, int32_t k)
{
    return self->order.item[k].id;
}

/* Return the load that rank r can take, besides its fixed objects, and still end by `time`. */
static double capacity(const plb_problem_t *problem, int32_t r, double time)
{
    const plb_snapshot_t *in = problem->in;
    const double out = (time - plb_background(in, r)) * plb_speed(in, r) - problem->fixed[r];
    return out > 0.0 ? out * (1.0 + SLACK) : 0.0;
}

static bool fits(const chain_t *self, int64_t begin, int64_t end, int32_t r, double most)
{
    return self->sum[end] - self->sum[begin] <= most + SLACK * self->sum[self->n] &&
           (self->bytes == NULL ||
            self->bytes[end] - self->bytes[begin] <= self->problem->room[r]);
}

/* Return the largest `end` such that the objects begin ... end - 1 fit on rank r. */
static int64_t end_from(const chain_t *self, int64_t begin, int32_t r, double time)
{
    const double most = capacity(self->problem, r, time);
    int64_t low = begin, high = self->n;
    while (low < high) {
        const int64_t middle = low + (high - low + 1) / 2;
        if (fits(self, begin, middle, r, most)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* Return the smallest `begin` such that the objects begin ... end - 1 fit on rank r. */
static int64_t begin_to(const chain_t *self, int64_t end, int32_t r, double time)
{
    const double most = capacity(self->problem, r, time);
    int64_t low = 0, high = end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (fits(self, middle, end, r, most)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static bool feasible(const chain_t *self, double time)
{
    int64_t at = 0;
    for (int32_t k = 0; k < self->problem->in->n_ranks && at < self->n; k++) {
        at = end_from(self, at, rank_at(self, k), time);
    }
    return at == self->n;
}

/* Return the time of the slowest rank with the best cuts, to within CLOSE; INFINITY: no cuts keep
 * the memory limits. */
static double best_time(const chain_t *self, double average)
{
    double low = 0.0, high = average > 0.0 ? average : 1.0;
    for (int k = 0; k < DOUBLINGS && !feasible(self, high); k++) {
        low = high;
        high *= 2.0;
    }
    if (!feasible(self, high)) {
        return INFINITY;
    }
    for (int k = 0; k < HALVINGS && high - low > CLOSE * high; k++) {
        const double middle = 0.5 * (low + high);
        if (feasible(self, middle)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return high;
}

static double average_time(const plb_problem_t *problem, double load)
{
    double work = load, speed = 0.0;
    for (int32_t r = 0; r < problem->in->n_ranks; r++) {
        work += problem->fixed[r] + plb_background(problem->in, r) * plb_speed(problem->in, r);
        speed += plb_speed(problem->in, r);
    }
    return work / speed;
}

/* Sort the ranks by the mean position of their objects in the row.  A rank without objects gets
 * the position that it has if all ranks come in numerical order, with equally many objects. */
static int order_ranks(chain_t *self, plb_err_t *err)
{
    int ret = PLB_OK;
    const plb_snapshot_t *in = self->problem->in;
    const int32_t p = in->n_ranks;
    double *place = NULL;
    int64_t *count = NULL;
    PLB_NEW0(place, p);
    PLB_NEW0(count, p);
    for (int64_t k = 0; k < self->n; k++) {
        const int32_t r = in->rank[self->object[k]];
        place[r] += (double)k;
        count[r]++;
    }
    for (int32_t r = 0; r < p; r++) {
        place[r] = count[r] > 0 ? place[r] / (double)count[r]
                                : ((double)r + 0.5) / (double)p * (double)self->n;
    }
    PLB_TRY(plb_loads_sorted(&self->order, place, p, PLB_ASCENDING, err));
    for (int32_t k = 0; k < p; k++) {
        self->present[k + 1] = self->present[k] + count[rank_at(self, k)];
    }
out:
    PLB_FREE(place, count);
    return ret;
}

static int chain_init(chain_t *self, plb_err_t *err)
{
    const plb_snapshot_t *in = self->problem->in;
    PLB_PASS_NEW0(self->sum, self->n + 1);
    PLB_PASS_NEW0(self->present, in->n_ranks + 1);
    PLB_PASS_NEW0(self->least, in->n_ranks + 1);
    if (self->problem->room != NULL) {
        PLB_PASS_NEW0(self->bytes, self->n + 1);
    }
    for (int64_t k = 0; k < self->n; k++) {
        self->sum[k + 1] = self->sum[k] + in->load[self->object[k]];
        if (self->bytes != NULL) {
            self->bytes[k + 1] = self->bytes[k] + in->memory[self->object[k]];
        }
    }
    return order_ranks(self, err);
}

/* Move each cut only as far as necessary for all ranks to end by `time`. */
static void cut(chain_t *self, double time, int32_t *out)
{
    const int32_t p = self->problem->in->n_ranks;
    self->least[p] = self->n;
    for (int32_t k = p - 1; k >= 0; k--) {
        self->least[k] = begin_to(self, self->least[k + 1], rank_at(self, k), time);
    }
    int64_t at = 0;
    for (int32_t k = 0; k < p; k++) {
        const int32_t r = rank_at(self, k);
        const int64_t most = k == p - 1 ? self->n : end_from(self, at, r, time);
        int64_t end = self->present[k + 1];
        end = end > self->least[k + 1] ? end : self->least[k + 1];
        end = end > at ? end : at;
        end = end < most ? end : most;
        for (; at < end; at++) {
            out[self->object[at]] = r;
        }
    }
}

int plb_chain_cut(const plb_problem_t *problem, const int32_t *object, double overload,
                  bool keep_memory, int32_t *out, plb_err_t *err)
{
    chain_t chain = {.problem = problem, .object = object, .n = problem->n};
    int ret = chain_init(&chain, err);
    if (ret == PLB_OK) {
        const double average = average_time(problem, chain.sum[chain.n]);
        if (!keep_memory) {
            PLB_FREE(chain.bytes);
            chain.bytes = NULL;
        }
        const double best = best_time(&chain, average);
        if (!isinf(best)) {
            cut(&chain, fmax(best, overload * average), out);
        } else {
            ret = PLB_FAIL(err, PLB_ERR_INFEASIBLE, "no cuts keep memory_limit");
        }
    }
    chain_free(&chain);
    return ret;
}
