#include "partition/partition.h"

#include "base/base.h"

static int invert(int32_t n, const int32_t *perm, int32_t *at, plb_err_t *err)
{
    for (int32_t i = 0; i < n; i++) {
        at[i] = -1;
    }
    for (int32_t v = 0; v < n; v++) {
        PLB_FAIL_IF(perm[v] < 0 || perm[v] >= n || at[perm[v]] >= 0, err, PLB_ERR_VALUE,
                    "perm[%d] is %d: expected each of 0 ... %d once", v, perm[v], n - 1);
        at[perm[v]] = v;
    }
    return PLB_OK;
}

int plb_cholesky_fill(int32_t n, const int64_t *start, const int32_t *to, const int32_t *perm,
                      int64_t *column, plb_err_t *err)
{
    int ret = PLB_OK;
    int32_t *at = NULL, *parent = NULL, *flag = NULL;
    PLB_NEW_EACH(n, at, parent, flag);
    PLB_TRY(invert(n, perm, at, err));
    for (int32_t k = 0; k < n; k++) {
        const int32_t v = at[k];
        parent[k] = -1;
        flag[k] = k;
        column[k] = 1;
        int64_t steps = 0;
        for (int64_t e = start[v]; e < start[v + 1]; e++) {
            /* row k of L: from each earlier neighbour, go up the elimination tree */
            for (int32_t i = perm[to[e]]; i < k && flag[i] != k; i = parent[i]) {
                parent[i] = parent[i] < 0 ? k : parent[i];
                column[i]++;
                flag[i] = k;
                steps++;
            }
        }
        PLB_TRY(plb_interrupted(1 + steps));
    }
out:
    PLB_FREE(at, parent, flag);
    return ret;
}

static uint64_t edge_hash(int64_t from, int64_t to)
{
    return plb_mix64((uint64_t)from * 0x9e3779b97f4a7c15u + plb_mix64((uint64_t)to));
}

int plb_rows_scan(const plb_rows_t *rows, const char *name, int64_t n_entries, int64_t first,
                  int64_t n_objects, plb_scan_t *out, plb_err_t *err)
{
    *out = (plb_scan_t){0};
    PLB_FAIL_IF(plb_int_at(rows->start, 0) != 0 || plb_int_at(rows->start, rows->n) != n_entries,
                err, PLB_ERR_VALUE,
                "%s.start goes from %lld to %lld: expected 0 to %lld, the number of "
                "indices",
                name, (long long)plb_int_at(rows->start, 0),
                (long long)plb_int_at(rows->start, rows->n), (long long)n_entries);
    for (int64_t i = 0; i < rows->n; i++) {
        const int64_t from = plb_int_at(rows->start, i), end = plb_int_at(rows->start, i + 1);
        PLB_FAIL_IF(end < from, err, PLB_ERR_VALUE,
                    "%s.start[%lld] is %lld: expected %lld or more", name, (long long)i + 1,
                    (long long)end, (long long)from);
    }
    for (int64_t i = 0; i < rows->n; i++) {
        const int64_t from = first + i, end = plb_int_at(rows->start, i + 1);
        for (int64_t j = plb_int_at(rows->start, i); j < end; j++) {
            const int64_t to = plb_int_at(rows->to, j);
            PLB_FAIL_IF(to < 0 || to >= n_objects, err, PLB_ERR_RANGE,
                        "%s.indices[%lld] is %lld: expected 0 ... %lld", name, (long long)j,
                        (long long)to, (long long)n_objects - 1);
            out->loops += to == from;
            out->skew += edge_hash(from, to) - edge_hash(to, from);
        }
    }
    return PLB_OK;
}
