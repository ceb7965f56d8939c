#include "place/internal.h"

#include <stdbool.h>
#include <string.h>

#include "base/csr.h"
#include "base/mem.h"
#include "base/sort.h"

/* Pairs of a rank and a part that have items in common. */
typedef struct overlap {
    int64_t n;
    int32_t *rank, *part; /* [n] */
    double *common;       /* [n] total weight of the common items */
} overlap_t;

static int find_overlap(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                        int32_t p, overlap_t *out, plb_err_t *err)
{
    int ret = PLB_OK;
    int64_t *at = NULL;
    plb_groups_t on = {0}; /* lists of the items on each rank */
    PLB_NEW(at, p);
    PLB_TRY(plb_groups_init(&on, now, n, p, err));
    PLB_NEW_EACH(n, out->rank, out->part, out->common);
    /* at[part]: index of the most recent pair with this part; if it is below `first`, the pair's
     * rank is not r */
    memset(at, -1, (size_t)p * sizeof *at);
    for (int32_t r = 0; r < p; r++) {
        const int64_t first = out->n;
        for (int64_t k = on.start[r]; k < on.start[r + 1]; k++) {
            const int32_t to = part[on.item[k]];
            if (at[to] < first) {
                at[to] = out->n++;
                out->rank[at[to]] = r;
                out->part[at[to]] = to;
                out->common[at[to]] = 0.0;
            }
            out->common[at[to]] += counts == NULL ? 1.0 : counts[on.item[k]];
        }
    }
out:
    plb_groups_free(&on);
    plb_free(at);
    return ret;
}

static bool alike(const double *kind, int32_t a, int32_t b)
{
    return kind == NULL || kind[a] == kind[b];
}

/* Match ranks and parts in the order of their overlap; name[part] stays -1: no match. */
static int match(const overlap_t *overlap, const double *kind, uint8_t *taken, int32_t *name,
                 plb_err_t *err)
{
    plb_loads_t order = {0};
    const int ret = plb_loads_sorted(&order, overlap->common, overlap->n, PLB_DESCENDING, err);
    if (ret != PLB_OK) {
        return ret;
    }
    for (int64_t k = 0; k < order.n; k++) {
        const int32_t pair = order.item[k].id;
        const int32_t part = overlap->part[pair], rank = overlap->rank[pair];
        if (name[part] < 0 && !taken[rank] && alike(kind, part, rank)) {
            name[part] = rank;
            taken[rank] = 1;
        }
    }
    plb_loads_free(&order);
    return ret;
}

/* Match the parts and ranks that are left: of each kind, there are as many parts as ranks. */
static int match_the_rest(int32_t p, const double *kind, const uint8_t *taken, int32_t *name,
                          plb_err_t *err)
{
    int ret = PLB_OK;
    double *of_part = NULL, *of_rank = NULL;
    int32_t *part = NULL, *rank = NULL, n = 0, m = 0;
    plb_loads_t parts = {0}, ranks = {0};
    PLB_NEW_EACH(p, of_part, of_rank, part, rank);
    for (int32_t r = 0; r < p; r++) {
        if (name[r] < 0) {
            of_part[n] = kind == NULL ? 0.0 : kind[r];
            part[n++] = r;
        }
        if (!taken[r]) {
            of_rank[m] = kind == NULL ? 0.0 : kind[r];
            rank[m++] = r;
        }
    }
    PLB_TRY(plb_loads_sorted(&parts, of_part, n, PLB_ASCENDING, err));
    PLB_TRY(plb_loads_sorted(&ranks, of_rank, n, PLB_ASCENDING, err));
    for (int32_t k = 0; k < n; k++) {
        name[part[parts.item[k].id]] = rank[ranks.item[k].id];
    }
out:
    plb_loads_free(&parts);
    plb_loads_free(&ranks);
    PLB_FREE(of_part, of_rank, part, rank);
    return ret;
}

int plb_relabel(int64_t n, const int32_t *now, const int32_t *part, const double *counts,
                int32_t p, const double *kind, int32_t *name, plb_err_t *err)
{
    int ret = PLB_OK;
    overlap_t overlap = {0};
    uint8_t *taken = NULL;
    PLB_NEW0(taken, p);
    ret = find_overlap(n, now, part, counts, p, &overlap, err);
    if (ret == PLB_OK) {
        memset(name, -1, (size_t)p * sizeof *name);
        ret = match(&overlap, kind, taken, name, err);
    }
    PLB_THEN(match_the_rest(p, kind, taken, name, err));
out:
    PLB_FREE(overlap.rank, overlap.part, overlap.common, taken);
    return ret;
}
