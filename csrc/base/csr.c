#include "base/csr.h"

#include "base/mem.h"

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
