#include "partition/partition.h"

#include "base/interrupt.h"
#include "base/mem.h"

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
