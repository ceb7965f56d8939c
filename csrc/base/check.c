#include "base/check.h"

#include <math.h>

int plb_check_fail(plb_domain_t domain, const plb_figure_t *figure, plb_err_t *err)
{
    return PLB_FAIL(err, PLB_ERR_VALUE, "%s is %g: expected %s", figure->name, figure->value,
                    PLB_RANGES[domain].expected);
}

int plb_check_known(plb_domain_t domain, const plb_figure_t *figure, size_t n, plb_err_t *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!isnan(figure[i].value)) {
            PLB_PASS(plb_check(domain, &figure[i], 1, err));
        }
    }
    return PLB_OK;
}
