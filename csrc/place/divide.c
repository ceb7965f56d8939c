#include <math.h>

#include "base/base.h"
#include "place/strategy.h"

/* Remainders are rounded to multiples of this, so that rounding errors do not decide ties. */
static const double GRAIN = 1.0 / (1 << 20);

int plb_apportion(const double *share, int32_t p, int64_t n, int64_t *part, plb_err_t *err)
{
    double total = 0.0, *remainder = NULL;
    plb_loads_t order = {0};
    int64_t left = n;
    int ret = PLB_OK;
    for (int32_t i = 0; i < p; i++) {
        PLB_FAIL_IF(!(share[i] >= 0.0 && isfinite(share[i])), err, PLB_ERR_VALUE,
                    "share[%d] is %g: expected a finite number, 0 or more", i, share[i]);
        total += share[i];
    }
    PLB_FAIL_IF(!(total > 0.0 && isfinite(total)), err, PLB_ERR_VALUE,
                "shares add up to %g: expected a finite number above 0", total);
    PLB_NEW(remainder, p);
    for (int32_t i = 0; i < p; i++) {
        const double exact = share[i] / total * (double)n;
        part[i] = (int64_t)exact;
        remainder[i] = GRAIN * round((exact - (double)part[i]) / GRAIN);
        /* a part without a share gets no extra unit */
        remainder[i] = share[i] > 0.0 ? remainder[i] : -1.0;
        left -= part[i];
    }
    ret = plb_loads_init(&order, remainder, p, PLB_DESCENDING, err);
    if (ret == PLB_OK) {
        plb_loads_sort(&order, left < p ? left : p);
        for (int32_t k = 0; left > 0 && k < p; k++, left--) {
            part[order.item[k].id]++;
        }
    }
    plb_loads_free(&order);
out:
    plb_free(remainder);
    return ret;
}
