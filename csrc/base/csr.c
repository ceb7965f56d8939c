#include "base/csr.h"

#include "base/mem.h"

static int check_ends(int64_t n, const int32_t *src, const int32_t *dst, int64_t m, plb_err_t *err)
{
    for (int64_t e = 0; e < m; e++) {
        PLB_FAIL_IF(src[e] < 0 || src[e] >= n || dst[e] < 0 || dst[e] >= n, err, PLB_ERR_RANGE,
                    "edge %lld is %d -> %d: expected 0 ... %lld", (long long)e, src[e], dst[e],
                    (long long)n - 1);
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
    PLB_NEW_EACH(m, self->to, self->edge);
    for (int64_t e = 0; e < m; e++) {
        self->start[src[e] + 2]++;
    }
    for (int64_t v = 0; v < n; v++) {
        self->start[v + 2] += self->start[v + 1];
    }
    /* this loop moves start[v + 1] from the beginning of row v to its end */
    for (int64_t e = 0; e < m; e++) {
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

int plb_groups_init(plb_groups_t *self, const int32_t *group, int64_t n, int32_t n_groups,
                    plb_err_t *err)
{
    *self = (plb_groups_t){0};
    PLB_PASS_NEW0(self->start, n_groups + 2);
    PLB_PASS_NEW(self->item, n);
    for (int64_t i = 0; i < n; i++) {
        self->start[group[i] + 2]++;
    }
    for (int32_t g = 0; g < n_groups; g++) {
        self->start[g + 2] += self->start[g + 1];
    }
    /* this loop moves start[g + 1] from the beginning of group g to its end */
    for (int64_t i = 0; i < n; i++) {
        self->item[self->start[group[i] + 1]++] = (int32_t)i;
    }
    return PLB_OK;
}

void plb_groups_free(plb_groups_t *self)
{
    PLB_FREE(self->start, self->item);
}
