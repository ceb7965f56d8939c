/* Items sorted by group. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* n items in groups: group g has the items item[start[g] ... start[g + 1] - 1], ascending. */
typedef struct plb_groups {
    int64_t *start; /* [n_groups + 1] where the items of each group begin */
    int32_t *item;  /* [n] items, group by group */
} plb_groups_t;

/** Put item i into group[i], 0 ... n_groups - 1.  `self` owns its arrays; free it also after a
 * failure. */
int plb_groups_init(plb_groups_t *self, const int32_t *group, int64_t n, int32_t n_groups,
                    plb_err_t *err);
void plb_groups_free(plb_groups_t *self);
