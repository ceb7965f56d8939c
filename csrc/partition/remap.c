#include "partition/partition.h"

#include <math.h>
#include <string.h>

#include "base/base.h"

enum { NONE = -1 };

typedef struct namer {
    const plb_new_names_t *in;
    int32_t *name; /* [n_parts] the new number of each part; NONE: not yet */
    bool *taken;   /* [n_parts] whether a part has this name */
} namer_t;

static bool fits(const namer_t *s, int32_t part, int32_t name)
{
    const double *share = s->in->share;
    return !s->taken[name] && (share == NULL || share[part] == share[name]);
}

static void call(namer_t *s, int32_t part, int32_t name)
{
    s->name[part] = name;
    s->taken[name] = true;
}

/* Give each part the number of the old part with which it has most in common, the largest pairs
 * first (ties: the first pair). */
static int by_parts(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    plb_loads_t order = {0};
    PLB_PASS(plb_loads_sorted(&order, in->kept, in->n_kept, PLB_DESCENDING, err));
    for (int64_t i = 0; i < order.n; i++) {
        const int32_t p = in->part[order.item[i].id], q = in->old[order.item[i].id];
        if (s->name[p] == NONE && in->kept[order.item[i].id] > 0.0 && fits(s, p, q)) {
            call(s, p, q);
        }
    }
    plb_loads_free(&order);
    return PLB_OK;
}

/* Parts are assigned to ranks in order, as evenly as possible: part q is on the rank
 * floor(q * n_ranks / n_parts).  Return the first part on a rank; if the rank has none, the first
 * one on a later rank. */
static int32_t first_on(int32_t rank, int32_t n_ranks, int32_t n_parts)
{
    return (int32_t)(((int64_t)rank * n_parts + n_ranks - 1) / n_ranks);
}

/* Return the first free name on a rank that the part may get: all are equally good. */
static int32_t free_on(const namer_t *s, int32_t rank, int32_t part)
{
    const int32_t end = first_on(rank + 1, s->in->n_ranks, s->in->n_parts);
    for (int32_t q = first_on(rank, s->in->n_ranks, s->in->n_parts); q < end; q++) {
        if (fits(s, part, q)) {
            return q;
        }
    }
    return NONE;
}

/* Name the remaining parts: each goes to the rank that has most of its objects, the largest sizes
 * first (ties: the lowest rank, then the lowest part). */
static int by_ranks(namer_t *s, plb_err_t *err)
{
    const plb_new_names_t *in = s->in;
    const int32_t k = in->n_parts;
    int ret = PLB_OK;
    int64_t n = 0;
    int32_t *pair = NULL; /* rank * k + part */
    double *size = NULL;
    plb_loads_t order = {0};
    PLB_NEW_EACH((int64_t)k * in->n_ranks, pair, size);
    for (int32_t i = 0; i < k * in->n_ranks; i++) {
        if (s->name[i % k] == NONE && in->on_rank[i] > 0.0) {
            pair[n] = i;
            size[n++] = in->on_rank[i];
        }
    }
    PLB_TRY(plb_loads_sorted(&order, size, n, PLB_DESCENDING, err));
    for (int64_t i = 0; i < n; i++) {
        const int32_t at = pair[order.item[i].id], p = at % k;
        const int32_t q = s->name[p] == NONE ? free_on(s, at / k, p) : NONE;
        if (q != NONE) {
            call(s, p, q);
        }
    }
out:
    plb_loads_free(&order);
    PLB_FREE(pair, size);
    return ret;
}

/* A part without a name keeps its number; if that is taken, it gets the first free number of a
 * part with an equal share. */
static void fill(namer_t *s)
{
    const int32_t k = s->in->n_parts;
    for (int32_t p = 0; p < k; p++) {
        if (s->name[p] == NONE && fits(s, p, p)) {
            call(s, p, p);
        }
    }
    for (int32_t p = 0, q = 0; p < k; p++) {
        if (s->name[p] == NONE) {
            const double *share = s->in->share;
            for (q = share == NULL || share[p] == share[q] ? q : 0; !fits(s, p, q); q++) {
            }
            call(s, p, q);
        }
    }
}

/* Compute the total size of the objects that stay in their part (out[0]) and on their rank
 * (out[1]); name NULL: each part keeps its number. */
static void worth(const plb_new_names_t *in, const int32_t *name, double out[2])
{
    out[0] = out[1] = 0.0;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i];
        out[0] += in->old[i] == (name == NULL ? p : name[p]) ? in->kept[i] : 0.0;
    }
    for (int32_t p = 0; in->on_rank != NULL && p < in->n_parts; p++) {
        const int32_t to = name == NULL ? p : name[p];
        const int64_t rank = (int64_t)to * in->n_ranks / in->n_parts;
        out[1] += in->on_rank[rank * in->n_parts + p];
    }
}

int plb_remap(const plb_new_names_t *in, int32_t *name, plb_err_t *err)
{
    const int32_t k = in->n_parts;
    const bool ranks = in->on_rank != NULL && k <= PLB_REMAP_MOST;
    namer_t s = {.in = in, .name = name};
    int ret = PLB_OK;
    for (int64_t i = 0; i < in->n_kept; i++) {
        const int32_t p = in->part[i], q = in->old[i];
        PLB_FAIL_IF(p < 0 || p >= k || q < 0 || q >= k, err, PLB_ERR_RANGE,
                    "kept[%lld] is the pair of parts (%d, %d): expected 0 ... %d", (long long)i, p,
                    q, k - 1);
    }
    PLB_NEW0(s.taken, k);
    for (int32_t p = 0; p < k; p++) {
        name[p] = NONE;
        if (in->fixed != NULL && in->fixed[p]) {
            call(&s, p, p);
        }
    }
    PLB_TRY(by_parts(&s, err));
    if (ranks) {
        PLB_TRY(by_ranks(&s, err));
    }
    fill(&s);
    double now[2], own[2];
    worth(in, name, now);
    worth(in, NULL, own);
    if (now[0] < own[0] || (now[0] == own[0] && now[1] <= own[1])) {
        for (int32_t p = 0; p < k; p++) {
            name[p] = p;
        }
    }
out:
    plb_free(s.taken);
    return ret;
}

int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err)
{
    int ret = PLB_OK;
    /* pairs of a rank and a part that have items in common, and the total weight of these items */
    int32_t *rank = NULL, *other = NULL;
    double *common = NULL;
    int64_t n_pairs = 0, *at = NULL;
    plb_groups_t on = {0}; /* lists of the items on each rank */
    PLB_NEW(at, p);
    PLB_TRY(plb_groups_init(&on, now, n, p, err));
    PLB_NEW_EACH(n, rank, other, common);
    /* at[part]: index of the most recent pair with this part; if it is below `first`, the pair's
     * rank is not r */
    memset(at, -1, (size_t)p * sizeof *at);
    for (int32_t r = 0; r < p; r++) {
        const int64_t first = n_pairs;
        for (int64_t k = on.start[r]; k < on.start[r + 1]; k++) {
            const int32_t to = part[on.item[k]];
            if (at[to] < first) {
                at[to] = n_pairs++;
                rank[at[to]] = r;
                other[at[to]] = to;
                common[at[to]] = 0.0;
            }
            common[at[to]] += counts == NULL ? 1.0 : counts[on.item[k]];
        }
    }
    const plb_new_names_t names = {.n_parts = p,
                                   .n_ranks = 1,
                                   .share = kind,
                                   .n_kept = n_pairs,
                                   .part = other,
                                   .old = rank,
                                   .kept = common};
    ret = plb_remap(&names, name, err);
out:
    plb_groups_free(&on);
    PLB_FREE(at, rank, other, common);
    return ret;
}
