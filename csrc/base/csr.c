#include "base/csr.h"

#include "base/mem.h"

static int check_ends(int64_t n, const int32_t *src, const int32_t *dst, int64_t m, plb_err_t *err)
{
    for (int64_t e = 0; e < m; e++) {
        if (src[e] < 0 || src[e] >= n || dst[e] < 0 || dst[e] >= n) {
            return PLB_FAIL(err, PLB_ERR_RANGE, "edge %lld is %d -> %d: expected 0 ... %lld",
                            (long long)e, src[e], dst[e], (long long)n - 1);
        }
    }
    return PLB_OK;
}

int plb_csr_init(plb_csr_t *self, int64_t n, const int32_t *src, const int32_t *dst, int64_t m,
                 plb_err_t *err)
{
    *self = (plb_csr_t){.n_rows = n, .n_edges = m};
    int ret = check_ends(n, src, dst, m, err);
    if (ret != PLB_OK) {
        return ret;
    }
    PLB_NEW0(self->start, n + 2);
    PLB_NEW(self->to, m);
    PLB_NEW(self->edge, m);
    for (int64_t e = 0; e < m; e++) {
        self->start[src[e] + 2]++;
    }
    for (int64_t v = 0; v < n; v++) {
        self->start[v + 2] += self->start[v + 1];
    }
    for (int64_t e = 0; e < m; e++) { /* start[v + 1] moves from the begin of row v to its end */
        const int64_t at = self->start[src[e] + 1]++;
        self->to[at] = dst[e];
        self->edge[at] = e;
    }
out:
    if (ret != PLB_OK) {
        plb_csr_free(self);
    }
    return ret;
}

void plb_csr_free(plb_csr_t *self)
{
    PLB_FREE(self->start, self->to, self->edge);
    *self = (plb_csr_t){0};
}
